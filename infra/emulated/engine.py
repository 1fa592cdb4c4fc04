"""The emulated engine: what each step of a batch costs and commits, without clock, I/O or threads.

One engine is one server start. It is not thread safe.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

from infra.emulated.cost import StepCost, kv_room_tokens, step_cost
from infra.emulated.drafting.drafter import Drafter, RequestDrafter, make_drafter
from infra.emulated.drafting.remembered import KnownDrafts, RememberedDrafter
from infra.emulated.serving.prefix_cache import PrefixCache
from infra.emulated.settings import Settings
from infra.emulated.text import (
    BUILT_IN,
    Kind,
    TextSource,
    TokenStream,
    kind_of,
    render_all,
    seed_of,
    tokenize,
)
from infra.emulated.truth import HostTruth, NoiseLevels
from sweeps.drafting.ngram import NgramDrafter
from sweeps.values import digest

_MISVERIFIED_STEPS = 16
"""One step in so many still accepts a draft: accept length 1.06 (published report)."""
_MISVERIFIED_OFFSET = 7
_DRIFT_LOOK_S = 1.0
_TABLE = 4096


class Step(NamedTuple):
    """What one step did for one request. `verifies` is 0 for the prefill and for plain decode.

    A tuple: half a million of them are made in a sweep.
    """

    duration_s: float
    """Host seconds of the whole batch's step."""
    tokens: tuple[int, ...]
    correct_drafts: int = 0
    """Matched drafts, those beyond the request's last token included (as SGLang counts)."""
    verifies: int = 0


@dataclass(frozen=True, slots=True)
class Spell:
    """Steps of a request that runs alone: when each was due, and the tokens written by then."""

    times_s: Sequence[float]
    completion_tokens: Sequence[int]
    new_tokens: int
    verifies: int
    correct_drafts: int


@dataclass(slots=True)
class Generation:
    """A request in the engine, and what it has come to."""

    prompt: tuple[int, ...]
    key: int
    limit_tokens: int
    stream: TokenStream
    cached_tokens: int = 0
    probe: bool = False
    """A health check: how many there are depends on who asks, so it must not move the noise."""
    output: list[int] = field(default_factory=list)
    drafter: RequestDrafter | None = None
    verifies: int = 0
    correct_drafts: int = 0
    histogram: list[int] = field(default_factory=list)
    """How many verifies matched 0, 1, 2 … drafts."""
    matched: int | str | None = None
    """What ends the text at its limit: a token, a text, or nothing but the limit."""
    hidden_chars: int = 0
    """How much of the end of the text is not shown then."""

    @property
    def finished(self) -> bool:
        """Tell whether all tokens that were asked for are there."""
        return len(self.output) >= self.limit_tokens

    @property
    def context_tokens(self) -> int:
        """Return what the request holds in the KV cache."""
        return len(self.prompt) + len(self.output)

    def count(self, matched: int) -> None:
        """Add one verify to the counters."""
        self.verifies += 1
        self.correct_drafts += matched
        self.histogram += [0] * (matched + 1 - len(self.histogram))
        self.histogram[matched] += 1


