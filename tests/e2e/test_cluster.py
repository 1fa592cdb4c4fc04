"""A sweep on several machines over Ray: hosts are lost and come back, the driver is ended."""

import importlib.util
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from infra.cluster.words import TOKEN_VARIABLE, head_words, new_token
from orchestrator.exit_codes import INTERRUPTED
from tests.attacks import attack
from tests.e2e.sweeping import ROOT
from tests.infra.ssh.lan import Lan
from tests.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPACE = """
from sweeps import *

NGRAM = {{"speculative_algorithm": "NGRAM"}}

sweep = Sweep(
    name="two-hosts",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 9, NGRAM),
        Choice("NCCL_PROTO", [None, "LL"]),
    ],
    fixed={{"tp_size": 8}},
    workload=Workload(max_tokens=128, measured_prompts=4, most_measured_prompts=4,
                      cold_prompts=1, measure_s=1e6,
                      ignore_eos=True),
    budget=Budget(trials={trials}, trial_s=1e6, start_s=1e6, phase_s=1e6, silence_s=1e6),
    early_stopping=False,
    sampler="random",
)
"""
LIMIT_S = 400.0


NODE_ENDS_S = 45.0
"""Since the head is gone, on a busy machine: Ray's own processes would stay for 85."""


def _wait(
    true: Callable[[], object],
    what: str,
    process: subprocess.Popen[str] | None,
    until_s: float | None = None,
) -> None:
    until_s = until_s or time.monotonic() + LIMIT_S
    while not true():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < until_s, what
        time.sleep(0.2)


@contextmanager
def _started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "120"}, start_new_session=True,
    ) as sweep:  # fmt: skip
        try:
            yield sweep
        finally:
            sweep.kill()


def _two_hosts(lan: Lan, folder: Path, trials: int) -> list[str]:
    (folder / "space.py").write_text(SPACE.format(trials=trials))
    lan.write_inventory(folder / "hosts.toml", "gpu1", "gpu2", time_scale=100.0)
    return _orchestrator(folder, "sweep", str(folder / "space.py"), "--hosts", "gpu1,gpu2")


def _left(lan: Lan, *marks: bytes) -> list[bytes]:
    """Return the words of what runs on the hosts and is Ray's or ours."""
    found = []
    for name in ("gpu1", "gpu2"):
        for pid in lan[name].pids():
            with suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return [words for words in found if any(mark in words for mark in marks or (b"ray", b"infra"))]


@contextmanager
def _their_cluster(
    folder: Path,
) -> Iterator[tuple[str, dict[str, str], Callable[[], set[int]]]]:
    """Run a Ray head with GPUs, by an interpreter that has Ray and has not got ours."""
    theirs = folder / "theirs"
    venv.create(theirs, with_pip=False)
    packages = next(theirs.glob("lib/python*/site-packages"))
    ray = importlib.util.find_spec("ray")
    assert ray is not None
    assert ray.origin is not None
    (packages / "ray.pth").write_text(f"{Path(ray.origin).parents[1]}\n")
    port, token = free_port(), new_token()
    variables = {"RAY_AUTH_MODE": "token", TOKEN_VARIABLE: token}
    with tempfile.TemporaryDirectory(prefix="orr", dir="/tmp", ignore_cleanup_errors=True) as place:
        words = list(head_words(str(theirs / "bin/python"), "127.0.0.1", port, place))
        words[words.index("--num-gpus") + 1] = "8"
        head = subprocess.Popen(
            words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **variables, "HOME": str(folder / "home")}, start_new_session=True,
        )  # fmt: skip

        def pids() -> set[int]:
            found = [head.pid, *(p.pid for p in psutil.Process(head.pid).children(recursive=True))]
            return {pid for pid in found if b"ray::IDLE" not in _words(pid)}

        try:
            _wait(lambda: _answers(port), "their head", None)
            yield f"127.0.0.1:{port}", variables, pids
        finally:
            head.terminate()
            head.wait(60)


