"""Our environment as files that can be sent: the lock, its wheels, pip, and our own packages."""

import hashlib
import importlib.util
import platform
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.own_wheel import own_version
from infra.probing.reading import message_of

PYTHONS = ("3.12", "3.11")
"""Minor versions that there is a lock for, the best first."""

_DOWNLOAD_S = 3600.0
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LOCKS = Path(__file__).parents[1] / "requirements"


class WheelhouseError(Exception):
    """What should be sent cannot be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """The interpreter that wheels are for."""

    python: str
    """Minor version: `3.11`."""
    machine: str = "x86_64"
    glibc: str = "2.17"

    def platforms(self) -> list[str]:
        """Return the tags of wheels that run there, the newest first."""
        major, _, minor = self.glibc.partition(".")
        newest = int(minor) if major == "2" and minor.isdigit() else 17
        return [f"manylinux_2_{number}_{self.machine}" for number in range(newest, 4, -1)] + [
            f"manylinux2014_{self.machine}", f"linux_{self.machine}",
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lock:
    """The pinned, hashed requirements of one Python."""

    python: str
    path: Path

    @classmethod
    def of(cls, python: str, folder: Path = _LOCKS) -> "Lock":
        """Return the lock of a minor version. Raises WheelhouseError."""
        path = folder / f"py{python}.txt"
        if not path.is_file():
            raise WheelhouseError(f"there is no {path}: run this from a checkout")
        return cls(python, path)

    @property
    def version(self) -> str:
        """Name the environment that this lock and our files make."""
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]
        return f"{own_version()}-py{self.python}-{digest}"


def download(lock: Lock, target: Target, folder: Path) -> list[Path]:
    """Fetch the wheels of a lock for another machine, once into each folder.

    Raises WheelhouseError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    complete = folder / ".complete"
    if complete.exists():
        return sorted(folder.glob("*.whl"))
    tags = [word for tag in target.platforms() for word in ("--platform", tag)]
    argv = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--require-hashes", "--only-binary", ":all:", "--implementation", "cp",
        "--python-version", target.python, *tags, "--dest", str(folder), "-r", str(lock.path),
    ]  # fmt: skip
    _run(argv)
    complete.touch()
    return sorted(folder.glob("*.whl"))


def pip_archive(folder: Path) -> Path:
    """Write this machine's pip as one file that an interpreter runs. Raises WheelhouseError.

    A host's own may be missing: some systems leave it out of their Python.
    """
    spec = importlib.util.find_spec("pip")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise WheelhouseError("pip is not installed here: `python -m ensurepip` adds it")
    root = Path(places[0])
    path = folder / "pip.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                name = f"pip/{file.relative_to(root).as_posix()}"
                info = zipfile.ZipInfo(name, _EPOCH)
                archive.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return path


def here() -> Target:
    """Return this interpreter as a target."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Target(python, platform.machine(), platform.libc_ver()[1] or "2.17")


def _run(argv: Sequence[str]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_DOWNLOAD_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WheelhouseError(f"the wheels could not be fetched: {error}") from error
    if done.returncode != 0:
        words = message_of(done.stderr) or f"pip ended with {done.returncode}"
        raise WheelhouseError(f"the wheels could not be fetched: {words}")
