"""Does n-gram speculation pay on eight PCIe GPUs, and under which communication settings?

The founding question: draft length, breadth and depth of the n-gram trie, together with the
all-reduce and NCCL settings that decide what a wide verify step costs.
"""

from search_spaces.communication import COMMUNICATION_AXES, COMMUNICATION_RULES
from sweeps import Budget, Choice, IntRange, Model, Sweep, Workload, ref
from sweeps.space import Rule

NGRAM = {"speculative_algorithm": "NGRAM"}

sweep = Sweep(
    name="ngram",
    model=Model("moonshotai/Kimi-K2.5"),
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
        Rule(
            ref("speculative_ngram_max_bfs_breadth") <= ref("speculative_num_draft_tokens"),
            "a breadth above the number of draft tokens changes nothing",
        ),
        *COMMUNICATION_RULES,
    ],
    fixed={
        "tp_size": 8,
        "mem_fraction_static": 0.88,
        "max_running_requests": 48,
        "trust_remote_code": True,
    },
    workload=Workload(prompts="code", max_tokens=512),
    budget=Budget(trials=24),
    seed=7,
)
