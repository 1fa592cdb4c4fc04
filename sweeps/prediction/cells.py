"""Every cell of a space predicted: rate, break-even, and what a start of it would be worth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.intervals import Interval, from_log
from sweeps.search.beliefs import Table
from sweeps.search.evidence import PRIOR
from sweeps.search.looks import Look
from sweeps.search.roles import drafting_of, serving_of, trait_of, width_of

_MS_PER_S = 1000.0


@dataclass(frozen=True, slots=True)
class Cell:
    """What is expected of one configuration."""

    config: Config
    tok_s: Interval
    accept: Interval
    cycle_ms: Interval
    break_even: Interval
    """The accept length at which it is as fast as the best plain decode that is known."""
    speed_up: Interval
    dominated: bool
    """Even drafts that are always right would leave it below plain decode: it is never started."""
    gain_per_gpu_hour: float
    measured: bool

    @property
    def width(self) -> int:
        """Return the tokens that a step verifies."""
        return width_of(self.config)

    @property
    def verdict(self) -> str:
        """Say whether it gains on plain decode, as far as the interval can tell."""
        low, high = self.speed_up.low or 0.0, self.speed_up.high or math.inf
        if self.dominated:
            return "dominated"
        if low > 1:
            return "gains"
        return "loses" if high < 1 else "open"

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        parts = {
            "tok_s": self.tok_s, "accept": self.accept, "cycle_ms": self.cycle_ms,
            "break_even": self.break_even, "speed_up": self.speed_up,
        }  # fmt: skip
        return {
            "config": dict(self.config),
            "variant": self.config.variant,
            **{name: interval_data(part) for name, part in parts.items()},
            "dominated": self.dominated,
            "verdict": self.verdict,
            "gain_per_gpu_hour": self.gain_per_gpu_hour,
            "measured": self.measured,
        }


def interval_data(interval: Interval) -> dict[str, float | None]:
    """Return plain data of a number with its interval."""
    return {"value": interval.value, "low": interval.low, "high": interval.high}


def cells_of(look: Look) -> list[Cell]:
    """Predict every draft at the default, at each bold setting and at what was measured, fastest
    first. Other settings of communication differ by little that is known before a start."""
    outlook = look.outlook
    measured = {v.config for v in look.evidence.variants.values() if _is_measured(look, v.config)}
    columns = _columns(look, measured)
    plain = _best_plain(look)
    rate = Table(outlook.mean, outlook.variance)
    over = outlook.cycle_over(plain)
    gain = Table(outlook.accept.mean - over.mean, outlook.accept.variance + over.variance)
    found: dict[Config, Cell] = {}
    for row, draft in enumerate(outlook.drafts):
        for column in columns:
            config = look.join(draft, outlook.servings[column])
            if config is None or config in found:
                continue
            at = row, column
            found[config] = Cell(
                config, _interval(rate, at), _interval(outlook.accept, at),
                _interval(outlook.cycle, at, _MS_PER_S), _interval(over, at), _interval(gain, at),
                bool(look.dominated[at]), float(look.gain_per_gpu_hour[at]), config in measured,
            )  # fmt: skip
    return sorted(found.values(), key=lambda cell: -cell.tok_s.value)


def _is_measured(look: Look, config: Config) -> bool:
    starts = look.evidence.variants[config].starts
    return any(start.purpose != PRIOR for start in starts)


def _columns(look: Look, measured: set[Config]) -> Sequence[int]:
    """Return the places of the servings that may have a curve of their own."""
    servings = look.outlook.servings
    known = {serving_of(config) for config in measured}
    plain = look.default
    return [
        column
        for column, serving in enumerate(servings)
        if serving in known
        or all(trait_of(n).bold for n, v in serving.items() if plain.get(n) != v)
    ]


def _best_plain(look: Look) -> tuple[int, int]:
    """Return where the fastest plain decode is that was measured, or expected by a profile."""
    outlook = look.outlook
    plains = [v for v in look.evidence.variants.values() if v.config.is_plain]
    best = min(plains, key=lambda v: v.cycle.value).config
    draft, serving = drafting_of(best), serving_of(best)
    return outlook.drafts.index(draft), outlook.servings.index(serving)


def _interval(table: Table, at: tuple[int, int], scale: float = 1.0) -> Interval:
    return from_log(float(table.mean[at]) + math.log(scale), float(table.variance[at]))
