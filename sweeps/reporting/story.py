"""The story of a sweep: what its note and report say, derived once from its results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sweeps.alike import said_alike
from sweeps.closing import Closed, closed_values
from sweeps.crossover import Load, loads, stops_paying_at
from sweeps.effects import NoEffect, without_effect
from sweeps.hosts import GPU_HOURS
from sweeps.idling import ClockScales
from sweeps.ledger import Ledger, ledger
from sweeps.limits import broken_limits
from sweeps.metrics import known_metric
from sweeps.naming import short
from sweeps.pareto import Point, front
from sweeps.phrases import counted, listed, with_interval
from sweeps.ranking import Ranking, Standing, rank
from sweeps.reporting.answer import Answer, answer_of
from sweeps.reporting.caveats import caveats_of
from sweeps.reporting.failures import Failure, failures_of
from sweeps.results import Outcome, TrialResult
from sweeps.search.claims import Claim
from sweeps.speculation import speculation_beside_plain
from sweeps.sweep import Objective
from sweeps.values import Value
from sweeps.workloads import Workload

RUNNING, FINISHED = "running", "finished"


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a sweep beside its trials."""

    sweep: str
    name: str = ""
    status: str = FINISHED
    """finished, interrupted, ended early, failed, or running."""
    created_at: str = ""
    goal: Objective = field(default_factory=Objective)
    workload: Workload | None = None
    """None where it is not on record."""
    trouble: str = ""
    """Why the sweep had to end; empty where it had not."""
    collapsed: int = 0
    """Configurations that were asked for and act alike with one that was known."""
    configurations: int | None = None
    """How many the space spans; None where that is not on record."""
    clock_scales: ClockScales = field(default_factory=dict)
    hours_unit: str = GPU_HOURS


@dataclass(frozen=True, slots=True)
class Ground:
    """Where trials ran: one host with one SGLang, as it was probed."""

    host: str
    engine_version: str
    fingerprint: str
    emulated: bool
    trials: int

    def __str__(self) -> str:
        word = "the EMULATED host" if self.emulated else "host"
        mark = f", fingerprint {self.fingerprint}" if self.fingerprint else ""
        return f"{word} {self.host}, SGLang {self.engine_version}{mark}"


@dataclass(frozen=True, slots=True)
class Story:
    """All that may be said of a sweep so far. Every number in it names its trials."""

    about: About
    results: tuple[TrialResult, ...]
    emulated: bool
    unit: str
    """Of the objective."""
    ranking: Ranking
    answer: Answer | None
    grounds: tuple[Ground, ...]
    outcomes: Counter[Outcome]
    loads: tuple[Load, ...]
    crossing: int | None
    """The concurrency from which on speculation does not pay; None where nothing crosses."""
    front: tuple[Point, ...]
    """What none beats in all objectives; empty where there is one only."""
    limited: Mapping[str, tuple[str, ...]]
    """Trials that broke limits, and how."""
    failures: tuple[Failure, ...]
    closed: tuple[Closed, ...]
    inert: tuple[NoEffect, ...]
    alike: tuple[str, ...]
    """Which names ran alike, in words."""
    pins: Mapping[str, Value]
    """Settings that nobody swept and that all trials of the sweep had in common."""
    ledger: Ledger
    caveats: tuple[str, ...]
    """What the sweep does not show."""

    @property
    def word(self) -> str:
        """Return what every number of an emulated sweep must carry."""
        return "EMULATED " if self.emulated else ""

    @property
    def count(self) -> int:
        """Return how many trials have ended."""
        return self.outcomes.total()

    @property
    def plain(self) -> Standing | None:
        """Return the plain decode that the gain is over, or else the best one."""
        return self.answer.plain if self.answer else self.ranking.plain

    @property
    def is_over(self) -> bool:
        """Tell whether no further trial will come."""
        return self.about.status != RUNNING

    @property
    def headline(self) -> str:
        """Say in a sentence what to run."""
        answer = self.answer
        if answer is None:
            return f"{self.word}No trial gave a rate that may be ranked: nothing is recommended."
        rate = with_interval(answer.standing, self.unit)
        return f"{self.word}{self.advice}: {rate}."

    @property
    def advice(self) -> str:
        """Say what to run, without a number."""
        if self.answer is None:
            return "Nothing is recommended"
        config = self.answer.standing.config
        if not config.is_plain:
            return f"Run {short(config)}"
        name = short(config).removeprefix("plain").strip()
        with_it = f" with {name}" if name else ""
        said = speculation_beside_plain(self.results)
        return f"Run plain decode{with_it}; {said}" if said else f"Run plain decode{with_it}"

    @property
    def gain_text(self) -> str:
        """Say what is gained, over what, and how that is known; empty where nothing is stated."""
        answer = self.answer
        if answer is None:
            return ""
        base = self.ranking.baseline
        parts = []
        for gain in answer.gains:
            is_base = base is not None and gain.over == base.config
            what = "a server with nothing changed" if is_base else "the best plain decode"
            parts.append(f"{self.word}{gain}, {what} ({gain.how})")
        return "; ".join(parts)

    @property
    def ties_text(self) -> str:
        """Say what is within the indifference of the recommendation; empty where nothing is."""
        ties = self.answer.ties if self.answer else ()
        if not ties:
            return ""
        names = listed([short(s.config) for s in ties[:5]])
        more = f" and {len(ties) - 5} more" if len(ties) > 5 else ""
        return f"Within the indifference of it, {counted(len(ties), 'other')}: {names}{more}."

    @property
    def outcomes_text(self) -> str:
        """Count how the trials ended."""
        parts = [f"{count} {outcome.value}" for outcome, count in self.outcomes.items()]
        return ", ".join(parts) or "no trial"


