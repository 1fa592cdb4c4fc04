"""The emulated radix cache: which beginnings of texts the KV cache still holds."""

from collections.abc import Iterable, Sequence
from itertools import islice


class PrefixCache:
    """Remembers texts by the hash of each of their beginnings, a page of tokens at a time.

    What was touched longest ago goes first, the ends of a text before its beginning.
    """

    def __init__(self, page_tokens: int, room_tokens: int) -> None:
        self._page_tokens = page_tokens
        self._room_pages = max(1, room_tokens // page_tokens)
        self._pages: dict[int, None] = {}

    def match(self, prompt: Sequence[int]) -> int:
        """Return how many first tokens are cached; the last one never is, it must be computed."""
        if not self._pages:
            return 0
        pages = 0
        for page in self._hashes(prompt):
            if page not in self._pages:
                break
            pages += 1
        return max(0, min(pages * self._page_tokens, len(prompt) - 1))

    def add(self, text: Sequence[int]) -> None:
        """Remember a text, and forget others where there is no room."""
        pages = self._pages
        for page in reversed(list(self._hashes(text))):
            pages.pop(page, None)
            pages[page] = None
        for page in list(islice(pages, max(0, len(pages) - self._room_pages))):
            del pages[page]

    def clear(self) -> None:
        """Forget everything."""
        self._pages.clear()

    def _hashes(self, text: Sequence[int]) -> Iterable[int]:
        size = self._page_tokens
        beginning = 0
        for start in range(0, len(text) - size + 1, size):
            beginning = hash((beginning, *text[start : start + size]))
            yield beginning
