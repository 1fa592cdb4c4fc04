"""How long should the chain of an EAGLE3 drafter be on this host?"""

from search_spaces.eight_gpus import FIXED, MODEL
from search_spaces.speculation import EAGLE3
from sweeps import Budget, Choice, IntRange, Rule, Sweep, Workload, ref

TREE = {"speculative_eagle_topk": [2, 4]}

sweep = Sweep(
    name="eagle3",
    model=MODEL,
    axes=[
        Choice("speculative_algorithm", [None, "EAGLE3"]),
        IntRange("speculative_num_steps", 1, 7, EAGLE3),
        Choice("speculative_eagle_topk", [1, 2, 4], EAGLE3),
        # With topk 1 the draft is a chain and SGLang verifies num_steps + 1 draft tokens.
        IntRange("speculative_num_draft_tokens", 2, 16, TREE, log=True),
        Choice("NCCL_PROTO", [None, "LL", "Simple"]),
    ],
    rules=[
        Rule(
            ref("speculative_num_draft_tokens")
            <= ref("speculative_num_steps") * ref("speculative_eagle_topk") + 1,
            "the tree has no more nodes than steps x topk and its root",
        ),
        Rule(
            ref("speculative_num_steps") + 1 <= ref("speculative_num_draft_tokens"),
            "a tree of fewer draft tokens throws steps away",
        ),
    ],
    fixed=FIXED,
    workload=Workload(prompts="reasoning", max_tokens=512),
    budget=Budget(trials=24),
    seed=7,
)
