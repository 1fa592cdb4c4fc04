"""Which communication settings make plain decode fastest on eight PCIe GPUs?"""

from search_spaces.communication import COMMUNICATION_AXES, COMMUNICATION_RULES
from search_spaces.eight_gpus import FIXED, MODEL
from sweeps import Budget, Choice, Sweep, Workload

sweep = Sweep(
    name="nccl",
    model=MODEL,
    axes=[
        *COMMUNICATION_AXES,
        Choice("NCCL_BUFFSIZE", [None, 1 << 20, 1 << 22, 1 << 24]),
        Choice("NCCL_NTHREADS", [None, 64, 128, 256, 512]),
    ],
    rules=COMMUNICATION_RULES,
    fixed=FIXED,
    workload=Workload(prompts="chat", max_tokens=512),
    budget=Budget(trials=24),
    seed=7,
)
