"""A connection that is silent for long lives where something between drops silent ones.

A firewall does that after about 10 minutes; here its clock, and that of the signs of life, is 300
times faster.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from infra.inventory import HostEntry, Inventory
from infra.ssh.remote import SshRemote
from tests.infra.ssh.lan import QUICK
from tests.infra.ssh.loopback import USER, Sshd, sshd

__all__ = ["sshd"]

pytestmark = pytest.mark.slow

FORGETS_S = 4.0
"""Of silence, after which the firewall lets nothing pass any more and tells nobody."""
SILENCE_S = 2 * FORGETS_S


class Firewall:
    """Passes a connection on until it has been silent for too long."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to_port))
                self._open += [near, far]
                heard_s = [time.monotonic()]
                for one, other in ((near, far), (far, near)):
                    words = (one, other, heard_s)
                    threading.Thread(target=self._pass_on, args=words, daemon=True).start()

    @staticmethod
    def _pass_on(one: socket.socket, other: socket.socket, heard_s: list[float]) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if time.monotonic() - heard_s[0] > FORGETS_S:
                    return
                heard_s[0] = time.monotonic()
                other.sendall(data)


@contextmanager
def _through_a_firewall(server: Sshd, folder: Path, keepalive_s: float) -> Iterator[SshRemote]:
    with closing(Firewall(server.port)) as firewall:
        public = (server.folder / "host_key.pub").read_text()
        known = folder / f"known_hosts-{firewall.port}"
        known.write_text(f"[127.0.0.1]:{firewall.port} {public}")
        limits = replace(QUICK, keepalive_s=keepalive_s, lost_after_s=60.0)
        host = HostEntry(
            "walled", "127.0.0.1", USER, firewall.port, str(server.key_path), limits=limits,
            known_hosts=str(known),
        )  # fmt: skip
        with closing(SshRemote.to(host, Inventory("hosts.toml", (host,)), Path("/dev/null"))) as it:
            yield it


def test_signs_of_life_keep_a_silent_connection_open(sshd: Sshd, tmp_path: Path) -> None:
    with (
        _through_a_firewall(sshd, tmp_path, FORGETS_S / 8) as kept,
        _through_a_firewall(sshd, tmp_path, 60.0) as silent,
        kept.open(["cat"]) as living,
        silent.open(["cat"]) as forgotten,
    ):
        time.sleep(SILENCE_S)
        living.write(b"still", 20)
        assert living.read(20) == b"still"
        forgotten.write(b"still", 1)
        assert not forgotten.read(2), "nothing comes through any more"
