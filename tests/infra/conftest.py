"""Fixtures for tests that start processes."""

from collections.abc import Iterator

import pytest

from tests.infra.runtime import runtime, shm
from tests.infra.trees import fresh_sweep


@pytest.fixture
def sweep() -> Iterator[str]:
    """Lend a sweep id whose processes must all be gone after the test."""
    with fresh_sweep() as name:
        yield name


__all__ = ["runtime", "shm", "sweep"]
