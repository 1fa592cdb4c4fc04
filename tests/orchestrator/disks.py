"""Disks that are full, or cannot be written, for tests."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a disk of 64 KiB; skip the test where that is not allowed."""
    with _mounted(folder, "size=64k") as mounted:
        if not mounted:
            pytest.skip("no small disk can be mounted here")
        yield folder


@contextlib.contextmanager
def read_only_disk(folder: Path) -> Iterator[Path]:
    """Give a folder that nobody can write to; skip the test where there is no way."""
    with _mounted(folder, "ro,size=64k") as mounted:
        if not mounted:
            folder.chmod(0o500)
        try:
            if not mounted and _takes_files(folder):
                pytest.skip("whoever runs this can write everywhere, and cannot mount")
            yield folder
        finally:
            if not mounted:
                folder.chmod(0o700)


@contextlib.contextmanager
def _mounted(folder: Path, options: str) -> Iterator[bool]:
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def _takes_files(folder: Path) -> bool:
    try:
        (folder / "probe").touch()
    except OSError:
        return False
    return True
