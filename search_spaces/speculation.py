"""Conditions and rules of speculation, shared by the spaces that sweep it."""

from sweeps import Rule, ref

NGRAM = {"speculative_algorithm": "NGRAM"}
EAGLE3 = {"speculative_algorithm": "EAGLE3"}

NGRAM_RULES = [
    Rule(
        ref("speculative_ngram_max_bfs_breadth") <= ref("speculative_num_draft_tokens"),
        "a breadth above the number of draft tokens changes nothing",
    ),
]
