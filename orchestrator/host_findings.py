"""What the facts of a host mean: what stands in a sweep's way, and what can matter there."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from infra.machine import Interconnect
from infra.probing.facts import HostFacts, Iommu, release
from infra.sglang.flags import version_key
from sweeps.values import Value

_GIB = 2**30
_STRAY_BYTES = _GIB
"""A driver and a display hold less than this on a GPU that nobody uses."""
_LEAST_SHM_BYTES = _GIB
_LEAST_DISK_BYTES = 2 * _GIB
_TRIE_NODES = 10_000_000
_TRIE_NODE_BYTES = 180
"""Measured for SGLang 0.5.23: 1.8 GB in each rank for the default capacity."""
_SHORT_SIGHTED_NCCL = "2.23"
"""From here on, three GPUs or more have no direct access over a host bridge (graph/paths.cc)."""


class Weight(StrEnum):
    """What a finding means for a sweep that would start now."""

    WAITS = "not ready"
    WARNS = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a person should know before a sweep, and what to do about it."""

    weight: Weight
    subject: str
    what: str
    mend: str

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return asdict(self)


Values = Mapping[str, tuple[Value, ...]]
"""Each setting of a sweep with every value that it may take; empty without a sweep."""


def findings(facts: HostFacts, values: Values) -> tuple[Finding, ...]:
    """List what stands in the way, the heaviest first."""
    found = [
        *_on_the_gpus(facts),
        *_lacking_room(facts, values),
        *_on_our_ports(facts),
        *_silent_settings(facts, values),
        *_hazards(facts),
        *_doubts(facts),
    ]
    return tuple(sorted(found, key=lambda finding: finding.weight is not Weight.WAITS))


def meanings(facts: HostFacts, values: Values) -> tuple[str, ...]:
    """Say in sentences what the devices and their links mean for settings."""
    return (*_of_links(facts), *_of_direct_access(facts), *_of_tries(facts, values))


def _on_the_gpus(facts: HostFacts) -> Iterator[Finding]:
    for user in facts.gpu_users:
        held = f" and holds {gib(user.used_bytes)}" if user.used_bytes is not None else ""
        what = f"process {user.pid} ({user.name[:60]}) computes there{held}"
        mend = "End it, or wait: what else runs on a GPU is measured too."
        if user.sweep:
            what += f"; it is of sweep {user.sweep}"
            mend = "Wait for that sweep; if it is dead, `orchestrator clean` ends what it left."
        yield Finding(Weight.WAITS, f"GPU {user.gpu_index}", what, mend)
    used = {user.gpu_index for user in facts.gpu_users}
    for gpu in facts.gpus:
        if gpu.index not in used and (gpu.memory_used_bytes or 0) > _STRAY_BYTES:
            what = f"{gib(gpu.memory_used_bytes)} are in use by no process that is visible here"
            mend = "Look for it on the host, outside of containers; or wait for the driver."
            yield Finding(Weight.WAITS, f"GPU {gpu.index}", what, mend)


def _lacking_room(facts: HostFacts, values: Values) -> Iterator[Finding]:
    room = facts.room
    if not room.ram_total_bytes:
        return
    if room.disk_free_bytes < _LEAST_DISK_BYTES:
        what = f"{gib(room.disk_free_bytes)} are free where the state lies"
        yield Finding(Weight.WAITS, "disk", what, "Free some, or choose another --state-dir.")
    if facts.emulated:
        return
    if len(facts.gpus) > 1 and room.shm_free_bytes < _LEAST_SHM_BYTES:
        what = f"{gib(room.shm_free_bytes)} are free in /dev/shm, by which ranks exchange data"
        mend = "Start the container with more (`--shm-size 16g`, or `--ipc host`)."
        yield Finding(Weight.WARNS, "shared memory", what, mend)
    left = room.ram_available_bytes - _trie_bytes(facts, values)
    if left < 0:
        what = f"the n-gram tries of all ranks take {gib(_trie_bytes(facts, values))}"
        what += f", and {gib(room.ram_available_bytes)} are available"
        mend = "Lower `speculative_ngram_capacity`."
        yield Finding(Weight.WARNS, "RAM", what, mend)
    elif room.model_bytes and room.model_bytes > left:
        what = f"the model's {gib(room.model_bytes)} do not fit into the {gib(left)} that are left"
        what += " for cached files: each start reads it from disk"
        mend = "Allow for it in `Budget(start_s=...)`; more RAM or a faster disk shortens starts."
        yield Finding(Weight.WARNS, "page cache", what, mend)


def _on_our_ports(facts: HostFacts) -> Iterator[Finding]:
    for one in facts.listeners:
        who = f"process {one.pid} ({one.name})" if one.pid else "a process of another user"
        what = f"{who} listens there" + (f", of sweep {one.sweep}" if one.sweep else "")
        mend = "Nothing has to be done: servers take other ports."
        if one.sweep:
            mend = "If that sweep is dead, `orchestrator clean` ends what it left."
        yield Finding(Weight.WARNS, f"port {one.port}", what, mend)


def _silent_settings(facts: HostFacts, values: Values) -> Iterator[Finding]:
    for file in facts.nccl_files:
        if not file.settings:
            continue
        listed = ", ".join(f"{name}={value}" for name, value in file.settings)
        what = f"it sets {listed}; this holds for the baseline, and wherever a variable is unset"
        if swept := [name for name, _ in file.settings if name in values]:
            what += f", also in trials of {' and '.join(swept)}"
        mend = "Move it away, or name its values in the space file, so that they are on record."
        yield Finding(Weight.WARNS, file.path, what, mend)
    if facts.unpassed:
        what = f"{', '.join(facts.unpassed)} of this shell will not reach any server"
        mend = "Put what should hold into `HostSpec(env={...})`, and unset the rest."
        yield Finding(Weight.WARNS, "environment", what, mend)


