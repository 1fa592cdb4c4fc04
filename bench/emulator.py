"""What the emulated host says of the founding story, and how fast and how exactly it says it.

The published figures are the named alternative: each figure of ours stands beside its ratio to the
published one. The founding host is truth M; all of it runs in process, without noise from a wire.
Then speed on one core: in process, and over HTTP by the processor time of the server alone. Last,
how far a rate over HTTP at time scale 50 is from what the engine says, at equal seeds.
"""

import http.client
import json
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import psutil

from infra.emulated.collector import calm_collector
from infra.emulated.cost import step_cost
from infra.emulated.engine import EmulatedEngine, Generation, Step
from infra.emulated.settings import make_settings
from infra.emulated.text import Kind
from infra.emulated.truth import TRUTHS
from infra.sglang.flags import NEWEST
from peers.servers import emulated_server
from reporting.program import Figures, run
from sweeps.values import Value

Given = Mapping[str, Value]

BASE: Given = {"model_path": "founding-model", "tp_size": 8}
FOUNDING_SERVER = ("--model-path", "founding-model", "--tp-size", "8")
NGRAM_8: Given = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 8}
CHAIN: Given = {"speculative_algorithm": "EAGLE3", "speculative_eagle_topk": 1}
OWN_DRAFTER: Given = {
    **CHAIN, "speculative_draft_model_path": "own", "speculative_num_steps": 7,
}  # fmt: skip
WEAKER_DRAFTER: Given = {
    **CHAIN, "speculative_num_steps": 3,
    "speculative_draft_model_path": "AQ-MedAI/Kimi-K2-Instruct-eagle3",
}  # fmt: skip
WIDTHS = (2, 3, 4, 8)
STORY_REQUESTS, STORY_TOKENS = 3, 8192
ANSWER_WAIT_S = 60.0
CHAT = "/v1/chat/completions"
TEMPLATE = "<|im_user|>{}<|im_end|><|im_assistant|>"
"""What the emulated chat route makes of a prompt."""
HTTP_LOADS = (("chat", CHAT, 8192), ("native", "/generate", 256))
"""Native streams repeat all that they have sent: their cost grows with the square of the length."""
FAST_SCALE, CALM_SCALE = 100_000.0, 50.0


@dataclass(frozen=True, slots=True)
class Rate:
    """What a configuration reached over its requests, cold cache each."""

    tok_s: float
    accept_length: float


def measure(quick: bool) -> Figures:
    """Return all figures."""
    requests = 6 if quick else 24
    calm_collector()  # as the server does
    return {
        **founding(requests),
        **best_widths(requests),
        **speed_in_process(20_000 if quick else 100_000),
        **memory(20_000 if quick else 60_000),
        **speed_over_http(40_000 if quick else 200_000),
        **pace_over_http(1 if quick else 5),
    }


def founding(requests: int) -> dict[str, float]:
    """Compare the founding host's published figures with truth M."""
    plain = rate_of(engine(), requests)
    ngram = rate_of(engine(NGRAM_8), requests)
    own = rate_of(engine(OWN_DRAFTER), requests)
    weaker = rate_of(engine(WEAKER_DRAFTER), requests)
    story = engine(NGRAM_8)
    story_s = sum(
        step.duration_s
        for number in range(STORY_REQUESTS)
        for step in alone(story, f"the story {number}", STORY_TOKENS, Kind.THINK)
    )
    return {
        **_beside("plain_tok_per_s", plain.tok_s, 82.0),
        **_beside("ngram_8_tok_per_s", ngram.tok_s, 41.0),
        **_beside("ngram_8_accept_length_tokens", ngram.accept_length, 1.3),
        **_beside("eagle3_own_tok_per_s", own.tok_s, 60.0),
        **_beside("eagle3_own_accept_length_tokens", own.accept_length, 2.0),
        **_beside("eagle3_weaker_tok_per_s", weaker.tok_s, 52.0),
        **_beside("eagle3_weaker_accept_length_tokens", weaker.accept_length, 1.5),
        **_beside("three_times_8192_tokens_s", story_s, 600.0),
    }


def best_widths(requests: int) -> dict[str, float]:
    """Return n-gram speculation over plain decode, both with NCCL_PROTO=LL, by draft length."""
    found: dict[str, float] = {}
    for kind in Kind:
        plain = rate_of(engine(proto="LL"), requests, kind).tok_s
        for width in WIDTHS:
            given = {**NGRAM_8, "speculative_num_draft_tokens": width}
            reached = rate_of(engine(given, proto="LL"), requests, kind)
            found[f"ll_{kind}_n{width}_over_plain_ratio"] = reached.tok_s / plain
    return found


def speed_in_process(tokens: int) -> dict[str, float]:
    """Return emulated tokens per second of processor time, on one core."""
    found = {}
    for name, given in (("plain", {}), ("ngram_8", NGRAM_8), ("eagle3", OWN_DRAFTER)):
        emulated = engine(given)
        begun_s = time.process_time()
        alone(emulated, "fast", tokens, Kind.CODE)
        found[f"in_process_{name}_tok_per_s"] = tokens / (time.process_time() - begun_s)
    return found


