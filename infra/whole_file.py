"""Files that are written beside their place and renamed: whole or not at all.

Others may write to the folder, as to /tmp. The name beside is drawn at random, the file is made and
never opened, and no link is followed: what is planted there leads nowhere.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_ANYBODY = 0o666
"""The rights of a new file before the umask takes from them."""


def name_beside(path: Path) -> Path:
    """Return a name in the folder of a file that nobody can foresee; hidden, as it is half done."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def new_file(path: Path, mode: int = _ANYBODY) -> IO[bytes]:
    """Make a file and open it for writing. Raises FileExistsError where anything is there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, mode), "wb")


@contextmanager
def replacing(path: Path, mode: int | None = None) -> Iterator[IO[bytes]]:
    """Lend a file that takes the place of another one if the block ends well. Raises OSError.

    `mode` are its rights, whatever the umask is.
    """
    beside = name_beside(path)
    try:
        with new_file(beside) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def write_whole(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file. Raises OSError, and then leaves what was there before."""
    with replacing(path, mode) as file:
        file.write(data)