def _hazards(facts: HostFacts) -> Iterator[Finding]:
    if facts.emulated or not facts.is_pcie:
        return
    mend = "Boot with `iommu=pt`, or switch it off; until then, believe no trial with direct access"
    mend += " between GPUs that was not checked for equal output."
    if facts.system.iommu is Iommu.TRANSLATING:
        what = "it translates what GPUs send each other, which can hang or corrupt it"
        yield Finding(Weight.WARNS, "IOMMU", what, mend)
    if facts.system.acs_bridges:
        what = f"{facts.system.acs_bridges} PCIe bridges send traffic between GPUs up to the CPU"
        mend = "Switch ACS off in the BIOS, or by setpci after each boot."
        yield Finding(Weight.WARNS, "ACS", what, mend)


def _doubts(facts: HostFacts) -> Iterator[Finding]:
    version = facts.software.sglang_version
    if version and not release(version):
        what = f"it calls itself {version}, which names no release: flags of {facts.version}"
        what += " and those that its help lists are assumed"
        mend = "Install a release, or name the nearest in `HostSpec(version=...)`."
        yield Finding(Weight.WARNS, "SGLang", what, mend)
    for note in facts.notes:
        if note.is_warning:
            mend = "Look at it on the host; what it tells of well is used."
            yield Finding(Weight.WARNS, note.fact, note.why, mend)
    names = sorted({gpu.name for gpu in facts.gpus})
    if len(names) > 1:
        what = f"they are not of one model: {', '.join(names)}"
        mend = "Choose equal ones by CUDA_VISIBLE_DEVICES in `HostSpec(env={...})`."
        yield Finding(Weight.WARNS, "GPUs", what, mend)


def _of_links(facts: HostFacts) -> Iterator[str]:
    count, links = len(facts.gpus), facts.links
    match links.interconnect:
        case Interconnect.PCIE if count > 2:
            yield (
                f"{count} GPUs on PCIe without NVLink: custom all-reduce is off by itself with more"
                " than two GPUs, and `disable_custom_all_reduce` changes nothing."
            )
        case Interconnect.PCIE:
            yield "Two GPUs on PCIe: custom all-reduce is on, and switching it off is a choice."
        case Interconnect.NVSWITCH:
            yield (
                f"{count} GPUs on an NVLink switch: custom all-reduce and NVLS can be used, and"
                " NCCL's settings for PCIe hardly matter."
            )
        case Interconnect.NVLINK if links.fully_linked:
            yield f"All {count} GPUs have NVLink to each other: custom all-reduce can be used."
        case Interconnect.NVLINK:
            yield (
                "Only some of the pairs have NVLink: with more than two GPUs, custom all-reduce is"
                " off by itself, and the slowest pair sets the pace."
            )
        case Interconnect.UNKNOWN if count > 1:
            yield "What joins the GPUs is not known, so no setting is taken to be without effect."
    if links.interconnect is Interconnect.PCIE:
        yield "There is no NVLink switch: NVLS changes nothing."


def _of_direct_access(facts: HostFacts) -> Iterator[str]:
    """Say what NCCL_P2P_LEVEL decides. Its PHB covers what nvidia-smi calls NODE as well."""
    links = facts.links
    if links.farthest == "SYS" and facts.is_pcie:
        halves = " | ".join(_span(group) for group in links.groups)
        yield (
            f"GPUs {halves} lie on different NUMA nodes: from one to the other, they reach each"
            " other directly only where NCCL_P2P_LEVEL allows SYS."
        )
    nccl, over_host = facts.software.nccl_version, ("PHB", "NODE", "SYS")
    if not facts.is_pcie or len(facts.gpus) < 3 or links.farthest not in over_host or not nccl:
        return
    if version_key(nccl) >= version_key(_SHORT_SIGHTED_NCCL):
        allowed = "no pair reaches" if links.kinds[0] in over_host else "not all pairs reach"
        yield (
            f"NCCL {nccl} stops at PXB unless it is told more: by default {allowed} each other"
            " directly."
        )


def _of_tries(facts: HostFacts, values: Values) -> Iterator[str]:
    if not facts.emulated and (taken := _trie_bytes(facts, values)):
        yield f"The n-gram tries take up to {gib(taken)} of RAM, one in each rank."


def _trie_bytes(facts: HostFacts, values: Values) -> int:
    """Return the RAM of the tries at their largest; 0 without n-gram drafting."""
    if "NGRAM" not in values.get("speculative_algorithm", ()):
        return 0
    ranks = _greatest(values.get("tp_size", ()), len(facts.gpus) or 1)
    nodes = _greatest(values.get("speculative_ngram_capacity", ()), _TRIE_NODES)
    return ranks * nodes * _TRIE_NODE_BYTES


def _greatest(values: tuple[Value, ...], default: int) -> int:
    return max((value for value in values if isinstance(value, int)), default=default)


def _span(gpus: tuple[int, ...]) -> str:
    whole = gpus == tuple(range(gpus[0], gpus[-1] + 1)) and len(gpus) > 1
    return f"{gpus[0]}-{gpus[-1]}" if whole else ",".join(map(str, gpus))


def gib(size_bytes: int | None) -> str:
    """Write bytes as a person reads them; a dash where they are not known."""
    if size_bytes is None:
        return "-"
    if size_bytes < _GIB:
        return f"{size_bytes / 2**20:.0f} MiB"
    return f"{size_bytes / _GIB:,.1f} GiB"
