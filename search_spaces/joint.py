"""Speculation and communication at once: n-gram or EAGLE3 drafts, and what their verify costs."""

from search_spaces.communication import COMMUNICATION_AXES, COMMUNICATION_RULES
from search_spaces.eight_gpus import FIXED, MODEL
from search_spaces.speculation import EAGLE3, NGRAM, NGRAM_RULES
from sweeps import Budget, Choice, IntRange, Sweep, Workload

sweep = Sweep(
    name="joint",
    model=MODEL,
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM", "EAGLE3"]),
        IntRange("speculative_num_draft_tokens", 2, 16, NGRAM, log=True),
        IntRange("speculative_ngram_max_bfs_breadth", 1, 16, NGRAM, log=True),
        IntRange("ngram_match_depth", 4, 18, NGRAM),
        Choice("speculative_ngram_match_type", ["BFS", "PROB"], NGRAM),
        IntRange("speculative_num_steps", 1, 7, EAGLE3),
        # A chain: SGLang then verifies num_steps + 1 draft tokens.
        Choice("speculative_eagle_topk", [1], EAGLE3),
        *COMMUNICATION_AXES,
    ],
    rules=[
        *NGRAM_RULES,
        *COMMUNICATION_RULES,
    ],
    fixed=FIXED,
    workload=Workload(prompts="code", max_tokens=512),
    budget=Budget(trials=60),
    seed=7,
)
