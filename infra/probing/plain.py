"""What a host tells of itself where ours is not installed: /proc, df and nvidia-smi."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from infra.probing.facts import GpuFacts, HostFacts, Iommu, Note, Room, System
from infra.probing.reading import ReadError
from infra.probing.smi import GPU_USERS, GPUS, PROGRAM, Smi, Users, gpu_users, told_besides
from sweeps.hosts import HostSpec

Ask = Callable[[Sequence[str]], str]
"""Runs a command there and returns what it printed; raises ReadError."""

_KB = 1024
_SYSTEM = """
echo "kernel $(cat /proc/sys/kernel/osrelease)"
echo "cpu $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
echo "cores $(nproc)"
echo "nodes $(ls -d /sys/devices/system/node/node[0-9]* 2>/dev/null | wc -l)"
echo "total $(sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo)"
echo "available $(sed -n 's/^MemAvailable: *\\([0-9]*\\).*/\\1/p' /proc/meminfo)"
echo "shm $(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $2, $4}')"
echo "iommu $(cat /sys/kernel/iommu_groups/*/type 2>/dev/null | sort -u | tr '\\n' ' ')"
at=$1; while [ ! -e "$at" ]; do at=$(dirname "$at"); done
echo "disk $(df -Pk "$at" 2>/dev/null | awk 'NR == 2 {print $4}')"
"""


@dataclass(frozen=True, slots=True)
class _RemoteSmi(Smi):
    """Asks the driver of another machine."""

    run: Ask

    def _ask(self, *words: str) -> str:
        return self.run([PROGRAM, *words])


def plain_facts(ask: Ask, spec: HostSpec, folder: str) -> HostFacts:
    """Read what can be read without ours; each failure is a note."""
    facts = HostFacts(host=spec.name, gpus_wanted=spec.gpus)
    notes: list[Note] = []
    try:
        facts = _with_system(facts, ask(["sh", "-c", _SYSTEM, "sh", folder]))
    except (ReadError, ValueError, KeyError) as error:
        notes.append(Note("the machine", str(error)))
    smi = _RemoteSmi((PROGRAM,), {}, Path("/"), ask)
    gpus: tuple[GpuFacts, ...] = ()
    try:
        devices, users = smi.gpus(), Users()
        gpus = devices.gpus
        facts = replace(facts, gpus=gpus, driver_version=devices.driver)
        try:
            users = smi.users()
        finally:
            notes += told_besides(devices, users)
        facts = replace(facts, gpu_users=gpu_users(users.rows, gpus, {}))
    except (ReadError, ValueError) as error:
        notes.append(Note(GPU_USERS if gpus else GPUS, str(error)))
    if gpus:
        with suppress(ReadError, ValueError):
            facts = replace(facts, links=smi.links(), cuda_version=_cuda(smi))
    return replace(facts, notes=tuple(notes))


def _cuda(smi: Smi) -> str:
    try:
        return smi.cuda_version()
    except ReadError:
        return ""


def _with_system(facts: HostFacts, text: str) -> HostFacts:
    told = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    shm = [int(word) * _KB for word in told.get("shm", "").split()] or [0, 0]
    room = Room(
        ram_total_bytes=int(told["total"]) * _KB,
        ram_available_bytes=int(told["available"]) * _KB,
        shm_total_bytes=shm[0],
        shm_free_bytes=shm[-1],
        disk_free_bytes=int(told.get("disk") or 0) * _KB,
    )
    system = System(
        kernel=told["kernel"],
        cpu_model=told.get("cpu", ""),
        cpu_count=int(told.get("cores") or 0),
        numa_nodes=int(told.get("nodes") or 0),
        iommu=_iommu(told.get("iommu", "").split()),
    )
    return replace(facts, room=room, system=system)


def _iommu(modes: Sequence[str]) -> Iommu:
    """As `read_system` does, of all groups: which of them are GPUs' is not asked here."""
    if not modes:
        return Iommu.UNKNOWN
    return Iommu.PASSTHROUGH if set(modes) == {"identity"} else Iommu.TRANSLATING
