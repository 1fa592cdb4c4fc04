"""What every Host and its Processes promise; a new host is tested by being listed."""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.host import Command, Host, HostError, Process, StopReport
from infra.local_host import LocalHost
from infra.reaper import find_tagged, tags
from infra.remote_host import RemoteHost
from tests.infra.ssh.loopback import OUTSIDE, sshd
from tests.infra.trees import fresh_sweep, open_fds, python, tree_command, wait_ready, wait_until
from tests.ports import free_port, own_range

__all__ = ["sshd"]

pytestmark = pytest.mark.slow

HOSTS = ("LocalHost", "RemoteHost")
AWKWARD = ("a b", "it's", '"quoted"', "; echo x", "back\\slash", "$HOME `id`", "née\n")
_REST = "import signal; print('up', flush=True); signal.pause()"


@pytest.fixture(params=HOSTS, scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Make a host of each kind; all tests share it, as all trials of a sweep do."""
    if request.param == "LocalHost":
        yield LocalHost(own_range())
        return
    remote = request.getfixturevalue("sshd").remote()
    with closing(remote):
        # So that its descriptors are there before any are counted.
        made = RemoteHost(remote, sys.executable, own_range())
        made.is_port_free(1)
        yield made
        made.close()


@pytest.fixture
def sweep() -> Iterator[str]:
    """Lend a sweep id whose processes must all be gone after the test."""
    with fresh_sweep() as name:
        yield name


def wait_exit(process: Process) -> int | None:
    """Wait for the exit of a root; return its code."""
    wait_until(lambda: process.poll() is not None, "the exit")
    return process.poll()


def run(host: Host, command: Command) -> tuple[int | None, list[str]]:
    """Run a program to its end; return its code and what it wrote."""
    process = host.start(command)
    try:
        return wait_exit(process), process.log_tail(100)
    finally:
        assert process.stop().clean


def test_a_server_runs_until_it_is_stopped(host: Host, sweep: str, tmp_path: Path) -> None:
    process = host.start(Command(python(_REST), {}, tmp_path / "log", sweep, "t1"))
    wait_ready_line(process)
    assert process.poll() is None
    assert process.pid in {found.pid for found in find_tagged(sweep, "t1")}
    assert process.stop() == StopReport(-signal.SIGTERM, 0, 0)
    assert process.poll() == -signal.SIGTERM


def wait_ready_line(process: Process) -> None:
    """Wait until the server has written its first line."""
    wait_until(lambda: process.log_tail(1), "a first line")


@pytest.mark.parametrize(
    ("code", "expected"),
    [("raise SystemExit(7)", 7), ("pass", 0), ("import os; os.kill(os.getpid(), 6)", -6)],
)
def test_an_exit_code_is_told(
    host: Host, sweep: str, tmp_path: Path, code: str, expected: int
) -> None:
    process = host.start(Command(python(code), {}, tmp_path / "log", sweep, "t1"))
    assert wait_exit(process) == expected
    report = process.stop()
    assert report == StopReport(expected, 0, 0)
    assert report.root_s == 0


def test_a_stop_is_safe_twice(host: Host, sweep: str, tmp_path: Path) -> None:
    log_path = tmp_path / "log"
    process = host.start(tree_command("stubborn", sweep, log_path, grace_s=0.1))
    wait_ready(log_path)
    first = process.stop()
    assert first == StopReport(-signal.SIGKILL, 2, 0)
    assert process.stop() == first
    assert process.log_tail(5) == ["ready", "ready"]


def test_a_server_may_use_its_grace(host: Host, sweep: str, tmp_path: Path) -> None:
    code = """
import signal, sys, time
def leave(*_):
    time.sleep(0.3)
    print("saved", flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
while True:
    signal.pause()
"""
    process = host.start(Command(python(code), {}, tmp_path / "log", sweep, "t1", grace_s=0.0))
    wait_ready_line(process)
    report = process.stop(30.0)
    assert report == StopReport(5, 0, 0)
    assert report.root_s is not None
    assert report.root_s > 0
    assert process.log_tail(1) == ["saved"]


def test_argv_is_not_read_by_a_shell(host: Host, sweep: str, tmp_path: Path) -> None:
    code = "import sys, json; print(json.dumps(sys.argv[1:]))"
    command = Command(python(code, *AWKWARD, ""), {}, tmp_path / "log", sweep, "t1")
    _, lines = run(host, command)
    assert json.loads(lines[-1]) == [*AWKWARD, ""]


@pytest.mark.parametrize("name", AWKWARD)
def test_directories_may_have_any_name(host: Host, sweep: str, tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir()
    code = "import os, json; print(json.dumps(os.getcwd()))"
    command = Command(python(code), {}, place / "logs" / name, sweep, "t1", cwd=place)
    _, lines = run(host, command)
    assert json.loads(lines[-1]) == str(place)


def test_the_environment_is_built_not_inherited(
    host: Host, sweep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As every session of the other machine has them.
    for name, value in OUTSIDE.items():
        monkeypatch.setenv(name, value)
    code = "import json; print(json.dumps(open('/proc/self/environ').read().split(chr(0))))"
    command = Command(
        python(code),
        {"NCCL_PROTO": "LL a=b", "SET_TWICE": "inside", "EMPTY": ""},
        tmp_path / "log",
        sweep,
        "t1",
        inherit=("WANTED", "SET_TWICE", "NOT_THERE"),
        hidden={"HF_TOKEN": "secret"},
    )
    _, lines = run(host, command)
    assert dict(pair.split("=", 1) for pair in json.loads(lines[-1]) if pair) == {
        "WANTED": "yes",
        "SET_TWICE": "inside",
        "EMPTY": "",
        "NCCL_PROTO": "LL a=b",
        "HF_TOKEN": "secret",
        **tags(sweep, "t1"),
    }


def test_output_is_appended_and_input_is_empty(host: Host, sweep: str, tmp_path: Path) -> None:
    log_path = tmp_path / "log"
    log_path.write_text("from before\n")
    code = "import sys; print(repr(sys.stdin.read()), flush=True); print('err', file=sys.stderr)"
    _, lines = run(host, Command(python(code), {}, log_path, sweep, "t1"))
    assert lines == ["from before", "''", "err"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"argv": ("/not/there",)}, "program /not/there: No such file"),
        ({"argv": ("/dev/null",)}, "program /dev/null: Permission denied"),
        ({"argv": ()}, "no program"),
        ({"argv": ("a\0b",)}, "holds a NUL"),
        ({"cwd": Path("/not/there")}, "directory /not/there: No such file"),
        ({"log_path": Path("/dev")}, "log /dev: .*Is a directory"),
        ({"log_path": Path("/dev/null/log")}, "cannot start"),
    ],
    ids=str,
)
def test_what_cannot_be_started_is_an_error(
    host: Host, sweep: str, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    before = open_fds()
    command = Command(python("pass"), {}, tmp_path / "log", sweep, "t1")
    with pytest.raises(HostError, match=message):
        host.start(replace(command, **change))
    wait_until(lambda: not find_tagged(sweep), "the end of the guard")
    assert open_fds() == before


def test_a_program_is_found_by_the_servers_own_path(host: Host, sweep: str, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    command = Command(("tool",), {"PATH": str(tmp_path)}, tmp_path / "log", sweep, "t1")
    assert run(host, command) == (0, ["found"])


def test_a_large_command_passes(host: Host, sweep: str, tmp_path: Path) -> None:
    # More than a pipe holds at once.
    big = {f"BIG_{number}": "x" * 50_000 for number in range(6)}
    code = "import os; print(sum(len(os.environ[f'BIG_{n}']) for n in range(6)))"
    _, lines = run(host, Command(python(code), big, tmp_path / "log", sweep, "t1"))
    assert lines == ["300000"]


def test_reap_ends_a_trial_and_leaves_the_others(host: Host, sweep: str, tmp_path: Path) -> None:
    one = host.start(Command(python(_REST), {}, tmp_path / "1", sweep, "t1"))
    two = host.start(Command(python(_REST), {}, tmp_path / "2", sweep, "t2"))
    try:
        # The root and its guard.
        assert host.reap(sweep, "t1") == 2
        assert wait_exit(one) == -signal.SIGKILL
        assert two.poll() is None
    finally:
        assert host.reap(sweep) == 2
        assert one.stop().clean
        assert two.stop().clean


def test_ports_are_handed_out_in_turn(host: Host) -> None:
    before = open_fds()
    ports = [host.free_port() for _ in range(5)]
    assert len(set(ports)) == 5
    assert open_fds() == before
    for port in ports:
        assert host.is_port_free(port)


def test_a_listener_holds_its_port_and_a_closed_connection_does_not(host: Host) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as listener:
        assert not host.is_port_free(port)
        with closing(socket.create_connection(("127.0.0.1", port))) as client:
            server_side, _ = listener.accept()
            # Who closes first keeps the port in TIME_WAIT.
            server_side.close()
            client.recv(1)
    assert host.is_port_free(port)


def test_a_port_held_on_all_interfaces_is_held(host: Host) -> None:
    with socket.create_server(("0.0.0.0", 0)) as listener:
        assert not host.is_port_free(listener.getsockname()[1])


def test_hosts_do_not_follow_the_owner_into_another_directory(
    host: Host, sweep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    process = host.start(Command(python(_REST), {}, Path("log"), sweep, "t1"))
    wait_ready_line(process)
    monkeypatch.chdir(os.sep)
    assert process.log_tail(1) == ["up"]
    assert process.stop().clean


_LISTEN = """
import os, socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if os.fork() == 0:
    print("up", flush=True)
    time.sleep(600)
server.close()
time.sleep(600)
"""


def test_a_port_belongs_to_the_tree_that_listens_on_it(
    host: Host, sweep: str, tmp_path: Path
) -> None:
    port = host.free_port()
    command = Command((*python(_LISTEN), str(port)), {}, tmp_path / "log", sweep, "t1")
    owner = host.start(command)
    other = host.start(Command(python(_REST), {}, tmp_path / "other", sweep, "t2"))
    try:
        wait_ready_line(owner)
        wait_ready_line(other)
        assert owner.listens_on(port)
        assert not other.listens_on(port)
        assert not owner.listens_on(port + 1)
    finally:
        owner.stop()
        other.stop()
    assert not owner.listens_on(port)
