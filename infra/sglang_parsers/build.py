"""Fetches the code of a version of SGLang and reads its argument parser, once for each checkout."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.sglang.flag import version_key
from infra.sglang_cpu.build import build_directory
from infra.sglang_cpu.layout import python_version
from infra.sglang_cpu.stamp import digest_of
from infra.sglang_cpu.steps import Command, Step, installer_variables
from infra.sglang_parsers.dumps import Dump, read_dump

DEFAULT_ROOT = Path(".sglang-cpu/parsers")
CHECKED = ("0.5.4", "0.5.6.post2", "0.5.9", "0.5.12", "0.5.15", "0.5.23")
"""The versions that the tests hold the flag table against."""

_PACKAGE = Path(__file__).resolve().parent
_PINS = _PACKAGE / "pins"
_SHARED_PINS = _PINS / "shared.txt"
_SCRIPT = _PACKAGE / "read_parser.py"
_KEPT = ("sglang", "msgspec")
_PARSE_S = 60.0


@dataclass(frozen=True, slots=True)
class KeepDefinitions:
    """Removes what no argument is defined in: kernels, data, and other packages' files."""

    code: Path
    title: str = "keep the definitions only"

    def run(self, log: Path) -> None:
        """Remove it."""
        for entry in self.code.iterdir():
            if entry.name not in _KEPT and entry.is_dir():
                shutil.rmtree(entry)
        for file in (self.code / "sglang").rglob("*"):
            if file.is_file() and file.suffix != ".py":
                file.unlink()


def pinned_versions() -> tuple[str, ...]:
    """List the versions that can be read, oldest first."""
    found = [file.stem for file in _PINS.glob("*.txt") if file != _SHARED_PINS]
    return tuple(sorted(found, key=version_key))


def parser_dump(
    version: str, root: Path = DEFAULT_ROOT, report: Callable[[str], None] = lambda line: None
) -> Dump:
    """Return what a version's parser says, fetching it where it is not there yet.

    Raises BuildError where it cannot be fetched or read, KeyError for a version without pins.
    """
    if version not in pinned_versions():
        raise KeyError(version)
    folder = root.absolute() / version
    pins = [_PINS / f"{version}.txt", _SHARED_PINS]
    digest = digest_of([*pins, _SCRIPT], root=_PACKAGE, facts=[python_version()])
    build_directory(folder, digest, _steps(version, folder, pins), report)
    return read_dump(_options(folder))


def parse(
    version: str, words: Sequence[str], root: Path = DEFAULT_ROOT
) -> "subprocess.CompletedProcess[str]":
    """Let a version's own parser read a command line; it must have been fetched."""
    argv = [*_program(_code(root.absolute() / version)), "--parse", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=_PARSE_S, check=False)


def _steps(version: str, folder: Path, pins: Sequence[Path]) -> tuple[Step, ...]:
    code = _code(folder)
    named = [word for file in pins for word in ("-r", str(file))]
    target = ("--target", str(code), "--no-deps", "--require-hashes", "--only-binary", ":all:")
    return (
        Command(
            f"fetch SGLang {version}", (*_installer(), *target, *named),
            deadline_s=600, variables=installer_variables(),
        ),
        KeepDefinitions(code),
        Command(
            "read its argument parser", (*_program(code), "--write", str(_options(folder))),
            deadline_s=_PARSE_S, variables={},
        ),
    )  # fmt: skip


def _installer() -> tuple[str, ...]:
    if importlib.util.find_spec("uv") is None:
        return (sys.executable, "-m", "pip", "install", "--quiet", "--no-input")
    return (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable)


def _program(code: Path) -> tuple[str, ...]:
    """Return the program without its words: no site packages, no settings of the user's Python."""
    return (sys.executable, "-I", "-S", str(_SCRIPT), str(code))


def _code(folder: Path) -> Path:
    return folder / "code"


def _options(folder: Path) -> Path:
    return folder / "options.json"
