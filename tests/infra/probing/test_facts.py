"""Facts are plain data, and their fingerprint is of what may change results."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from infra.machine import Interconnect, Machine
from infra.probing.facts import (
    GpuFacts,
    GpuUser,
    HostFacts,
    Iommu,
    Listener,
    NcclFile,
    Note,
    Room,
    Software,
    System,
    facts_from_data,
    release,
)
from infra.probing.links import Links

FACTS = HostFacts(
    "h",
    software=Software("/py", "3.12.1", "0.5.9", (("torch", "2.9.1"),), "2.27.3", ("tp_size",)),
    gpus=(GpuFacts(0, "GPU-0", "H100", 100, 1, (9, 0)), GpuFacts(1, "GPU-1", "H100")),
    links=Links((("X", "PHB"), ("PHB", "X")), ("0", "1")),
    driver_version="570",
    system=System("6.8", "EPYC", 8, 2, Iommu.OFF, 0),
    room=Room(10, 5, 4, 3, 2, 1),
    nccl_files=(NcclFile("/etc/nccl.conf", "ab", (("NCCL_DEBUG", "INFO"),)),),
    gpu_users=(GpuUser(7, 0, "python", None),),
    listeners=(Listener(31000, 7, "python", "s"),),
    notes=(Note("links", "no"),),
)


def test_plain_data_comes_back_whole() -> None:
    assert facts_from_data(json.loads(json.dumps(FACTS.as_data()))) == FACTS


@pytest.mark.parametrize("data", [{}, [], {**FACTS.as_data(), "format": 0}, {"format": 1}])
def test_data_of_another_form_are_refused(data: object) -> None:
    with pytest.raises(ValueError):
        facts_from_data(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: replace(f, truth="S"),
        lambda f: replace(f, software=replace(f.software, sglang_version="0.5.10")),
        lambda f: replace(f, software=replace(f.software, accepted_flags=("tp_size", "x"))),
        lambda f: replace(f, software=replace(f.software, nccl_version="2.28.1")),
        lambda f: replace(f, gpus=(replace(f.gpus[0], uuid="GPU-9"), f.gpus[1])),
        lambda f: replace(f, links=Links((("X", "SYS"), ("SYS", "X")), ("0", "1"))),
        lambda f: replace(f, driver_version="580"),
        lambda f: replace(f, nccl_files=()),
        lambda f: replace(f, system=replace(f.system, iommu=Iommu.TRANSLATING)),
    ],
)
def test_what_may_change_results_changes_the_fingerprint(
    change: Callable[[HostFacts], HostFacts],
) -> None:
    assert change(FACTS).fingerprint != FACTS.fingerprint


def test_what_changes_by_the_minute_does_not() -> None:
    later = replace(
        FACTS,
        room=Room(10, 1, 4, 1, 1, 1),
        gpus=tuple(replace(gpu, memory_used_bytes=99) for gpu in FACTS.gpus),
        gpu_users=(),
        listeners=(),
        notes=(),
        unpassed=("NCCL_DEBUG",),
        read_at="2026",
    )
    assert later.fingerprint == FACTS.fingerprint


def test_a_machine_is_what_decides_about_settings() -> None:
    assert FACTS.machine == Machine(2, Interconnect.PCIE, (9, 0), "2.27.3")
    assert HostFacts("h").machine == Machine(0)


@pytest.mark.parametrize(
    ("version", "of"),
    [
        ("0.5.23", "0.5.23"),
        ("0.5.23+cu128", "0.5.23"),
        ("0.5.6.post2", "0.5.6.post2"),
        ("0.5.24rc1", "0.5.24"),
        ("0.5.24.dev12+g1", "0.5.24"),
        ("0.0.0.dev12032+g28ee08c17", ""),
        ("unknown", ""),
        ("", ""),
    ],
)
def test_the_release_of_a_version(version: str, of: str) -> None:
    assert release(version) == of


def test_a_build_without_a_release_is_asked_by_the_newest_table() -> None:
    assert (
        replace(FACTS, software=Software(sglang_version="0.0.0")).version == HostFacts("h").version
    )
    assert FACTS.version == "0.5.9"
