"""What the tests of a probe share."""

from pathlib import Path

import pytest

from tests.infra.probing.stand_ins import Machine, make_machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine without GPUs and without SGLang."""
    return make_machine(tmp_path / "machine")
