"""The second functional interface, by the names of the first."""

from ..functional import InterpolationMode as InterpolationMode
from ..functional import __getattr__ as __getattr__
