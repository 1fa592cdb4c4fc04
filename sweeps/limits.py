"""Limits on other metrics that a variant must keep to be recommended: service levels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeps.metrics import METRICS, known_metric, metric_named
from sweeps.problems import Problem, nearest
from sweeps.results import TrialResult


@dataclass(frozen=True, slots=True)
class Limit:
    """What a metric may be at most, or must be at least, in the metric's own unit."""

    metric: str
    most: float | None = None
    least: float | None = None

    def broken_by(self, result: TrialResult) -> str:
        """Say how a trial breaks the limit; empty where it keeps it.

        A metric that was not measured breaks it: nobody knows that the limit is kept.
        """
        value = result.value(self.metric)
        if value is None:
            return f"{self.metric} was not measured"
        unit = known_metric(self.metric).unit
        if self.most is not None and value > self.most:
            return f"{self.metric} is {value:.4g} {unit}, above {self.most:g}"
        if self.least is not None and value < self.least:
            return f"{self.metric} is {value:.4g} {unit}, below {self.least:g}"
        return ""

    def __str__(self) -> str:
        ends = (("at least", self.least), ("at most", self.most))
        told = " and ".join(f"{word} {end:g}" for word, end in ends if end is not None)
        return f"{self.metric} {told} {known_metric(self.metric).unit}"

    def problems(self) -> Iterator[Problem]:
        """List what is wrong with the limit itself."""
        field = f"objective.limits.{self.metric}"
        if metric_named(self.metric) is None:
            mend = nearest(self.metric, METRICS) or f"There are {', '.join(METRICS)}."
            yield Problem("objective.limits", self.metric, "no metric", mend)
        if self.most is None and self.least is None:
            yield Problem(field, "None", "it limits nothing", "Give `most` or `least`.")
        if self.most is not None and self.least is not None and self.most < self.least:
            shown = f"at least {self.least:g}, at most {self.most:g}"
            yield Problem(field, shown, "no value keeps both", "Lower `least`, or raise `most`.")

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {"metric": self.metric, "most": self.most, "least": self.least}

    @classmethod
    def from_data(cls, data: dict[str, object]) -> "Limit":
        """Read back what `as_data` wrote."""
        return cls(**data)  # type: ignore[arg-type] # written by as_data, field by field


def broken_limits(result: TrialResult, limits: Sequence[Limit]) -> tuple[str, ...]:
    """Say which limits a trial breaks, and how."""
    return tuple(why for limit in limits if (why := limit.broken_by(result)))


def contradictions(limits: Sequence[Limit]) -> Iterator[Problem]:
    """List limits on one metric that no value keeps together."""
    for name in dict.fromkeys(limit.metric for limit in limits):
        of_one = [limit for limit in limits if limit.metric == name]
        most = min((limit.most for limit in of_one if limit.most is not None), default=None)
        least = max((limit.least for limit in of_one if limit.least is not None), default=None)
        if len(of_one) > 1 and most is not None and least is not None and most < least:
            shown = f"at least {least:g}, at most {most:g}"
            why = "no value keeps both limits"
            yield Problem(f"objective.limits.{name}", shown, why, "Loosen one of them.")
