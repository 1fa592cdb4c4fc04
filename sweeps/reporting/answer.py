"""What a sweep recommends, how sure that is, and the figures that it states: one answer for the
terminal, `explain`, the report, MLflow and the export."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.crossover import NOT_CONFIRMED, gain_half_width
from sweeps.limits import broken_limits
from sweeps.metrics import known_metric
from sweeps.naming import short
from sweeps.phrases import Measured, counted, figure, listed
from sweeps.ranking import Ranking, Standing, rank, standing_of
from sweeps.results import TrialResult
from sweeps.search.claims import Claim, Verdict
from sweeps.sweep import Objective

_DECISIONS = {Verdict.GAIN: "a gain", Verdict.TIE: "a tie", Verdict.LOSS: "plain decode wins"}


@dataclass(frozen=True, slots=True)
class StatedGain:
    """How many times as good one variant is as another; above 1 is better, whatever the metric."""

    over: Config
    value: float
    low: float | None
    high: float | None
    how: str
    """Where it comes from, in words."""
    trials: tuple[str, ...]

    def __str__(self) -> str:
        return f"{ratio_text(self)} x {short(self.over)}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The recommendation of a sweep so far."""

    standing: Standing
    """The recommendation: its rate over its fresh starts, where it has any."""
    plain: Standing | None
    """The plain decode that is recommended or that the gain is over, or else the best one."""
    ties: tuple[Standing, ...]
    """Others within the indifference."""
    gain: StatedGain | None
    """Over the best plain decode; None where that is what is recommended."""
    over_baseline: StatedGain | None
    """Over a server with nothing changed; None where that is what is recommended."""
    verdict: Verdict | None
    """None where nothing was compared on fresh starts: the answer is provisional."""
    settled: bool
    sure: tuple[str, ...]
    """How sure all this is, in sentences."""

    @property
    def certainty(self) -> str:
        """Say in a few words how sure it is."""
        if self.verdict is None:
            return "provisional"
        return f"settled: {_DECISIONS[self.verdict]}" if self.settled else "undecided"

    @property
    def trial(self) -> str:
        """Return the trial whose server is to be started again."""
        return self.standing.used[-1]

    @property
    def gains(self) -> tuple[StatedGain, ...]:
        """Return what is gained, without saying the same twice."""
        stated = (self.gain, None if self.over_baseline == self.gain else self.over_baseline)
        return tuple(gain for gain in stated if gain is not None)

    def recommends(self, result: TrialResult) -> bool:
        """Tell whether a trial is a start of what is recommended."""
        return result.trial in self.standing.trials


def answer_of(
    results: Sequence[TrialResult], goal: Objective, claim: Claim | None = None
) -> Answer | None:
    """Return the answer of a sweep; None before anything was measured that keeps the limits.

    It is the claim's, if there is one. Otherwise the ranking's, which is never settled.
    """
    told = _Told(results, goal)
    if told.ranking.best is None:
        return None
    if claim is None:
        return told.provisional()
    standing = told.standing(claim.recommendation, claim.proofs)
    if standing is None:
        name = short(claim.recommendation)
        return told.provisional(f"The search chose {name}, of which no rate counts any more.")
    if broken := told.broken(standing):
        name, why = short(claim.recommendation), listed(list(broken))
        return told.provisional(f"The search chose {name}, which breaks a limit: {why}.")
    return told.claimed(claim, standing)


def gain_of(standing: Standing, over: Standing, *, higher_is_better: bool) -> StatedGain:
    """Return how much better one standing is than another, as all their starts have it."""
    ours, theirs = (standing, over) if higher_is_better else (over, standing)
    half = gain_half_width(ours, theirs)
    ratio = ours.value / theirs.value
    how = f"means over {_starts(standing)} and {_starts(over)}"
    if standing.confirmed:
        how += ", its own made after the choice"
    trials = (*standing.used, *over.used)
    return StatedGain(over.config, ratio, ratio - half, ratio + half, how, trials)


def ratio_text(gain: Measured) -> str:
    """Write a ratio with its interval, to the part in a thousand."""
    if gain.low is None or gain.high is None:
        return f"{gain.value:.3f}"
    return f"{gain.value:.3f} (95 % interval {gain.low:.3f} to {gain.high:.3f})"


