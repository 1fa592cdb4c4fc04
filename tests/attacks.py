"""Marks tests that are attacks, so that `bench/attacks.py` can list what was tried."""

from collections.abc import Callable
from typing import TypeVar

import pytest

_Test = TypeVar("_Test", bound=Callable[..., object])


def attack(tried: str) -> Callable[[_Test], _Test]:
    """Mark a test as an attack; `tried` is its number and what is tried, as `7: a planted link`."""
    mark: Callable[[_Test], _Test] = pytest.mark.attack(tried)
    return mark