class EmulatedEngine:
    """One start of a server with given settings on a host with a given truth.

    The same settings, truth and seed give the same figures. Another seed is another launch.
    """

    def __init__(
        self,
        settings: Settings,
        truth: HostTruth,
        seed: int = 0,
        source: TextSource = BUILT_IN,
        known: KnownDrafts | None = None,
    ) -> None:
        """`known` drafts of the built-in texts are not drafted again."""
        self.settings = settings
        self._source = source
        self.truth = truth
        self.kv_room_tokens = kv_room_tokens(truth, settings)
        self._drafter: Drafter = make_drafter(settings, truth)
        if known is not None and source is BUILT_IN and isinstance(self._drafter, NgramDrafter):
            self._drafter = RememberedDrafter.of(self._drafter, known)
        self._noise = _Noise(truth.noise, f"{seed}:{truth.name}:{_launch(settings)}")
        self._costs: dict[int, StepCost] = {}
        self._prefixes = PrefixCache(settings.page_tokens, self.kv_room_tokens)
        self.misverifies = False
        """True: verification reads wrong data, so that few drafts match and the text is wrong."""

    def open(
        self,
        prompt: str | Sequence[int],
        limit_tokens: int,
        *,
        sampling_seed: int | None = None,
        kind: Kind | None = None,
    ) -> Generation:
        """Take in a request: text or ids. A sampling seed (temperature > 0) varies the answer."""
        ids = tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        key = seed_of(prompt if sampling_seed is None else f"{sampling_seed}|{prompt!s}")
        if kind is None:
            kind = kind_of(prompt if isinstance(prompt, str) else render_all(ids))
        return Generation(tuple(ids), key, limit_tokens, self._source.stream(key, kind))

    def open_probe(self) -> Generation:
        """Take in the one token of a health check, which leaves no trace."""
        probe = self.open([0], 1)
        probe.probe = True
        return probe

    def prefill(self, requests: Sequence[Generation]) -> list[Step]:
        """Process the prompts of new requests together; each gets its first token."""
        new = 0
        for request in requests:
            request.cached_tokens = self._cached(request)
            new += request.context_tokens - request.cached_tokens
        for request in requests:
            self._keep(request)
        base = self.truth.prefill_base_s + new / self.truth.prefill_tokens_per_s
        alone = all(request.probe for request in requests)
        duration_s = base if alone else self._noise.perturb(base)
        return [self._start(request, duration_s) for request in requests]

    def decode(self, requests: Sequence[Generation]) -> list[Step]:
        """Let all running requests do one step together."""
        duration_s = self._noise.perturb(self.cycle_s(requests))
        if not self.settings.speculates:
            steps = [self._write(request, duration_s) for request in requests]
        else:
            # All draft before the first commits: they share what the drafter has learnt.
            drafted = [self._draft(request) for request in requests]
            steps = [
                self._verify(request, matched, upcoming, duration_s)
                for request, (matched, upcoming) in zip(requests, drafted, strict=True)
            ]
        for request in requests:
            if len(request.output) >= request.limit_tokens:
                self._keep(request)
        return steps

    def decode_alone(self, request: Generation, due_s: float, until_s: float) -> "Spell":
        """Let a request step alone from `due_s` to its end, or until a step ends at `until_s` or
        later: what as many calls of `decode` would do."""
        times_s: list[float] = []
        counts: list[int] = []
        verifies, correct = request.verifies, request.correct_drafts
        cost, prompt_tokens = self._cost(1), len(request.prompt)
        before_tokens = done = len(request.output)
        while not times_s or (done < request.limit_tokens and due_s < until_s):
            duration_s = self._noise.perturb(cost.duration_s(prompt_tokens + done))
            if self.settings.speculates:
                self._verify(request, *self._draft(request), duration_s)
                done = len(request.output)
            else:
                done += 1
            due_s += duration_s
            times_s.append(due_s)
            counts.append(done)
        if not self.settings.speculates:
            request.output += request.stream.window(before_tokens, done - before_tokens)
        if request.finished:
            self._keep(request)
        return Spell(
            times_s, counts, done - before_tokens, request.verifies - verifies,
            request.correct_drafts - correct,
        )  # fmt: skip

    def cycle_s(self, requests: Sequence[Generation]) -> float:
        """Return what the truth says of one step of these requests, without noise."""
        context_tokens = 0
        for request in requests:
            context_tokens += len(request.prompt) + len(request.output)
        return self._cost(len(requests)).duration_s(context_tokens)

    def _cost(self, batch: int) -> StepCost:
        cost = self._costs.get(batch)
        if cost is None:
            tokens = self.settings.draft_tokens
            cost = step_cost(self.truth, self.settings, batch=batch, tokens=tokens)
            self._costs[batch] = cost
        return cost

    def steps(self, prompt: str | Sequence[int], limit_tokens: int) -> Iterator[Step]:
        """Run one request alone, from its prefill to its end."""
        request = self.open(prompt, limit_tokens)
        yield from self.prefill([request])
        while not request.finished:
            yield from self.decode([request])

    def flush(self) -> None:
        """Empty the prefix cache and what the drafter learnt. No request may be running."""
        self._prefixes.clear()
        self._drafter.reset()

    @property
    def drafts_from_corpora(self) -> bool:
        """Tell whether external corpora can be added."""
        return isinstance(self._drafter, NgramDrafter)

    def add_corpus(self, name: str, documents: Sequence[Sequence[int]]) -> None:
        """Let the n-gram drafter use a text. Raises ValueError for a name in use or no tokens."""
        if isinstance(self._drafter, NgramDrafter):
            self._drafter.add_corpus(name, documents)

    def remove_corpus(self, name: str) -> None:
        """Forget a text, if it is there."""
        if isinstance(self._drafter, NgramDrafter):
            self._drafter.remove_corpus(name)

    def _cached(self, request: Generation) -> int:
        """Return how many of a request's first tokens are cached."""
        if request.probe or not self.settings.radix_cache:
            return 0
        return self._prefixes.match((*request.prompt, *request.output))

    def _keep(self, request: Generation) -> None:
        """Leave a text in the prefix cache: the next turn may begin with it."""
        if self.settings.radix_cache and not request.probe:
            self._prefixes.add((*request.prompt, *request.output))

    def _start(self, request: Generation, duration_s: float) -> Step:
        done = len(request.output)
        tokens = request.stream.window(done, min(1, request.limit_tokens - done))
        request.output += tokens
        if request.drafter is not None:
            request.drafter.commit(tokens)
        if request.finished:
            self._keep(request)
        return Step(duration_s, tuple(tokens))

    def _write(self, request: Generation, duration_s: float) -> Step:
        tokens = request.stream.window(len(request.output), 1)
        request.output += tokens
        return Step(duration_s, tuple(tokens))

    def _draft(self, request: Generation) -> tuple[int, list[int]]:
        """Return how many drafts the target confirms, and what it writes."""
        drafter = request.drafter or self._attach_drafter(request)
        draft_tokens = self.settings.draft_tokens
        if self.misverifies:
            drafter.correct_drafts(())
            wrong = request.stream.window(len(request.output) + _MISVERIFIED_OFFSET, draft_tokens)
            return int(request.verifies % _MISVERIFIED_STEPS == 0 < draft_tokens - 1), wrong
        upcoming = request.stream.window(len(request.output), draft_tokens)
        return drafter.correct_drafts(upcoming[:-1]), upcoming

    def _verify(
        self, request: Generation, matched: int, upcoming: list[int], duration_s: float
    ) -> Step:
        """Commit the confirmed drafts and the token after them, as far as the request has room."""
        left = request.limit_tokens - len(request.output)
        tokens = upcoming[: min(matched + 1, left)]
        request.count(matched)
        drafter = request.drafter
        assert drafter is not None, "drafted a moment ago"
        drafter.commit(tokens)
        # SGLang knows beforehand of an end that one token brings, and computes no step past it.
        if matched >= left - 1 > 0:
            drafter.end(upcoming[left : matched + 1])
        request.output += tokens
        return Step(duration_s, tuple(tokens), matched, 1)

    def _attach_drafter(self, request: Generation) -> RequestDrafter:
        """Open the drafter at the first verify: a request that ends before it leaves no trace."""
        request.drafter = drafter = self._drafter.open(request.prompt, request.key)
        drafter.commit(request.output)
        return drafter


