"""One world: the noiseless rate of every configuration of a space on a host, and the best one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product

import numpy as np

from infra.emulated.cost import step_cost
from infra.emulated.settings import Settings, make_settings
from infra.emulated.truth import HostTruth
from infra.engines import complete
from infra.sglang.flags import NEWEST, spelled
from search_worlds.accept import FULL, Floats, Grid, accept_table, chain_accept
from search_worlds.canonical import IPC, Canonicaliser
from search_worlds.hosts import Setting
from search_worlds.kept import OUT, keep
from sweeps.axes import is_environment
from sweeps.config import Config
from sweeps.search.roles import drafting_of, serving_of, width_of
from sweeps.space import Space
from sweeps.sweep import Sweep
from sweeps.values import Value, digest

CONTEXT_TOKENS = 300
_NGRAM = ("speculative_num_draft_tokens", "speculative_ngram_max_bfs_breadth", "ngram_match_depth")
_MATCH = "speculative_ngram_match_type"


@dataclass(frozen=True)
class World:
    """Prices configurations without noise."""

    setting: Setting
    grid: Grid = FULL

    @cached_property
    def sweep(self) -> Sweep:
        """The sweep whose space is searched."""
        return sweep_named(self.setting.space)

    @property
    def space(self) -> Space:
        """The space that is searched."""
        return self.sweep.space

    @cached_property
    def canonical(self) -> Canonicaliser:
        """What acts alike here."""
        return canonicaliser(self.setting.space)

    def accept(self, config: Config) -> float:
        """Return the accept length of a configuration."""
        match config.algorithm:
            case None:
                return 1.0
            case "NGRAM":
                return float(self._ngram([config])[0])
            case _:
                return chain_accept(self.setting.hit_rates, width_of(config) - 1)

    def cycle_s(self, config: Config) -> float:
        """Return the time of one step of a configuration."""
        return self._cycle_s(config.algorithm, width_of(config), serving_of(config))

    def tok_s(self, config: Config) -> float:
        """Return the decode rate of a configuration."""
        return self.accept(config) / self.cycle_s(config)

    @property
    def best(self) -> tuple[float, Config]:
        """The best rate of the space, and a configuration that has it, by looking at all."""
        return max(self.best_plain, self.best_speculation, key=_rate)

    @property
    def best_plain(self) -> tuple[float, Config]:
        """The best plain decode."""
        return self._bests[0]

    @property
    def best_speculation(self) -> tuple[float, Config]:
        """The best of what drafts."""
        return self._bests[1]

    @cached_property
    def _bests(self) -> list[tuple[float, Config]]:
        """Look at all, once: what was found is kept in bench/out."""
        path = OUT / "truths" / f"{digest([repr(self.setting), self.grid.name])}.json"
        if path.is_file():
            return [(rate, Config.of(values)) for rate, values in json.loads(path.read_text())]
        kinds = list(drafts_of(self.setting.space))
        drafting = (self._best_of(kind) for kind in kinds if kind[0])
        found = [self._best_of((None, 1)), max(drafting, key=_rate)]
        keep(path, [[rate, dict(config)] for rate, config in found])
        return found

    def _best_of(self, kind: tuple[str | None, int]) -> tuple[float, Config]:
        """Join the best drafts of a width with the best serving: one moves the accept length, the
        other the time of a step."""
        algorithm, width = kind
        drafts = drafts_of(self.setting.space)[kind]
        if algorithm == "NGRAM":
            accepts = self._ngram(drafts)
        else:
            accepts = np.array([self.accept(draft) for draft in drafts])
        servings = servings_of(self.setting.space)
        cycles = [self._cycle_s(algorithm, width, serving) for serving in servings]
        at, by = int(np.argmax(accepts)), int(np.argmin(cycles))
        config = Config.of({**drafts[at], **servings[by]})
        return float(accepts[at]) / cycles[by], self.canonical(config)

    def _ngram(self, drafts: list[Config]) -> Floats:
        table = accept_table(self.setting.prompts, self.grid)
        numbers = [np.array([float(d[n] or 0) for d in drafts]) for n in _NGRAM]
        prob = np.array([d[_MATCH] == "PROB" for d in drafts]).astype(np.intp)
        return table.lookup(prob, *numbers)

    def _cycle_s(self, algorithm: str | None, width: int, serving: Config) -> float:
        key = (algorithm, width, serving)
        found = self._cycles.get(key)
        if found is None:
            settings = settings_of(self.setting.space, algorithm, serving)
            found = self._cycles[key] = _cycle_of(self.setting.truth, settings, width)
        return found

    @cached_property
    def _cycles(self) -> dict[tuple[str | None, int, Config], float]:
        return {}


@cache
def sweep_named(name: str) -> Sweep:
    """Return the sweep of one of the project's own space files."""
    if name == "joint":
        from search_spaces import joint as module
    else:
        from search_spaces import ngram as module  # type: ignore[no-redef] # one of two
    return module.sweep


