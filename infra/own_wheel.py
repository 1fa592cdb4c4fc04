"""Our own packages as a wheel, and the version that their files make.

Made of the files that run here, whether installed or checked out, so that the same files are the
same version on every machine. Nothing has to be built: a wheel is an archive with a list.
"""

import base64
import hashlib
import importlib.metadata
import importlib.util
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

NAME = "sglang-sweep-orchestrator"
PACKAGES = ("infra", "orchestrator", "search_spaces", "sweeps")

_LEFT_OUT = {"__pycache__", ".mypy_cache", ".ruff_cache"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
_DIGEST_CHARS = 12
_WHEEL = "Wheel-Version: 1.0\nGenerator: orchestrator\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@cache
def own_version() -> str:
    """Return the release and the hash of the files: `0.1.0+1f2e3d4c5b6a`."""
    digest = hashlib.sha256()
    for name, path in own_files():
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{release()}+{digest.hexdigest()[:_DIGEST_CHARS]}"


def release() -> str:
    """Return the version of the distribution, without what a wheel of ours adds to it."""
    return importlib.metadata.version(NAME).partition("+")[0]


def own_files() -> list[tuple[str, Path]]:
    """Return all files of our packages, by their name in an archive."""
    return sorted(
        (f"{package}/{path.relative_to(folder).as_posix()}", path)
        for package in PACKAGES
        for folder in _folders(package)
        for path in folder.rglob("*")
        if path.is_file() and not _LEFT_OUT & {*path.relative_to(folder).parts}
    )


def build_wheel(folder: Path) -> Path:
    """Write the wheel into a folder; the same files make the same bytes. Raises OSError."""
    stem = f"{NAME.replace('-', '_')}-{own_version()}"
    path = folder / f"{stem}-py3-none-any.whl"
    record: list[str] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _contents(f"{stem}.dist-info"):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            record.append(f"{name},sha256={digest},{len(data)}")
        listed = f"{stem}.dist-info/RECORD"
        text = "\n".join([*record, f"{listed},,", ""])
        archive.writestr(zipfile.ZipInfo(listed, _EPOCH), text, zipfile.ZIP_DEFLATED)
    return path


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _contents(info: str) -> Iterator[tuple[str, bytes]]:
    for name, path in own_files():
        yield name, path.read_bytes()
    found = importlib.metadata.distribution(NAME)
    metadata = (found.read_text("METADATA") or "").splitlines(keepends=True)
    # The local part of the version is ours.
    lines = (
        f"Version: {own_version()}\n" if line.startswith("Version:") else line for line in metadata
    )
    yield f"{info}/METADATA", "".join(lines).encode()
    yield f"{info}/WHEEL", _WHEEL.encode()
    yield f"{info}/entry_points.txt", (found.read_text("entry_points.txt") or "").encode()


def _folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
