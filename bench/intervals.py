"""How often the 95 % intervals hold, and how far a deadline bends a rate, over simulated streams.

The process is that of a server that speculates: stretches of easy and hard text (67 steps long on
average), geometric acceptance in each of at most 7 drafts, steps of 25 ms that drift (AR(1), 0.9)
and now and then stall. Each stream starts in its long-run state; the truth is the long-run rate of
the process.

- `coverage_60s_…`: share of runs whose interval holds the truth after 60 s of one stream, and
  `width_…` half the mean width of it over the truth. `blocks`: ours. `tokens_iid`: each token's own
  time, taken for independent. `chunks_iid`: tokens over time, each chunk taken for independent.
  `steps` is our interval for the step rate alone.
- `bias_at_…`: 16 streams of 1,024 tokens each are cut at the time at which a quarter, half or three
  quarters of them would have finished; mean rate per stream over the truth, less one. `ours`: the
  rate so far of all. `completed_only`: finished requests alone.
- `drift_alarm_…`: share of 180-s runs whose alarm rings, without any warm-up and with one.
- `chunk_gap_p90_…`: coverage of the bounds of a percentile over gaps that are no independent draws.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reporting.program import Figures, run
from sweeps import latencies, rates
from sweeps.drift import drift_of
from sweeps.records import EndReason, PassRecord, RequestRecord
from sweeps.results import Estimate
from sweeps.steps import Stepping

Floats = NDArray[np.float64]

RUNS, QUICK_RUNS = 4000, 2000
DURATIONS_S = (30, 60, 120)
MAIN_S, OTHERS_EVERY = 60, 4
"""All runs are scored after a minute; one in so many after other times too, and their gaps."""
BATCH = 500
STREAMS, STREAM_TOKENS = 16, 1024
MOST_STEPS = 800
"""Enough for every stream: 1,024 tokens take about 400 steps."""
DEADLINE_RUNS, QUICK_DEADLINE_RUNS = 1500, 400
DEADLINES = {"quarter": 0.25, "half": 0.5, "three_quarters": 0.75}
COLD = {"none": 0.0, "third_in_30s": 0.3, "half_in_30s": 0.5}
"""Acceptance that is missing at first, and fades with a time constant of 30 s."""
SEED = 20261129
STEP_S = 0.025
STALL_SHARE, STALL_S = 0.002, 0.2
ACCEPTANCE = (0.35, 0.75)
"""Of a drafted token, in hard and in easy text."""
MOST_TOKENS = 8
BY_CHUNKS = Stepping(plain=False, chunk_is_step=True)


@dataclass(frozen=True, slots=True)
class Truth:
    """The long-run rates of the process."""

    tok_s: float
    steps_per_s: float
    chunk_gap_p90_ms: float


@dataclass(slots=True)
class Score:
    """How often an interval held, and how wide it was."""

    truth: float
    held: int = 0
    runs: int = 0
    width: float = 0.0

    def take(self, low: float | None, high: float | None) -> None:
        """Count one interval; none at all holds nothing."""
        self.runs += 1
        if low is not None and high is not None:
            self.held += low <= self.truth <= high
            self.width += (high - low) / 2

    def figures(self, name: str) -> dict[str, float]:
        """Return the share that held and the mean half width over the truth."""
        return {
            f"coverage_{name}_ratio": self.held / self.runs,
            f"width_{name}_ratio": self.width / self.runs / self.truth,
        }


def measure(quick: bool) -> Figures:
    """Return coverages and biases."""
    rng = np.random.default_rng(SEED)
    truth = truth_of(rng)
    figures: dict[str, float] = {"runs_count": QUICK_RUNS if quick else RUNS}
    figures["truth_tok_per_s"] = truth.tok_s
    figures["truth_steps_per_s"] = truth.steps_per_s
    figures |= coverages(rng, truth, QUICK_RUNS if quick else RUNS)
    figures |= biases(rng, truth, QUICK_DEADLINE_RUNS if quick else DEADLINE_RUNS)
    return figures | alarms(rng, QUICK_DEADLINE_RUNS if quick else DEADLINE_RUNS)


def process(
    rng: np.random.Generator, runs: int, steps: int, *, cold: float = 0.0, warm_s: float = 30.0
) -> tuple[Floats, Floats]:
    """Draw step times in seconds and tokens per step of many streams.

    `cold` is the share of acceptance that is missing at first; it comes back as exp(-t/warm_s).
    """
    easy = rng.random(runs) < 0.5
    noise = rng.standard_normal(runs)
    times, tokens = np.empty((runs, steps)), np.empty((runs, steps))
    for i in range(steps):
        easy ^= rng.random(runs) < 1 / 67
        acceptance = np.where(easy, ACCEPTANCE[1], ACCEPTANCE[0]) * (
            1 - cold * np.exp(-i * STEP_S / warm_s)
        )
        tokens[:, i] = np.minimum(rng.geometric(1 - acceptance, runs), MOST_TOKENS)
        noise = 0.9 * noise + np.sqrt(1 - 0.9**2) * rng.standard_normal(runs)
        stalls = (rng.random(runs) < STALL_SHARE) * rng.exponential(STALL_S, runs)
        times[:, i] = STEP_S * np.maximum(0.2, 1 + 0.1 * noise) + stalls
    return times, tokens


def truth_of(rng: np.random.Generator) -> Truth:
    """Return the rates by their formulas, and the percentile over five million steps."""
    lengths = [(1 - p**MOST_TOKENS) / (1 - p) for p in ACCEPTANCE]
    cycle_s = STEP_S + STALL_SHARE * STALL_S
    times, _ = process(rng, 1000, 5000)
    gap_ms = 1000 * float(np.quantile(times, 0.9))
    return Truth(sum(lengths) / len(lengths) / cycle_s, 1 / cycle_s, gap_ms)


def coverages(rng: np.random.Generator, truth: Truth, runs: int) -> dict[str, float]:
    """Return how often each kind of interval held, at each duration."""
    scores = {
        f"{duration_s}s_{kind}": Score(of)
        for duration_s in DURATIONS_S
        for kind, of in (
            ("blocks", truth.tok_s), ("tokens_iid", truth.tok_s), ("chunks_iid", truth.tok_s),
            ("steps", truth.steps_per_s), ("chunk_gap_p90", truth.chunk_gap_p90_ms),
        )
    }  # fmt: skip
    fewer = runs // OTHERS_EVERY
    for duration_s, times, tokens in _runs(rng, fewer, DURATIONS_S):
        record = one_stream(times, tokens, duration_s)
        _score_rates(scores, duration_s, record, times, tokens)
        gap = latencies.chunk_gap(record, 0.9)
        scores[f"{duration_s}s_chunk_gap_p90"].take(*_ends(gap))
    for duration_s, times, tokens in _runs(rng, runs - fewer, (MAIN_S,)):
        record = one_stream(times, tokens, duration_s)
        _score_rates(scores, duration_s, record, times, tokens)
    return {n: v for name, score in scores.items() for n, v in score.figures(name).items()}


def _runs(
    rng: np.random.Generator, runs: int, durations_s: Sequence[int]
) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield a duration and the steps that one stream begins in it, for each run and duration."""
    steps = int(max(durations_s) / STEP_S * 1.1)
    for first in range(0, runs, BATCH):
        for times, tokens in zip(*process(rng, min(BATCH, runs - first), steps), strict=True):
            arrivals_s = np.cumsum(times)
            for duration_s in durations_s:
                begun = int(np.searchsorted(arrivals_s, duration_s)) + 1
                yield duration_s, times[:begun], tokens[:begun]


