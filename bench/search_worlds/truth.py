"""What is true of a world: the noiseless rate of every configuration, and the best one.

Accept lengths are those of the emulated host's own drafters on the texts that a trial serves, in
the order in which it serves them; step times are those of its cost model. A test holds the
product of both against whole noiseless trials.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product

import numpy as np

from infra.code_digest import code_digest
from infra.emulated import cost, text, writing
from infra.emulated import drafting as emulated_drafting
from infra.emulated import settings as emulated_settings
from infra.emulated import truth as emulated_truth
from infra.emulated.cost import step_cost
from infra.emulated.drafting import chain
from infra.emulated.drafting.drafter import RequestDrafter, make_drafter, ngram_shape
from infra.emulated.engine import EmulatedEngine, Generation
from infra.emulated.serving.requests import read_chat
from infra.emulated.serving.validation import read_body
from infra.emulated.settings import Settings, make_settings
from infra.emulated.truth import TRUTHS, HostTruth
from infra.engines import complete
from infra.sglang.flags import NEWEST, spelled
from orchestrator.load_client.dialects import DIALECTS
from orchestrator.load_client.seam import Sampling
from search_worlds.hosts import Setting
from search_worlds.kept import OUT, keep
from sweeps import drafting, replay
from sweeps.axes import is_environment
from sweeps.config import Config
from sweeps.prompts import Prompt
from sweeps.replay.replayer import Replayer
from sweeps.replay.streams import Stream
from sweeps.search.roles import drafting_of, serving_of
from sweeps.space import Space
from sweeps.sweep import Sweep
from sweeps.values import Value, digest

CONTEXT_TOKENS = 300
WARMING_PASSES = 2
"""That a trial makes before accept length stands still, as noiseless trials show it."""
BEYOND_TOKENS = 64
AT_ONCE = 256
COARSE = {
    "speculative_ngram_max_bfs_breadth": (1, 3, 6, 16), "ngram_match_depth": (4, 8, 18),
}  # fmt: skip
EAGLE_MODEL = "kimi-k2-instruct-eagle3"
COARSE_MISS = 1.04
"""By how much the best of the coarse shapes may fall behind the best of all, at the most."""


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
        """Return the accept length of a configuration."""
        return self.accepts([drafting_of(config)])[drafting_of(config)]

    def accepts(self, drafts: Sequence[Config]) -> dict[Config, float]:
        """Return accept lengths of drafting settings; what was computed once is kept."""
        missing = [d for d in dict.fromkeys(drafts) if d not in self._accepts and not d.is_plain]
        ngram = [d for d in missing if d.algorithm == "NGRAM"]
        self._accepts.update(_ngram_accepts(self.sweep, ngram))
        for draft in missing:
            if draft.algorithm != "NGRAM":
                self._accepts[draft] = self._chain_accept(draft)
        return {d: 1.0 if d.is_plain else self._accepts[d] for d in drafts}

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
        code = code_digest(drafting, text, writing, emulated_drafting, cost, emulated_settings, own)
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
        coarse = self._best_drafts([d for d in drafts if _is_coarse(d)] or drafts)
        fastest = {kind: self._fastest(draft) for kind, draft in coarse.items()}
        rates = {kind: self.accept(d) / fastest[kind][0] for kind, d in coarse.items()}
        hopeful = {k for k, rate in rates.items() if rate * COARSE_MISS >= max(rates.values())}
        finest = self._best_drafts([d for d in drafts if self._kind(d) in hopeful])
        kind = max(finest, key=lambda k: self.accept(finest[k]) / fastest[k][0])
        cycle_s, serving = fastest[kind]
        return self.accept(finest[kind]) / cycle_s, Config.of({**finest[kind], **serving})

    def _best_drafts(self, drafts: Sequence[Config]) -> dict[object, Config]:
        accepts = self.accepts(drafts)
        best: dict[object, Config] = {}
        for draft in drafts:
            kind = self._kind(draft)
            if kind not in best or accepts[draft] > accepts[best[kind]]:
                best[kind] = draft
        return best

    def _fastest(self, draft: Config) -> tuple[float, Config]:
        """Return the shortest step of a kind, with its serving."""
        cycles = [(self._cycle_s(draft, s), s) for s in servings_of(self.sweep)]
        return min(cycles, key=lambda found: found[0])

    def _kind(self, draft: Config) -> object:
        sized = settings_of(self.sweep, draft)
        return draft.algorithm, sized.draft_tokens, sized.draft_steps

    def _chain_accept(self, draft: Config) -> float:
        with drafting_as(self.setting):
            drafter = make_drafter(settings_of(self.sweep, draft), self.setting.truth)
        tokens = steps = 0
        for request in _served(self.sweep).measured:
            done, told = _verified(request, drafter.open(request.prompt, request.key))
            tokens, steps = tokens + done, steps + told
        return tokens / steps

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
    def _accepts(self) -> dict[Config, float]:
        return {}


@cache
def sweep_named(name: str) -> Sweep:
    """Return the sweep of one of the project's own space files."""
    from importlib import import_module

    found = import_module(f"search_spaces.{name}").sweep
    assert isinstance(found, Sweep)
    return found


def _cycle_of(truth: HostTruth, settings: Settings) -> float:
    cost = step_cost(truth, settings, batch=1, tokens=settings.draft_tokens)
    return cost.duration_s(CONTEXT_TOKENS)


def settings_of(sweep: Sweep, draft: Config, serving: Config | None = None) -> Settings:
    """Resolve settings as the emulated server does."""
    chosen = serving_of(sweep.space.plain()) if serving is None else serving
    return _settings_of(sweep.name, draft, chosen)


