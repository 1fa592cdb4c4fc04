"""What `hosts check` finds: each host judged, then all of them held against each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from infra.own_wheel import own_version
from infra.probing.facts import HostFacts
from orchestrator.exit_codes import DONE, NOT_READY
from orchestrator.host_check import HostCheck, judge
from orchestrator.host_findings import Finding, Weight
from orchestrator.hosts.differences import Difference, differences
from orchestrator.hosts.reaching import ClockOffset, Look
from sweeps.problems import Problem

_CLOCK_S = 1.0
"""A clock that is farther off mixes up the order of what several hosts recorded."""


@dataclass(frozen=True, slots=True)
class HostReport:
    """One host of the inventory, and what stands in the way of a sweep there."""

    look: Look
    check: HostCheck | None
    """None where the host could not be reached."""

    @property
    def ready(self) -> bool:
        """Tell whether a sweep could start there now."""
        return self.check is not None and self.check.exit_code == DONE

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        look = self.look
        data: dict[str, object] = {
            "host": look.host.name,
            "address": look.host.address,
            "ready": self.ready,
            "trouble": look.trouble,
            "took_s": round(look.took_s, 3),
        }
        if self.check is None:
            return data
        clock = look.clock
        return data | {
            **self.check.as_data(),
            "ready": self.ready,
            "interpreter": look.interpreter,
            "without_ours": look.without_ours,
            "version": look.version,
            "models": [{"path": m.path, "size_bytes": m.size_bytes} for m in look.models],
            "locks": list(look.locks),
            "clock_ahead_s": round(clock.ahead_s, 4) if clock else None,
            "clock_plus_minus_s": round(clock.plus_minus_s, 4) if clock else None,
        }


@dataclass(frozen=True, slots=True)
class HostsReport:
    """All hosts that were asked for."""

    hosts: tuple[HostReport, ...]
    differences: tuple[Difference, ...]

    @property
    def exit_code(self) -> int:
        """Tell scripts whether all are ready."""
        return DONE if all(host.ready for host in self.hosts) else NOT_READY

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "ready": self.exit_code == DONE,
            "hosts": [host.as_data() for host in self.hosts],
            "differences": [difference.as_data() for difference in self.differences],
        }


def report(looks: Sequence[Look]) -> HostsReport:
    """Judge what was found."""
    return HostsReport(tuple(map(_judged, looks)), tuple(differences(looks)))


def _judged(look: Look) -> HostReport:
    if look.facts is None:
        return HostReport(look, None)
    check = judge(look.facts, {}, _problems(look, look.facts))
    more = tuple(_findings(look, look.facts))
    ordered = sorted((*more, *check.findings), key=lambda one: one.weight is not Weight.WAITS)
    return HostReport(look, replace(check, findings=tuple(ordered)))


def _problems(look: Look, facts: HostFacts) -> list[Problem]:
    if facts.emulated or look.without_ours or facts.software.sglang_version:
        return []
    python = facts.software.interpreter
    mend = "Name the interpreter that has it by `sglang_python`."
    return [Problem("sglang_python", python, "SGLang is not installed for it", mend)]


def _findings(look: Look, facts: HostFacts) -> Iterator[Finding]:
    if look.without_ours:
        mend = f"Run `orchestrator hosts prepare {look.host.name}`, or name `python`."
        yield Finding(Weight.WAITS, "ours", f"our probe did not run: {look.without_ours}", mend)
    elif look.version != own_version():
        what = f"version {look.version} is there, and {own_version()} is here"
        mend = f"`orchestrator hosts prepare {look.host.name}` puts ours there."
        yield Finding(Weight.WARNS, "ours", what, mend)
    for lock in look.locks:
        if "has ended" not in lock:
            yield Finding(Weight.WAITS, "in use", lock, "Wait for that sweep, or stop it.")
    if len(facts.gpus) < look.host.gpus:
        what = f"{len(facts.gpus)} of {look.host.gpus} are seen"
        yield Finding(Weight.WAITS, "GPUs", what, "Correct `gpus`, or look at the driver.")
    for model in look.models:
        if model.size_bytes is None:
            mend = "Put it there, or correct `models`."
            yield Finding(Weight.WAITS, "model", f"there is no folder {model.path}", mend)
    yield from _on_the_clock(look.clock)


def _on_the_clock(clock: ClockOffset | None) -> Iterator[Finding]:
    if clock is not None and abs(clock.ahead_s) - clock.plus_minus_s > _CLOCK_S:
        what = f"it is {clock.ahead_s:+.1f} s from the clock here"
        yield Finding(Weight.WARNS, "clock", what, "Run chrony or another NTP client there.")
