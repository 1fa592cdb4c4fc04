"""Speculation and communication at once: n-gram or EAGLE3 drafts, and what their verify costs."""

from search_spaces.communication import COMMUNICATION_AXES, COMMUNICATION_RULES
from sweeps import Budget, Choice, IntRange, Model, Rule, Sweep, Workload, ref

NGRAM = {"speculative_algorithm": "NGRAM"}
EAGLE3 = {"speculative_algorithm": "EAGLE3"}

sweep = Sweep(
    name="joint",
    model=Model("moonshotai/Kimi-K2.5", draft_path="AQ-MedAI/Kimi-K2-Instruct-eagle3"),
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
    budget=Budget(trials=60),
    seed=7,
)
