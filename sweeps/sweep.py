"""A sweep as a space file states it: space, model, fixed settings, workload, goal and limits."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sweeps.axes import Axis, FloatRange
from sweeps.config import Config
from sweeps.hosts import HostSpec
from sweeps.launch import Deadlines
from sweeps.limits import Limit, contradictions
from sweeps.metrics import METRICS, Of, known_metric, load_of, metric_named
from sweeps.peer_rules import PEER_RULES
from sweeps.problems import Problem, nearest
from sweeps.search.steps import Taste
from sweeps.shapes import shape_problems
from sweeps.space import Rule, Space
from sweeps.value_checks import value_problems
from sweeps.values import Value, digest, show
from sweeps.workloads import Workload

FACTORISED = "factorised"
"""Plans the whole sweep from cycle times and accept lengths, pooled over what shares them."""

SAMPLERS = (FACTORISED, "tpe", "gp", "qmc", "nsga2", "random", "grid", "staged")

BOUND = "bound"
"""Stop only what is surely worse than the leader; `asha` and `median` are there to compare with."""
STOP_RULES = (BOUND, *PEER_RULES)

LEAST_TRIALS = 4
"""A baseline, a variant, and both on starts made after the choice."""

LEAST_START_S = 120.0
"""Host seconds of a start, at the very least (assumption): weights in the page cache."""


@dataclass(frozen=True, slots=True)
class Model:
    """What is served: a folder on the host, or the name of a repository on the hub."""

    path: str
    draft_path: str | None = None

    @property
    def is_folder(self) -> bool:
        """Tell a folder from a hub name by how it is written."""
        return self.path.startswith((".", "/", "~")) or self.path.count("/") > 1


@dataclass(frozen=True, slots=True)
class Objective:
    """The metric that is made as good as can be, and what must hold meanwhile.

    With `also`, other metrics are weighed against it: no one winner, but the variants that none
    beats in all of them. The recommendation is then the best in `metric` within the limits.
    """

    metric: str = "decode_tok_s"
    limits: Sequence[Limit] = ()
    also: Sequence[str] = ()

    @property
    def higher_is_better(self) -> bool:
        """Return the direction, from the metrics table."""
        return bool(known_metric(self.metric).higher_is_better)

    @property
    def directions(self) -> dict[str, bool]:
        """Return each metric, the first one first, and whether higher is better."""
        names = (self.metric, *self.also)
        return {name: bool(known_metric(name).higher_is_better) for name in names}

    def problems(self, workload: Workload) -> list[Problem]:
        """List what is wrong: names, directions, limits, and what the workload never measures."""
        found: list[Problem] = []
        names = {"objective.metric": (self.metric,), "objective.also": tuple(self.also)}
        for field_name, metrics in names.items():
            for name in metrics:
                found += _goal_problems(field_name, name, workload)
        for limit in self.limits:
            found += limit.problems()
            if metric_named(limit.metric):
                found += _unmeasured("objective.limits", limit.metric, workload)
        return [*found, *contradictions(self.limits)]


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of the sweep and of each trial; times in the host's own seconds."""

    trials: int = 24
    gpu_hours: float | None = None
    start_s: float = 900.0
    """From a launch to the first token."""
    phase_s: float = 600.0
    """Within one phase of a start, without anything new in the log."""
    trial_s: float = 1800.0
    silence_s: float = 60.0
    stop_grace_s: float = 20.0
    clean_s: float = 120.0
    """From the end of a server's processes until the host is proved clean, or quarantined."""

    @property
    def deadlines(self) -> Deadlines:
        """Return the limits that a launch plan carries."""
        return Deadlines(
            start_s=self.start_s, phase_s=self.phase_s, stop_grace_s=self.stop_grace_s,
            clean_s=self.clean_s,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One sweep. `fixed` holds settings that every server gets, by the same names as axes."""

    name: str
    model: Model
    axes: Sequence[Axis]
    rules: Sequence[Rule] = ()
    fixed: Mapping[str, Value] = field(default_factory=dict)
    workload: Workload = field(default_factory=Workload)
    objective: Objective = field(default_factory=Objective)
    budget: Budget = field(default_factory=Budget)
    hosts: Sequence[HostSpec] = (HostSpec(),)
    sampler: str = FACTORISED
    taste: Taste = field(default_factory=Taste)
    early_stopping: bool = True
    stop_rule: str = BOUND
    prediction: bool = True
    """Compute accept lengths from recorded output and take step times apart; False searches by what
    was measured alone."""
    keep_inert: bool = False
    """Measure also what differs only in settings that SGLang or NCCL ignores."""
    seed: int = 0

    @property
    def space(self) -> Space:
        """Return the axes and rules alone."""
        return Space(tuple(self.axes), tuple(self.rules))

    @property
    def key(self) -> str:
        """Return the hash of what defines the results; equal keys may share trials."""
        return digest(
            {
                "space": self.space.as_data(),
                "model": [self.model.path, self.model.draft_path],
                "fixed": dict(self.fixed),
                "workload": self.workload.as_data(),
                "objective": self.objective.metric,
                "seed": self.seed,
            }
        )

    def settings(self, config: Config) -> dict[str, Value]:
        """Join the fixed settings, the model and a configuration: all that one server gets."""
        settings: dict[str, Value] = {"model_path": self.model.path, **self.fixed, **config}
        if self.model.draft_path and config.algorithm not in (None, "NGRAM"):
            settings["speculative_draft_model_path"] = self.model.draft_path
        return settings

    def all_values(self) -> dict[str, tuple[Value, ...]]:
        """Return every setting with every value that it may take; ranges give their ends."""
        values: dict[str, tuple[Value, ...]] = {n: (v,) for n, v in self.fixed.items()}
        for axis in self.axes:
            ends = (axis.low, axis.high) if isinstance(axis, FloatRange) else tuple(axis.grid)
            values[axis.name] = ends
        return values

    def problems(self) -> list[Problem]:
        """List everything that is wrong, apart from what only a host can tell."""
        if strange := [*shape_problems(self)]:
            return strange
        wrong = value_problems(self)
        found = [*self.space.problems(), *self.workload.problems(), *self._choice_problems()]
        if wrong:  # what rests on these values cannot be judged
            return [*wrong, *found]
        found += self._limit_problems()
        swept = {axis.name: axis for axis in self.axes}
        for name in self.fixed.keys() & swept.keys():
            mend = "Take it out of `fixed`, or out of `axes`."
            found.append(Problem(f"fixed.{name}", show(self.fixed[name]), "it is swept too", mend))
        if not any(problem.field == "axes" for problem in found):
            found += self._baseline_problems(found)
        return found

    def _limit_problems(self) -> list[Problem]:
        found = []
        if not self.name.replace("-", "").replace("_", "").isalnum():
            mend = "Use letters, digits, - and _."
            found.append(Problem("name", self.name, "it names folders", mend))
        found += self.objective.problems(self.workload)
        return found + self._cost_problems()

    def _choice_problems(self) -> list[Problem]:
        found = []
        if self.sampler not in SAMPLERS:
            mend = nearest(self.sampler, SAMPLERS) or f"There are {', '.join(SAMPLERS)}."
            found.append(Problem("sampler", self.sampler, "no such sampler", mend))
        if self.stop_rule not in STOP_RULES:
            mend = nearest(self.stop_rule, STOP_RULES) or f"There are {', '.join(STOP_RULES)}."
            found.append(Problem("stop_rule", self.stop_rule, "no such rule", mend))
        if not self.hosts:
            found.append(Problem("hosts", "[]", "trials need a host", "Leave it out, or name one."))
        return found

    def _cost_problems(self) -> list[Problem]:
        """Refuse GPU-hours that cannot pay for the least that a claim needs."""
        hours = self.budget.gpu_hours
        gpus = max((host.gpus for host in self.hosts), default=0)
        if hours is None or not gpus:
            return []
        trial_s = LEAST_START_S + self.workload.measure_s
        needed = LEAST_TRIALS * gpus * trial_s / 3600
        if hours >= needed:
            return []
        why = (
            f"a baseline, one variant and both once more take about {LEAST_TRIALS} x {gpus} GPUs x"
            f" {trial_s:.0f} s = {needed:.1f} GPU-hours"
        )
        mend = f"Give {math.ceil(needed)} or more, or lower `workload.measure_s`."
        return [Problem("budget.gpu_hours", f"{hours:g}", why, mend)]

    def _baseline_problems(self, found: list[Problem]) -> list[Problem]:
        if found:
            return []
        plain = self.space.plain()
        if broken := self.space.broken_rules(plain):
            why = f"the baseline of all defaults breaks a rule: {broken[0].message}"
            return [Problem("axes", str(plain), why, "Put a legal value first in each axis.")]
        if not plain.is_plain:
            why = "the baseline must decode without speculation, or there is nothing to gain on"
            mend = "Put None first in `speculative_algorithm`."
            return [Problem("speculative_algorithm", str(plain.algorithm), why, mend)]
        return []


def _goal_problems(field_name: str, name: str, workload: Workload) -> list[Problem]:
    metric = metric_named(name)
    if metric is None:
        mend = nearest(name, METRICS) or f"There are {', '.join(METRICS)}."
        return [Problem(field_name, name, "no metric", mend)]
    if metric.higher_is_better is None:
        return [Problem(field_name, name, "this metric has no better direction", "Take another.")]
    return _unmeasured(field_name, name, workload)


def _unmeasured(field_name: str, name: str, workload: Workload) -> list[Problem]:
    """Say that no pass of a workload gives a metric of a load."""
    load = load_of(name)
    if load is not None and load not in workload.concurrencies:
        listed = ", ".join(map(str, workload.concurrencies)) or "none"
        why = f"no pass has {load} streams: `workload.concurrencies` holds {listed}"
        return [Problem(field_name, name, why, f"Add {load} to `workload.concurrencies`.")]
    if name.endswith(f"_{Of.OPEN}") and workload.requests_per_s is None:
        why = "the workload has no open loop"
        return [Problem(field_name, name, why, "Set `workload.requests_per_s`.")]
    if name.endswith(f"_{Of.COLD}") and not workload.cold_prompts:
        why = "the workload has no cold pass"
        return [Problem(field_name, name, why, "Set `workload.cold_prompts`.")]
    return []


def missing_model(model: Model) -> Problem | None:
    """Say that a model folder is not there, or is no model."""
    folder = Path(model.path).expanduser()
    if not model.is_folder or (folder / "config.json").is_file():
        return None
    why = "there is no model in this folder" if folder.is_dir() else "there is no such folder"
    return Problem(
        "model.path", model.path, why, "Give a folder with a config.json, or a hub name."
    )
