"""Image functions, any name of which can be imported and refuses to run."""

from collections.abc import Callable
from typing import NoReturn

from . import InterpolationMode as InterpolationMode


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent_function(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(f"the torchvision stand-in has no {name}")

    return absent_function
