"""The tokens of the emulated model: text to ids and back, with the same ids in every process."""

import hashlib
import re
from collections.abc import Iterable

PAD_ID = 0
"""What SGLang hangs into unused draft slots; no text contains it."""
EOS_ID = 1
"""The end of an answer; it reads as nothing."""
UNKNOWN = "\ufffd"
"""How an id reads whose text this process has not seen."""

_FIRST_ID = 256
_IDS = 2**31 - _FIRST_ID
"""Ids fit 31 bits: SGLang's trie holds them as int32."""
_REMEMBERED = 2_000_000
"""Pieces whose text is kept; the built-in texts and a file come first."""

_PIECE = re.compile(
    r" ?[a-zA-Z\u00c0-\u04ff]{1,7}"
    r"|_[a-zA-Z]{1,7}"
    r"| ?\d{1,3}"
    r"| ?[^\w\s]{1,3}"
    r"|\n+(?: +(?= ))?"
    r"| +(?= )"
    r"|.",
    re.DOTALL,
)

_ids: dict[str, int] = {}
_pieces: dict[int, str] = {PAD_ID: "<pad>", EOS_ID: ""}


def tokenize(text: str) -> list[int]:
    """Split text into ids; `render_all` gives the text back. Long words take several pieces."""
    known = _ids
    return [known.get(piece) or _learn(piece) for piece in _PIECE.findall(text)]


def render(token: int) -> str:
    """Return the text of one token; ids that no text of this process had read as U+FFFD."""
    return _pieces.get(token, UNKNOWN)


def render_all(tokens: Iterable[int]) -> str:
    """Return the text of several tokens."""
    pieces = _pieces
    return "".join([pieces.get(token, UNKNOWN) for token in tokens])


def _learn(piece: str) -> int:
    """Give a piece its id: a hash, or the next free one where another piece has it already."""
    raw = hashlib.blake2b(piece.encode(errors="surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(raw)
    while True:
        token = _FIRST_ID + number % _IDS
        if _pieces.setdefault(token, piece) == piece:
            break
        number += 1
    if len(_pieces) > _REMEMBERED:
        del _pieces[token]
    else:
        _ids[piece] = token
    return token
