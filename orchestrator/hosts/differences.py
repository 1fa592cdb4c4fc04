"""Where hosts that should be equal are not: only what may change results."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from infra.probing.facts import HostFacts
from orchestrator.host_findings import gib
from orchestrator.hosts.reaching import Look

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that hosts of a group do not share: each value with the hosts that have it."""

    group: str
    fact: str
    values: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        listed = "; ".join(f"{value} on {', '.join(hosts)}" for value, hosts in self.values)
        return f"{self.fact}: {listed}"

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        values = [{"value": value, "hosts": list(hosts)} for value, hosts in self.values]
        return {"group": self.group, "fact": self.fact, "values": values}


Fact = Callable[[HostFacts], str]

FACTS: tuple[tuple[str, Fact], ...] = (
    ("engine", lambda facts: "EMULATED" if facts.emulated else "SGLang"),
    ("SGLang", lambda facts: facts.software.sglang_version or "none"),
    ("Python", lambda facts: facts.software.python_version),
    ("packages", lambda facts: ", ".join(f"{n} {v}" for n, v in facts.software.packages)),
    ("NCCL", lambda facts: facts.software.nccl_version),
    ("NCCL files", lambda facts: ", ".join(f"{f.path} {f.digest}" for f in facts.nccl_files)),
    ("driver", lambda facts: facts.driver_version),
    ("GPUs", lambda facts: _gpus(facts)),
    ("links", lambda facts: " / ".join(" ".join(row) for row in facts.links.paths)),
    ("machine", lambda facts: facts.truth),
    ("kernel", lambda facts: facts.system.kernel),
    ("processor", lambda facts: f"{facts.system.cpu_model}, {facts.system.cpu_count} cores"),
    ("NUMA nodes", lambda facts: str(facts.system.numa_nodes)),
    ("IOMMU", lambda facts: f"{facts.system.iommu.value}, ACS {facts.system.acs_bridges}"),
    ("RAM", lambda facts: f"{round(facts.room.ram_total_bytes / _GIB / 8) * 8} GiB"),
)
"""What is compared; nothing that changes by the minute."""


def differences(looks: Sequence[Look]) -> list[Difference]:
    """Compare the hosts of each group that were reached."""
    groups: dict[str, list[Look]] = {}
    for look in looks:
        if look.facts is not None:
            groups.setdefault(look.host.equals, []).append(look)
    return [found for group, members in groups.items() for found in _within(group, members)]


def _within(group: str, members: Sequence[Look]) -> Iterator[Difference]:
    # What was read without ours says less, and is no difference.
    whole = [look for look in members if not look.without_ours]
    for fact, read in FACTS:
        told = {look.host.name: read(look.facts) for look in whole if look.facts is not None}
        yield from _differing(group, fact, told)
    yield from _differing(group, "ours", {look.host.name: look.version for look in whole})
    sizes = {look.host.name: _models(look) for look in whole}
    yield from _differing(group, "models", sizes)
    env = {look.host.name: _shown(look.host.env) for look in members}
    yield from _differing(group, "env in the inventory", env)


def _differing(group: str, fact: str, told: dict[str, str]) -> Iterator[Difference]:
    by_value: dict[str, list[str]] = {}
    for host, value in told.items():
        by_value.setdefault(value or "none", []).append(host)
    if len(by_value) > 1:
        # What most have comes first.
        ordered = sorted(by_value.items(), key=lambda item: -len(item[1]))
        yield Difference(group, fact, tuple((value, tuple(hosts)) for value, hosts in ordered))


def _models(look: Look) -> str:
    return ", ".join(f"{model.path} {gib(model.size_bytes)}" for model in look.models)


def _shown(env: object) -> str:
    pairs = dict(env).items() if isinstance(env, dict) else ()
    return ", ".join(f"{name}={value}" for name, value in sorted(pairs))


def _gpus(facts: HostFacts) -> str:
    kinds: dict[str, int] = {}
    for gpu in facts.gpus:
        kind = f"{gpu.name} ({gib(gpu.memory_total_bytes)})"
        kinds[kind] = kinds.get(kind, 0) + 1
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
