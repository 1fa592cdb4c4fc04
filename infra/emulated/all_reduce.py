"""Stands in for the script that times all-reduces: an EMULATED host answers by its own cost model.

`python -m infra.emulated.all_reduce ROUNDS SIZES_BYTES -- SGLANG_FLAGS...`, sizes with commas. It
prints the lines of `infra.allreduce.ranks`, and fails, hangs or dies where the communicators of an
emulated server would.
"""

import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence

from infra.allreduce.ranks import BATCH
from infra.clock import ScaledClock
from infra.emulated.arguments import EXIT_USAGE, EmulationError, parse, read_emulation
from infra.emulated.cost import all_reduce_us
from infra.emulated.rules import communicator_fault
from infra.emulated.scenario import StartPhase
from infra.emulated.settings import make_settings
from infra.emulated.truth import BYTES_PER_ELEMENT, HIDDEN_WIDTH

HANG_LIMIT_S = 3600.0


def main(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Print the times of one setting; return the exit code."""
    rounds, sizes, _, *flags = words
    try:
        emulation = read_emulation(environment)
    except EmulationError as error:
        sys.stderr.write(f"emulated all-reduce: {error}\n")
        return EXIT_USAGE
    settings = make_settings(parse(flags, emulation.version), environment, emulation.version)
    clock, truth = ScaledClock(emulation.time_scale), emulation.truth
    rng = random.Random(f"{emulation.seed}:{settings.launch}:all-reduce")
    init = truth.start.distributed_init
    time.sleep(clock.real_s(rng.uniform(init.low_s, init.high_s)))
    world = emulation.scenario.now.start
    if world.hang_in is StartPhase.DISTRIBUTED_INIT and world.concerns(environment):
        time.sleep(HANG_LIMIT_S)
    if fault := communicator_fault(settings):
        sys.stderr.write(f"{fault}\n")
        return 1
    for size in map(int, sizes.split(",")):
        tokens = max(1, round(size / (HIDDEN_WIDTH * BYTES_PER_ELEMENT)))
        true_us = all_reduce_us(truth, settings, tokens)
        sigma = truth.noise.step_sigma
        times_us = [true_us * rng.lognormvariate(0.0, sigma) for _ in range(int(rounds))]
        time.sleep(clock.real_s(BATCH * sum(times_us) / 1e6))
        sys.stdout.write(json.dumps({"size_bytes": size, "times_us": times_us}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
