"""How long answers must be on a host that is emulated faster than life."""

LONG_ANSWER_TOKENS = 2048
"""So long that no single read holds an answer: it has 560 KB and more, with n-gram drafts as well,
and a read of an event loop ends at 256 KB. A busy machine may bring a shorter answer in one read,
and what comes at once has no rate."""
