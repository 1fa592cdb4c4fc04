"""Whether the order of a ladder of loads moves its figures, where a drafter learns as it serves.

    python bench/ladder.py

measures n-gram speculation on an EMULATED host, whose drafts come from a real trie, at several
loads on one server: from the lowest to the highest, and the other way round. `..._order_ratio` is
how far the two differ: within 2 %, or the trial tells that its cache still learned there
(`..._told_count`).
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.job import StopOrder, TrialJob, TrialProgress
from orchestrator.simulation import simulated_tools
from orchestrator.trial import run_trial
from reporting.program import Figures, run
from sweeps import Budget, Choice, EngineName, HostSpec, Model, Sweep, Workload
from sweeps.config import Config
from sweeps.results import TrialResult

LOADS, QUICK_LOADS = (2, 4, 8, 16), (2, 8)
WORK = Workload(prompts="code", max_tokens=256, cold_prompts=4, measured_prompts=12,
                most_measured_prompts=12,
                probe_s=0,
                measure_s=1e5)  # fmt: skip
CONFIG = Config.of({"speculative_algorithm": "NGRAM"})


class _Watch:
    """Lets a trial run to its end."""

    def report(self, progress: TrialProgress) -> None:
        """Take a sign of life."""

    def order(self) -> StopOrder | None:
        """Order nothing."""
        return None


def measure(quick: bool) -> Figures:
    """Return all figures."""
    loads = QUICK_LOADS if quick else LOADS
    return compared(loads)


def compared(loads: Sequence[int]) -> dict[str, float]:
    """Return the figures of each load in both orders."""
    up, down = trial(loads), trial(tuple(reversed(loads)))
    found: dict[str, float] = {}
    for load in loads:
        name = f"c{load}"
        rates = [result.value(f"decode_tok_s_c{load}") for result in (up, down)]
        lengths = [result.value(f"accept_length_c{load}") for result in (up, down)]
        found[f"{name}_upwards_tok_s"], found[f"{name}_downwards_tok_s"] = map(_known, rates)
        found[f"{name}_order_ratio"] = abs(_known(rates[1]) / _known(rates[0]) - 1)
        found[f"{name}_accept_order_ratio"] = abs(_known(lengths[1]) / _known(lengths[0]) - 1)
        found[f"{name}_told_count"] = sum(_told(result, load) for result in (up, down))
    return found


def trial(loads: Sequence[int]) -> TrialResult:
    """Measure a ladder on one server of its own."""
    sweep = Sweep(
        name="ladder",
        model=Model("any/model"),
        axes=[Choice("speculative_algorithm", [None, "NGRAM"])],
        fixed={"tp_size": 8, "speculative_num_draft_tokens": 4},
        workload=replace(WORK, concurrencies=tuple(loads)),
        budget=Budget(trials=1, trial_s=1e7),
        hosts=[HostSpec(engine=EngineName.EMULATED)],
    )
    with tempfile.TemporaryDirectory() as folder:
        job = TrialJob("ladder", "t", 1, sweep, CONFIG, sweep.hosts[0], Path(folder))
        return run_trial(job, simulated_tools(), _Watch())


def _told(result: TrialResult, load: int) -> bool:
    return any(f"with {load} streams: the cache" in note for note in result.notes)


def _known(value: float | None) -> float:
    if value is None:
        raise RuntimeError("a pass has no rate")
    return value


if __name__ == "__main__":
    run(__doc__ or "", measure)
