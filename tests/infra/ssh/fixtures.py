"""Fixtures of other machines, for tests of all folders."""

import os
from collections.abc import Iterator

import pytest

from tests.infra.ssh.lan import Lan, lan


@pytest.fixture(scope="session", name="lan")
def lan_of_session() -> Iterator[Lan]:
    """Lend the network of real sshd processes. Whoever cuts, slows or changes a host mends it."""
    if os.getuid() != 0:
        pytest.skip("network namespaces need root")
    with lan() as made:
        yield made
