"""A program for any interpreter: what is installed for it. It is run there as text, by `-c`.

It prints one object of JSON and imports nothing of what it looks at.
"""

import ctypes
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from pathlib import Path

PACKAGES = (
    "sglang", "torch", "sgl-kernel", "sglang-kernel", "flashinfer-python", "triton",
    "nvidia-nccl-cu12", "nvidia-nccl-cu13", "mscclpp",
)  # fmt: skip
NCCL_WHEELS = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")
FLAG_FILES = ("version.py", "_version.py", "srt/server_args.py", "srt/arg_groups/**/*.py")
CHOSEN_NCCL = "SGLANG_NCCL_SO_PATH"


def main() -> None:
    """Print what is installed, and the files that tell when that changes."""
    versions = {}
    files = []
    for name in PACKAGES:
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        versions[name] = found.version
        files.append(str(found.locate_file("")))
        files += [str(found.locate_file(file)) for file in _records(found)]
    sglang = _folder("sglang")
    for pattern in FLAG_FILES:
        files += map(str, Path(sglang).glob(pattern) if sglang else [])
    sys.stdout.write(
        json.dumps(
            {
                "python": platform.python_version(),
                "importable": bool(sglang),
                "packages": versions,
                "nccl": _nccl(versions),
                "files": sorted({file for file in files if Path(file).exists()}),
            }
        )
    )


def _records(found: importlib.metadata.Distribution) -> list:  # type: ignore[type-arg]
    """Return the file that an installer writes last."""
    return [file for file in found.files or [] if str(file).endswith("dist-info/RECORD")]


def _folder(package: str) -> str:
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return next(iter(places), "") if places else ""


def _nccl(versions: dict) -> str:  # type: ignore[type-arg]
    chosen = os.environ.get(CHOSEN_NCCL)
    if chosen:
        return _library_version(chosen)
    for wheel in NCCL_WHEELS:
        if wheel in versions:
            return str(versions[wheel])
    torch = _folder("torch")
    libraries = sorted(Path(torch).glob("lib/libnccl.so*")) if torch else []
    return _library_version(str(libraries[0])) if libraries else ""


def _library_version(path: str) -> str:
    """Ask the library itself: 22703 is 2.27.3."""
    number = ctypes.c_int()
    try:
        ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return ""
    major, rest = divmod(number.value, 10000)
    return f"{major}.{rest // 100}.{rest % 100}"


if __name__ == "__main__":
    main()
