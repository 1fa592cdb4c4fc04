"""Small sweeps and results for tests."""

from dataclasses import replace

from sweeps import Budget, Choice, IntRange, Model, Rule, Sweep, Workload, ref
from sweeps.config import Config
from sweeps.results import Estimate, Outcome, Phase, TrialResult

NGRAM = {"speculative_algorithm": "NGRAM"}

SMALL = Sweep(
    name="small",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 6, NGRAM),
        IntRange("speculative_ngram_max_bfs_breadth", 1, 4, NGRAM),
        Choice("NCCL_PROTO", [None, "LL"]),
    ],
    rules=[
        Rule(
            ref("speculative_ngram_max_bfs_breadth") <= ref("speculative_num_draft_tokens"),
            "breadth within draft tokens",
        )
    ],
    workload=Workload(measured_prompts=4, most_measured_prompts=4, cold_prompts=1, max_tokens=32),
    budget=Budget(trials=8),
    sampler="tpe",
)


def patient(trials: int) -> Budget:
    """Make a budget for fast clocks, on which a busy machine is slow to start a server."""
    return Budget(trials=trials, start_s=1e6, phase_s=1e6, trial_s=1e6, silence_s=1e6)


def plain(**more: str | int | bool | None) -> Config:
    """Make a plain configuration."""
    return Config.of({"speculative_algorithm": None, **more})


def ngram(draft_tokens: int, **more: str | int | bool | None) -> Config:
    """Make an n-gram configuration."""
    return Config.of(
        {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": draft_tokens, **more}
    )


def estimate(value: float, half: float | None = 1.0, *, provisional: bool = False) -> Estimate:
    """Make an estimate with a symmetric interval."""
    low = None if half is None else value - half
    high = None if half is None else value + half
    return Estimate(value, low, high, 60.0, "test", provisional)


def result(
    number: int, config: Config, rate: float | None = None, half: float | None = 1.0,
    outcome: Outcome = Outcome.MEASURED, purpose: str = "search",
) -> TrialResult:  # fmt: skip
    """Make the result of a trial."""
    return TrialResult(
        trial=f"t-{number:04d}",
        sweep="t",
        number=number,
        config=config,
        outcome=outcome,
        reason="",
        phase=Phase.MEASURING,
        emulated=True,
        host="local",
        engine_version="0.5.23",
        gpu_hours=0.5,
        started_at="2026-01-01T00:00:00+00:00",
        estimates={} if rate is None else {"decode_tok_s": estimate(rate, half)},
        purpose=purpose,
    )


def with_argv(made: TrialResult, *argv: str, **env: str) -> TrialResult:
    """Add a command line and an environment."""
    return replace(made, argv=argv, env=env)
