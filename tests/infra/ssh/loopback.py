"""An sshd on this machine's own loopback, for what needs no network of its own."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.inventory import HostEntry, Inventory
from infra.ssh.remote import SshRemote
from tests.infra.ssh.lan import CONFIG, QUICK, make_key, sshd_program
from tests.infra.trees import wait_until
from tests.ports import free_port

USER = pwd.getpwuid(os.getuid()).pw_name
OUTSIDE = {"OMP_NUM_THREADS": "1", "WANTED": "yes", "SET_TWICE": "outside"}
"""What every session of it has in its environment."""


@dataclass(frozen=True, slots=True)
class Sshd:
    """A server of this test's own."""

    port: int
    folder: Path

    @property
    def key_path(self) -> Path:
        """Return the key that it lets in."""
        return self.folder / "user_key"

    def remote(self) -> SshRemote:
        """Return it as another machine."""
        host = HostEntry(
            "loopback", "127.0.0.1", USER, self.port, str(self.key_path), limits=QUICK,
            known_hosts=str(self.folder / "known_hosts"),
        )  # fmt: skip
        return SshRemote.to(host, Inventory("hosts.toml", (host,)), Path("/dev/null"))


@contextmanager
def running(folder: Path) -> Iterator[Sshd]:
    """Run it with keys that it alone knows."""
    made = Sshd(free_port(), folder)
    make_key(folder / "host_key")
    make_key(made.key_path)
    shutil.copy(f"{made.key_path}.pub", folder / "authorized_keys")
    public = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{made.port} {public}")
    variables = " ".join(f"{name}={value}" for name, value in OUTSIDE.items())
    text = CONFIG.format(port=made.port, folder=folder, variables=variables)
    (folder / "config").write_text(f"ListenAddress 127.0.0.1\n{text}")
    argv = [sshd_program(), "-D", "-e", "-f", str(folder / "config")]
    with (folder / "log").open("wb") as log, subprocess.Popen(argv, stderr=log) as process:
        try:
            wait_until(lambda: _answers(made.port), f"an sshd: {(folder / 'log').read_text()}")
            yield made
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Lend one to a module."""
    with running(tmp_path_factory.mktemp("sshd")) as made:
        yield made


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
            return probe.recv(4) == b"SSH-"
    except OSError:
        return False
