"""Which modules of the user's own a space file imports, found without running any of them."""

import ast
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path, PurePosixPath

from infra.own_wheel import PACKAGES

_THERE_ANYWAY = frozenset(PACKAGES) - {"search_spaces"}
"""Of ours; the host has its own. Space files are the user's to edit."""


def local_modules(file: Path) -> dict[PurePosixPath, Path]:
    """Return a file's own modules and theirs, by the path that they are imported from.

    What is installed, or belongs to Python or to us, is not the user's own. Names that are put
    together while a file runs are not found.
    """
    found: dict[PurePosixPath, Path] = {}
    waiting = [(file, "")]
    while waiting:
        path, package = waiting.pop()
        for name in _imported(path, package):
            for place, origin, inside in _resolved(name):
                if place not in found:
                    found[place] = origin
                    waiting.append((origin, inside))
    return found


def _imported(path: Path, package: str) -> Iterator[str]:
    """Yield the dotted names that a file may import; some name no module."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)


def _base(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _resolved(name: str) -> Iterator[tuple[PurePosixPath, Path, str]]:
    """Yield the files behind a dotted name that are the user's own: packages first.

    Each comes with its path below an import root, and the package that its own names start from.
    """
    top, *_ = parts = name.split(".")
    if top in _THERE_ANYWAY:
        return
    places: Sequence[str] | None = None
    for depth in range(1, len(parts) + 1):
        spec = _find(".".join(parts[:depth]), places)
        if spec is None:
            return
        places = spec.submodule_search_locations
        if spec.origin and spec.has_location:
            origin = Path(spec.origin)
            if _is_installed(origin):
                return
            package = parts[:depth] if places is not None else parts[: depth - 1]
            folder = PurePosixPath(*package)
            yield folder / origin.name, origin, ".".join(package)
        if places is None:
            return


def _find(name: str, places: Sequence[str] | None) -> ModuleSpec | None:
    """Ask the finders as an import would; no package on the way is run."""
    for finder in sys.meta_path:
        spec = finder.find_spec(name, places) if hasattr(finder, "find_spec") else None
        if spec is not None:
            return spec
    return None


def _is_installed(path: Path) -> bool:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_path(name) for name in names} | {site.getusersitepackages()}
    resolved = path.resolve()
    return any(resolved.is_relative_to(Path(folder).resolve()) for folder in folders)