@cache
def canonicaliser(name: str) -> Canonicaliser:
    """Return what acts alike in a space."""
    return Canonicaliser(sweep_named(name).space)


def _rate(found: tuple[float, Config]) -> float:
    return found[0]


def _cycle_of(truth: HostTruth, settings: Settings, width: int) -> float:
    steps = width - 1 if settings.speculates else 0
    sized = replace(settings, draft_tokens=width, draft_steps=steps)
    return step_cost(truth, sized, batch=1, tokens=width).duration_s(CONTEXT_TOKENS)


@cache
def settings_of(space: str, algorithm: str | None, serving: Config) -> Settings:
    """Resolve what decides a step's time, as the emulated server does; the width comes later."""
    wide = {"NGRAM": {_NGRAM[0]: 4}, "EAGLE3": {"speculative_num_steps": 3}}
    extra: dict[str, Value] = {"speculative_algorithm": algorithm, **wide.get(algorithm or "", {})}
    if algorithm == "EAGLE3":
        extra["speculative_eagle_topk"] = 1
    full = complete(sweep_named(space).settings(Config.of({**serving, **extra})))
    values = {name: value for name, value in full.items() if value is not None}
    flags = {spelled(n, NEWEST): v for n, v in values.items() if not is_environment(n)}
    return make_settings(flags, {n: str(v) for n, v in values.items() if is_environment(n)}, NEWEST)


@cache
def servings_of(space: str) -> tuple[Config, ...]:
    """List the settings of communication that differ in effect."""
    whole = sweep_named(space).space
    names = serving_of(whole.plain())
    axes = [axis for axis in whole.axes if axis.name in names]
    found: dict[Config, None] = {}
    for values in product(*(tuple(axis.grid or ()) for axis in axes)):
        config = Config.of(dict(zip((a.name for a in axes), values, strict=True)))
        if not whole.broken_rules(config):
            found[canonicaliser(space)(config)] = None
    # Without a working kernel the switch does nothing, and NCCL's settings act: both are there.
    assert any(c.get(IPC) is None for c in found)
    return tuple(found)


@cache
def drafts_of(space: str) -> dict[tuple[str | None, int], list[Config]]:
    """List the settings of drafting by algorithm and width."""
    found: dict[tuple[str | None, int], list[Config]] = {}
    whole = sweep_named(space).space
    for config in _walk(whole, {}, 0):
        found.setdefault((config.algorithm, width_of(config)), []).append(config)
    return found


def _walk(space: Space, values: dict[str, Value], place: int) -> Iterator[Config]:
    axes = [a for a in space.ordered() if a.name in drafting_of(dict.fromkeys([a.name]))]
    if place == len(axes):
        if not space.broken_rules(values):
            yield Config.of(values)
        return
    axis = axes[place]
    held = all(values.get(n) == v for n, v in axis.when.items())
    for value in tuple(axis.grid or ()) if held else (None,):
        yield from _walk(space, {**values, axis.name: value} if held else values, place + 1)
