"""The page of all hosts, for people: who is ready, each host, then where they differ."""

from collections.abc import Iterator
from dataclasses import replace

from rich.text import Text

from orchestrator.host_findings import gib
from orchestrator.host_page import READABLE_COLUMNS, headline, page_lines, row, section
from orchestrator.hosts.checking import HostReport, HostsReport
from orchestrator.hosts.reaching import Look
from orchestrator.plain_console import plain_console


def print_hosts(report: HostsReport) -> None:
    """Show the page, in lines that can be read."""
    console = plain_console(highlight=False, soft_wrap=True)
    width = min(console.width, READABLE_COLUMNS)
    for line, is_head in hosts_lines(report, width):
        console.print(Text(line, style="bold" if is_head else ""))


def hosts_lines(report: HostsReport, width: int) -> Iterator[tuple[str, bool]]:
    """Yield each line of the page, and whether it is a heading."""
    shown: dict[str, str] = {}
    for number, host in enumerate(report.hosts):
        if number:
            yield "", False
        yield from _host_lines(host, shown, width)
    if len(report.hosts) > 1:
        told = [f"{one} (equals = {one.group})" for one in report.differences]
        yield from section("Differences", told or ["none in what may change results"], width)
        yield "", False
        ready = sum(host.ready for host in report.hosts)
        yield f"{ready} of {len(report.hosts)} hosts are ready", True


def _host_lines(host: HostReport, shown: dict[str, str], width: int) -> Iterator[tuple[str, bool]]:
    """Yield the page of a host; of one that is like another, what is its own."""
    look, check = host.look, host.check
    if check is None or look.facts is None:
        yield f"Host {look.host.name}: not reached", True
        yield from section("Because", [look.trouble], width)
        return
    like = shown.setdefault(look.facts.fingerprint, look.host.name)
    yield headline(check), True
    is_first = like == look.host.name or bool(look.without_ours)
    lines = page_lines(check if is_first else replace(check, meanings=()), width)
    next(lines)
    for line, is_head in lines:
        yield line, is_head
        if line != "Found":
            continue
        for label, text in _found(look):
            yield from ((one, False) for one in row(label, text, width))
        if not is_first:
            yield from ((one, False) for one in row("the rest", f"as on {like}", width))
            return


def _found(look: Look) -> Iterator[tuple[str, str]]:
    where = f"{look.host.address}, asked in {look.took_s:.1f} s"
    yield "address", where
    yield "ours", f"{look.version} in {look.interpreter}" if look.version else "not there"
    if look.clock is not None:
        ahead_ms, about_ms = look.clock.ahead_s * 1000, look.clock.plus_minus_s * 1000
        yield "clock", f"{ahead_ms:+.0f} ms from here, give or take {about_ms:.0f} ms"
    for model in look.models:
        size = "no such folder" if model.size_bytes is None else gib(model.size_bytes)
        yield "model", f"{model.path}: {size}"
    for lock in look.locks:
        yield "lock", lock
