"""A server on another machine, when the network between is lost and comes back."""

import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest

from infra.inventory import Limits
from infra.reaper import find_tagged
from infra.remote_host import RemoteHost
from infra.ssh.remote import SshRemote
from tests.infra.ssh.lan import Lan
from tests.infra.trees import SIZE, tree_command, wait_ready, wait_until

pytestmark = pytest.mark.slow

LEASE_S = 5.0


def test_a_lost_network_ends_the_server_and_the_host_is_proved_clean_afterwards(
    lan: Lan, sweep: str, tmp_path: Path
) -> None:
    node = lan["gpu2"]
    limits = Limits(connect_s=15, command_s=30, keepalive_s=0.5, lost_after_s=2.0, retry_s=60)
    inventory = lan.inventory({"gpu2": {"limits": limits}})
    with closing(SshRemote.to(inventory.host("gpu2"), inventory, Path("/dev/null"))) as remote:
        host = RemoteHost(remote, sys.executable)
        log = tmp_path / "log"
        process = host.start(tree_command("setsid", sweep, log, lease_s=LEASE_S))
        wait_ready(log)
        assert len(find_tagged(sweep)) == SIZE + 1
        node.cut()
        try:
            wait_until(lambda: not find_tagged(sweep), "the end of the tree")
            # Nothing is reachable, and still who asks is not kept waiting until it is.
            wait_until(lambda: process.poll() is not None, "the loss of the guard")
            assert process.poll() == -signal.SIGKILL
        finally:
            node.mend()
        report = process.stop()
        assert report.clean
        host.close()
    assert "no sign of life from the owner" in log.read_text() or "owner is gone" in log.read_text()
