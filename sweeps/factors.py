"""tok/s taken apart: accept length, step rate, and what plain decode makes the two need.

A verify step costs more than a plain step; the ratio of the two is the accept length at which
speculation breaks even, and accept length over break-even is the speed-up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.intervals import Interval, interval_of, quotient
from sweeps.ranking import Standing, rank
from sweeps.results import Estimate, TrialResult
from sweeps.search.roles import drafting_of
from sweeps.values import Value

AGREEMENT_FRACTION = 0.02
"""The product of the factors and the rate may differ by this much: edges of requests and rounding
differ, the tokens and seconds are the same."""

_RATE, _LENGTH, _STEPS, _CYCLE = "decode_tok_s", "accept_length", "steps_per_s", "cycle_ms"


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """A rate beside the product of its factors, which are counted on their own."""

    tok_s: float
    product_tok_s: float

    @property
    def gap_fraction(self) -> float:
        """Return how far the product lies from the rate."""
        return self.product_tok_s / self.tok_s - 1

    @property
    def agrees(self) -> bool:
        """Tell whether the three numbers can all be right."""
        return abs(self.gap_fraction) <= AGREEMENT_FRACTION


def cross_check(estimates: Mapping[str, Estimate], *, streams: int = 1) -> CrossCheck | None:
    """Check tok/s = accept length x steps/s x streams; None where one of them is not known.

    Where requests were cut off it compares unlike requests: the factors come from the finished.
    """
    if not all(name in estimates for name in (_RATE, _LENGTH, _STEPS)):
        return None
    rate = estimates[_RATE].value
    product = estimates[_LENGTH].value * estimates[_STEPS].value * streams
    return CrossCheck(rate, product) if rate > 0 else None


def best_plain_step(results: Sequence[TrialResult], host: str) -> Standing | None:
    """Find the plain decode with the shortest step on a host, over all of its starts.

    Settings that speed plain decode up raise the bar for all. Another host says nothing.
    """
    here = [r for r in results if r.host == host and r.config.is_plain]
    return rank(here, _CYCLE, higher_is_better=False).plain


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most tokens that a step can bring, and how that is known."""

    tokens_per_step: float
    reason: str


def ceiling_of(
    config: Config, settings: Mapping[str, Value], results: Sequence[TrialResult]
) -> Ceiling | None:
    """Return the most tokens per step of a variant; None where nothing says.

    Accept length does not depend on communication: what a trial with the same draft settings
    measured, at the upper end of its interval, holds for this one. `settings` are the server's.
    """
    if config.is_plain:
        return Ceiling(1.0, "token each, as plain decode has it")
    alike = [
        r.estimates[_LENGTH].high
        for r in results
        if r.may_lead and _LENGTH in r.estimates and drafting_of(r.config) == drafting_of(config)
    ]
    known = [high for high in alike if high is not None]
    if known:
        return Ceiling(max(known), "tokens each, at most what these draft settings measured")
    drafted = settings.get("speculative_num_draft_tokens")
    if type(drafted) is not int:
        return None
    return Ceiling(float(drafted), "tokens each, were every draft accepted")


@dataclass(frozen=True, slots=True)
class Factors:
    """What decides whether a speculative variant pays."""

    accept_length: Interval
    cycle_ms: Interval
    plain_step_ms: Interval
    most_per_step: int | None
    """Draft tokens of a verify step: accept length can never be more. None where unknown."""

    @property
    def break_even(self) -> Interval:
        """Return the accept length at which the variant is as fast as plain decode."""
        return quotient(self.cycle_ms, self.plain_step_ms)

    @property
    def speed_up(self) -> Interval:
        """Return the rate over that of plain decode."""
        return quotient(self.accept_length, self.break_even)

    @property
    def most_tok_s(self) -> float | None:
        """Return the rate of this cycle if every draft were accepted, of one stream."""
        if self.most_per_step is None:
            return None
        return 1000 * self.most_per_step / self.cycle_ms.value

    @property
    def can_pay(self) -> bool:
        """Tell whether any text could lift the variant over plain decode at this cycle."""
        least = self.break_even.value if self.break_even.low is None else self.break_even.low
        return self.most_per_step is None or self.most_per_step >= least

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        parts = {
            "accept_length": self.accept_length, "cycle_ms": self.cycle_ms,
            "plain_step_ms": self.plain_step_ms, "break_even": self.break_even,
            "speed_up": self.speed_up,
        }  # fmt: skip
        data: dict[str, object] = {
            name: {"value": part.value, "low": part.low, "high": part.high}
            for name, part in parts.items()
        }
        return {**data, "most_per_step": self.most_per_step, "most_tok_s": self.most_tok_s}


def factors_of(result: TrialResult, plain_step: Standing | None) -> Factors | None:
    """Take a speculative trial apart; None for plain decode and where a factor is not known."""
    length, cycle = result.estimates.get(_LENGTH), result.estimates.get(_CYCLE)
    if result.config.is_plain or plain_step is None or length is None or cycle is None:
        return None
    if cycle.value <= 0 or plain_step.value <= 0:
        return None
    name = "speculative_num_draft_tokens"
    most = result.effective.get(name, result.config.get(name))
    return Factors(
        interval_of(length),
        interval_of(cycle),
        Interval(plain_step.value, plain_step.low, plain_step.high),
        most if type(most) is int else None,
    )