def story_of(
    results: Sequence[TrialResult],
    about: About,
    *,
    claim: Claim | None = None,
    hints: Mapping[str, str] | None = None,
    not_blamed: frozenset[str] = frozenset(),
) -> Story:
    """Derive the story of a sweep from its results; more trials may follow.

    `hints` say what to do about each failure signature, `not_blamed` are those for which no value
    is closed. `claim` is what the search stated; None where it plans nothing or was cut off.
    """
    goal, work = about.goal, about.workload
    ranking = rank(results, goal.metric, higher_is_better=goal.higher_is_better, limits=goal.limits)
    answer = answer_of(results, goal, claim)
    at_loads = loads(results, work) if work else ()
    closed = closed_values(results, not_blamed=not_blamed)
    return Story(
        about=about,
        results=tuple(results),
        emulated=any(r.emulated for r in results),
        unit=known_metric(goal.metric).unit,
        ranking=_as_told(ranking, answer, higher_is_better=goal.higher_is_better),
        answer=answer,
        grounds=_grounds(results),
        outcomes=Counter(r.outcome for r in results),
        loads=at_loads,
        crossing=stops_paying_at(at_loads),
        front=front(results, goal.directions) if goal.also else (),
        limited={r.trial: why for r in results if (why := broken_limits(r, goal.limits))
                 and r.may_lead},
        failures=failures_of(results, hints or {}),
        closed=closed,
        inert=without_effect(results),
        alike=said_alike(results),
        pins=_pins(results),
        ledger=ledger(
            results, about.clock_scales, collapsed=about.collapsed, closed=len(closed),
            unit=about.hours_unit,
        ),
        caveats=tuple(caveats_of(results, answer, work, is_over=about.status != RUNNING)),
    )  # fmt: skip


def _as_told(ranking: Ranking, answer: Answer | None, *, higher_is_better: bool) -> Ranking:
    """Return a ranking with the figures of the answer, so that a variant has one figure only."""
    if answer is None:
        return ranking
    told = {s.variant: s for s in (answer.plain, answer.standing) if s is not None}
    standings = [told.get(standing.variant, standing) for standing in ranking.standings]
    standings.sort(key=lambda s: s.value, reverse=higher_is_better)
    base = ranking.baseline
    return replace(
        ranking, standings=tuple(standings), baseline=base and told.get(base.variant, base)
    )


def _grounds(results: Sequence[TrialResult]) -> tuple[Ground, ...]:
    places = Counter((r.host, r.engine_version, r.fingerprint, r.emulated) for r in results)
    return tuple(Ground(*place, trials) for place, trials in places.items())


def _pins(results: Sequence[TrialResult]) -> dict[str, Value]:
    """Return what every server was given alike beside its configuration."""
    given = [r.requested for r in results if r.requested]
    swept = {name for r in results for name in r.config}
    if not given:
        return {}
    last = given[-1]
    return {
        name: value
        for name, value in last.items()
        if name not in swept and value is not None
        and all(other.get(name, value) == value for other in given)
    }  # fmt: skip
