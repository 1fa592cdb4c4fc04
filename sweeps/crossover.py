"""Where speculation stops paying: the winner at each concurrency, and where it changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from sweeps.metrics import loaded_name
from sweeps.ranking import INDIFFERENCE_FRACTION, LAUNCH_CV, Standing, rank
from sweeps.results import TrialResult
from sweeps.workloads import Workload

RATE = "decode_tok_s"
NOT_CONFIRMED = "not confirmed on fresh starts"
_QUANTILE = 1.96


@dataclass(frozen=True, slots=True)
class Load:
    """The best plain decode and the best speculative variant at one concurrency."""

    concurrency: int
    plain: Standing
    speculative: Standing

    @property
    def gain(self) -> float:
        """Return the rate of speculation over that of plain decode."""
        return self.speculative.value / self.plain.value

    @property
    def gain_half_width(self) -> float:
        """Return the half-width of the 95 % interval of the gain: starts differ, and blocks."""
        return gain_half_width(self.speculative, self.plain)

    @property
    def winner(self) -> Standing | None:
        """Return who wins by more than a tie; None where neither surely does."""
        lead = abs(self.gain - 1)
        if lead <= max(INDIFFERENCE_FRACTION, self.gain_half_width):
            return None
        return self.speculative if self.gain > 1 else self.plain

    @property
    def verdict(self) -> str:
        """Say who wins."""
        if self.winner is None:
            return "tie"
        return "speculation" if self.winner is self.speculative else "plain decode"

    @property
    def remark(self) -> str:
        """Say that the speculative variant leads by starts that nobody repeated after the choice;
        empty where it was confirmed."""
        return "" if self.speculative.confirmed else f", {NOT_CONFIRMED}"


def loads(results: Sequence[TrialResult], workload: Workload) -> tuple[Load, ...]:
    """Return each concurrency at which both kinds were measured, lowest first."""
    found = []
    for concurrency in sorted({workload.concurrency, *workload.concurrencies}):
        alone = concurrency == workload.concurrency
        name = RATE if alone else loaded_name(RATE, concurrency)
        standings = rank(results, name, higher_is_better=True).standings
        plain = next((s for s in standings if s.config.is_plain), None)
        speculative = next((s for s in standings if not s.config.is_plain), None)
        if plain and speculative:
            found.append(Load(concurrency, plain, speculative))
    return tuple(found)


def gain_half_width(ours: Standing, theirs: Standing) -> float:
    """Return half the 95 % interval of one rate over another: starts differ, and blocks."""
    spreads = [_relative_half(one) for one in (ours, theirs)]
    return ours.value / theirs.value * sqrt(sum(spread * spread for spread in spreads))


def stops_paying_at(table: Sequence[Load]) -> int | None:
    """Return the lowest concurrency from which on speculation never wins any more.

    None where it wins at the highest that was measured, or at none: then nothing crosses.
    """
    wins = [load.verdict == "speculation" for load in table]
    if not any(wins) or wins[-1]:
        return None
    last = max(i for i, won in enumerate(wins) if won)
    return table[last + 1].concurrency


def _relative_half(standing: Standing) -> float:
    """Return the half-width of a rate as a fraction: between starts, and within them."""
    between = _QUANTILE * LAUNCH_CV / sqrt(standing.starts)
    if standing.low is None or standing.high is None:
        return between
    within = (standing.high - standing.low) / 2 / standing.value
    return max(between, within)