def memory(tokens: int) -> dict[str, float]:
    """Return what a token in the n-gram cache costs, by the growth of the process."""
    emulated = engine(NGRAM_8)
    alone(emulated, "first", 500, Kind.THINK)
    before = psutil.Process().memory_info().rss
    alone(emulated, "long", tokens, Kind.THINK)
    grown = psutil.Process().memory_info().rss - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"cached_token_bytes": grown / tokens, "peak_memory_bytes": float(peak)}


def speed_over_http(tokens: int) -> dict[str, float]:
    """Return streamed tokens per second of the server's processor time, chat and native."""
    found = {}
    with emulated_server(FOUNDING_SERVER, FAST_SCALE) as served:
        process, port = psutil.Process(served.pid), served.port
        for name, path, length in HTTP_LOADS:
            before_s = sum(process.cpu_times()[:2])
            requests = max(1, tokens // length)
            for number in range(requests):
                drain(port, path, body_of(path, f"{name} {number}", length))
            spent_s = sum(process.cpu_times()[:2]) - before_s
            found[f"http_{name}_tok_per_s"] = requests * length / spent_s
    return found


def pace_over_http(repeats: int) -> dict[str, float]:
    """Return a rate over HTTP at scale 50 over what the engine says of the same seed and prompt."""
    half, tokens = 500, 7_500  # 85 s of the host, as a measured pass
    truth = engine(seed=0)
    list(truth.steps("The capital city of France is", 8))
    ratios = []
    with emulated_server(FOUNDING_SERVER, CALM_SCALE) as served:
        for number in range(repeats):
            prompt = f"pace {number}"
            times_s = drain(served.port, CHAT, body_of(CHAT, prompt, tokens))[
                1:
            ]  # the first says who
            due_s = [0.0]
            for step in truth.steps(TEMPLATE.format(prompt), tokens):
                due_s.append(due_s[-1] + step.duration_s)
            due_s = due_s[1:]
            took_s = (times_s[tokens - 1] - times_s[half - 1]) * CALM_SCALE
            ratios.append((due_s[tokens - 1] - due_s[half - 1]) / took_s)
    return {
        "scale_50_rate_over_truth_ratio": median(ratios),
        "scale_50_worst_error_ratio": max(abs(ratio - 1) for ratio in ratios),
    }


def engine(given: Given | None = None, *, proto: str = "", seed: int = 1) -> EmulatedEngine:
    """Make the founding host's engine with some settings."""
    environment = {"NCCL_PROTO": proto} if proto else {}
    settings = make_settings({**BASE, **(given or {})}, environment, NEWEST)
    return EmulatedEngine(settings, TRUTHS["M"], seed)


def rate_of(emulated: EmulatedEngine, requests: int, kind: Kind = Kind.THINK) -> Rate:
    """Run requests of 2,048 tokens, the cache emptied before each; the rate is without noise."""
    steps = 0
    tokens = 0
    for number in range(requests):
        emulated.flush()
        done = alone(emulated, f"{kind} {number}", 2048, kind)[1:]
        steps += len(done)
        tokens += sum(len(step.tokens) for step in done)
    settings = emulated.settings
    cost = step_cost(emulated.truth, settings, batch=1, tokens=settings.draft_tokens)
    accept_length = tokens / steps
    return Rate(accept_length / cost.duration_s(1024), accept_length)


def alone(emulated: EmulatedEngine, prompt: str, tokens: int, kind: Kind) -> list[Step]:
    """Run one request to its end and return its steps."""
    request: Generation = emulated.open(prompt, tokens, kind=kind)
    steps = emulated.prefill([request])
    while not request.finished:
        steps += emulated.decode([request])
    return steps


def drain(port: int, path: str, body: Mapping[str, object]) -> list[float]:
    """Stream one request and return when the read of each event returned, on the wall."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_WAIT_S)
    connection.request("POST", path, json.dumps(body))
    reply = connection.getresponse()
    times_s: list[float] = []
    rest = b""
    while chunk := reply.read1(1 << 18):
        at_s = time.monotonic()
        data = rest + chunk
        times_s += [at_s] * data.count(b"\n\n")
        rest = data[data.rfind(b"\n\n") + 2 :] if b"\n\n" in data else data
    connection.close()
    return times_s


def body_of(path: str, prompt: str, tokens: int) -> dict[str, object]:
    """Return the body of a streamed request, as the load client sends it."""
    if path == "/generate":
        sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
        return {"text": prompt, "stream": True, "sampling_params": sampling}
    return {
        "model": "default",
        "messages": [{"role": "user", "content": prompt}],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "temperature": 0,
        "max_tokens": tokens,
        "ignore_eos": True,
    }


def _beside(name: str, ours: float, published: float) -> dict[str, float]:
    return {name: ours, f"{name}_over_published_ratio": ours / published}


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    told = [v for n, v in figures.items() if n.endswith("_over_published_ratio")]
    code = {n: figures[f"ll_code_n{n}_over_plain_ratio"] for n in WIDTHS}
    think = [figures[f"ll_think_n{n}_over_plain_ratio"] for n in WIDTHS]
    return {
        "eight figures of the founding story are within 3 %": len(told) == 8
        and all(0.97 < ratio < 1.03 for ratio in told),
        "three draft tokens are best for code, and eight lose": code[3] == max(code.values())
        and code[3] > 1 > code[8],
        "no width pays where text does not repeat": max(think) < 1,
        "what a prompt cache holds of a token is small": figures["cached_token_bytes"] < 5000,
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
