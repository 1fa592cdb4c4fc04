"""One look at the history of a sweep, from which the planner decides."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sweeps.config import Config
from sweeps.memory_borders import RAN, fault_of_memory
from sweeps.results import TrialResult
from sweeps.search.beliefs import Models, Outlook, inert_axes
from sweeps.search.brief import DECODE, Foresight, Objective
from sweeps.search.encoding import Encoder
from sweeps.search.evidence import CUT, Evidence, gather, purposes
from sweeps.search.favourites import Favourites
from sweeps.search.feasibility import Feasibility
from sweeps.search.names import Names
from sweeps.search.pool import Pool, PoolMaker
from sweeps.search.roles import drafting_of, serving_of, width_of
from sweeps.search.standings import Standings, stand
from sweeps.search.steps import Purpose, Step

SURELY = 2.33
"""Standard deviations that a step may be faster than believed before a configuration is given up
without a start."""
MOST_TRIED = 40
"""Measured configurations whose drafts and servings are looked at in other company."""


@dataclass(frozen=True)
class View:
    """One look at a history; everything is computed when it is asked for, and once."""

    history: tuple[TrialResult, ...]
    open_steps: tuple[Step, ...]
    names: Names
    metric: Objective
    encoder: Encoder
    maker: PoolMaker
    foresight: Foresight

    def canonical(self, config: Config) -> Config:
        """Return the configuration that stands for all that make the same server."""
        return self.names.canonical(config)

    @cached_property
    def evidence(self) -> Evidence:
        return gather(
            self.history, self.canonical, self.metric.name,
            higher_is_better=self.metric.higher_is_better,
        )  # fmt: skip

    @cached_property
    def counted(self) -> list[TrialResult]:
        return [r for r in self.history if r.outcome not in CUT]

    @cached_property
    def by_parts(self) -> bool:
        """Tell whether step times are taken apart: of decoding, where predictions are asked for."""
        return self.foresight.on and self.metric == DECODE

    @cached_property
    def models(self) -> Models:
        known = self.foresight
        return Models.fit(
            self.encoder, self.evidence, by_parts=self.by_parts, profile=known.profile,
            all_reduces=known.all_reduces,
        )  # fmt: skip

    @cached_property
    def standings(self) -> Standings | None:
        return stand(self.models, self.evidence)

    @property
    def leader(self) -> Config:
        assert self.standings is not None, "something was measured"
        return self.standings.configs[self.standings.leader]

    @cached_property
    def feasibility(self) -> Feasibility:
        return Feasibility.learn(self.evidence)

    @cached_property
    def inert(self) -> frozenset[str]:
        return inert_axes(self.encoder, self.evidence)

    @cached_property
    def first_drafts(self) -> dict[str, Config]:
        """The first draft started of each algorithm; what was cut off may be asked for again."""
        started = [*(r.config for r in self.counted), *(step.config for step in self.open_steps)]
        found: dict[str, Config] = {}
        for config in started:
            if config.algorithm is not None:
                found.setdefault(config.algorithm, drafting_of(self.canonical(config)))
        return found

    @cached_property
    def without_room(self) -> list[TrialResult]:
        """The last failure for memory of each algorithm that never ran."""
        ran = {r.config.algorithm for r in self.history if r.outcome in RAN}
        last = {r.config.algorithm: r for r in self.history if fault_of_memory(r)}
        return [r for name, r in last.items() if name is not None and name not in ran]

    @cached_property
    def outlook(self) -> tuple[Outlook | None, tuple[int, int]]:
        """The pool with its beliefs, and where the leader is in it."""
        if self.standings is None:
            return None, (0, 0)
        found = self.maker.pool(self.standings.configs[:MOST_TRIED], self.leader)
        name = self.names.by_default
        pool = Pool(
            tuple(dict.fromkeys(map(name, found.drafts))),
            tuple(dict.fromkeys(map(name, found.servings))),
        )
        outlook = self.models.over(pool)
        draft, serving = drafting_of(self.leader), serving_of(self.leader)
        if draft not in pool.drafts or serving not in pool.servings:
            draft = name(self.maker.draft(self.leader))
            serving = name(self.maker.serving(self.leader))
        return outlook, (pool.drafts.index(draft), pool.servings.index(serving))

    @cached_property
    def favourites(self) -> Favourites:
        return Favourites(self.outlook[0], self.feasibility, self.names.by_default)

    @cached_property
    def plain_log_step(self) -> float | None:
        """The time of the fastest plain step; None before there is one, and where step times are
        not taken apart: the smooth model knows too little to give anything up by it."""
        plain = [v.cycle.value for v in self.evidence.variants.values() if v.config.is_plain]
        return min(plain) if self.by_parts and plain else None

    @cached_property
    def dominated_pairs(self) -> NDArray[np.bool_]:
        """Where in the outlook even drafts that are always right would not reach plain decode."""
        outlook, _ = self.outlook
        assert outlook is not None, "something was measured"
        if self.plain_log_step is None:
            return np.zeros(outlook.mean.shape, dtype=bool)
        widths = np.array([width_of(draft) for draft in outlook.drafts], dtype=float)[:, None]
        most = np.log(widths) - outlook.least_cycle(SURELY)
        return np.asarray((most < -self.plain_log_step) & (widths > 1))

    def is_dominated(self, config: Config) -> bool:
        """Tell the same of one configuration."""
        if self.plain_log_step is None or config.is_plain:
            return False
        cycle = self.models.cycle.at([self.canonical(config)])
        least = float(cycle.mean[0] - SURELY * np.sqrt(cycle.variance[0]))
        return float(np.log(width_of(config))) - least < -self.plain_log_step

    @cached_property
    def first_confirm(self) -> int:
        places = [p for p, r in enumerate(self.history) if r.purpose == Purpose.CONFIRM]
        return min(places, default=len(self.history))

    @property
    def confirming(self) -> bool:
        return self.purposes(Purpose.CONFIRM) > 0

    def purposes(self, purpose: Purpose) -> int:
        running = sum(1 for step in self.open_steps if step.purpose is purpose)
        return purposes(self.history, purpose) + running

    def confirms(self, since: int) -> dict[Config, int]:
        """Count the confirming starts from a place on, by configuration; those that run too."""
        ended = [r.config for r in self.history[since:] if r.purpose == Purpose.CONFIRM
                 and r.outcome not in CUT]  # fmt: skip
        counts: dict[Config, int] = {}
        for config in map(self.canonical, [*ended, *self._running_confirms]):
            counts[config] = counts.get(config, 0) + 1
        return counts

    def proof_place(self, beside: Config | None) -> int | None:
        """Return where in the history the proof of the choice began; None before it did."""
        for place, result in enumerate(self.history):
            if result.purpose == Purpose.CONFIRM and self.canonical(result.config) == beside:
                return place
        running = [self.canonical(config) for config in self._running_confirms]
        return len(self.history) if beside in running else None

    @property
    def _running_confirms(self) -> list[Config]:
        return [step.config for step in self.open_steps if step.purpose is Purpose.CONFIRM]

    def is_open(self, config: Config) -> bool:
        return any(self.canonical(s.config) == self.canonical(config) for s in self.open_steps)

    def is_new(self, config: Config) -> bool:
        name = self.canonical(config)
        allowed = name == config or self.maker.allows(name)
        return allowed and name not in self.evidence.spent and not self.is_open(name)
