"""Starts the two servers with the same settings, and ends them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from infra.sglang_cpu.launch import COMMON_FLAGS, NGRAM_FLAGS, server_argv, server_variables
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout
from tests.contracts.fidelity.exchanges import CONTEXT_TOKENS
from tests.contracts.fidelity.peer import Peer
from tests.contracts.fidelity.scenes import MOST_RUNNING
from tests.patience import SGLANG_S
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
TIME_SCALE = 25.0
DRAFT_TOKENS = 8
LOG_INTERVAL = 4
_STOP_S = 20.0
PLAIN_SERVER = (
    *COMMON_FLAGS,
    "--context-length",
    str(CONTEXT_TOKENS),
    "--max-running-requests",
    str(MOST_RUNNING),
    "--disable-overlap-schedule",
    "--decode-log-interval",
    str(LOG_INTERVAL),
    "--enable-metrics",
)
NGRAM_SERVER = (*PLAIN_SERVER, *NGRAM_FLAGS, "--speculative-ngram-external-sam-budget", "2")
_QUIET = "--sleep-on-idle"
"""Else the real scheduler keeps a core busy while it has nothing to do."""
_EMULATED_INSTEAD = {"0.1": "0.9", "cpu": "cuda"}
"""The emulated model fills most of a GPU's memory, and there is no emulated CPU."""


@contextmanager
def real_server(folder: Path, flags: Sequence[str] = NGRAM_SERVER) -> Iterator[Peer]:
    """Start SGLang; the peer may not be ready yet."""
    env = EnvLayout(ROOT / DEFAULT_ENV)
    port = free_port()
    argv = server_argv(env, ROOT / DEFAULT_MODEL, port=port, flags=(*flags, _QUIET))
    variables = {"PATH": os.environ["PATH"], **server_variables(env)}
    with _process(argv, variables, folder / "real.log") as process:
        yield Peer("real", port, folder / "real.log", process)


@contextmanager
def emulated_server(folder: Path, name: str, flags: Sequence[str]) -> Iterator[Peer]:
    """Start the emulated server; the peer may not be ready yet."""
    port = free_port()
    argv = [
        sys.executable, "-m", "infra.emulated", "--model-path", str(ROOT / DEFAULT_MODEL),
        "--host", "127.0.0.1", "--port", str(port),
        *(_EMULATED_INSTEAD.get(flag, flag) for flag in flags),
    ]  # fmt: skip
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("NCCL", "EMULATED"))}
    variables = {**clean, "EMULATED_TIME_SCALE": str(TIME_SCALE)}
    with _process(argv, variables, folder / f"{name}.log") as process:
        yield Peer(name, port, folder / f"{name}.log", process)


@cache
def wait_ready(peer: Peer) -> None:
    """Wait until a server answers its health check, which takes a second: once is enough."""
    until_s = time.monotonic() + SGLANG_S
    while time.monotonic() < until_s and (peer.process is None or peer.process.poll() is None):
        try:
            if peer.ask("GET", "/health").status == 200:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"{peer.name} did not get ready:\n{peer.log_path.read_text()[-3000:]}")


@contextmanager
def _process(
    argv: Sequence[str], variables: Mapping[str, str], log_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            argv, env=variables, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        # At once and with its children: how servers end is tested elsewhere.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_STOP_S)
