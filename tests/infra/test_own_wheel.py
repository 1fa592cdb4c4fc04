"""Our own wheel: the same files are the same version and bytes, and it runs alone."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra import own_wheel


def test_the_wheel_holds_all_that_runs_and_nothing_else(tmp_path: Path) -> None:
    path = own_wheel.build_wheel(tmp_path)
    first = path.read_bytes()
    path.unlink()
    assert own_wheel.build_wheel(tmp_path).read_bytes() == first
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        metadata = next(archive.read(name).decode() for name in names if name.endswith("METADATA"))
    assert {"infra/guard.py", "sweeps/__init__.py", "infra/sglang_parsers/pins/shared.txt"} <= {
        *names
    }
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]
    assert f"\nVersion: {own_wheel.own_version()}\n" in metadata
    assert own_wheel.own_version().startswith(f"{own_wheel.release()}+")


@pytest.mark.slow
def test_ours_runs_from_the_wheel_alone_as_the_same_version(tmp_path: Path) -> None:
    path = own_wheel.build_wheel(tmp_path)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import sys; sys.path.insert(0, 'site')\n"
        "from infra import own_wheel; import infra\n"
        "assert infra.__file__.startswith(sys.argv[1]), infra.__file__\n"
        "files = [name for name, _ in own_wheel.own_files()]\n"
        "print(len(files), own_wheel.own_version().split('+')[1])"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    count, digest = done.stdout.split() or [done.stderr, ""]
    assert int(count) == len(own_wheel.own_files())
    assert digest == own_wheel.own_version().split("+")[1]