@cache
def _settings_of(space: str, draft: Config, serving: Config) -> Settings:
    full = complete(sweep_named(space).settings(Config.of({**serving, **draft})))
    values = {name: value for name, value in full.items() if value is not None}
    flags = {spelled(n, NEWEST): v for n, v in values.items() if not is_environment(n)}
    return make_settings(flags, {n: str(v) for n, v in values.items() if is_environment(n)}, NEWEST)


@cache
def _servings_of(space: str) -> tuple[Config, ...]:
    whole = sweep_named(space).space
    names = serving_of(whole.plain())
    axes = [axis for axis in whole.axes if axis.name in names]
    found = []
    for values in product(*(tuple(axis.grid or ()) for axis in axes)):
        config = Config.of(dict(zip((a.name for a in axes), values, strict=True)))
        if not whole.broken_rules({**whole.plain(), **config}):
            found.append(config)
    return tuple(found)


def servings_of(sweep: Sweep) -> tuple[Config, ...]:
    """List the settings of communication."""
    return _servings_of(sweep.name)


def drafts_of(sweep: Sweep) -> tuple[Config, ...]:
    """List the drafting settings of a space, plain decode's among them."""
    return _drafts_of(sweep.name)


@cache
def _drafts_of(space: str) -> tuple[Config, ...]:
    whole = sweep_named(space).space
    return tuple(dict.fromkeys(_walk(whole, {}, 0)))


def _walk(space: Space, values: dict[str, Value], place: int) -> Iterator[Config]:
    axes = [a for a in space.ordered() if a.name in drafting_of(dict.fromkeys([a.name]))]
    if place == len(axes):
        if not space.broken_rules(values):
            yield Config.of(values)
        return
    axis = axes[place]
    held = all(_holds(values.get(n), v) for n, v in axis.when.items())
    for value in tuple(axis.grid or ()) if held else (None,):
        yield from _walk(space, {**values, axis.name: value} if held else values, place + 1)


def _is_coarse(draft: Config) -> bool:
    return all(draft.get(name) in (None, *values) for name, values in COARSE.items())


def _holds(value: Value, wanted: object) -> bool:
    return value in wanted if isinstance(wanted, list | tuple) else value == wanted


@dataclass(frozen=True)
class Served:
    """The requests of a trial after the flush: those before the measured pass, and its own."""

    before: tuple[Generation, ...]
    measured: tuple[Generation, ...]

    @cached_property
    def replayer(self) -> Replayer:
        """The same as recorded text."""
        return Replayer([_stream(request) for request in (*self.before, *self.measured)])


def _served(sweep: Sweep) -> Served:
    return _served_of(sweep.name, sweep.workload.prompts)


@cache
def _served_of(space: str, prompts: str) -> Served:
    work = replace(sweep_named(space).workload, prompts=prompts)
    engine = EmulatedEngine(settings_of(sweep_named(space), Config.of({})), TRUTHS["M"])
    sampling = Sampling(max_tokens=work.max_tokens, seed=work.sampling_seed)

    def opened(prompt: Prompt) -> Generation:
        body = read_body(DIALECTS[work.dialect].body(prompt, sampling))
        return read_chat(body, engine).generation

    warming = [p for number in range(WARMING_PASSES) for p in work.warming(number)]
    before = tuple(map(opened, [*work.cold(), *warming]))
    return Served(before, tuple(map(opened, work.measured())))


def _stream(request: Generation) -> Stream:
    limit = request.limit_tokens
    return Stream(
        request.prompt, request.stream.window(0, limit), request.stream.window(limit, BEYOND_TOKENS)
    )


def _verified(request: Generation, drafter: RequestDrafter) -> tuple[int, int]:
    """Serve a request with drafts; return its decode tokens and its verify steps."""
    done, steps = 1, 0
    drafter.commit(request.stream.window(0, 1))
    while done < request.limit_tokens:
        matched = drafter.correct_drafts(request.stream.window(done, BEYOND_TOKENS))
        taken = request.stream.window(done, min(matched + 1, request.limit_tokens - done))
        drafter.commit(taken)
        done, steps = done + len(taken), steps + 1
    return done - 1, steps


def _ngram_accepts(sweep: Sweep, drafts: Sequence[Config]) -> dict[Config, float]:
    """Replay drafting settings over the texts of a trial; what was replayed is kept on disk."""
    if not drafts:
        return {}
    code = code_digest(drafting, replay, text, writing, chain)
    path = OUT / "accepts" / f"{digest([repr(sweep.workload), WARMING_PASSES, code])}.json"
    kept: dict[str, float] = json.loads(path.read_text()) if path.is_file() else {}
    shapes = {draft: ngram_shape(settings_of(sweep, draft)) for draft in drafts}
    missing = [s for s in dict.fromkeys(shapes.values()) if repr(s) not in kept]
    served = _served(sweep)
    for first in range(0, len(missing), AT_ONCE):
        batch = missing[first : first + AT_ONCE]
        for shape, steps in zip(batch, served.replayer.all_steps(batch), strict=True):
            chosen = steps.stream >= len(served.before)
            kept[repr(shape)] = float(np.mean(steps.tokens[chosen]))
        served.replayer.forget()
    if missing:
        before = json.loads(path.read_text()) if path.is_file() else {}
        keep(path, {**before, **kept})
    return {draft: kept[repr(shape)] for draft, shape in shapes.items()}


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