def _words(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _orchestrator(folder: Path, *words: str) -> list[str]:
    inventory = str(folder / "hosts.toml")
    return [
        sys.executable, "-m", "orchestrator", *words,
        "--inventory", inventory, "--state-dir", str(folder / "state"),
    ]  # fmt: skip


def test_a_lost_host_is_replaced_and_used_again(lan: Lan, tmp_path: Path) -> None:
    words, state = _two_hosts(lan, tmp_path, trials=8), tmp_path / "state"
    with _started(words) as sweep:
        try:
            begun = lambda: list(state.glob("sweeps/*/trials/0003"))  # noqa: E731
            _wait(begun, "the fourth trial", sweep)
            lan["gpu2"].stop()  # the power goes
            [log] = state.glob("sweeps/*/driver.log")
            _wait(lambda: "host=gpu2 is lost" in log.read_text(), "the loss", sweep)
            lan["gpu2"].start()
            out, err = sweep.communicate(timeout=LIMIT_S)
        finally:
            if not lan["gpu2"].pids():
                lan["gpu2"].start()
    assert sweep.returncode == 0, out + err
    rows = [
        json.loads(path.read_text()) for path in sorted(state.glob("sweeps/*/trials/*/result.json"))
    ]
    good = [row for row in rows if row["outcome"] in ("measured", "partial")]
    assert len(good) == 8
    assert {row["host"] for row in good} == {"gpu1", "gpu2"}
    lost = [row for row in rows if row["outcome"] == "failed"]
    assert all(row["host"] == "gpu2" for row in lost if "host gpu2" in row["reason"])
    again = {str(row["config"]) for row in good}
    assert all(str(row["config"]) in again for row in lost), "what was lost is measured elsewhere"
    for row in good:  # what a trial wrote there is here
        folder = next(state.glob(f"sweeps/*/trials/{row['number']:04d}"))
        assert {p.name for p in folder.iterdir()} >= {"spool.jsonl", "plan.json", "server.log"}
    assert not _left(lan)
    assert "(raylet)" not in out + err, "what Ray says stays in its logs"
    assert not re.search(r"RAY_AUTH_TOKEN=\S", out + err + log.read_text())


def test_a_killed_driver_leaves_nothing_and_its_sweep_resumes_with_the_same_command(
    lan: Lan, tmp_path: Path
) -> None:
    words = _two_hosts(lan, tmp_path, trials=3)
    with _started(words) as sweep:
        _wait(lambda: any(tmp_path.glob("state/sweeps/*/trials/0002")), "more trials", sweep)
        sweep.kill()
        sweep.communicate(timeout=LIMIT_S)
    killed_s = time.monotonic()
    _wait(lambda: not _left(lan, b"infra"), "no server", None)
    with _started(words) as sweep:  # at once, while the nodes of the killed one are still there
        out, err = sweep.communicate(timeout=LIMIT_S)
    assert sweep.returncode == 0, out + err
    rows = [json.loads(p.read_text()) for p in tmp_path.glob("state/sweeps/*/trials/*/result.json")]
    good = [row for row in rows if row["outcome"] in ("measured", "partial")]
    assert len(good) == 3, [(row["outcome"], row["reason"]) for row in rows]
    assert len({row["sweep"] for row in rows}) == 1
    _wait(lambda: not _left(lan), "no node", None, killed_s + NODE_ENDS_S)


def test_ctrl_c_ends_all_on_the_hosts_and_keeps_what_was_cut(lan: Lan, tmp_path: Path) -> None:
    words, state = _two_hosts(lan, tmp_path, trials=12), tmp_path / "state"
    with _started(words) as sweep:
        _wait(lambda: list(state.glob("sweeps/*/trials/0002")), "the third trial", sweep)
        os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does
        out, err = sweep.communicate(timeout=LIMIT_S)
    assert sweep.returncode == INTERRUPTED, out + err
    assert "--resume" in out
    assert "Traceback" not in out + err
    # It has waited for them: neither a server nor a node is left at its end.
    assert not _left(lan)
    folders = list(state.glob("sweeps/*/trials/*"))
    rows = [json.loads((folder / "result.json").read_text()) for folder in folders]
    assert len(rows) >= 3
    assert {row["outcome"] for row in rows} <= {"measured", "partial", "cancelled"}
    cut = [row for row in rows if row["outcome"] == "cancelled"]
    assert cut, "two hosts measured"
    assert {row["host"] for row in cut} <= {"gpu1", "gpu2"}


@attack("2: a talk to Ray of a cluster, in clear and by TLS, by whoever has no certificate")
def test_ray_of_a_cluster_talks_to_those_alone_that_have_its_certificate(
    lan: Lan, tmp_path: Path
) -> None:
    words, state = _two_hosts(lan, tmp_path, trials=12), tmp_path / "state"
    with _started(words) as sweep:
        _wait(lambda: list(state.glob("sweeps/*/trials/0002")), "the third trial", sweep)
        heads = [found for found in _listening([]) if found[1] == "gcs_server"]
        there = ["ip", "netns", "exec", lan["gpu1"].namespace]
        nodes = [(lan["gpu1"].address, name, port) for _, name, port in _listening(there)]
        asked = [*heads, *nodes]
        certificates = Path(lan["gpu1"].entry().folder) / "cluster"
        assert {"raylet", "gcs_server"} <= {name for _, name, _ in asked}
        for address, name, port in asked:
            # Its one talker is on the same machine, and it asks for the token.
            if not name.startswith("ray::RuntimeEnv"):
                assert not _speaks_http2(address, port), (name, "in clear")
                assert not _speaks_http2(address, port, _Anybody()), (name, "by TLS")
                assert _speaks_http2(address, port, _one_of_them(certificates)), name
        os.killpg(sweep.pid, signal.SIGINT)
        out, err = sweep.communicate(timeout=LIMIT_S)
    assert sweep.returncode == INTERRUPTED, out + err
    rows = [json.loads(p.read_text()) for p in state.glob("sweeps/*/trials/*/result.json")]
    assert "measured" in {row["outcome"] for row in rows}
    assert {path.stat().st_mode & 0o777 for path in certificates.iterdir()} == {0o600}


def _listening(there: list[str]) -> list[tuple[str, str, int]]:
    """Return address, process and port of what listens to other machines, and is Ray's."""
    told = subprocess.run(
        [*there, "ss", "-ltnpH"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    found = re.findall(r"(\S+):(\d+)\s+\S+\s+users:\(\(\"([^\"]+)\"", told)
    return [
        ("127.0.0.1", name, int(port))
        for address, port, name in found
        if not address.startswith("127.") and name.startswith(("raylet", "gcs", "ray::"))
    ]


class _Anybody(ssl.SSLContext):
    """TLS of somebody who trusts everybody, and has no certificate."""

    def __new__(cls) -> "_Anybody":
        made = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
        made.set_alpn_protocols(["h2"])
        return made


def _one_of_them(folder: Path) -> ssl.SSLContext:
    tls = _Anybody()
    tls.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return tls


def _speaks_http2(address: str, port: int, tls: ssl.SSLContext | None = None) -> bool:
    """Greet as a client of gRPC does; tell whether a greeting comes back."""
    settings = bytes(3) + b"\x04" + bytes(5)
    try:
        plain = socket.create_connection((address, port), 10)
        with tls.wrap_socket(plain) if tls else plain as link:
            link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
            return link.recv(9)[3:4] == b"\x04"
    except OSError:
        return False


def test_the_nodes_of_a_cluster_that_is_there_are_used_and_left_as_they_were(
    tmp_path: Path,
) -> None:
    (tmp_path / "space.py").write_text(SPACE.format(trials=2))
    (tmp_path / "home").mkdir()
    with _their_cluster(tmp_path) as (address, variables, pids):
        before = pids()
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", "sweep", "space.py", "--state-dir", "state",
             "--ray-address", address, "--time-scale", "100"],
            cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert before <= pids(), "nothing of theirs was ended"
        assert "EMULATED" in done.stdout.splitlines()[0]
    rows = [json.loads(p.read_text()) for p in tmp_path.glob("state/sweeps/*/trials/*/result.json")]
    assert [row["outcome"] for row in rows] == ["measured"] * 2
    # What Ray sets in its workers is not what a server gets.
    assert {row["env"]["CUDA_VISIBLE_DEVICES"] for row in rows} == {"0,1,2,3,4,5,6,7"}
    # Their home is where ours wrote, and the files of a trial came from there.
    assert len(list(tmp_path.glob("home/.orchestrator/state/sweeps/*/trials/*/server.log"))) == 2
    assert len(list(tmp_path.glob("state/sweeps/*/trials/*/server.log"))) == 2
    assert not list(tmp_path.glob("~"))


def test_what_was_exported_is_verified_on_a_host_of_the_inventory(lan: Lan, tmp_path: Path) -> None:
    (tmp_path / "space.py").write_text(SPACE.format(trials=2))
    lan.write_inventory(tmp_path / "hosts.toml", "gpu1", "gpu2", time_scale=100.0)

    def told(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", *words, "--state-dir", str(tmp_path / "state")],
            cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told("sweep", str(tmp_path / "space.py"), "--driver", "serial", "--time-scale", "100")
    inventory = ("--inventory", str(tmp_path / "hosts.toml"))
    answer = told("verify", "0", "--host", "gpu1", *inventory, "--starts", "1", "--within", "90")
    assert answer.startswith("EMULATED: it holds")
    [row] = tmp_path.glob("state/sweeps/verify-*/trials/*/result.json")
    assert json.loads(row.read_text())["host"] == "gpu1"
    assert (row.parent / "server.log").is_file()
    there = Path(lan["gpu1"].entry().folder) / "state/sweeps"
    assert list(there.glob(f"{row.parents[2].name}/trials/*/server.log")), "it ran there"
    assert not _left(lan)


def test_hosts_that_cannot_be_had_are_named_before_anything_starts(
    lan: Lan, tmp_path: Path
) -> None:
    (tmp_path / "space.py").write_text(SPACE.format(trials=2))
    lan.write_inventory(tmp_path / "hosts.toml")
    space = str(tmp_path / "space.py")

    def refused(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            _orchestrator(tmp_path, "sweep", space, *words),
            cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    code, told = refused("--hosts", "gpu1,inner")
    assert code == 2, told
    assert "jump host" in told
    assert "sweep --host inner" in told
    code, told = refused("--hosts", "gpu1,gpu9")
    assert code == 2, told
    assert "gpu9" in told
    code, told = refused("--hosts", "gpu1", "--driver", "serial")
    assert code == 2, told
    lan.write_inventory(tmp_path / "hosts.toml", "gpu1", python="/usr/bin/env")
    code, told = refused("--hosts", "gpu1")
    assert code == 4, told
    assert "hosts prepare gpu1" in told
    assert not list(tmp_path.glob("state/sweeps/*"))
