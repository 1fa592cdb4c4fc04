"""A runtime folder of a test's own, and shared-memory segments that nobody else has."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import runtime_folder, shared_memory
from infra.runtime_folder import RuntimeFolder


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[RuntimeFolder]:
    """Lend a runtime folder; its path must be shorter than those that pytest makes."""
    folder = tempfile.mkdtemp(prefix="orch-test-", dir="/tmp")
    monkeypatch.setenv(runtime_folder.VARIABLE, folder)
    try:
        yield RuntimeFolder.of_user()
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def shm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lend a folder of shared memory: trials elsewhere on this machine clean up the common one."""
    folder = Path(tempfile.mkdtemp(prefix="orch-test-", dir=shared_memory.FOLDER))
    monkeypatch.setattr(shared_memory, "FOLDER", folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def segment(folder: Path, name: str) -> Path:
    """Leave a segment that no process uses."""
    path = folder / name
    path.write_bytes(b"x" * 4096)
    path.chmod(0o600)
    return path
