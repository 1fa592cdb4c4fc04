"""Where a SQLite file lies, as SQLAlchemy's addresses say it."""

from pathlib import Path
from urllib.parse import unquote

from sweeps.problems import BadInputError, Problem

_SCHEME = "sqlite:///"


def sqlite_uri(path: Path) -> str:
    """Return the address of a file, wherever it is used from.

    SQLAlchemy reads `?` and `%41` in an address as more than a path, and MLflow takes no quoted one
    (it makes a folder of that name): a path with these names another file. Raises BadInputError.
    """
    text = str(path.absolute())
    if "?" in text or unquote(text) != text:
        why = "`?`, or `%` before two hexadecimal digits, in a path leads SQLite to another file"
        raise BadInputError("The state folder", [Problem("path", text, why, "Rename the folder.")])
    return f"{_SCHEME}{text}"


def path_in(uri: str) -> Path | None:
    """Return the file that an address names; None of another store."""
    return Path(uri.removeprefix(_SCHEME)) if uri.startswith(f"{_SCHEME}/") else None
