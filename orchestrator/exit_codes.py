"""With what the command line exits, for scripts."""

from collections.abc import Iterable

DONE, BAD_INPUT, NO_TRIAL, NOT_READY, INTERRUPTED = 0, 2, 3, 4, 130


def worst(codes: Iterable[int]) -> int:
    """Return the one that a person has to see to first: bad input before all others."""
    found = set(codes)
    return BAD_INPUT if BAD_INPUT in found else max(found, default=DONE)
