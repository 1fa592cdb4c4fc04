"""What is known of one trial beyond its numbers: its sweep, its requests and its texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sweeps.config import Config
from sweeps.factors import Factors, best_plain_step, factors_of
from sweeps.hosts import GPU_HOURS
from sweeps.quality import QualityReport, Verdict
from sweeps.ranking import Ranking, Standing, rank
from sweeps.records import EndReason
from sweeps.reporting.answer import Answer
from sweeps.results import Estimate, Outcome, Phase, TrialResult

RATE = "decode_tok_s"


@dataclass(frozen=True, slots=True)
class RequestEnd:
    """How one request of a trial ended, and with how many tokens."""

    phase: str
    end: EndReason
    output_tokens: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A trial that has ended, with all that its sweep found out. `results` hold it too."""

    result: TrialResult
    results: Sequence[TrialResult]
    requests: Sequence[RequestEnd] = ()
    prompts: int | None = None
    """Prompts of the measured pass; None where that is not on record."""
    streams: int | None = None
    """Requests at a time in the measured pass; None where that is not on record."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names of the space to the flags that they became."""
    quality: QualityReport | None = None
    """How its texts stand to plain decode's; None where nobody compared them."""
    answer: Answer | None = None
    """What its sweep recommends; None where that is not asked for, or nothing was measured."""

    hours_unit: str = GPU_HOURS

    @property
    def word(self) -> str:
        """Return what every number of an emulated trial must carry."""
        return "EMULATED " if self.result.emulated else ""

    @property
    def rate(self) -> Estimate | None:
        """Return the rate of the measured pass."""
        return self.result.estimates.get(RATE)

    @property
    def comparable(self) -> list[TrialResult]:
        """Return the trials of the same host: another host's numbers say nothing about this one."""
        return [r for r in self.results if r.host == self.result.host]

    @property
    def baseline(self) -> Config | None:
        """Return plain decode with every setting at its default; None where it was not tried."""
        return next((r.config for r in self.results if r.purpose == "baseline"), None)

    @property
    def plain_step(self) -> Standing | None:
        """Return the shortest step of plain decode on this host, in milliseconds."""
        return best_plain_step(self.results, self.result.host)

    @property
    def factors(self) -> Factors | None:
        """Return the rate taken apart."""
        return factors_of(self.result, self.plain_step)

    @property
    def by_rate(self) -> Ranking:
        """Return the variants of this host by their rate."""
        return rank(self.comparable, RATE, higher_is_better=True)

    @property
    def standing(self) -> Standing | None:
        """Return where the variant stands over all of its trials."""
        variant = self.result.config.variant
        return next((s for s in self.by_rate.standings if s.variant == variant), None)

    @property
    def plain(self) -> Standing | None:
        """Return the plain decode to compare with on this host: what the gain of the sweep is over,
        where that was measured here."""
        told = self.answer.plain if self.answer else None
        return (self._standing_of(told) if told else None) or self.by_rate.plain

    @property
    def recommended(self) -> Standing | None:
        """Return what the sweep recommends, or else the fastest; None where none was measured."""
        told = self.answer.standing if self.answer else None
        return (self._standing_of(told) if told else None) or self.by_rate.best

    def _standing_of(self, told: Standing) -> Standing | None:
        return next((s for s in self.by_rate.standings if s.variant == told.variant), None)

    @property
    def is_recommended(self) -> bool:
        """Tell whether it is a start of what its sweep recommends."""
        return self.answer is not None and self.answer.recommends(self.result)

    @property
    def is_broken(self) -> bool:
        """Tell whether the variant writes something else than plain decode."""
        return self.quality is not None and self.quality.verdict is Verdict.BROKEN

    def requests_of(self, phase: Phase) -> list[RequestEnd]:
        """Return the requests of a phase."""
        return [r for r in self.requests if r.phase == phase.value]

    def measured_settings(self) -> int:
        """Count the configurations of this algorithm of which the sweep has a rate or a bound."""
        seen = (r for r in self.results if r.outcome.has_rate or r.outcome is Outcome.STOPPED)
        algorithm = self.result.config.algorithm
        return len({r.config.variant for r in seen if r.config.algorithm == algorithm})
