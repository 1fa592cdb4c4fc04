"""Image reading, which this stand-in names and refuses."""

import enum
from typing import NoReturn


class ImageReadMode(enum.Enum):
    """Colour modes, by torchvision's numbers."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


def read_image(*args: object, **kwargs: object) -> NoReturn:
    """Refuse."""
    raise NotImplementedError("the torchvision stand-in reads no images")


decode_image = decode_jpeg = read_video = read_image
