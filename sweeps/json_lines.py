"""Files of JSON lines, or of one JSON list, that users name: each bad entry is named by its number.

Prompts, completions and logs to replay are read here, so that all have the same manners.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from sweeps.problems import BadInputError, Problem

MOST_BYTES = 1 << 30
"""Of a file, unpacked: the largest public sets of conversations have some 700 MB."""
MOST_ENTRY_BYTES = 64 << 20
"""Of a line: a prompt of a million tokens has some 4 MB."""

_T = TypeVar("_T")
_SHOWN = 5
_SHOWN_CHARS = 60
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_UNPACK = "Unpack it first."
_RECODE = "Write it as UTF-8: iconv -f {0} -t UTF-8 OLD > NEW."
_OTHER_FORMS = (
    (b"\xff\xfe\x00\x00", "UTF-32, not UTF-8", _RECODE.format("UTF-32")),
    (b"\x00\x00\xfe\xff", "UTF-32, not UTF-8", _RECODE.format("UTF-32")),
    (b"\xff\xfe", "UTF-16, not UTF-8", _RECODE.format("UTF-16")),
    (b"\xfe\xff", "UTF-16, not UTF-8", _RECODE.format("UTF-16")),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", _UNPACK),
    (b"\xfd7zXZ\x00", "compressed by xz", _UNPACK),
    (b"BZh", "compressed by bzip2", _UNPACK),
    (b"PK\x03\x04", "a ZIP archive", _UNPACK),
    (b"PAR1", "Parquet", "Write its rows as JSON lines."),
)
"""What a file begins with, what it is then, and how that is mended."""


class BadEntryError(Exception):
    """One entry of a file is not what the file should hold; `mend` is empty where its form is."""

    def __init__(self, why: str, mend: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.mend = mend


@dataclass(frozen=True, slots=True)
class EntryKind:
    """What the entries of a file are, for messages and for what only they know."""

    field: str
    """By which messages name the file."""
    forms: str
    """How an entry is written, as a sentence."""
    is_list: Callable[[object], bool]
    """Tells whether a list is one entry, where it could be the list of them all."""


def read_entries(path: Path, kind: EntryKind, make: Callable[[object], _T]) -> list[_T]:
    """Read a file, packed by gzip or not, and make something of each entry.

    `make` gets what JSON says and raises BadEntryError. Raises: BadInputError, which names the
    first bad entries by their place, and counts the others.
    """
    made: list[_T] = []
    bad: list[Problem] = []
    more = 0
    for place, load in _entries(path, kind):
        try:
            made.append(make(load()))
        except BadEntryError as error:
            more += len(bad) == _SHOWN
            if len(bad) < _SHOWN:
                where = f"{path} {place}"
                bad.append(Problem(kind.field, where, error.why, error.mend or kind.forms))
    if more:
        why, mend = f"{more} more entries are wrong", "Mend those above first."
        bad.append(Problem(kind.field, str(path), why, mend))
    if bad:
        raise BadInputError(str(path), bad)
    return made


def parse(data: bytes) -> object:
    """Read one JSON value. Raises BadEntryError, whatever the bytes are."""
    try:
        return json.loads(data.decode(), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        why = f"byte {error.start + 1} is no UTF-8"
        raise BadEntryError(why, "Save the file as UTF-8.") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise BadEntryError(f"it is no JSON: {error.msg} at {line}column {error.colno}") from error
    except RecursionError as error:
        raise BadEntryError("it is no JSON that can be read: it is nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise BadEntryError(f"it is no JSON that can be read: {error}") from error


def text_of(given: object, what: str) -> str:
    """Return a text that can be sent. Raises BadEntryError."""
    if not isinstance(given, str):
        raise BadEntryError(f"{what} is {kind_of(given)}, not text")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        why = f"{what} holds half a character: {given[error.start]!a}"
        raise BadEntryError(why, "Take it out, or write the pair.") from error
    return given


def kind_of(given: object) -> str:
    """Say what a JSON value is."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value"}
    return "null" if given is None else names.get(type(given), "a number")


def shown(given: object) -> str:
    """Write a value of a file into a message: in printable characters, and not at length."""
    text = ascii(given)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 3]}..."


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadEntryError(f"the key {shown(twice)} stands twice in it", "Keep one of both.")
    return found


