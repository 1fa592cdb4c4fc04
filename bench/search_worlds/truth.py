"""What is true of a world: the noiseless rate of every configuration, and the best one.

Accept lengths are those of the emulated host's own drafters on the texts that a trial serves, in
the order in which it serves them, as far as it comes in the time of its measured pass; step times
are those of its cost model. A test holds the product of both against whole noiseless trials.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

from infra.code_digest import code_digest
from infra.emulated import cost, text, writing
from infra.emulated import drafting as emulated_drafting
from infra.emulated import settings as emulated_settings
from infra.emulated import truth as emulated_truth
from infra.emulated.cost import all_reduce_us, step_cost
from infra.emulated.drafting.drafter import make_drafter
from infra.emulated.settings import Settings
from infra.emulated.truth import TRUTHS, HostTruth
from search_worlds import accept_curves, spaces
from search_worlds.accept_curves import AcceptCurve, chain_curve, ngram_curves
from search_worlds.hosts import Setting
from search_worlds.kept import OUT, keep
from search_worlds.spaces import drafts_of, servings_of, settings_of, sweep_named
from sweeps import drafting
from sweeps.config import Config
from sweeps.search.roles import drafting_of, serving_of
from sweeps.space import Space
from sweeps.sweep import Sweep
from sweeps.values import digest

CONTEXT_TOKENS = 300
COARSE = {
    "speculative_ngram_max_bfs_breadth": (1, 3, 6, 16), "ngram_match_depth": (4, 8, 18),
}  # fmt: skip
FINE = {
    "speculative_ngram_max_bfs_breadth": (1, 2, 3, 4, 6, 8, 11, 16),
    "ngram_match_depth": (4, 5, 6, 7, 8, 10, 13, 18),
}  # fmt: skip
"""Accept lengths between these differ by some 0.2 %, and each takes a replay."""
EAGLE_MODEL = "kimi-k2-instruct-eagle3"
COARSE_MISS = 1.04
"""By how much the best of the coarse shapes may fall behind the best of all, at the most."""


Kind = tuple[object, int, int]
"""What decides the time of a step beside communication: who drafts, how many tokens, in how many
steps."""


@dataclass(frozen=True)
class World:
    """Prices configurations without noise."""

    setting: Setting

    @cached_property
    def sweep(self) -> Sweep:
        """The sweep that a user would run: the space file with this kind of text."""
        whole = sweep_named(self.setting.space)
        return replace(whole, workload=replace(whole.workload, prompts=self.setting.prompts))

    @property
    def space(self) -> Space:
        """The space that is searched."""
        return self.sweep.space

    def accept(self, config: Config) -> float:
        """Return the accept length of a configuration in a measured pass."""
        return self._accept(drafting_of(config), self.cycle_s(config))

    def _accept(self, draft: Config, cycle_s: float) -> float:
        if draft.is_plain:
            return 1.0
        steps = self.sweep.workload.measure_s / cycle_s
        return self._curves([draft])[draft].accept_within(steps)

    def prepare(self, configs: Iterable[Config]) -> None:
        """Replay what some configurations draft: many at once take far less than one by one."""
        drafts = [drafting_of(config) for config in configs]
        self._curves([draft for draft in drafts if not draft.is_plain])

    def _curves(self, drafts: Sequence[Config]) -> dict[Config, AcceptCurve]:
        """Return how drafting settings fare; what was computed once is kept."""
        missing = [d for d in dict.fromkeys(drafts) if d not in self._known_curves]
        ngram = [d for d in missing if d.algorithm == "NGRAM"]
        self._known_curves.update(ngram_curves(self.sweep, ngram))
        for draft in missing:
            if draft.algorithm != "NGRAM":
                self._known_curves[draft] = self._chain_curve(draft)
        return {d: self._known_curves[d] for d in drafts}

    def cycle_s(self, config: Config) -> float:
        """Return the time of one step of a configuration."""
        return self._cycle_s(drafting_of(config), serving_of(config))

    def tok_s(self, config: Config) -> float:
        """Return the decode rate of a configuration."""
        return self.accept(config) / self.cycle_s(config)

    @property
    def best(self) -> tuple[float, Config]:
        """The best rate of the space, and a configuration that has it, by looking at all."""
        return max((b for b in self._bests if b is not None), key=lambda found: found[0])

    @property
    def best_plain(self) -> tuple[float, Config]:
        """The best plain decode."""
        plain = self._bests[0]
        assert plain is not None, "every space has it"
        return plain

    @property
    def best_speculation(self) -> tuple[float, Config] | None:
        """The best of what drafts; None in a space without."""
        return self._bests[1]

    @cached_property
    def _bests(self) -> list[tuple[float, Config] | None]:
        """Look at all, once: what was found is kept in bench/out."""
        own = sys.modules[__name__]
        code = code_digest(
            drafting,
            text,
            writing,
            emulated_drafting,
            cost,
            emulated_settings,
            accept_curves,
            spaces,
            own,
        )
        path = OUT / "bests" / f"{digest([repr(self.setting), repr(self.sweep), code])}.json"
        if path.is_file():
            kept = json.loads(path.read_text())
            return [b and (b[0], Config.of(b[1])) for b in kept]
        found: list[tuple[float, Config] | None] = []
        for plain in (True, False):
            drafts = [d for d in drafts_of(self.sweep) if d.is_plain == plain]
            found.append(self._best_of(drafts) if drafts else None)
        keep(path, [b and [b[0], dict(b[1])] for b in found])
        return found

    def _best_of(self, drafts: Sequence[Config]) -> tuple[float, Config]:
        """Join the best drafts of each kind of step with the best serving: one moves the accept
        length, the other the time of a step.

        Kinds that cannot win by a coarse choice of shapes are not looked at any closer.
        """
        kinds = {self._kind(draft): draft for draft in drafts}
        fastest = {kind: self._fastest(draft) for kind, draft in kinds.items()}
        coarse = self._best_drafts([d for d in drafts if _is_one_of(COARSE, d)] or drafts, fastest)
        most = max(rate for rate, _ in coarse.values())
        hopeful = {kind for kind, (rate, _) in coarse.items() if rate * COARSE_MISS >= most}
        fine = [d for d in drafts if self._kind(d) in hopeful and _is_one_of(FINE, d)]
        finest = self._best_drafts(fine, fastest)
        kind, (rate, draft) = max(finest.items(), key=lambda found: found[1][0])
        return rate, Config.of({**draft, **fastest[kind][1]})

    def _best_drafts(
        self, drafts: Sequence[Config], fastest: Mapping[Kind, tuple[float, Config]]
    ) -> dict[Kind, tuple[float, Config]]:
        """Return the best draft of each kind, with its rate at the shortest steps of that kind."""
        self._curves([draft for draft in drafts if not draft.is_plain])  # many at once
        best: dict[Kind, tuple[float, Config]] = {}
        for draft in drafts:
            kind = self._kind(draft)
            cycle_s = fastest[kind][0]
            rate = self._accept(draft, cycle_s) / cycle_s
            if kind not in best or rate > best[kind][0]:
                best[kind] = rate, draft
        return best

    def _fastest(self, draft: Config) -> tuple[float, Config]:
        """Return the shortest step of a kind, with its serving."""
        cycles = [(self._cycle_s(draft, s), s) for s in self._servings_apart]
        return min(cycles, key=lambda found: found[0])

    @cached_property
    def _servings_apart(self) -> Sequence[Config]:
        """One of the settings of communication for each way in which all-reduces take their time:
        step times differ by nothing else of them."""
        widths = range(1, 1 + max(self._kind(d)[1] for d in drafts_of(self.sweep)))
        found: dict[object, Config] = {}
        for serving in servings_of(self.sweep):
            settings = settings_of(self.sweep, Config.of({}), serving)
            times_us = [all_reduce_us(self.setting.truth, settings, width) for width in widths]
            found.setdefault(tuple(times_us), serving)
        return tuple(found.values())

    def _kind(self, draft: Config) -> Kind:
        sized = settings_of(self.sweep, draft)
        return draft.algorithm, sized.draft_tokens, sized.draft_steps

    def _chain_curve(self, draft: Config) -> AcceptCurve:
        with drafting_as(self.setting):
            drafter = make_drafter(settings_of(self.sweep, draft), self.setting.truth)
        return chain_curve(self.sweep, drafter)

    def _cycle_s(self, draft: Config, serving: Config) -> float:
        key = (*([self._kind(draft)] if draft else []), serving)
        found = self._cycles.get(key)
        if found is None:
            settings = settings_of(self.sweep, draft, serving)
            found = self._cycles[key] = _cycle_of(self.setting.truth, settings)
        return found

    @cached_property
    def _cycles(self) -> dict[object, float]:
        return {}

    @cached_property
    def _known_curves(self) -> dict[Config, AcceptCurve]:
        return {}


def _cycle_of(truth: HostTruth, settings: Settings) -> float:
    cost = step_cost(truth, settings, batch=1, tokens=settings.draft_tokens)
    return cost.duration_s(CONTEXT_TOKENS)


def _is_one_of(shapes: Mapping[str, Sequence[int]], draft: Config) -> bool:
    return all(draft.get(name) in (None, *values) for name, values in shapes.items())


@contextmanager
def drafting_as(setting: Setting) -> Iterator[None]:
    """Let EAGLE3's drafts of this process hit as often as those of a world."""
    models = emulated_truth.DRAFT_MODELS
    assert isinstance(models, dict), "so that a world can have a drafter of its own"
    before = models[EAGLE_MODEL]
    models[EAGLE_MODEL] = setting.hit_rates
    try:
        yield
    finally:
        models[EAGLE_MODEL] = before


@contextmanager
def known_to_the_emulator(setting: Setting, seed: int) -> Iterator[str]:
    """Let the emulated host of this process know a world under a name of its own; give the name.

    Another name draws other noise: names hold the seed.
    """
    name = f"{setting.truth.name}#{seed}"
    TRUTHS[name] = replace(setting.truth, name=name)
    try:
        with drafting_as(setting):
            yield name
    finally:
        TRUTHS.pop(name)


def noiseless(truth: HostTruth) -> HostTruth:
    """Return a host on which equal steps take equal time."""
    quiet = replace(
        truth.noise, step_sigma=0.0, launch_sigma=0.0, drift_sigma=0.0, stall_chance=0.0
    )
    return replace(truth, noise=quiet)
