"""With what the command line exits, for scripts."""

from collections.abc import Iterable

DONE, BAD_INPUT, NO_TRIAL, NOT_READY, INTERRUPTED = 0, 2, 3, 4, 130
DIFFERS, UNDECIDED = 5, 6
"""Of `verify` and `compare`: the figures are not alike, or not enough was measured to tell."""


_OF_STATUS = {"interrupted": INTERRUPTED, "ended early": NOT_READY, "failed": NOT_READY,
              "died": NOT_READY}  # fmt: skip


def of_status(status: str, *, has_leader: bool) -> int:
    """Return the code for how a sweep stands; one that runs is as good as one that has ended."""
    if status == "finished" and not has_leader:
        return NO_TRIAL
    return _OF_STATUS.get(status, DONE)


def worst(codes: Iterable[int]) -> int:
    """Return the one that a person has to see to first: bad input before all others."""
    found = set(codes)
    return BAD_INPUT if BAD_INPUT in found else max(found, default=DONE)