class _Told:
    """The results of a sweep, and its ranking within the limits."""

    def __init__(self, results: Sequence[TrialResult], goal: Objective) -> None:
        self._results, self._goal = results, goal
        self._upwards = goal.higher_is_better
        self.ranking: Ranking = rank(
            results, goal.metric, higher_is_better=self._upwards, limits=goal.limits
        )

    def provisional(self, said: str = "") -> Answer:
        """Return the answer of the ranking alone; `said` is why no claim stands."""
        ranking, best = self.ranking, self.ranking.best
        assert best is not None, "something was measured"
        gain = None if best.config.is_plain else self._over(best, ranking.plain)
        return Answer(
            best, ranking.plain, tuple(s for s in ranking.ties if s != best), gain,
            self._over(best, ranking.baseline), None, False,
            tuple(filter(None, [said, self._of_chance(best)])),
        )  # fmt: skip

    def claimed(self, claim: Claim, standing: Standing) -> Answer:
        """Return the answer of a claim; `standing` is where its recommendation stands."""
        stated, plain = self._stated(claim), self.ranking.plain
        if standing.config.is_plain:
            plain = standing
        elif claim.gain is not None:
            beside = set(claim.gain.starts) - set(claim.proofs)
            plain = self.standing(claim.gain.over, beside) or plain
        over = self.ranking.baseline
        gain = None if standing.config.is_plain else stated or self._over(standing, plain)
        is_baseline = stated is not None and over is not None and stated.over == over.config
        liked = {config.variant for config in claim.ties}
        return Answer(
            standing, plain,
            tuple(s for s in self.ranking.standings if s.variant in liked - {standing.variant}),
            gain, stated if is_baseline else self._over(standing, over),
            _verdict(claim), claim.settled, tuple(self._sure(claim, standing)),
        )  # fmt: skip

    def standing(self, config: Config, places: Collection[int]) -> Standing | None:
        """Return where a configuration stands by its starts in some places of the history, or else
        by all of them; None without any that may be ranked."""
        group = [
            result
            for place, result in enumerate(self._results)
            if (result.config == config or place in places)
            and result.may_lead
            and self._goal.metric in result.estimates
        ]
        fresh = {self._results[place].trial for place in places}
        return standing_of(group, self._goal.metric, fresh) if group else None

    def broken(self, standing: Standing) -> tuple[str, ...]:
        """Say which limits the starts of a standing break."""
        used = [result for result in self._results if result.trial in standing.used]
        broken = (why for result in used for why in broken_limits(result, self._goal.limits))
        return tuple(dict.fromkeys(broken))

    def _over(self, standing: Standing, other: Standing | None) -> StatedGain | None:
        if other is None or other.config == standing.config:
            return None
        if not other.value or not standing.value:
            return None
        return gain_of(standing, other, higher_is_better=self._upwards)

    def _stated(self, claim: Claim) -> StatedGain | None:
        gain = claim.gain
        if gain is None:
            return None
        how = f"{counted(len(gain.starts), 'start')} made after the choice, interval over starts"
        trials = tuple(self._results[place].trial for place in gain.starts)
        return StatedGain(gain.over, gain.ratio, gain.low, gain.high, how, trials)

    def _sure(self, claim: Claim, standing: Standing) -> Iterator[str]:
        """Say how far the answer can be trusted."""
        if not claim.proofs:
            lost = claim.verdict is not Verdict.UNDECIDED
            reason = "the starts that confirmed it count no more" if lost else claim.reason
            yield f"Provisional, {NOT_CONFIRMED}: {reason}."
        elif claim.settled:
            yield f"Settled: {_DECISIONS[claim.verdict]}. {_why_settled(claim)}"
        else:
            yield f"Undecided: {claim.reason}.{_why_undecided(claim)}{_what_decides(claim)}"
        if claim.rejected is not None:
            name, gain = short(claim.rejected.config), claim.rejected.gain
            ratio = f"{gain.ratio:.3f} (95 % interval {gain.low:.3f} to {gain.high:.3f})"
            starts = counted(len(gain.starts), "fresh start")
            yield f"{self._word}{name} was {ratio} x {short(gain.over)} in {starts} of the two."
        yield from self._of_luck(standing)

    def _of_luck(self, standing: Standing) -> Iterator[str]:
        """Name what measured more and was not confirmed."""
        sign = 1 if self._upwards else -1
        ahead = [
            other
            for other in self.ranking.standings
            if sign * other.value > sign * standing.value and not other.confirmed
            and other.variant != standing.variant
        ]  # fmt: skip
        if not ahead:
            return
        first = ahead[0]
        trials = listed([str(r.number) for r in self._results if r.trial in first.used])
        rate = figure(first.value, known_metric(self._goal.metric).unit)
        better = "more" if self._upwards else "less"
        yield (
            f"{self._word}{'Trial' if len(first.used) == 1 else 'Trials'} {trials}"
            f" ({short(first.config)}) measured {better} once, {rate}; it was not confirmed."
        )
        if len(ahead) > 1:
            rest = counted(len(ahead) - 1, "other variant")
            yield f"So did {rest}, none of them confirmed."

    def _of_chance(self, best: Standing) -> str:
        """Say why a ranking alone decides nothing."""
        if best.confirmed:
            return (
                f"Provisional: its value comes from {_starts(best)} made after it was chosen, and"
                " no gain was tested on fresh starts."
            )
        if len(self.ranking.standings) == 1:
            return f"Provisional, {NOT_CONFIRMED}: nothing else was measured."
        variants = counted(len(self.ranking.standings), "variant")
        return (
            f"Provisional, {NOT_CONFIRMED}: it leads among {variants} that were measured, and the"
            " best of many reads high."
        )

    @property
    def _word(self) -> str:
        return "EMULATED " if any(result.emulated for result in self._results) else ""


def _verdict(claim: Claim) -> Verdict | None:
    if not claim.proofs:
        return None
    return claim.verdict if claim.settled else Verdict.UNDECIDED


def _why_settled(claim: Claim) -> str:
    zone = _percent(claim.zone)
    if claim.verdict is Verdict.GAIN:
        return "The 95 % interval of the gain, over fresh starts, lies above 1."
    if claim.verdict is Verdict.LOSS:
        return "Nothing that was tried is as fast, by fresh starts."
    if claim.gain is None:
        return f"By fresh starts, nothing that was tried is faster by more than {zone}."
    return f"The 95 % interval of the gain, over fresh starts, lies within 1 ± {zone}."


def _why_undecided(claim: Claim) -> str:
    gain = claim.tested
    if gain is None or claim.verdict is not Verdict.UNDECIDED or not gain.low <= 1 <= gain.high:
        return ""
    return (
        " The 95 % interval of the gain holds 1, and is too wide for a tie within"
        f" ± {_percent(claim.zone)}."
    )


def _what_decides(claim: Claim) -> str:
    if claim.further_starts is None:
        return ""
    starts = counted(claim.further_starts, "further start")
    hours = claim.further_gpu_hours
    cost = f", {figure(hours)} GPU-hours," if hours else ""
    return (
        f" About {starts} of each side{cost} would decide it, by the spread between starts seen so"
        " far."
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %"


def _starts(standing: Standing) -> str:
    return counted(standing.starts, "start")
