"""The passes that a trial makes over a ready server, in their order, and what each is for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.load_client.arrivals import Arrivals
from orchestrator.load_client.seam import LoadClient, PassProgress, Sampling
from sweeps.drift import drift_of
from sweeps.factors import cross_check
from sweeps.learning import learning_in
from sweeps.metrics import measure_all, measure_probe, steps_set_aside
from sweeps.pass_length import pays
from sweeps.prompts import Prompt
from sweeps.records import Baseline, EndReason, Measurement, PassRecord
from sweeps.results import Estimate, Phase
from sweeps.workloads import Workload

WARM_UP_TOKENS = 64
SETTLED_FRACTION = 0.03
"""A pass whose accept length gains less than this on the one before has nothing left to learn."""

PREPARING_SHARE = 0.25
"""Of the time that is left, the most that the cold pass takes, and then the generated warm-up."""

MOST_OPEN_STREAMS = 256


class Stage(Protocol):
    """The trial around the passes: it knows the time, the server and who wants it to end."""

    def enter(self, phase: Phase) -> None:
        """Begin a phase."""
        ...

    def left_s(self) -> float:
        """Return how much of the trial's time is left, in the host's seconds."""
        ...

    def spent_s(self) -> float:
        """Return how much of it is over."""
        ...

    def should_stop(self) -> bool:
        """Tell whether a running pass is to end now."""
        ...

    def progress(self, seen: PassProgress) -> None:
        """Take the state of a running pass."""
        ...

    def keep(self, record: PassRecord) -> None:
        """Write a pass down, and end the trial if it shows that it must."""
        ...

    def flush(self) -> None:
        """Empty the server's caches, proved."""
        ...