def _entries(path: Path, kind: EntryKind) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the place of each entry, and what loads it or raises BadEntryError."""
    try:
        with closing(_opened(path, kind)) as file:
            yield from _entries_of(path, file, kind)
    except (OSError, EOFError, zlib.error) as error:
        why = f"it cannot be read: {getattr(error, 'strerror', None) or error}"
        mend = "Name a file that is there, is whole and may be read."
        raise _refused(path, kind, why, mend) from error


def _opened(path: Path, kind: EntryKind) -> BinaryIO:
    """Open a file for reading, unpacked. Raises BadInputError, OSError."""
    if not path.is_file():
        why = "it is no file" if path.exists() else "there is no such file"
        raise _refused(path, kind, why, "Check the path.")
    if (size_bytes := path.stat().st_size) > MOST_BYTES:
        why = f"it has {size_bytes} bytes, and {MOST_BYTES} are read at most"
        raise _refused(path, kind, why, "Give a part of it.")
    with path.open("rb") as file:
        head = file.read(8)
    for magic, form, mend in _OTHER_FORMS:
        if head.startswith(magic):
            raise _refused(path, kind, f"it is {form}", mend)
    if 0 in head[:2]:
        coding = "UTF-16LE" if head[0] else "UTF-16BE"
        raise _refused(path, kind, f"it is {coding}, not UTF-8", _RECODE.format(coding))
    return cast(BinaryIO, gzip.open(path)) if head.startswith(_GZIP) else path.open("rb")


def _entries_of(
    path: Path, file: BinaryIO, kind: EntryKind
) -> Iterator[tuple[str, Callable[[], object]]]:
    is_first = True
    for number, line in enumerate(_lines(path, file, kind), 1):
        if not line.strip():
            continue
        if is_first and line.lstrip().startswith(b"[") and not _is_entry(line, kind):
            yield from _list_entries(path, line + _rest(path, file, kind), kind)
            return
        is_first = False
        yield f"line {number}", lambda line=line: _line_value(line)  # type: ignore[misc]


def _is_entry(line: bytes, kind: EntryKind) -> bool:
    """Tell whether a line is an entry that is a list, or the list of all entries begins there."""
    try:
        return kind.is_list(parse(line))
    except BadEntryError:
        return False


def _lines(path: Path, file: BinaryIO, kind: EntryKind) -> Iterator[bytes]:
    """Yield each line; one that is too long by its beginning, which is enough to know."""
    is_inside = False
    left = MOST_BYTES
    while part := file.readline(MOST_ENTRY_BYTES + 1):
        left -= len(part)
        if left < 0:
            raise _too_long(path, kind)
        if not is_inside:
            # Files that were put together may have a mark at the head of each.
            yield part.removeprefix(_BOM)
        is_inside = not part.endswith(b"\n")


def _line_value(line: bytes) -> object:
    if len(line) > MOST_ENTRY_BYTES:
        why = f"it has more than {MOST_ENTRY_BYTES} bytes"
        raise BadEntryError(why, "Give a shorter one, or take it out.")
    return parse(line)


def _rest(path: Path, file: BinaryIO, kind: EntryKind) -> bytes:
    rest = file.read(MOST_BYTES + 1)
    if len(rest) > MOST_BYTES:
        raise _too_long(path, kind)
    return rest


def _list_entries(
    path: Path, data: bytes, kind: EntryKind
) -> Iterator[tuple[str, Callable[[], object]]]:
    try:
        entries = parse(data)
    except BadEntryError as bad:
        mend = bad.mend or "A file that begins with [ must be one JSON list."
        raise _refused(path, kind, bad.why, mend) from bad
    assert isinstance(entries, list)
    for number, entry in enumerate(entries, 1):
        yield f"entry {number}", lambda entry=entry: entry  # type: ignore[misc]


def _too_long(path: Path, kind: EntryKind) -> BadInputError:
    why = f"it has more than {MOST_BYTES} bytes when it is unpacked"
    return _refused(path, kind, why, "Give a part of it.")


def _refused(path: Path, kind: EntryKind, why: str, mend: str) -> BadInputError:
    return BadInputError(str(path), [Problem(kind.field, str(path), why, mend)])
