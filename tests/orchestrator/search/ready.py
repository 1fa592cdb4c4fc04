"""An empty study file with its tables: making them takes longer than most tests of a study."""

import functools
import tempfile
from pathlib import Path

import optuna


@functools.cache
def _tables() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        optuna.storages.RDBStorage(f"sqlite:///{path}").remove_session()
        return path.read_bytes()


def study_file(folder: Path) -> Path:
    """Return the study file of a folder, made ready where there is none."""
    path = folder / "study.db"
    if not path.exists():
        path.write_bytes(_tables())
    return path