@dataclass(slots=True)
class Course:
    """What was measured so far. A trial that is cut off keeps what is here."""

    workload: Workload
    client: LoadClient
    url: str
    silence_s: float
    plain: bool
    stage: Stage
    learns: bool = False
    """Whether the drafter has a cache that learns from what the server generates."""
    warm_up: PassRecord | None = None
    cold: PassRecord | None = None
    measured: PassRecord | None = None
    probes: list[PassRecord] = field(default_factory=list)
    loaded: list[PassRecord] = field(default_factory=list)
    open_loop: PassRecord | None = None
    unmade: list[str] = field(default_factory=list)
    """Passes for which no time was left."""
    _probing: int = 0
    _warmings: int = 0
    """Passes of generated warm-up that were made before the measured one."""
    _rose: float | None = None
    """What the last of them gained in accept length on the one before, where more were due."""
    _seen: PassProgress | None = None
    """The running pass, as it was last told."""
    _shallow: list[str] = field(default_factory=list)
    """Passes before which the cache could not be brought to the depth of the measured one."""

    @property
    def probes_the_load(self) -> bool:
        """Tell whether the running probe has as many streams as the measured pass will have."""
        return self._probing == self.workload.concurrency

    def run(self) -> None:
        """Make all passes."""
        work = self.workload
        self.warm_up = self._pass(Phase.WARMING, work.warm_up(), max_tokens=WARM_UP_TOKENS)
        if work.probe_s > 0:
            self._probe()
        self.stage.flush()
        if work.cold_prompts:
            limit_s = PREPARING_SHARE * self.stage.left_s()
            self.cold = self._pass(Phase.COLD, work.cold(), limit_s=limit_s)
        if not self.plain:
            self._settle()
        self.stage.enter(Phase.MEASURING)
        self.measured = record = self._load(self._worthwhile(), work.concurrency)
        self.stage.keep(record)
        for concurrency in work.concurrencies:
            self._loaded(concurrency)
        if work.requests_per_s:
            self._open_loop(work.requests_per_s)

    def estimates(self, baseline: Baseline | None) -> dict[str, Estimate]:
        """Return every metric that the passes so far allow."""
        before = tuple(p for p in (self.warm_up, self.cold) if p)
        single = next((p for p in self.probes if p.concurrency == 1), None)
        measurement = self._measurement(baseline)
        if measurement is None:
            return measure_probe(single, before, plain=self.plain) if single else {}
        return measure_all(measurement)

    def _measurement(self, baseline: Baseline | None = None) -> Measurement | None:
        if self.measured is None:
            return None
        return Measurement(
            self.cold,
            self.measured,
            plain=self.plain,
            probe=next((p for p in self.probes if p.concurrency == 1), None),
            loaded=tuple(self.loaded),
            open_loop=self.open_loop,
            baseline=baseline,
        )

    def notes(self, estimates: Mapping[str, Estimate]) -> tuple[str, ...]:
        """Say what a reader of the figures must know."""
        found = list(self._of_the_cache())
        drift = drift_of(self.measured) if self.measured else None
        if drift is not None and drift.is_alarming:
            found.append(
                f"the rate rose from {drift.first_per_s:.1f} to {drift.last_per_s:.1f} tok/s in "
                "the measured pass: its mean says little"
            )
        measurement = self._measurement()
        unlike = steps_set_aside(measurement) if measurement else None
        if unlike:
            aside, kept = unlike
            found.append(
                f"{aside.value:.1f} steps/s ({aside.method}) disagree with {kept.value:.1f} beyond"
                " chance, and are set aside"
            )
        check = cross_check(estimates, streams=self.workload.concurrency)
        whole = self.measured is not None and not self.measured.cut_short
        if check is not None and whole and not check.agrees:
            found.append(
                f"accept length x steps/s gives {check.product_tok_s:.1f}, not the "
                f"{check.tok_s:.1f} tok/s that were measured"
            )
        return tuple(found)

    def _of_the_cache(self) -> Iterator[str]:
        """Say in which state of the drafter's cache each load was measured, and what moved."""
        if not self.learns or self.measured is None:
            return
        if self._rose is not None:
            yield (
                f"the warm-up ended while accept length still rose by {self._rose:.0%} a pass: the"
                " cache had more to learn"
            )
        after = [p for p in (*self.loaded, self.open_loop) if p is not None]
        if after:
            cold = "the cold pass and " if self.cold is not None else ""
            yield (
                f"each load began with an emptied cache after {cold}{self._warmings} passes of"
                " generated warm-up, as the measured pass did"
            )
        if self._shallow:
            yield f"no time was left to warm the cache as deep before {', '.join(self._shallow)}"
        for record in (self.measured, *after):
            rise = learning_in(record)
            if rise is not None:
                yield (
                    f"accept length rose from {rise.first:.2f} to {rise.last:.2f} within the pass"
                    f" with {record.concurrency} streams: the cache was still learning"
                )

    def _probe(self) -> None:
        """Time steps alone: long answers, no cache to care for, the same for every variant."""
        work = self.workload
        for concurrency in work.streams:
            self._probing = concurrency
            self._pass(
                Phase.PROBING,
                work.probe(concurrency),
                self.probes,
                max_tokens=work.probe_tokens,
                concurrency=concurrency,
                limit_s=work.probe_s,
                ignore_eos=True,
            )

    def _settle(self) -> None:
        """Let the server generate until its drafter has learnt what such prompts teach.

        The passes share no prompt: a repeated one would replay its own answer.
        """
        before: float | None = None
        keeps_s = (1 - PREPARING_SHARE) * self.stage.left_s()
        for number in range(self.workload.warming_passes):
            limit_s = self.stage.left_s() - keeps_s
            if limit_s <= 0:
                return
            record = self._pass(Phase.SETTLING, self.workload.warming(number), limit_s=limit_s)
            self._warmings += 1
            length = _accept_length(record)
            if length is None or (before and length < before * (1 + SETTLED_FRACTION)):
                self._rose = None
                return
            self._rose = length / before - 1 if before else None
            before = length

    def _prepare(self, what: str) -> None:
        """Bring the cache of the drafter to where it was as the measured pass began.

        It has learned from every pass since, so that later loads would look faster than earlier.
        """
        if not self.learns:
            return
        work = self.workload
        self.stage.flush()
        passes = [work.warming(number) for number in range(self._warmings)]
        passes = [work.cold(), *passes] if self.cold is not None else passes
        keeps_s = (1 - PREPARING_SHARE) * self.stage.left_s()
        for prompts in passes:
            limit_s = self.stage.left_s() - keeps_s
            if limit_s <= 0 or self._pass(Phase.SETTLING, prompts, limit_s=limit_s).cut_short:
                self._shallow.append(what)
                return

    def _worthwhile(self) -> Iterator[Prompt]:
        """Yield the prompts of the measured pass; those beyond the least as long as they pay."""
        start_s = self.stage.spent_s()
        yield from self.workload.measured()
        for prompt in self.workload.further():
            seen = self._seen
            if seen is None or not self._is_sound(seen) or not self._has_time(seen):
                return
            if not pays(seen.decode_blocks_per_s, seen.elapsed_s, start_s):
                return
            yield prompt

    def _is_sound(self, seen: PassProgress) -> bool:
        """Tell whether the requests so far ended well, with tokens that can be timed."""
        ended_badly = seen.broken_requests + seen.silent_requests
        return not ended_badly and seen.output_tokens > seen.finished_requests

    def _has_time(self, seen: PassProgress) -> bool:
        """Tell whether one more request is likely to end before the pass must."""
        work = self.workload
        each_s = seen.elapsed_s * work.concurrency / max(1, seen.finished_requests)
        return seen.elapsed_s + each_s <= min(work.measure_s, self.stage.left_s())

    def _loaded(self, concurrency: int) -> None:
        if self.stage.left_s() <= 0:
            self.unmade.append(f"{concurrency} streams")
            return
        self._prepare(f"{concurrency} streams")
        prompts = self.workload.loaded(concurrency)
        self._pass(Phase.LOADED, prompts, self.loaded, concurrency=concurrency)

    def _open_loop(self, rate_per_s: float) -> None:
        if self.stage.left_s() <= 0:
            self.unmade.append("the open loop")
            return
        self._prepare("the open loop")
        arrivals = Arrivals(rate_per_s, seed=self.workload.seed)
        prompts = self.workload.open_loop()
        self.open_loop = self._pass(
            Phase.OPEN_LOOP, prompts, concurrency=MOST_OPEN_STREAMS, arrivals=arrivals
        )

    def _pass(
        self,
        phase: Phase,
        prompts: Sequence[Prompt],
        records: list[PassRecord] | None = None,
        *,
        max_tokens: int | None = None,
        concurrency: int | None = None,
        limit_s: float | None = None,
        ignore_eos: bool | None = None,
        arrivals: Arrivals | None = None,
    ) -> PassRecord:
        """Make a pass; `records` gets it even if the trial ends with it."""
        self.stage.enter(phase)
        record = self._load(
            prompts,
            concurrency or self.workload.concurrency,
            max_tokens=max_tokens,
            limit_s=limit_s,
            ignore_eos=ignore_eos,
            arrivals=arrivals,
        )
        if records is not None:
            records.append(record)
        self.stage.keep(record)
        return record

    def _progress(self, seen: PassProgress) -> None:
        self._seen = seen
        self.stage.progress(seen)

    def _load(
        self,
        prompts: Iterable[Prompt],
        concurrency: int,
        *,
        max_tokens: int | None = None,
        limit_s: float | None = None,
        ignore_eos: bool | None = None,
        arrivals: Arrivals | None = None,
    ) -> PassRecord:
        work, stage = self.workload, self.stage
        self._seen = None
        return self.client.run_pass(
            self.url,
            prompts,
            Sampling(
                max_tokens=max_tokens or work.max_tokens,
                temperature=work.temperature,
                seed=work.sampling_seed,
                ignore_eos=work.ignore_eos if ignore_eos is None else ignore_eos,
                top_p=work.top_p,
                top_k=work.top_k,
                token_ids=self.plain,  # what plain decode writes is recorded, to be replayed
            ),
            concurrency=concurrency,
            dialect=work.dialect,
            deadline_s=min(limit_s or work.measure_s, work.measure_s, stage.left_s()),
            silence_s=self.silence_s,
            on_progress=self._progress,
            should_stop=stage.should_stop,
            arrivals=arrivals,
        )


def why_unmeasured(record: PassRecord | None) -> str:
    """Return why a pass tells no rate: a rate needs tokens that came one after another."""
    tokens = sum(request.output_tokens for request in record.requests) if record else 0
    if not tokens:
        return "no token was measured"
    return (
        f"{tokens} tokens came, all of an answer at once: no time between them was measured; "
        "longer answers are needed (`workload.max_tokens`), or an emulated host that is less fast"
    )


def _accept_length(record: PassRecord) -> float | None:
    """Return tokens per verify step of the finished requests; None without a verify."""
    told = [r for r in record.requests if r.end is EndReason.FINISHED and r.verify_steps]
    steps = sum(r.verify_steps or 0 for r in told)
    return sum(r.output_tokens - 1 for r in told) / steps if steps else None
