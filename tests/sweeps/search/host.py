"""A host as a formula: what a trial on it measures, with the noise of starts and blocks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sweeps.axes import Choice, IntRange, switch
from sweeps.config import Config
from sweeps.expressions import ref
from sweeps.results import Estimate, Outcome, Phase, TrialResult
from sweeps.search.planner import Planner
from sweeps.search.roles import width_of
from sweeps.search.steps import Step
from sweeps.space import Rule, Space

NGRAM = {"speculative_algorithm": "NGRAM"}
IPC, PROTO = "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "NCCL_PROTO"
WIDTH, BREADTH = "speculative_num_draft_tokens", "speculative_ngram_max_bfs_breadth"
SPACE = Space(
    (
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange(WIDTH, 2, 32, NGRAM, log=True),
        Choice(BREADTH, [1, 2, 4, 8], NGRAM),
        switch("disable_custom_all_reduce"),
        Choice(IPC, [None, "1"]),
        Choice(PROTO, [None, "LL", "Simple"]),
        Choice("NCCL_ALGO", [None, "Ring", "Tree"]),
    ),
    (Rule(ref(BREADTH) <= ref(WIDTH), "no more breadth than draft tokens"),),
)


def canonical(config: Config) -> Config:
    """Return what stands for configurations that act alike on this host."""
    values = {**config, "disable_custom_all_reduce": False}
    if values[IPC] == "1":
        values |= {PROTO: None, "NCCL_ALGO": None}
    return Config.of(values)


@dataclass
class Host:
    """Measures configurations. `hits` is the chance of a draft, the rest are milliseconds."""

    hits: float = 0.3
    plain_ms: float = 12.0
    ms_per_token: float = 0.4
    cliff_ms: float = 9.0
    """What a verify of 3 tokens and more costs unless the protocol is LL."""
    ipc_ms: float = 0.0
    """What the other all-reduce saves at any width, and the cliff with it."""
    noise: float = 1.0
    refuses: Callable[[Config], bool] = lambda config: False
    accept_factor: Callable[[Config], float] = lambda config: 1.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def cycle_ms(self, config: Config) -> float:
        """Return the time of a step."""
        width = width_of(config)
        ipc = bool(self.ipc_ms) and config[IPC] == "1"
        cliff = self.cliff_ms if width >= 3 and config[PROTO] != "LL" and not ipc else 0.0
        slow = 4.0 if config[PROTO] == "Simple" and not ipc else 0.0
        return self.plain_ms + self.ms_per_token * (width - 1) + cliff + slow - self.ipc_ms * ipc

    def accept(self, config: Config) -> float:
        """Return the accept length."""
        if config.is_plain:
            return 1.0
        broad = 1 + 0.01 * math.log2(float(config[BREADTH] or 1))
        chain = (1 - self.hits ** width_of(config)) / (1 - self.hits)
        return chain * broad * self.accept_factor(config)

    def tok_s(self, config: Config) -> float:
        """Return the rate without noise."""
        return 1000 * self.accept(config) / self.cycle_ms(config)

    def trial(self, number: int, step: Step) -> TrialResult:
        """Measure a step."""
        config, n = step.config, self.noise
        if self.refuses(config):
            return result(number, step, {}, Outcome.INFEASIBLE)
        launch = math.exp(n * self.rng.normal(0, 0.015))
        steps = 1000 / self.cycle_ms(config) * launch * (1 + n * self.rng.normal(0, 0.008))
        accept = self.accept(config) * (1 + n * self.rng.normal(0, 0.01) * (not config.is_plain))
        found = {"steps_per_s": near(steps, 0.008), "decode_tok_s": near(steps * accept, 0.013)}
        if not config.is_plain:
            found["accept_length"] = near(accept, 0.01)
        return result(number, step, found)


def near(value: float, spread: float) -> Estimate:
    """Return an estimate with a relative standard error."""
    half = 1.96 * spread * value
    return Estimate(value, value - half, value + half, 150.0, "blocks", False)


def result(
    number: int, step: Step, estimates: dict[str, Estimate], outcome: Outcome = Outcome.MEASURED
) -> TrialResult:
    """Return the end of a trial."""
    return TrialResult(
        f"t{number}", "s", number, step.config, outcome, "", Phase.CLEAN, True, "host", "0", 0.87,
        "", estimates=estimates, purpose=step.purpose.value,
    )  # fmt: skip


def drive(planner: Planner, host: Host, most: int = 80) -> tuple[list[TrialResult], list[Step]]:
    """Run a sweep to its end."""
    history: list[TrialResult] = []
    steps: list[Step] = []
    while len(history) < most and (step := planner.next(history)) is not None:
        steps.append(step)
        history.append(host.trial(len(history), step))
    return history, steps


def best(host: Host) -> float:
    """Return the best rate of the space."""
    return max(host.tok_s(config) for config in every())


def every() -> Sequence[Config]:
    """List the configurations that may win."""
    plain = dict(SPACE.plain())
    drafts = [{}, *({**NGRAM, WIDTH: n, BREADTH: b} for n in range(2, 33) for b in (1, 2, 4, 8)
                    if b <= n)]  # fmt: skip
    return [
        Config.of({**plain, **draft, IPC: ipc, PROTO: proto})
        for draft in drafts for ipc in (None, "1") for proto in (None, "LL")
    ]  # fmt: skip
