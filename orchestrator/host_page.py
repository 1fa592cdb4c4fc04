"""The page of a probed host, for people: what stands in the way first, then what was found."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from infra.probing.facts import HostFacts, Iommu
from orchestrator.exit_codes import BAD_INPUT, NOT_READY
from orchestrator.host_check import HostCheck
from orchestrator.host_findings import Finding, Weight, gib
from orchestrator.plain_console import plain_console

READABLE_COLUMNS = 100
_LABEL_COLUMNS = 13
_INDENT = "  "


def print_host_pages(checks: Sequence[HostCheck]) -> None:
    """Show a page for each host, in lines that can be read."""
    console = plain_console(highlight=False, soft_wrap=True)
    width = min(console.width, READABLE_COLUMNS)
    for number, check in enumerate(checks):
        if number:
            console.print()
        for line, is_head in page_lines(check, width):
            console.print(Text(line, style="bold" if is_head else ""))


def page_lines(check: HostCheck, width: int) -> Iterator[tuple[str, bool]]:
    """Yield each line of a page, and whether it is a heading."""
    yield headline(check), True
    facts = check.facts
    yield from section("Not usable, because", (str(problem) for problem in check.problems), width)
    for weight, title in ((Weight.WAITS, "Not ready, because"), (Weight.WARNS, "Take care")):
        told = (_told(finding) for finding in check.findings if finding.weight is weight)
        yield from section(title, told, width)
    yield from section("What it means for a sweep", check.meanings, width)
    inert = (f"{axis}: {reason}" for axis, reason in check.inert)
    yield from section("Without effect here", inert, width)
    yield "", False
    yield "Found", True
    for label, text in found_rows(facts):
        yield from ((line, False) for line in row(label, text, width))
    yield from ((f"{_INDENT}{line}", False) for line in _matrix(facts))
    yield from section(
        "Not known", (str(note) for note in facts.notes if not note.is_warning), width
    )


def headline(check: HostCheck) -> str:
    """Say in a line whether a sweep could start."""
    word = "EMULATED host" if check.facts.emulated else "Host"
    warnings = sum(1 for finding in check.findings if finding.weight is Weight.WARNS)
    match check.exit_code:
        case code if code == BAD_INPUT:
            state = "not usable"
        case code if code == NOT_READY:
            state = "usable, but not ready"
        case _:
            state = "ready"
    noted = f", with {_counted(warnings, 'warning')}" if warnings else ""
    return f"{word} {check.facts.host}: {state}{noted}; fingerprint {check.facts.fingerprint}"


def found_rows(facts: HostFacts) -> Iterator[tuple[str, str]]:
    """Yield what was found on a host, each with its label."""
    software, system, room = facts.software, facts.system, facts.room
    if software.interpreter:
        yield from _installed(facts)
    yield "GPUs", _gpus(facts)
    if facts.gpus:
        yield "driver", f"{facts.driver_version}" + _cuda(facts.cuda_version)
        yield "links", f"{facts.links.interconnect.value}: {', '.join(facts.links.kinds) or '-'}"
    if software.interpreter and not facts.emulated:
        yield "NCCL", software.nccl_version or "not found for this interpreter"
        yield "NCCL files", ", ".join(file.path for file in facts.nccl_files) or "none"
    if not facts.emulated:
        yield "IOMMU", _iommu(facts)
    own = "this machine's own: " if facts.emulated else ""
    if system.kernel:
        nodes = _counted(system.numa_nodes, "NUMA node")
        cores = _counted(system.cpu_count, "core")
        yield "processor", f"{own}{system.cpu_model}, {cores}, {nodes}; Linux {system.kernel}"
    if room.ram_total_bytes:
        ram = f"{own}{gib(room.ram_available_bytes)} of {gib(room.ram_total_bytes)} available"
        shm, disk = gib(room.shm_free_bytes), gib(room.disk_free_bytes)
        yield "RAM", f"{ram}; {shm} free in /dev/shm, {disk} on the disk of the state"
    if room.model_bytes is not None:
        yield "model", f"{gib(room.model_bytes)} on disk"


def _installed(facts: HostFacts) -> Iterator[tuple[str, str]]:
    software = facts.software
    version = software.sglang_version or "not installed"
    if facts.emulated:
        version = f"EMULATED, as version {version}; machine {facts.truth}"
    listed = len(software.accepted_flags)
    yield "SGLang", f"{version}; " + (f"{listed} flags" if listed else "its flags are not known")
    yield "interpreter", f"{software.interpreter} (Python {software.python_version or '?'})"
    others = [f"{name} {found}" for name, found in software.packages if name != "sglang"]
    if others:
        yield "packages", ", ".join(others)


def _gpus(facts: HostFacts) -> str:
    if not facts.gpus:
        return "none"
    kinds: dict[str, int] = {}
    for gpu in facts.gpus:
        capability = ".".join(map(str, gpu.capability)) if gpu.capability else "unknown"
        kind = f"{gpu.name}, {gib(gpu.memory_total_bytes)}, compute capability {capability}"
        kinds[kind] = kinds.get(kind, 0) + 1
    return "; ".join(f"{count} x {kind}" for kind, count in kinds.items())


def _cuda(version: str) -> str:
    return f", for CUDA up to {version}" if version else ""


def _iommu(facts: HostFacts) -> str:
    bridges = facts.system.acs_bridges
    acs = "ACS can be read by root only" if bridges is None else f"ACS on {bridges} bridges"
    words = {Iommu.TRANSLATING: "on", Iommu.UNKNOWN: "not known"}
    return f"{words.get(facts.system.iommu, facts.system.iommu.value)}; {acs}"


def _matrix(facts: HostFacts) -> list[str]:
    """Draw the paths where they differ."""
    if len(facts.links.kinds) < 2:
        return []
    heads = "".join(f"{f'GPU{gpu.index}':>6}" for gpu in facts.gpus)
    rows = [
        f"{f'GPU{index}':<{_LABEL_COLUMNS}}" + "".join(f"{path:>6}" for path in paths)
        for index, paths in enumerate(facts.links.paths)
    ]
    return [" " * _LABEL_COLUMNS + heads, *rows]


def _told(finding: Finding) -> str:
    return f"{finding.subject}: {finding.what}. {finding.mend}"


def section(title: str, paragraphs: Iterable[str], width: int) -> Iterator[tuple[str, bool]]:
    """Yield a headed list; nothing where there is nothing to list."""
    listed = list(paragraphs)
    if not listed:
        return
    yield "", False
    yield title, True
    for paragraph in listed:
        yield from ((line, False) for line in _filled(paragraph, width, f"{_INDENT}- "))


def row(label: str, text: str, width: int) -> list[str]:
    """Lay out one fact, folded below itself."""
    head = f"{_INDENT}{label:<{_LABEL_COLUMNS}}"
    return _filled(text, width, head)


def _filled(text: str, width: int, head: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=head, subsequent_indent=" " * len(head),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
