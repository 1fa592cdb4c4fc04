"""What it costs to read streams with our client, beside the clients that others measure with.

    python bench/client.py

makes an environment for each of them, once, under bench/out (pins in bench/peers), and runs all
side by side against one server that sends 64 streams in step, a token a chunk. The cost is
marginal: two lengths of the same load, the difference of the whole tool's processor time over the
difference of the chunks, so that start-up drops out. `..._token_over_truth_ratio` is the time per
token that a tool reports over the one that was sent: a client that cannot keep up says more, and
costs less, since its reads hold several chunks. SGLang's own are therefore also compared at a pace
that all of them keep (`calm_...`). A client that is not there has no figures; the reason is told on
the error output. It takes some twelve minutes; `--quick` runs ours alone and installs nothing.

Then ours alone: on one core at twice the pace, with each arrival held against its sending; several
streams in a closed loop, whose tokens come in chunks of 1, 4, 8 and mixed, held against what the
server made while every slot was taken; and against the emulated host with n-gram speculation, 1 to
8 tokens a chunk, held against the engine itself at the same seed.
"""

import json
import os
import subprocess
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from infra.clock import ScaledClock
from infra.emulated.engine import EmulatedEngine
from infra.emulated.serving.requests import read_chat
from infra.emulated.serving.validation import read_body
from infra.emulated.settings import make_settings
from infra.emulated.truth import TRUTHS
from infra.sglang.flags import NEWEST
from orchestrator.load_client.client import StreamingClient
from orchestrator.load_client.dialects import DIALECTS
from orchestrator.load_client.seam import Sampling
from peers.environments import AbsentError
from peers.servers import Paced, Sent, emulated_server, paced_server
from peers.sides import OURS, PEERS, SGLANG_PYTHON, SGLANG_RUST, Load, Side, Told
from reporting.program import Figures, run
from sweeps.prompts import Prompt, prompts_of
from sweeps.rates import decode_rate
from sweeps.records import PassRecord
from sweeps.values import Value

METERED = Path(__file__).parent / "peers" / "metered.py"
STREAMS = 64
RATE_PER_S, CALM_RATE_PER_S, FAST_RATE_PER_S = 500.0, 200.0, 1000.0
DEADLINE_S = 240.0
SEVERAL_RATE_PER_S, SEVERAL_PREFILL_STEPS = 200.0, 4
CHUNKINGS: dict[str, tuple[int, ...]] = {"1": (1,), "4": (4,), "8": (8,), "mixed": (1, 4, 8)}
"""Tokens of a chunk, one of them drawn for each, by the name of their column."""
SCALE = 10.0
SPECULATING = ("--model-path", "founding-model", "--tp-size", "8", "--speculative-algorithm",
               "NGRAM", "--speculative-num-draft-tokens", "8")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    rounds: int
    lengths_tokens: tuple[int, int]
    fast_tokens: int
    speculated: tuple[int, int]
    """Requests, and tokens of each."""
    several: tuple[tuple[int, int], ...]
    """Streams, and tokens of each of their requests."""
    several_rounds: int


