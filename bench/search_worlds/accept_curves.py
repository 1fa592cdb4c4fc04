"""How drafting settings fare on the texts of a trial, in the order in which it serves them."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from infra.code_digest import code_digest
from infra.emulated import text, writing
from infra.emulated.drafting import chain
from infra.emulated.drafting.drafter import Drafter, RequestDrafter, ngram_shape
from infra.emulated.engine import EmulatedEngine, Generation
from infra.emulated.serving.requests import read_chat
from infra.emulated.serving.validation import read_body
from infra.emulated.truth import TRUTHS
from orchestrator.course import SETTLED_FRACTION
from orchestrator.load_client.dialects import DIALECTS
from orchestrator.load_client.seam import Sampling
from search_worlds.kept import OUT, keep
from search_worlds.spaces import settings_of, sweep_named
from sweeps import drafting, replay
from sweeps.config import Config
from sweeps.drafting.ngram import NgramShape
from sweeps.prompts import Prompt
from sweeps.replay.replayer import Replayer
from sweeps.replay.streams import Steps, Stream
from sweeps.sweep import Sweep
from sweeps.values import digest

MEASURED_PROMPTS = 32
"""That the fastest answers in a measured pass."""
BEYOND_TOKENS = 64
AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class AcceptCurve:
    """How a drafting setting fares in a measured pass: sums over its requests, in their order."""

    tokens: Sequence[int]
    steps: Sequence[int]

    @classmethod
    def of(cls, requests: Iterable[tuple[int, int]]) -> "AcceptCurve":
        """Add up the decode tokens and the verify steps of requests."""
        tokens, steps = zip(*requests, strict=True)
        return cls(tuple(accumulate(tokens)), tuple(accumulate(steps)))

    def accept_of(self, first: int, last: int) -> float:
        """Return tokens per step of some requests, the last of them not included."""
        tokens, steps = ((0, *sums) for sums in (self.tokens, self.steps))
        return (tokens[last] - tokens[first]) / (steps[last] - steps[first])

    def accept_within(self, steps: float) -> float:
        """Return tokens per step of the first so many steps; all of them where these are fewer."""
        most = min(steps, self.steps[-1])
        return float(np.interp(most, (0, *self.steps), (0, *self.tokens))) / most


@dataclass(frozen=True)
class Served:
    """The requests of a trial after the flush, in their order."""

    cold: tuple[Generation, ...]
    warming: tuple[tuple[Generation, ...], ...]
    """Those of each pass of generated warm-up."""
    measured: tuple[Generation, ...]

    @cached_property
    def key(self) -> str:
        """The hash of which requests they are; what is written for each is up to the code."""
        passes = (self.cold, *self.warming, self.measured)
        return digest([[[r.key, r.limit_tokens] for r in requests] for requests in passes])

    @cached_property
    def warm_ups(self) -> Replayer:
        """What comes before the measured pass, as recorded text."""
        return Replayer([_stream(request) for request in self._before(len(self.warming))])

    def after(self, passes: int) -> Replayer:
        """Return all but the last warm-ups, as recorded text."""
        return Replayer([_stream(r) for r in (*self._before(passes), *self.measured)])

    def passes(self, steps: Steps) -> int:
        """Return how many passes of warm-up a trial makes, from the verify steps of all."""
        curve = _curve(steps)
        ends = [len(self.cold), *(len(self._before(n + 1)) for n in range(len(self.warming)))]
        before = None
        for number, (first, last) in enumerate(pairwise(ends), 1):
            length = curve.accept_of(first, last)
            if before is not None and length < before * (1 + SETTLED_FRACTION):
                return number
            before = length
        return len(self.warming)

    def _before(self, passes: int) -> tuple[Generation, ...]:
        return (*self.cold, *(request for one in self.warming[:passes] for request in one))


def _curve(steps: Steps, first: int = 0) -> AcceptCurve:
    """Add the verify steps up by requests, from one of them on."""
    chosen = steps.stream >= first
    number = steps.stream[chosen] - first
    counts, tokens = np.bincount(number), np.bincount(number, steps.tokens[chosen])
    return AcceptCurve.of(zip(map(int, tokens), map(int, counts), strict=True))


def _served(sweep: Sweep) -> Served:
    return _served_of(sweep.name, sweep.workload.prompts)


@cache
def _served_of(space: str, prompts: str) -> Served:
    work = replace(sweep_named(space).workload, prompts=prompts)
    engine = EmulatedEngine(settings_of(sweep_named(space), Config.of({})), TRUTHS["M"])
    sampling = Sampling(max_tokens=work.max_tokens, seed=work.sampling_seed)

    def opened(prompts: Iterable[Prompt]) -> tuple[Generation, ...]:
        bodies = [read_body(DIALECTS[work.dialect].body(p, sampling)) for p in prompts]
        return tuple(read_chat(body, engine).generation for body in bodies)

    warming = tuple(opened(work.warming(number)) for number in range(work.warming_passes))
    measured = [*work.measured(), *work.further()][:MEASURED_PROMPTS]
    return Served(opened(work.cold()), warming, opened(measured))


def chain_curve(sweep: Sweep, drafter: Drafter) -> AcceptCurve:
    """Serve the measured pass with a drafter that learns nothing from what was served before."""
    served = _served(sweep).measured
    return AcceptCurve.of(_verified(r, drafter.open(r.prompt, r.key)) for r in served)


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


def ngram_curves(sweep: Sweep, drafts: Sequence[Config]) -> dict[Config, AcceptCurve]:
    """Replay drafting settings over the texts of a trial; what was replayed is kept on disk."""
    if not drafts:
        return {}
    served = _served(sweep)
    code = code_digest(drafting, replay, text, writing, chain, sys.modules[__name__])
    path = OUT / "accept_curves" / f"{digest([served.key, code])}.json"
    kept = _read(path)
    shapes = {draft: ngram_shape(settings_of(sweep, draft)) for draft in drafts}
    missing = [s for s in dict.fromkeys(shapes.values()) if repr(s) not in kept]
    for passes, alike in _by_passes(served, missing).items():
        replayer = served.after(passes)
        first = len(served.cold) + sum(map(len, served.warming[:passes]))
        for shape, steps in _replayed(replayer, alike):
            curve = _curve(steps, first)
            kept[repr(shape)] = [list(curve.tokens), list(curve.steps)]
    if missing:
        keep(path, {**_read(path), **kept})
    return {draft: AcceptCurve(*kept[repr(shape)]) for draft, shape in shapes.items()}


def _by_passes(served: Served, shapes: Sequence[NgramShape]) -> dict[int, list[NgramShape]]:
    """Group drafting settings by the passes of warm-up that a trial of each makes."""
    found: dict[int, list[NgramShape]] = {}
    for shape, steps in _replayed(served.warm_ups, shapes):
        found.setdefault(served.passes(steps), []).append(shape)
    return found


def _replayed(
    replayer: Replayer, shapes: Sequence[NgramShape]
) -> Iterator[tuple[NgramShape, Steps]]:
    for at in range(0, len(shapes), AT_ONCE):
        batch = shapes[at : at + AT_ONCE]
        yield from zip(batch, replayer.all_steps(batch), strict=True)
        replayer.forget()


def _read(path: Path) -> dict[str, list[list[int]]]:
    return json.loads(path.read_text()) if path.is_file() else {}
