"""Times all-reduces of the sizes of a decode step over all GPUs, with the defaults of NCCL or not.

A script of its own: it runs in the interpreter that SGLang lives in, which has none of our
packages, as `python ranks.py RANKS ROUNDS SIZE_BYTES...`. Each rank is a process on a GPU of its
own; without a GPU the ranks are on the CPU and speak gloo. Rank 0 prints a JSON line for each size:
`size_bytes` and `times_us`, one figure a round of `BATCH` all-reduces that follow each other.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

BATCH = 20
WARM_UP_ROUNDS = 5
RANKS_WAIT_S = 600.0


def main(words: list[str]) -> int:
    """Start the ranks, or be one of them."""
    world, rounds, *sizes = map(int, words)
    rank = os.environ.get("SCREEN_RANK")
    if rank is not None:
        return _be_rank(int(rank), world, rounds, sizes)
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{Path(folder) / 'meeting'}"
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__, *words],
                env={**os.environ, "SCREEN_RANK": str(one), "SCREEN_MEETING": meeting},
            )
            for one in range(world)
        ]
        codes = [one.wait(RANKS_WAIT_S) for one in ranks]
    return max(map(abs, codes))


def _be_rank(rank: int, world: int, rounds: int, sizes: list[int]) -> int:
    import torch
    import torch.distributed as dist

    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=os.environ["SCREEN_MEETING"],
        rank=rank,
        world_size=world,
    )
    device = f"cuda:{rank}" if on_gpu else "cpu"
    wait: Callable[[], None] = torch.cuda.synchronize if on_gpu else lambda: None
    for size in sizes:
        # Two bytes an element, as in a decode step; gloo has no bfloat16 everywhere.
        dtype = torch.bfloat16 if on_gpu else torch.float16
        data = torch.zeros(size // 2, dtype=dtype, device=device)
        times_us = _rounds(partial(dist.all_reduce, data), wait, rounds)
        if rank == 0:
            sys.stdout.write(json.dumps({"size_bytes": size, "times_us": times_us}) + "\n")
            sys.stdout.flush()
    dist.destroy_process_group()
    return 0


def _rounds(reduce: Callable[[], Any], wait: Callable[[], None], rounds: int) -> list[float]:
    times_us = []
    for number in range(WARM_UP_ROUNDS + rounds):
        wait()
        began_s = time.perf_counter()
        for _ in range(BATCH):
            reduce()
        wait()
        if number >= WARM_UP_ROUNDS:
            times_us.append((time.perf_counter() - began_s) / BATCH * 1e6)
    return times_us


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
