"""Transform names that can be imported, subclassed and instantiated, and do nothing."""

import enum


class InterpolationMode(enum.Enum):
    """Interpolation modes, by torchvision's values."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


class Transform:
    """A transform that takes any arguments."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass


def __getattr__(name: str) -> type[Transform]:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (Transform,), {})


from . import functional as functional  # noqa: E402  (both need InterpolationMode)
from . import v2 as v2  # noqa: E402