FULL = Effort(2, (1_000, 6_000), 10_000, (8, 384), ((4, 64), (4, 256), (16, 64)), 10)
QUICK = Effort(1, (100, 600), 1_000, (2, 128), ((4, 64),), 6)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one client took for a load, and what it said of it."""

    cpu_s: float
    chunks: int
    token_over_truth: float


def measure(quick: bool) -> Figures:
    """Return all figures."""
    effort = QUICK if quick else FULL
    peers = [] if quick else present(PEERS)
    calm = [side for side in peers if side in (SGLANG_PYTHON, SGLANG_RUST)]
    return {
        "peers_count": len(peers),
        **side_by_side(effort, [OURS, *peers], RATE_PER_S),
        **(side_by_side(effort, [OURS, *calm], CALM_RATE_PER_S, "calm_") if calm else {}),
        **on_one_core(effort.fast_tokens),
        **several_streams(effort),
        **speculating(*effort.speculated),
    }


def side_by_side(
    effort: Effort, sides: Sequence[Side], rate_per_s: float, prefix: str = ""
) -> dict[str, float]:
    """Return the marginal cost of each client at a pace, in rounds that hold all of them."""
    lengths = [int(tokens * rate_per_s / RATE_PER_S) for tokens in effort.lengths_tokens]
    rounds = [
        {side.name: [cost(side, tokens, rate_per_s) for tokens in lengths] for side in sides}
        for _ in range(effort.rounds)
    ]
    figures: dict[str, float] = {}
    for side in sides:
        name = f"{prefix}{side.name}"
        pairs = [one[side.name] for one in rounds]
        found = [_marginal_ms(*pair) for pair in pairs]
        figures[f"{name}_cpu_per_1000_chunks_ms"] = median(found)
        figures[f"{name}_cpu_per_1000_chunks_min_ms"] = min(found)
        figures[f"{name}_cpu_per_1000_chunks_max_ms"] = max(found)
        figures[f"{name}_start_cpu_s"] = median(
            short.cpu_s - _marginal_ms(short, long) * short.chunks / 1e6 for short, long in pairs
        )
        figures[f"{name}_token_over_truth_ratio"] = median(p[1].token_over_truth for p in pairs)
        if side is not OURS:
            ratios = [_marginal_ms(*one["ours"]) / _marginal_ms(*one[side.name]) for one in rounds]
            figures[f"{prefix}ours_over_{side.name}_ratio"] = median(ratios)
    return figures


def present(peers: Sequence[Side]) -> list[Side]:
    """Return the clients whose environments are there or can be made; tell why others are not."""
    found = []
    for side in peers:
        try:
            if side.environment is not None:
                side.environment.make()
        except AbsentError as error:
            print(f"{side.name} is absent: {error}", file=sys.stderr)
        else:
            found.append(side)
    return found


def cost(side: Side, tokens: int, rate_per_s: float) -> Cost:
    """Run one client once."""
    with (
        tempfile.TemporaryDirectory() as folder,
        paced_server(rate_per_s, cpu=_cores()[0]) as server,
    ):
        place = Path(folder)
        load = Load(server.url, STREAMS, tokens, place)
        output, cpu_s = _metered(side, load)
        told_ms = side.token_ms(place, output)
    chunks = sum(len(sent.tokens) for sent in server.sent)
    return Cost(cpu_s, chunks, told_ms / _sent_token_ms(server.sent))


def on_one_core(tokens: int) -> dict[str, float]:
    """Return how well our client keeps up at the higher pace, on a core of its own."""
    with paced_server(FAST_RATE_PER_S, cpu=_cores()[0]) as server, _on_core(_cores()[-1]):
        argv = (*OURS.argv(sys.executable, Load(server.url, STREAMS, tokens, Path())), "--arrivals")
        done = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    told: Told = json.loads(done.stdout)
    lags_s = sorted(_lags_s(told, server))
    late_s = sorted(server.late_s)
    return {
        "fast_rate_error_ratio": abs(_steady_s(server.sent) / _steady_s(_seen(told)) - 1),
        "fast_lag_p50_ms": lags_s[len(lags_s) // 2] * 1e3,
        "fast_lag_p99_ms": lags_s[int(len(lags_s) * 0.99)] * 1e3,
        "fast_client_cpu_ratio": told["cpu_fraction"],
        "fast_own_lag_p99_ms": told["lag_p99_s"] * 1e3,
        "fast_server_late_p99_ms": late_s[int(len(late_s) * 0.99)] * 1e3,
    }


def several_streams(effort: Effort) -> dict[str, float]:
    """Return how far the decode rate of several streams is off, at each load and chunking."""
    return {
        f"several_{streams}x{tokens}_chunks_{name}_rate_error_ratio": rate_error(
            streams, tokens, effort.several_rounds, chunks
        )
        for streams, tokens in effort.several
        for name, chunks in CHUNKINGS.items()
    }


def rate_error(streams: int, tokens: int, rounds: int, chunks: Sequence[int]) -> float:
    """Return the error of the rate of one pass, against what the server made in its time."""
    prompts = prompts_of(f"several {number}" for number in range(streams * rounds))
    with paced_server(
        SEVERAL_RATE_PER_S, cpu=_cores()[0], chunk_tokens=chunks,
        prefill_steps=SEVERAL_PREFILL_STEPS,
    ) as server:  # fmt: skip
        record = _pass(server.url, prompts, tokens, streams)
    estimate = decode_rate(record)
    if estimate is None:
        raise RuntimeError("the pass has no rate")
    return abs(estimate.value / made_per_s(server.sent, streams) - 1)


def made_per_s(sent: Sequence[Sent], streams: int) -> float:
    """Return the tokens made per second, those of prefill left out, while every slot was taken.

    From when the first `streams` requests each had their first token to the end of the first
    request after which no other came.
    """
    by_start = sorted(sent, key=lambda one: one.asked_s)
    start_s = max(one.made_s[0] for one in by_start[:streams])
    end_s = min(one.made_s[-1] for one in sent if one.made_s[-1] > by_start[-1].asked_s)
    made = sum(start_s < time_s <= end_s for one in sent for time_s in one.made_s[1:])
    return made / (end_s - start_s)


def _pass(url: str, prompts: Sequence[Prompt], tokens: int, streams: int) -> PassRecord:
    return StreamingClient(ScaledClock()).run_pass(
        url,
        prompts,
        Sampling(max_tokens=tokens, ignore_eos=True),
        concurrency=streams,
        dialect="chat",
        deadline_s=DEADLINE_S,
        silence_s=DEADLINE_S,
        on_progress=lambda _: None,
        should_stop=lambda: False,
    )


def speculating(requests: int, tokens: int) -> dict[str, float]:
    """Return what our client says of the emulated host, over what its engine says of itself."""
    sampling = Sampling(max_tokens=tokens, ignore_eos=True)
    prompts = prompts_of(f"speculate {number}" for number in range(requests))
    with emulated_server(SPECULATING, SCALE) as served:
        record = StreamingClient(ScaledClock(SCALE)).run_pass(
            served.url,
            prompts,
            sampling,
            concurrency=1,
            dialect="chat",
            deadline_s=1e6,
            silence_s=1e4,
            on_progress=lambda _: None,
            should_stop=lambda: False,
        )
    truth = engine_truth(prompts, sampling)
    said = Said.of(record)
    return {
        "speculating_chunk_tokens": said.tokens / said.chunks,
        "speculating_rate_error_ratio": abs(said.tokens_per_s / truth.tokens_per_s - 1),
        "speculating_tpot_error_ratio": abs(said.tpot_s / truth.tpot_s - 1),
        "speculating_accept_length_error_ratio": abs(said.accept_length / truth.accept_length - 1),
    }


@dataclass(frozen=True, slots=True)
class Said:
    """Rates over some requests, one after the other, the first arrival of each left out."""

    tokens: int
    chunks: int
    tokens_per_s: float
    tpot_s: float
    accept_length: float

    @classmethod
    def of(cls, record: PassRecord) -> "Said":
        """Read them from what the client brought."""
        requests = record.requests
        tokens = sum(r.decode_tokens for r in requests)
        return cls(
            tokens=tokens,
            chunks=sum(r.decode_chunks for r in requests),
            tokens_per_s=tokens / sum(r.decode_s for r in requests),
            tpot_s=sum(r.decode_s / r.decode_tokens for r in requests) / len(requests),
            accept_length=sum(r.output_tokens - 1 for r in requests)
            / sum(r.verify_steps or 0 for r in requests),
        )


def engine_truth(prompts: Sequence[Prompt], sampling: Sampling) -> Said:
    """Run the same requests in an engine of the same seed, after the server's own warm-up."""
    given: dict[str, Value] = {
        "model_path": "founding-model", "tp_size": 8,
        "speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 8,
    }  # fmt: skip
    engine = EmulatedEngine(make_settings(given, {}, NEWEST), TRUTHS["M"], 0)
    list(engine.steps("The capital city of France is", 8))
    tokens = verifies = 0
    durations_s: list[float] = []
    tpots_s: list[float] = []
    for prompt in prompts:
        body = read_body(DIALECTS["chat"].body(prompt, sampling))
        request = read_chat(body, engine).generation
        engine.prefill([request])
        steps = []
        while not request.finished:
            steps += engine.decode([request])
        spent_s = sum(step.duration_s for step in steps)
        brought = sum(len(step.tokens) for step in steps)
        tokens += brought
        verifies += sum(step.verifies for step in steps)
        durations_s.append(spent_s)
        tpots_s.append(spent_s / brought)
    rate_per_s = tokens / sum(durations_s)
    return Said(tokens, verifies, rate_per_s, sum(tpots_s) / len(tpots_s), tokens / verifies)


