"""Which communication settings make plain decode fastest on eight PCIe GPUs?"""

from search_spaces.communication import COMMUNICATION_AXES, COMMUNICATION_RULES
from sweeps import Budget, Choice, Model, Sweep, Workload

sweep = Sweep(
    name="nccl",
    model=Model("moonshotai/Kimi-K2.5"),
    axes=[
        *COMMUNICATION_AXES,
        Choice("NCCL_BUFFSIZE", [None, 1 << 20, 1 << 22, 1 << 24]),
        Choice("NCCL_NTHREADS", [None, 64, 128, 256, 512]),
    ],
    rules=COMMUNICATION_RULES,
    fixed={
        "tp_size": 8,
        "mem_fraction_static": 0.88,
        "max_running_requests": 48,
        "trust_remote_code": True,
    },
    workload=Workload(prompts="chat", max_tokens=512),
    budget=Budget(trials=24),
    seed=7,
)
