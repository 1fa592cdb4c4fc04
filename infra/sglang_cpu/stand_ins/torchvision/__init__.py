"""Stands in for torchvision at import time: the CPU build of torch has no matching one."""

from . import io as io
from . import transforms as transforms

__version__ = "0.0.0+stand.in"