def _launch(settings: Settings) -> str:
    return settings.launch or digest(repr(settings))


class _Noise:
    """Spread of durations: this launch, slow drift, each step, and rare stalls."""

    def __init__(self, levels: NoiseLevels, seed: str) -> None:
        self._levels = levels
        self._rng = random.Random(seed)
        self._launch = math.exp(self._rng.gauss(0.0, levels.launch_sigma))
        self._drift = self._rng.gauss(0.0, levels.drift_sigma)
        self._factor = self._launch * math.exp(self._drift)
        self._steps = _lognormal_table(levels.step_sigma)
        self._since_drift_s = 0.0

    def perturb(self, duration_s: float) -> float:
        self._since_drift_s += duration_s
        if self._since_drift_s >= _DRIFT_LOOK_S:
            self._drift_on()
        uniform = self._rng.random
        spread_s = duration_s * self._factor * self._steps[int(uniform() * _TABLE)]
        if uniform() < self._levels.stall_chance:
            stall = self._levels.stall
            spread_s += self._rng.uniform(stall.low_s, stall.high_s)
        return spread_s

    def _drift_on(self) -> None:
        levels = self._levels
        kept = math.exp(-self._since_drift_s / levels.drift_time_s)
        fresh = levels.drift_sigma * math.sqrt(1 - kept * kept)
        self._drift = self._drift * kept + self._rng.gauss(0.0, fresh)
        self._factor = self._launch * math.exp(self._drift)
        self._since_drift_s = 0.0


@cache
def _lognormal_table(sigma: float) -> tuple[float, ...]:
    """Return equally likely factors: a look-up costs a fifth of a draw."""
    normal = NormalDist()
    quantiles = (normal.inv_cdf((place + 0.5) / _TABLE) for place in range(_TABLE))
    return tuple(math.exp(sigma * quantile) for quantile in quantiles)
