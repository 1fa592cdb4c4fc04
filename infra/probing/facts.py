"""What was found on a host: plain data in and out, the same for a real and an emulated one."""

import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from infra.machine import Interconnect, Machine
from infra.probing.links import Links
from infra.sglang.flags import NEWEST, version_key
from sweeps.values import digest

FORMAT = 1
"""Of the plain data; what was written under another one is not read."""

_RELEASE = re.compile(r"\d+(?:\.\d+)*(?:\.post\d+)?")
_OLDEST = "0.5.2"


@dataclass(frozen=True, slots=True)
class Note:
    """A fact that could not be read, or what was said while it was."""

    fact: str
    why: str
    is_warning: bool = False
    """The fact was read all the same."""

    def __str__(self) -> str:
        if self.is_warning:
            return f"{self.fact}: {self.why}"
        return f"{self.fact} could not be read: {self.why}"


@dataclass(frozen=True, slots=True)
class Software:
    """What an interpreter would run. It changes only where something is installed."""

    interpreter: str = ""
    """Absolute path."""
    python_version: str = ""
    sglang_version: str = ""
    """As the package calls itself; empty where it is not installed."""
    packages: tuple[tuple[str, str], ...] = ()
    """Name and version of what computes and communicates below SGLang."""
    nccl_version: str = ""
    accepted_flags: tuple[str, ...] = ()
    """Argument names as the flag table spells them, of SGLang's own help; empty if unknown."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One device."""

    index: int
    uuid: str
    name: str
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class GpuUser:
    """A process that computes on a device."""

    pid: int
    gpu_index: int
    name: str
    used_bytes: int | None = None
    sweep: str = ""
    """The sweep whose tag it carries; empty for a stranger."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that listens on a port which a server of ours might take."""

    port: int
    pid: int | None = None
    name: str = ""
    sweep: str = ""


@dataclass(frozen=True, slots=True)
class NcclFile:
    """A configuration file of NCCL: what it sets holds wherever the environment says nothing."""

    path: str
    digest: str
    settings: tuple[tuple[str, str], ...]


class Iommu(StrEnum):
    """What stands between a device and memory."""

    OFF = "off"
    PASSTHROUGH = "passthrough"
    TRANSLATING = "translating"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class System:
    """The machine around the devices."""

    kernel: str = ""
    cpu_model: str = ""
    cpu_count: int = 0
    numa_nodes: int = 0
    iommu: Iommu = Iommu.UNKNOWN
    acs_bridges: int | None = None
    """PCIe bridges that send traffic between devices up to the root; None where unreadable."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much is left, at the moment of the probe."""

    ram_total_bytes: int = 0
    ram_available_bytes: int = 0
    """What programs may take; files that are cached in memory count as available."""
    shm_total_bytes: int = 0
    shm_free_bytes: int = 0
    disk_free_bytes: int = 0
    """Where the state lies."""
    model_bytes: int | None = None
    """On disk; None where the model is no folder."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """All that a probe found on one host."""

    host: str
    emulated: bool = False
    truth: str = ""
    """Name of the emulated machine; empty for a real one."""
    gpus_wanted: int = 0
    software: Software = field(default_factory=Software)
    gpus: tuple[GpuFacts, ...] = ()
    links: Links = field(default_factory=Links)
    driver_version: str = ""
    cuda_version: str = ""
    """The newest that the driver serves."""
    system: System = field(default_factory=System)
    room: Room = field(default_factory=Room)
    nccl_files: tuple[NcclFile, ...] = ()
    unpassed: tuple[str, ...] = ()
    """Variables of this shell that matter to a server and are not passed to it."""
    gpu_users: tuple[GpuUser, ...] = ()
    listeners: tuple[Listener, ...] = ()
    notes: tuple[Note, ...] = ()
    read_at: str = ""
    format: int = FORMAT

    @property
    def version(self) -> str:
        """Return the release of SGLang by which the flag table is asked."""
        return release(self.software.sglang_version) or NEWEST

    @property
    def accepted_flags(self) -> frozenset[str]:
        """Return what SGLang's own help lists; empty where it could not be asked."""
        return frozenset(self.software.accepted_flags)

    @property
    def machine(self) -> Machine:
        """Return what decides which settings can matter here."""
        known = [gpu.capability for gpu in self.gpus if gpu.capability]
        return Machine(
            gpus=len(self.gpus),
            interconnect=self.links.interconnect,
            capability=min(known, default=None),
            nccl_version=self.software.nccl_version,
        )

    @property
    def is_pcie(self) -> bool:
        """Tell whether several GPUs reach each other without NVLink."""
        return self.links.interconnect is Interconnect.PCIE

    @property
    def fingerprint(self) -> str:
        """Hash what may change results, and nothing that changes by the minute."""
        found: dict[str, object] = {
            "truth": self.truth,
            "sglang": self.software.sglang_version,
            "packages": [list(package) for package in self.software.packages],
            "flags": sorted(self.software.accepted_flags),
            "nccl": self.software.nccl_version,
            "gpus": [[gpu.uuid, gpu.name] for gpu in self.gpus],
            "driver": self.driver_version,
            "links": [list(row) for row in self.links.paths],
            "numa": list(self.links.numa),
            "nccl_files": [file.digest for file in self.nccl_files],
        }
        if not self.emulated:
            found["kernel"] = self.system.kernel
            found["iommu"] = [self.system.iommu.value, self.system.acs_bridges]
        return digest(found)

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {**asdict(self), "fingerprint": self.fingerprint}


def facts_from_data(data: object) -> HostFacts:
    """Read what `as_data` gave. Raises ValueError."""
    from pydantic import TypeAdapter  # slow to import

    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError("these facts have another format")
    return TypeAdapter(HostFacts).validate_python(
        {name: value for name, value in data.items() if name != "fingerprint"}
    )


def release(version: str) -> str:
    """Return the release that a version belongs to; empty for a build that does not know its own.

    `0.5.23+cu128` and `0.5.23rc1` belong to 0.5.23; a checkout without tags calls itself 0.0.0.
    """
    found = _RELEASE.match(version)
    known = found is not None and version_key(found.group()) >= version_key(_OLDEST)
    return found.group() if found and known else ""
