"""The hash of the code that a kept result came from: other code, other results."""

import hashlib
from functools import cache
from pathlib import Path
from types import ModuleType


@cache
def code_digest(*modules: ModuleType) -> str:
    """Return the hash of the Python files of modules and packages, in their order."""
    files = [file for module in modules for file in _files(module)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _files(module: ModuleType) -> list[Path]:
    if hasattr(module, "__path__"):
        return sorted(Path(next(iter(module.__path__))).rglob("*.py"))
    return [Path(str(module.__file__))]
