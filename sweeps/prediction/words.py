"""A prediction in sentences, and its surface as a table of widths by settings."""

from collections.abc import Iterator, Mapping, Sequence

from sweeps.config import Config
from sweeps.intervals import Interval
from sweeps.naming import short
from sweeps.phrases import figure, listed, with_interval
from sweeps.prediction.attribution import REFERENCE_TOKENS, Attribution
from sweeps.prediction.cells import Cell
from sweeps.prediction.prediction import Prediction
from sweeps.results import Estimate
from sweeps.search.roles import serving_of

FEW_ODDS = 0.05


def sentences(prediction: Prediction) -> Iterator[str]:
    """Say what is predicted: of plain decode, of each algorithm, and what to measure next."""
    plain = prediction.best_plain
    yield f"Plain decode: {with_interval(plain.tok_s, 'tok/s')}."
    for algorithm in algorithms(prediction.cells):
        yield from _of_algorithm(prediction, algorithm)
    lost = sum(cell.dominated for cell in prediction.cells)
    if lost:
        yield (
            f"{lost:,} of {len(prediction.cells):,} cells would stay below plain decode even if"
            " every draft were accepted; they are never started."
        )
    if prediction.attribution is not None:
        yield from _of_cost(prediction.attribution)
    yield _of_next(prediction)


def algorithms(cells: Sequence[Cell]) -> list[str]:
    """List the algorithms that are predicted."""
    return list(dict.fromkeys(c.config.algorithm for c in cells if c.config.algorithm))


def best_by_width(cells: Sequence[Cell], algorithm: str, serving: Config) -> dict[int, Cell]:
    """Return the fastest cell of each draft length, under some settings of communication."""
    found: dict[int, Cell] = {}
    for cell in cells:  # fastest first
        config = cell.config
        if config.algorithm == algorithm and serving_of(config) == serving:
            found.setdefault(cell.width, cell)
    return dict(sorted(found.items()))


def percents(speed_up: Interval) -> str:
    """Write a speed-up as a gain in percent: `+5 (-3 to +14)`."""
    low, high = speed_up.low, speed_up.high
    text = f"{100 * (speed_up.value - 1):+.0f}"
    if low is None or high is None:
        return text
    return f"{text} ({100 * (low - 1):+.0f} to {100 * (high - 1):+.0f})"


def _percent(speed_up: Interval) -> str:
    value, _, ends = percents(speed_up).partition(" ")
    return f"{value} % {ends}".strip()


def _of_algorithm(prediction: Prediction, algorithm: str) -> Iterator[str]:
    default = serving_of(prediction.plain)
    widths = best_by_width(prediction.cells, algorithm, default)
    at = widths.get(REFERENCE_TOKENS)
    if at is not None:
        yield (
            f"{algorithm} with {REFERENCE_TOKENS} draft tokens {_outcome(at)}: accept length"
            f" {with_interval(at.accept)} against a break-even of {with_interval(at.break_even)};"
            f" {_percent(at.speed_up)} on plain decode."
        )
    best = next((c for c in prediction.cells if c.config.algorithm == algorithm), None)
    if best is None:
        return
    if best.speed_up.value <= 1:
        yield (
            f"No draft length of {algorithm} is expected to gain: the best, {best.width} tokens, at"
            f" {_percent(best.speed_up)} ({short(best.config)})."
        )
        return
    sure = "gains" if best.verdict == "gains" else "is expected to gain"
    yield (
        f"{algorithm} {sure} most with {best.width} draft tokens: {_percent(best.speed_up)}, at"
        f" {figure(best.tok_s.value, 'tok/s')}, accept length {with_interval(best.accept)} against"
        f" a break-even of {with_interval(best.break_even)} ({short(best.config)})."
    )


def _outcome(cell: Cell) -> str:
    return {
        "gains": "gains", "loses": "loses", "dominated": "loses whatever the text",
        "open": "may gain or lose",
    }[cell.verdict]  # fmt: skip


def _of_cost(attribution: Attribution) -> Iterator[str]:
    likely = {name: odds for name, odds in attribution.odds.items() if odds >= FEW_ODDS}
    parts = [f"{name} ({odds:.0%})".replace("%", " %") for name, odds in likely.items()]
    yield f"What a verify of {REFERENCE_TOKENS} tokens costs most for: {listed(parts)}."
    share = attribution.communication
    if share is not None and attribution.timed:
        low, high = share.low or 0.0, share.high or 1.0
        yield (
            f"{share.value:.0%} ({low:.0%} to {high:.0%}) of a verify at the default is"
            " communication, by the all-reduces that were timed."
        ).replace("%", " %")
    elif share is None or share.value <= 0:
        yield "How much of a cycle is communication: unattributed, no contrast was measured."
    else:
        yield (
            f"At least {share.value:.0%} of a verify at the default is communication: other"
            " settings of it save so much. The rest is unattributed."
        ).replace("%", " %")
    if attribution.telling is not None:
        yield _telling(attribution.telling.cycles_ms, attribution)


def _telling(cycles_ms: Mapping[str, float], attribution: Attribution) -> str:
    assert attribution.telling is not None, "asked for"
    work = attribution.telling.work
    expected = [f"{figure(ms)} ms if {name}" for name, ms in cycles_ms.items()]
    where = short(Config.of({**work.serving}))
    where = where.removeprefix("plain").strip() or "nothing changed"
    return f"It would be told by a step of {work.width} tokens with {where}: {listed(expected)}."


def _of_next(prediction: Prediction) -> str:
    step = prediction.next_step
    if step is None or step.gain_per_gpu_hour is None:
        return "No start is expected to teach anything that would lift the best rate."
    return (
        f"Worth paying for next: {short(step.config)}. One start of it is expected to lift the best"
        f" rate by {step.gain_fraction or 0:.1%}, {step.gain_per_gpu_hour:.1%} a GPU-hour."
    ).replace("%", " %")


def disagreement(predicted: Interval, measured: Estimate) -> str:
    """Say that the intervals of a prediction and a measurement do not meet; empty where they do."""
    low, high = (measured.low or measured.value), (measured.high or measured.value)
    if predicted.low is None or predicted.high is None:
        return ""
    if low <= predicted.high and predicted.low <= high:
        return ""
    return (
        f"predicted {figure(predicted.value)} ({figure(predicted.low)} to {figure(predicted.high)})"
        f" tok/s, measured {figure(measured.value)}: the measurement counts"
    )
