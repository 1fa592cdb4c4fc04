"""The clients that are compared: how each is told its load, and what each says of it."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from peers.environments import MODEL, Environment

PROMPT_TOKENS = 16


class Arrivals(TypedDict):
    """One stream as our client saw it."""

    times_s: list[float]
    tokens: list[int]


class Told(TypedDict):
    """What our client says; the last two only if it is asked for arrivals."""

    token_ms: float
    lag_p99_s: float
    cpu_fraction: float
    origin_s: float
    streams: list[Arrivals]


@dataclass(frozen=True, slots=True)
class Load:
    """So many streams at once, each of so many tokens, one request per stream."""

    url: str
    streams: int
    tokens: int
    folder: Path
    """Where results may be left."""


@dataclass(frozen=True, slots=True)
class Side:
    """One client."""

    name: str
    environment: Environment | None
    """None: this project's own."""
    argv: Callable[[str, Load], tuple[str, ...]]
    token_ms: Callable[[Path, str], float]
    """Reads the time per output token that it reports, from its folder and its output."""

    @property
    def python(self) -> str:
        """Return its interpreter."""
        return str(self.environment.python) if self.environment else sys.executable


def _ours(python: str, load: Load) -> tuple[str, ...]:
    return (
        python, str(Path(__file__).with_name("ours.py")), "--url", load.url,
        "--streams", str(load.streams), "--tokens", str(load.tokens),
    )  # fmt: skip


def _guidellm(python: str, load: Load) -> tuple[str, ...]:
    return (
        python, "-m", "guidellm", "run",
        "--backend", f"kind=openai_http,target={load.url},model=default,"
        "request_format=/v1/chat/completions",
        "--profile", f"kind=concurrent,streams={load.streams}",
        "--constraint", f"kind=max_requests,count={load.streams}",
        "--tokenizer", f"kind=hf_auto,model={MODEL.resolve()}",
        "--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={load.tokens}",
        "--output", f"kind=json,path={load.folder / 'guidellm.json'}",
        "--disable-console",
    )  # fmt: skip


def _aiperf(python: str, load: Load) -> tuple[str, ...]:
    return (
        python, "-m", "aiperf", "profile", "--model", "default",
        "--tokenizer", str(MODEL.resolve()), "--url", load.url,
        "--endpoint-type", "chat", "--streaming",
        "--concurrency", str(load.streams), "--request-count", str(load.streams),
        "--synthetic-input-tokens-mean", str(PROMPT_TOKENS),
        "--synthetic-input-tokens-stddev", "0",
        "--output-tokens-mean", str(load.tokens), "--output-tokens-stddev", "0",
        "--use-server-token-count", "--ui", "none", "--artifact-dir", str(load.folder / "aiperf"),
    )  # fmt: skip


def _sglang(module: str) -> Callable[[str, Load], tuple[str, ...]]:
    def argv(python: str, load: Load) -> tuple[str, ...]:
        usage = json.dumps({"stream_options": {"include_usage": True}})
        return (
            python, "-m", f"sglang.benchmark.{module}", "--backend", "sglang-oai-chat",
            "--base-url", load.url, "--model", str(MODEL.resolve()),
            "--dataset-name", "random-ids", "--random-input-len", str(PROMPT_TOKENS),
            "--random-output-len", str(load.tokens), "--random-range-ratio", "1",
            "--num-prompts", str(load.streams), "--max-concurrency", str(load.streams),
            "--warmup-requests", "0", "--extra-request-body", usage, "--disable-tqdm",
            "--output-file", str(load.folder / "sglang.jsonl"),
        )  # fmt: skip

    return argv


def _told_by_ours(folder: Path, output: str) -> float:
    return _number(json.loads(output), "token_ms")


def _told_by_guidellm(folder: Path, output: str) -> float:
    found = json.loads((folder / "guidellm.json").read_text())["benchmarks"][0]["metrics"]
    return _number(found, "inter_token_latency_ms", "successful", "mean")


def _told_by_aiperf(folder: Path, output: str) -> float:
    found = json.loads((folder / "aiperf" / "profile_export_aiperf.json").read_text())
    return _number(found, "inter_token_latency", "avg")


def _told_by_sglang(folder: Path, output: str) -> float:
    return _number(json.loads((folder / "sglang.jsonl").read_text()), "mean_tpot_ms")


def _number(found: Any, *keys: str) -> float:
    """Return a figure from another tool's JSON, whose shape is its own."""
    for key in keys:
        found = found[key]
    return float(found)


OURS = Side("ours", None, _ours, _told_by_ours)
GUIDELLM = Side("guidellm", Environment("guidellm", torch=True), _guidellm, _told_by_guidellm)
AIPERF = Side("aiperf", Environment("aiperf"), _aiperf, _told_by_aiperf)
_SGLANG = Environment("sglang", on_sglang=True)
SGLANG_PYTHON = Side("sglang_python", _SGLANG, _sglang("serving"), _told_by_sglang)
SGLANG_RUST = Side("sglang_rust", _SGLANG, _sglang("rust_client"), _told_by_sglang)
PEERS = (GUIDELLM, AIPERF, SGLANG_PYTHON, SGLANG_RUST)