def _score_rates(
    scores: dict[str, Score], duration_s: int, record: PassRecord, times: Floats, tokens: Floats
) -> None:
    found = {
        "blocks": _ends(rates.decode_rate(record)),
        "steps": _ends(rates.steps_per_s(record, stepping=BY_CHUNKS)),
        "tokens_iid": tokens_iid(times[:-1], tokens[:-1]),
        "chunks_iid": chunks_iid(times[:-1], tokens[:-1]),
    }
    for kind, (low, high) in found.items():
        scores[f"{duration_s}s_{kind}"].take(low, high)


def _ends(estimate: Estimate | None) -> tuple[float | None, float | None]:
    return (None, None) if estimate is None else (estimate.low, estimate.high)


def tokens_iid(times: Floats, tokens: Floats) -> tuple[float, float]:
    """Return the interval of one over the mean time of a token, each token one observation."""
    gaps = np.repeat(times / tokens, tokens.astype(np.int64))
    half = 1.96 * gaps.std(ddof=1) / np.sqrt(gaps.size)
    return float(1 / (gaps.mean() + half)), float(1 / (gaps.mean() - half))


def chunks_iid(times: Floats, tokens: Floats) -> tuple[float, float]:
    """Return the interval of tokens over time, each chunk one observation."""
    rate = tokens.sum() / times.sum()
    residuals = tokens - rate * times
    half = 1.96 * np.sqrt((residuals**2).sum()) / times.sum()
    return float(rate - half), float(rate + half)


