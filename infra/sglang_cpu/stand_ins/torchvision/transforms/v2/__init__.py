"""The second transforms interface, by the names of the first."""

from .. import InterpolationMode as InterpolationMode
from .. import Transform as Transform
from .. import __getattr__ as __getattr__
from . import functional as functional
