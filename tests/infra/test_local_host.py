"""What is particular to this machine as a host: the port range, and the end of a log."""

import socket
from pathlib import Path

import pytest

from infra.host import HostError
from infra.local_host import LocalHost, tail
from tests.ports import own_range

pytestmark = pytest.mark.slow


def _listen() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    assert listener.getsockname()[1] > 0
    return listener


def test_every_port_of_the_range_has_its_turn() -> None:
    first, _ = own_range()
    host = LocalHost(port_range=(first, first + 4))
    free = [port for port in range(first, first + 5) if host.is_port_free(port)]
    ports = [host.free_port() for _ in free]
    assert sorted(ports) == free
    assert host.free_port() == ports[0]


def test_a_full_range_is_told() -> None:
    with _listen() as listener:
        port = listener.getsockname()[1]
        with pytest.raises(HostError, match=str(port)):
            LocalHost(port_range=(port, port)).free_port()


@pytest.mark.parametrize("ports", [(0, 10), (10, 9), (65000, 65536)])
def test_a_range_must_be_one(ports: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not a range"):
        LocalHost(port_range=ports)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"one", ["one"]),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\ntwo\nthree", ["two", "three"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b" 10%\r 50%\r100%\r", [" 50%", "100%"]),
        (b"one\n\xff\x85\n", ["one", "\ufffd\ufffd"]),
    ],
)
def test_tail(content: bytes, expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    assert tail(path, 2) == expected


def test_tail_of_a_long_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = [f"line {number} é {'x' * (number % 300)}" for number in range(20_000)]
    path.write_text("\n".join(lines))
    assert tail(path, 1) == lines[-1:]
    assert tail(path, 500) == lines[-500:]
    assert tail(path, 0) == []
    assert tail(tmp_path / "none", 5) == []


def test_tail_reads_a_megabyte_at_most(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 5_000_000)
    (line,) = tail(path, 3)
    assert len(line) < 3_000_000
