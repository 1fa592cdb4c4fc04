"""How names and values are made such that a store takes them, and how that can be undone."""

import hashlib
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

_T = TypeVar("_T")

NAME_TAG = "name."
"""What stands before a changed name in the tag that holds the original."""

VALUES_FOLDER = "values"
"""The folder, among a run's files, of values that are too long to be parameters or tags."""

_SHORT_CHARS = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """What a store takes at most, read from the store's own library."""

    name_chars: int
    param_chars: int
    tag_chars: int
    metrics_per_batch: int
    texts_per_batch: int
    all_per_batch: int
    batch_bytes: int


@dataclass(frozen=True, slots=True)
class Texts:
    """Parameters or tags as they are sent, with what had to be changed."""

    sent: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    """Sent name to original, of those that were changed."""
    too_long: dict[str, str] = field(default_factory=dict)
    """Sent name to the whole value."""


def legal_names(names: Iterable[str], longest_chars: int) -> dict[str, str]:
    """Map names to what a store takes: letters, digits and `_-. /`, and no path that is another.

    Names that are legal stay. Different names stay different: where two would become one, those
    that were changed end in a hash of the original.
    """
    asked = list(dict.fromkeys(names))
    changed = {name: _legal(name, longest_chars) for name in asked}
    taken: dict[str, int] = {}
    for legal in changed.values():
        taken[legal] = taken.get(legal, 0) + 1
    return {
        name: _marked(legal, name, longest_chars) if taken[legal] > 1 and legal != name else legal
        for name, legal in changed.items()
    }


def legal_texts(texts: Mapping[str, str], longest_chars: int, name_chars: int) -> Texts:
    """Make parameters or tags legal; a long value becomes its begin with a hash of all."""
    names = legal_names(texts, name_chars)
    made = Texts()
    for name, text in texts.items():
        sent = names[name]
        made.sent[sent] = short_form(text, longest_chars, sent)
        if sent != name:
            made.renamed[sent] = name
        if len(text) > longest_chars:
            made.too_long[sent] = text
    return made


def short_form(text: str, longest_chars: int, name: str) -> str:
    """Return a text that fits as it is, or its begin, its length, its hash and where it is."""
    if len(text) <= longest_chars:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    where = f"… [{len(text)} characters, sha256 {digest}, whole in {value_file(name)}]"
    return text[: max(0, min(_SHORT_CHARS, longest_chars - len(where)))] + where[:longest_chars]


def value_file(name: str) -> str:
    """Return the path, among a run's files, of a value that is too long."""
    return f"{VALUES_FOLDER}/{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.txt"


def name_tags(renamed: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that say what changed names were."""
    return {f"{NAME_TAG}{sent}": original for sent, original in renamed.items()}


def batches(items: Sequence[tuple[_T, int]], most: int, most_bytes: int) -> Iterator[list[_T]]:
    """Cut things, each with its size in bytes, into batches that a store takes."""
    batch: list[_T] = []
    filled_bytes = 0
    for item, size_bytes in items:
        if batch and (len(batch) >= most or filled_bytes + size_bytes > most_bytes):
            yield batch
            batch, filled_bytes = [], 0
        batch.append(item)
        filled_bytes += size_bytes
    if batch:
        yield batch


def _legal(name: str, longest_chars: int) -> str:
    kept = re.sub(r"[^\w. /-]", "_", name, flags=re.ASCII)
    if not kept or posixpath.normpath(kept) != kept or kept.startswith(("..", "/")) or kept == ".":
        kept = "_".join(part.strip(".") for part in kept.split("/")).strip() or "_"
    return kept if len(kept) <= longest_chars else _marked(kept, name, longest_chars)


def _marked(legal: str, name: str, longest_chars: int) -> str:
    mark = "_" + hashlib.sha256(name.encode()).hexdigest()[:8]
    return legal[: longest_chars - len(mark)] + mark
