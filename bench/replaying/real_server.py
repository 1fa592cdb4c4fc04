"""The real SGLang on a CPU against a replay of what its plain decode wrote, setting by setting."""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.sglang.ngram_form import ngram_form
from infra.sglang_cpu.launch import COMMON_FLAGS, server_argv, server_variables
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout
from sweeps.replay.replayer import Replayer
from sweeps.replay.streams import Stream
from sweeps.values import Value

ROOT = Path(__file__).parents[2]
VERSION = "0.5.23"
OUTPUT_TOKENS = 400
START_S, ANSWER_S = 300.0, 120.0


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table: draft tokens, breadth, depth and match type."""

    draft_tokens: int
    breadth: int
    depth: int
    match: str

    @property
    def name(self) -> str:
        """Return what its figures are called by."""
        return f"n{self.draft_tokens}_b{self.breadth}_d{self.depth}_{self.match.lower()}"

    def settings(self) -> dict[str, Value]:
        """Return SGLang's settings."""
        return {
            "speculative_algorithm": "NGRAM",
            "speculative_num_draft_tokens": self.draft_tokens,
            "speculative_ngram_max_bfs_breadth": self.breadth,
            "speculative_ngram_max_trie_depth": self.depth,
            "speculative_ngram_match_type": self.match,
            "speculative_ngram_capacity": 200_000,
        }


SETTINGS = (
    Setting(8, 10, 18, "BFS"), Setting(4, 10, 18, "BFS"), Setting(8, 1, 18, "BFS"),
    Setting(16, 8, 18, "BFS"), Setting(8, 10, 6, "BFS"), Setting(8, 10, 18, "PROB"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """Verify steps of all requests, and how many requests differ."""

    real: int
    replayed: int
    differing: int


def compare() -> list[Compared]:
    """Serve the same prompts with each setting; empty where SGLang is not there."""
    env = EnvLayout(ROOT / DEFAULT_ENV)
    if not env.python.exists():
        return []
    prompts = _prompts()
    with _server(env, {}) as port:
        streams = [Stream(p, _generate(port, p)["output_ids"]) for p in prompts]
    return [_compared(env, setting, streams) for setting in SETTINGS]


def _prompts() -> list[list[int]]:
    rng = random.Random(9)
    return [[rng.randrange(3, 1000) for _ in range(rng.randint(5, 30))] for _ in range(6)]


def _compared(env: EnvLayout, setting: Setting, streams: Sequence[Stream]) -> Compared:
    form = ngram_form(VERSION, {"device": "cpu"})
    shape = form.shape(setting.settings())
    assert shape is not None
    steps = Replayer(streams).steps(shape)
    replayed = [int((steps.stream == n).sum()) for n in range(len(streams))]
    with _server(env, setting.settings()) as port:
        told = [_generate(port, list(s.prompt)) for s in streams]
    real = [reply["meta_info"]["spec_verify_ct"] for reply in told]
    same = [
        a == b and reply["output_ids"] == s.output
        for a, b, reply, s in zip(real, replayed, told, streams, strict=True)
    ]
    return Compared(sum(real), sum(replayed), same.count(False))


@contextmanager
def _server(env: EnvLayout, settings: dict[str, Value]) -> Iterator[int]:
    """Start SGLang, wait until it answers, empty its caches; end it with its children."""
    words = [w for n, v in settings.items() for w in ("--" + n.replace("_", "-"), str(v))]
    flags = (*COMMON_FLAGS, "--disable-radix-cache", "--sleep-on-idle", *words)
    with socket.socket() as probe, tempfile.TemporaryFile() as log:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        process = subprocess.Popen(
            server_argv(env, ROOT / DEFAULT_MODEL, port=port, flags=flags),
            env={"PATH": os.environ["PATH"], **server_variables(env)},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            _wait(port, process)
            _ask(port, "POST", "/flush_cache")
            yield port
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(ANSWER_S)


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            if _ask(port, "GET", "/health")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.5)
    raise SystemExit("SGLang did not start")


def _generate(port: int, prompt: Sequence[int]) -> dict[str, Any]:
    sampling = {"temperature": 0, "max_new_tokens": OUTPUT_TOKENS, "ignore_eos": True}
    body = json.dumps({"input_ids": prompt, "sampling_params": sampling})
    status, answer = _ask(port, "POST", "/generate", body)
    if status != 200:
        raise SystemExit(f"SGLang answered {status}: {answer[:500]!r}")
    return dict(json.loads(answer))


def _ask(port: int, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
