"""The EAGLE drafter: a chain whose hits depend on the prompt and the position alone."""

from collections.abc import Sequence


class ChainDrafter:
    """A chain of drafts with a hit rate for each depth; depth 0 is plain decode."""

    def __init__(self, hit_rates: Sequence[float], depth: int) -> None:
        last = hit_rates[-1] if hit_rates else 0.0
        self._rates = [*hit_rates, *[last] * max(0, depth - len(hit_rates))][:depth]

    def open(self, prompt: Sequence[int], key: int) -> "ChainRequest":
        """Start a request at position 0 of its output."""
        return ChainRequest(self._rates, key)

    def reset(self) -> None:
        """Do nothing: a draft model learns nothing while it serves."""


class ChainRequest:
    """The chain of one request."""

    def __init__(self, rates: Sequence[float], key: int) -> None:
        self._rates = rates
        self._key = key
        self._position = 0

    def correct_drafts(self, upcoming: Sequence[int]) -> int:
        """Return how many drafts hit; `upcoming` does not matter."""
        for depth, rate in enumerate(self._rates):
            if _uniform(self._key, self._position + depth) >= rate:
                return depth
        return len(self._rates)

    def commit(self, tokens: Sequence[int]) -> None:
        """Move on."""
        self._position += len(tokens)

    def end(self, unseen: Sequence[int]) -> None:
        """Do nothing: what runs on past the end teaches nobody."""


def _uniform(key: int, position: int) -> float:
    """Return a number in [0, 1) that only the arguments decide (the splitmix64 mixing steps)."""
    mask = (1 << 64) - 1
    z = (key + position * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return (z ^ (z >> 31)) / 2**64
