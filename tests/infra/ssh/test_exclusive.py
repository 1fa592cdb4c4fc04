"""Two sweeps never have the same GPUs, also where both came over SSH."""

import sys
from contextlib import closing
from pathlib import Path

import pytest

from infra.ssh.remote import SshRemote
from tests.infra.ssh.lan import Lan

pytestmark = pytest.mark.slow

# Each says when it has the GPUs, and gives them back when its input ends.
_SWEEP = """
import sys
from infra.host_lock import HostInUseError, host_lock
try:
    with host_lock(["GPU-1", "GPU-2"], sys.argv[1]):
        print("begins", flush=True)
        sys.stdin.read()
        print("ends", flush=True)
except HostInUseError as error:
    print(f"refused: {error}", flush=True)
"""


def test_a_second_sweep_is_refused_while_the_first_lives(lan: Lan) -> None:
    inventory = lan.inventory()
    words = [sys.executable, "-c", _SWEEP]
    with (
        closing(SshRemote.to(inventory.host("gpu1"), inventory, Path("/dev/null"))) as one,
        closing(SshRemote.to(inventory.host("gpu1"), inventory, Path("/dev/null"))) as two,
        one.open([*words, "sweep one"]) as first,
    ):
        assert first.read(60) == b"begins\n"
        refused = two.run([*words, "sweep two"])
        assert "refused: GPU-1 is in use by sweep one, since" in refused.text
        first.end_input()
        assert first.read(60) == b"ends\n"
        assert first.exit_code(60) == 0
        assert two.run([*words, "sweep two"]).text == "begins\nends\n"


def test_a_sweep_whose_connection_is_lost_gives_its_gpus_back(lan: Lan) -> None:
    inventory = lan.inventory()
    words = [sys.executable, "-c", _SWEEP]
    with closing(SshRemote.to(inventory.host("gpu1"), inventory, Path("/dev/null"))) as two:
        one = SshRemote.to(inventory.host("gpu1"), inventory, Path("/dev/null"))
        with one.open([*words, "sweep one"]) as first:
            assert first.read(60) == b"begins\n"
            one.close()
        done = two.run([*words, "sweep two"])
        assert "begins" in done.text or "sweep one" in done.text
        # The process there ends with its input: from then on nobody is in the way.
        while "begins" not in done.text:
            done = two.run([*words, "sweep two"])
