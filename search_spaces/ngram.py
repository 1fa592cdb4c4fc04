"""Does n-gram speculation pay on eight PCIe GPUs, and under which communication settings?

The founding question: draft length, breadth and depth of the n-gram trie, together with the
all-reduce and NCCL settings that decide what a wide verify step costs.
"""

from search_spaces.communication import COMMUNICATION_AXES, COMMUNICATION_RULES
from search_spaces.eight_gpus import FIXED, MODEL
from search_spaces.speculation import NGRAM, NGRAM_RULES
from sweeps import Budget, Choice, IntRange, Sweep, Workload

sweep = Sweep(
    name="ngram",
    model=MODEL,
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 32, NGRAM, log=True),
        IntRange("speculative_ngram_max_bfs_breadth", 1, 16, NGRAM),
        # The match window of SGLang up to 0.5.9, the depth of the trie from 0.5.10.
        IntRange("ngram_match_depth", 4, 18, NGRAM),
        Choice("speculative_ngram_match_type", ["BFS", "PROB"], NGRAM),
        *COMMUNICATION_AXES,
    ],
    rules=[
        *NGRAM_RULES,
        *COMMUNICATION_RULES,
    ],
    fixed=FIXED,
    workload=Workload(prompts="code", max_tokens=512),
    budget=Budget(trials=24),
    seed=7,
)
