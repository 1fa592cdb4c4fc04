"""How long should the chain of an EAGLE3 drafter be on this host?"""

from sweeps import Budget, Choice, IntRange, Model, Rule, Sweep, Workload, ref

EAGLE3 = {"speculative_algorithm": "EAGLE3"}

TREE = {"speculative_eagle_topk": [2, 4]}

sweep = Sweep(
    name="eagle3",
    model=Model("moonshotai/Kimi-K2.5", draft_path="AQ-MedAI/Kimi-K2-Instruct-eagle3"),
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
    ],
    fixed={
        "tp_size": 8,
        "mem_fraction_static": 0.88,
        "max_running_requests": 48,
        "trust_remote_code": True,
    },
    workload=Workload(prompts="reasoning", max_tokens=512),
    budget=Budget(trials=24),
    seed=7,
)
