"""Whether a sweep of the real SGLang on a CPU names one of the best of all variants there are.

The space is that of `search_spaces/cpu_tiny.py`, with less text to a trial. A sweep as a user runs
it recommends one variant; then all variants are started and measured, each PASSES times, in another
order each time. Needs the environment that `make sweep-real` builds, and a quiet machine.

- `top_set_count`: variants whose mean rate is not below the best mean by a t-test of 5 %, with the
  spread between starts that all variants show together. No correction for many variants: the set is
  rather too small.
- `recommended_…`: of the variant that the sweep named, by the measurement of all.
- `spread_ratio`: between starts of one variant.

`--quick` starts plain decode once, and compares nothing.
"""

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from scipy.stats import t as student

from orchestrator.state import State
from reporting.program import Figures, run
from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.search.claims import Claim

ROOT = Path(__file__).parents[1]
PASSES = 2
MOST_TRIALS = 30
LEVEL = 0.95
LIMIT_S = 7200.0
RATE = "decode_tok_s"

SPACE = """
from dataclasses import replace

from search_spaces.cpu_tiny import sweep as whole
from sweeps import Choice

few = [Choice("speculative_algorithm", [None])]
sweep = replace(
    whole,
    name="{name}",
    axes=few if {quick} else whole.axes,
    rules=() if {quick} else whole.rules,
    workload=replace(
        whole.workload, cold_prompts=1, measured_prompts=12, measure_s=30.0, probe_s=2.0
    ),
    budget=replace(whole.budget, trials={trials}),
    sampler="{sampler}",
    seed={seed},
)
"""


def measure(quick: bool) -> Figures:
    """Sweep, measure all variants, and compare."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sampler, trials = ("random", 1) if quick else ("factorised", MOST_TRIALS)
        ours = _swept(folder, "ours", sampler, trials, seed=7, quick=quick)
        passes = 0 if quick else PASSES
        every = [
            _swept(folder, f"pass{seed}", "random", 1000, seed=seed, quick=quick)
            for seed in range(passes)
        ]
    figures = {"sweep_starts_count": len(ours.results), "sweep_s": ours.took_s}
    if quick:
        return figures
    return {**figures, "exhaustive_s": sum(one.took_s for one in every), **_compared(ours, every)}


class Swept:
    """What came of one sweep."""

    def __init__(self, state: State, took_s: float) -> None:
        [sweep_id] = state.sweep_ids()
        self.results: Sequence[TrialResult] = state.results(sweep_id)
        claim = state.card(sweep_id).get("claim")
        self.named = Claim.from_data(claim, self.results).recommendation if claim else None  # type: ignore[arg-type] # from as_data
        self.took_s = took_s

    def log_rates(self) -> dict[Config, float]:
        """Return logarithms of the rates that were measured."""
        found = {r.config: r.estimates.get(RATE) for r in self.results}
        return {config: math.log(e.value) for config, e in found.items() if e is not None}


def _swept(folder: Path, name: str, sampler: str, trials: int, *, seed: int, quick: bool) -> Swept:
    """Run one sweep by the command."""
    told = {"name": name, "sampler": sampler, "trials": trials, "seed": seed, "quick": quick}
    space, state = folder / f"{name}.py", folder / name
    space.write_text(SPACE.format(**told))
    words = ["sweep", str(space), "--driver", "serial", "--state-dir", str(state)]
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=LIMIT_S, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"the sweep exited with {done.returncode}: {done.stdout[-3000:]}")
    print(done.stdout, file=sys.stderr)
    return Swept(State(state), time.monotonic() - began_s)


def _compared(ours: Swept, every: Sequence[Swept]) -> dict[str, float]:
    """Hold what was named against the means of all variants."""
    tables = [one.log_rates() for one in every]
    known = [config for config in tables[0] if all(config in table for table in tables)]
    starts = {config: [table[config] for table in tables] for config in known}
    means = {config: fmean(values) for config, values in starts.items()}
    freedom = len(known) * (len(tables) - 1)
    squares = sum((v - means[c]) ** 2 for c, values in starts.items() for v in values)
    spread = math.sqrt(squares / freedom)
    ranked = sorted(known, key=lambda config: -means[config])
    reach = float(student.ppf(LEVEL, freedom)) * spread * math.sqrt(2 / len(tables))
    top = [config for config in ranked if means[ranked[0]] - means[config] <= reach]
    assert ours.named is not None, "the sweep ended with a claim"
    plain = next(config for config in known if config.is_plain)
    return {
        "variants_count": len(known),
        "spread_ratio": spread,
        "top_set_count": len(top),
        "recommended_in_top_set_count": float(ours.named in top),
        "recommended_rank_count": 1 + ranked.index(ours.named),
        "recommended_behind_best_ratio": math.expm1(means[ranked[0]] - means[ours.named]),
        "recommended_over_plain_ratio": math.exp(means[ours.named] - means[plain]),
        "best_over_plain_ratio": math.exp(means[ranked[0]] - means[plain]),
    }


if __name__ == "__main__":
    run(__doc__ or "", measure)
