"""What a space file needs on another machine: itself, its own modules, prompts and scenarios."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from infra.own_wheel import file_hash
from orchestrator.remote.imports import local_modules
from sweeps.problems import BadInputError, Problem
from sweeps.sweep import Sweep

_ASIDE = PurePosixPath("outside")
"""Holds what lies outside the folder that the command was typed in."""
_HASH_CHARS = 12


@dataclass(frozen=True, slots=True)
class Parcel:
    """The files of a sweep, by their places in the folder that it runs in there."""

    space: PurePosixPath
    files: Mapping[PurePosixPath, Path]
    moved: Mapping[str, str]
    """Paths as the space file or the command line gives them, and where they lie there."""

    @property
    def name(self) -> str:
        """Return the name of its folder there: the same file is always laid out in the same."""
        return self.space.stem

    def hashes(self) -> dict[PurePosixPath, str]:
        """Return the SHA-256 of each file."""
        return {place: file_hash(path) for place, path in self.files.items()}


def pack(
    space_file: Path, sweep: Sweep, base: Path, scenario: Path | None = None,
    more: Iterable[Path] = (),
) -> Parcel:  # fmt: skip
    """Collect what a space file needs. `base` is the folder that its paths start from.

    Models stay where they are: their paths are the host's. Raises BadInputError.
    """
    space = _place(space_file, base)
    files = {**local_modules(space_file), space: space_file}
    moved: dict[str, str] = {}
    for given in _named(sweep, scenario, more):
        path = base / Path(given).expanduser()
        for found in _files_at(path, given, space_file):
            files[_place(found, base)] = found
        if str(_place(path, base)) != given:
            moved[given] = str(_place(path, base))
    return Parcel(space, files, moved)


def _named(sweep: Sweep, scenario: Path | None, more: Iterable[Path]) -> list[str]:
    prompts = sweep.workload.file
    named = [str(prompts)] if prompts is not None else []
    named += [host.scenario for host in sweep.hosts if host.scenario]
    named += [str(scenario)] if scenario is not None else []
    return [*named, *map(str, more)]


def _files_at(path: Path, given: str, space_file: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(each for each in path.rglob("*") if each.is_file())
    if not found:
        problem = Problem("file", given, "there is no such file here to send", "Check the path.")
        raise BadInputError(str(space_file), [problem])
    return found


def _place(path: Path, base: Path) -> PurePosixPath:
    """Return where a file goes: the same place below the folder, or one named by its path."""
    absolute = path.absolute()
    inside = absolute.relative_to(base) if absolute.is_relative_to(base) else None
    if inside is not None and ".." not in inside.parts:
        return PurePosixPath(inside.as_posix())
    digest = hashlib.sha256(str(absolute.parent).encode()).hexdigest()[:_HASH_CHARS]
    return _ASIDE / digest / absolute.name
