"""Two sweeps on the same real GPUs: the second is refused, whichever way it came."""

from dataclasses import replace

import pytest

from infra.host_lock import HostInUseError
from infra.probing.facts import GpuFacts, HostFacts
from infra.runtime_folder import RuntimeFolder
from orchestrator.cluster.hands import Hands
from orchestrator.host_locks import hosts_locked
from sweeps.hosts import EngineName, HostSpec
from sweeps.problems import BadInputError
from tests.infra.runtime import runtime
from tests.sweeps.makers import SMALL

__all__ = ["runtime"]

GPUS = tuple(GpuFacts(i, f"GPU-{i}", "H200") for i in range(8))
FACTS = {"local": HostFacts("local", gpus=GPUS)}
REAL = replace(SMALL, hosts=(HostSpec(engine=EngineName.SGLANG),))
EMULATED = replace(SMALL, hosts=(HostSpec(engine=EngineName.EMULATED),))


def test_a_second_sweep_on_the_same_gpus_is_refused_by_its_owners_name(
    runtime: RuntimeFolder,
) -> None:
    with hosts_locked(REAL, FACTS, "sweep one"):
        with (
            pytest.raises(BadInputError, match=r"GPU-0.*in use by sweep one"),
            hosts_locked(REAL, FACTS, "sweep two"),
        ):
            pass
        with pytest.raises(HostInUseError, match="in use by sweep one"):
            Hands().take([GPUS[7].uuid], "one that came over Ray")
    with hosts_locked(REAL, FACTS, "sweep two"):
        pass


def test_emulated_hosts_are_in_nobodys_way(runtime: RuntimeFolder) -> None:
    with hosts_locked(EMULATED, FACTS, "one"), hosts_locked(EMULATED, FACTS, "two"):
        pass