def biases(rng: np.random.Generator, truth: Truth, runs: int) -> dict[str, float]:
    """Return how far each way to read a cut pass lies from the truth, on average."""
    found: dict[str, list[float]] = {}
    times, tokens = process(rng, runs * STREAMS, MOST_STEPS)
    for i in range(0, runs * STREAMS, STREAMS):
        streams = [_request(times[j], tokens[j], STREAM_TOKENS) for j in range(i, i + STREAMS)]
        ends_s = [request.ended_s for request in streams]
        for name, share in DEADLINES.items():
            limit_s = float(np.quantile(ends_s, share))
            record = _pass([cut(request, limit_s) for request in streams], STREAMS)
            done = [r for r in record.requests if r.end is EndReason.FINISHED]
            _note(found, f"bias_at_{name}_ours", rates.stream_rate(record))
            _note(found, f"bias_at_{name}_completed_only", rates.stream_rate(_pass(done, STREAMS)))
    return {f"{n}_ratio": float(np.mean(v)) / truth.tok_s - 1 for n, v in found.items()}


def _note(found: dict[str, list[float]], name: str, estimate: Estimate | None) -> None:
    if estimate is not None:
        found.setdefault(name, []).append(estimate.value)


def alarms(rng: np.random.Generator, runs: int) -> dict[str, float]:
    """Return how often the drift alarm rings in 180 s, without and with a warm-up."""
    figures = {}
    for name, cold in COLD.items():
        made = zip(*process(rng, runs, 7800, cold=cold), strict=True)
        drifts = [drift_of(one_stream(times, tokens, 180.0)) for times, tokens in made]
        rang = sum(drift is not None and drift.is_alarming for drift in drifts)
        figures[f"drift_alarm_{name}_ratio"] = rang / runs
    return figures


def one_stream(times: Floats, tokens: Floats, duration_s: float) -> PassRecord:
    """Return a pass of one stream that met its deadline."""
    return _pass([cut(_request(times, tokens, None), duration_s)], 1)


def _request(times: Floats, tokens: Floats, limit: int | None) -> RequestRecord:
    """Return a request from its first token to its limit, or as far as it was simulated."""
    counts = 1 + np.cumsum(tokens)
    last = counts.size if limit is None else int(np.searchsorted(counts, limit)) + 1
    kept = np.minimum(counts[:last], limit or np.inf).astype(np.int64)
    arrivals_s = (0.0, *np.cumsum(times[:last]).tolist())
    return RequestRecord(
        sent_s=-0.5,
        times_s=arrivals_s,
        tokens=(1, *kept.tolist()),
        end=EndReason.FINISHED,
        ended_s=arrivals_s[-1],
    )


def cut(request: RequestRecord, limit_s: float) -> RequestRecord:
    """Return what a deadline leaves of a request."""
    if request.ended_s <= limit_s:
        return request
    kept = int(np.searchsorted(request.times_s, limit_s, side="right"))
    return RequestRecord(
        sent_s=request.sent_s,
        times_s=request.times_s[:kept],
        tokens=request.tokens[:kept],
        end=EndReason.DEADLINE,
        ended_s=limit_s,
    )


def _pass(requests: Sequence[RequestRecord], concurrency: int) -> PassRecord:
    ended_s = max((r.ended_s for r in requests), default=0.0)
    return PassRecord(tuple(requests), concurrency, -0.5, ended_s)


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    good, chunks, tokens = (
        figures[f"coverage_60s_{way}_ratio"] for way in ("blocks", "chunks_iid", "tokens_iid")
    )
    steps, blocks = (figures[f"width_60s_{way}_ratio"] for way in ("steps", "blocks"))
    return {
        "95 of 100 intervals from blocks hold the truth": 0.93 <= good <= 0.97,
        "intervals that take chunks or tokens for independent do not": max(chunks, tokens) < 0.6,
        "steps alone are known three times as well": steps < blocks / 3,
        "a deadline does not bend our rate": abs(figures["bias_at_half_ours_ratio"]) < 0.01,
        "it bends one of whole answers": figures["bias_at_quarter_completed_only_ratio"] > 0.15,
        "a rate without drift seldom looks as if it had": figures["drift_alarm_none_ratio"] < 0.06,
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