def _metered(side: Side, load: Load) -> tuple[str, float]:
    """Run a client and return its output and the processor time of all its processes."""
    account = load.folder / "cpu.json"
    done = subprocess.run(
        [sys.executable, str(METERED), str(account), f"{DEADLINE_S:g}",
         *side.argv(side.python, load)],
        cwd=load.folder, env=side.environment.variables if side.environment else None,
        capture_output=True, text=True, timeout=DEADLINE_S + 60, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{side.name} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout, float(json.loads(account.read_text())["cpu_s"])


def _marginal_ms(short: Cost, long: Cost) -> float:
    return (long.cpu_s - short.cpu_s) / (long.chunks - short.chunks) * 1e6


def _sent_token_ms(sent: Sequence[Sent]) -> float:
    """Return the mean time per token of all streams as they were sent."""
    spent_s = sum(one.times_s[-1] - one.times_s[0] for one in sent)
    return spent_s / sum(one.tokens[-1] - one.tokens[0] for one in sent) * 1e3


def _seen(told: Told) -> list[Sent]:
    """Return what our client saw of each stream."""
    return [Sent("", one["tokens"], one["times_s"]) for one in told["streams"]]


def _steady_s(streams: Sequence[Sent]) -> float:
    """Return the time per token of all streams, the first tenth of each left out."""
    spent_s = tokens = 0.0
    for one in streams:
        begin = bisect_left(one.tokens, one.tokens[-1] / 10)
        spent_s += one.times_s[-1] - one.times_s[begin]
        tokens += one.tokens[-1] - one.tokens[begin]
    return spent_s / tokens


def _lags_s(told: Told, server: Paced) -> Iterator[float]:
    """Yield how long each chunk took from its sending to the time that our client gave it."""
    for number, stream in enumerate(told["streams"]):
        (sent,) = (one for one in server.sent if one.prompt == f"stream {number}")
        at = 0
        for time_s, tokens in zip(stream["times_s"], stream["tokens"], strict=True):
            while at < len(sent.tokens) and sent.tokens[at] <= tokens:
                yield time_s + told["origin_s"] - sent.times_s[at]
                at += 1


@contextmanager
def _on_core(core: int) -> Iterator[None]:
    """Let what is started in this time run on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    errors = [figures[f"speculating_{what}_error_ratio"] for what in ("rate", "tpot")]
    return {
        "reading costs processor time": figures["ours_cpu_per_1000_chunks_min_ms"] > 0,
        "the time of a token is near the one sent": 0.5
        < figures["ours_token_over_truth_ratio"]
        < 2,
        "chunks of a speculating server hold several tokens": 1
        < figures["speculating_chunk_tokens"]
        < 8,
        "accept length is the engine's": figures["speculating_accept_length_error_ratio"] < 0.03,
        # They are as good as the machine is free.
        "rates are near the engine's": max(errors) < 0.5,
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
