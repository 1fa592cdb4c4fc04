"""Classes of prompt length, within which rates may be compared."""

from bisect import bisect_left

EDGES_TOKENS = (512, 2048, 8192, 32768)
"""The longest prompt of each class but the last."""

BUCKETS = (*(f"to_{edge}" for edge in EDGES_TOKENS), f"above_{EDGES_TOKENS[-1]}")


def bucket(prompt_tokens: int) -> str:
    """Return the name of the class that a prompt's length is in."""
    return BUCKETS[bisect_left(EDGES_TOKENS, prompt_tokens)]
