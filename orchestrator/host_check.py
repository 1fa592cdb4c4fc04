"""What `check --host` does: probe hosts, and hold a sweep against what was found there."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from infra.engines import resolve_path
from infra.gpus import count_gpus
from infra.probing.facts import HostFacts, release
from infra.probing.probe import probe_host
from infra.sglang.flags import version_key
from infra.sglang.inert import equal_values
from infra.sglang.joint_rules import joint_problems
from infra.sglang.probe import missing_sglang
from infra.sglang.setting_checks import setting_problems
from orchestrator.choices import HostChoice
from orchestrator.dialect_choice import dialect_notes, with_dialect
from orchestrator.exit_codes import BAD_INPUT, DONE, NOT_READY
from orchestrator.host_findings import Finding, Values, Weight, findings, meanings
from orchestrator.space_file import load_sweep, prepare, settle_host
from orchestrator.state import OutsideStateError, State
from sweeps.hosts import HostSpec
from sweeps.problems import BadInputError, Problem, nearest
from sweeps.sweep import Sweep
from sweeps.values import show

Inert = tuple[tuple[str, str], ...]
"""Axes that change nothing on a host, each with the reason."""


@dataclass(frozen=True, slots=True)
class HostCheck:
    """One host, and what it means for the sweep that it was checked for, if any."""

    facts: HostFacts
    problems: tuple[Problem, ...] = ()
    """Why nothing can be started there."""
    findings: tuple[Finding, ...] = ()
    meanings: tuple[str, ...] = ()
    inert: Inert = ()

    @property
    def exit_code(self) -> int:
        """Tell scripts whether a sweep could start now."""
        if self.problems:
            return BAD_INPUT
        waits = any(finding.weight is Weight.WAITS for finding in self.findings)
        return NOT_READY if waits else DONE

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "host": self.facts.host,
            "emulated": self.facts.emulated,
            "ready": self.exit_code == DONE,
            "fingerprint": self.facts.fingerprint,
            "problems": [str(problem) for problem in self.problems],
            "findings": [finding.as_data() for finding in self.findings],
            "meanings": list(self.meanings),
            "inert": [{"axis": axis, "reason": reason} for axis, reason in self.inert],
            "facts": self.facts.as_data(),
        }


def check_hosts(
    space_file: Path | None, name: str | None, choice: HostChoice, state: State
) -> tuple[HostCheck, ...]:
    """Probe the hosts of a space file, or this machine, and check the sweep on each.

    Raises BadInputError where the file cannot be read or names no such host.
    """
    if space_file is None:
        host = settle_host(HostSpec(), choice, count_gpus())
        host = host if host.emulated else replace(host, gpus=count_gpus())
        facts = _probe(host, state, None)
        return (judge(facts, {}, _missing(host)),)
    sweep = load_sweep(space_file)
    found = _probe_all(_only(sweep, name, space_file), choice, state)
    return tuple(_checked(sweep, host, facts, space_file, choice) for host, facts in found)


def _checked(
    sweep: Sweep, host: HostSpec, facts: HostFacts, space_file: Path, choice: HostChoice
) -> HostCheck:
    """Check a sweep on one host, by the version that was found there."""
    problems = _problems_on(sweep, host, space_file, choice, facts)
    check = judge(facts, sweep.all_values(), problems)
    if problems:
        return check
    there = with_dialect(replace(sweep, hosts=[_as_found(host, facts)]))[0]
    return replace(check, meanings=(*check.meanings, *dialect_notes(there)))


Found = Sequence[tuple[HostSpec, HostFacts]]
"""Hosts as they are settled, each with what was found on it."""


def load_probed(
    space_file: Path,
    choice: HostChoice,
    state: State,
    probe: Callable[[Sweep], Found] | None = None,
) -> tuple[Sweep, dict[str, HostFacts]]:
    """Read a space file, probe its hosts, and settle the sweep on what was found, by host name.

    `probe` brings other hosts than those of the file. Raises BadInputError with all that a host
    cannot express, before anything is started.
    """
    sweep = load_sweep(space_file)
    found = probe(sweep) if probe else _probe_all(sweep, choice, state)
    sweep = replace(sweep, hosts=tuple(host for host, _ in found)) if probe else sweep
    problems = [
        problem
        for host, facts in found
        for problem in _problems_on(sweep, host, space_file, choice, facts)
    ]
    if problems or not found:
        unique = {str(problem): problem for problem in [*problems, *sweep.problems()]}
        raise BadInputError(str(space_file), list(unique.values()))
    settled = replace(sweep, hosts=tuple(_as_found(host, facts) for host, facts in found))
    return prepare(settled, space_file, choice), {facts.host: facts for _, facts in found}


def with_folder(host: HostSpec, state: State) -> HostSpec:
    """Give an emulated host its memory from server to server."""
    if host.elsewhere or not host.emulated:
        return host
    return replace(host, folder=str(state.host_folder(host.name)))


def expression_problems(sweep: Sweep, facts: HostFacts) -> list[Problem]:
    """List the settings of a sweep that the SGLang of a host cannot express."""
    values, version = sweep.all_values(), facts.version
    accepted = facts.accepted_flags or None
    found = [*_wrong_version(sweep, facts), *setting_problems(values, version, accepted)]
    if not found:
        plain = sweep.settings(sweep.space.plain())
        found += joint_problems(plain, version, facts.machine)
    return found


def _wrong_version(sweep: Sweep, facts: HostFacts) -> Iterator[Problem]:
    stated = next((host.version for host in sweep.hosts if host.name == facts.host), None)
    installed = release(facts.software.sglang_version)
    if stated and installed and version_key(stated) != version_key(installed):
        why = f"SGLang {installed} is installed there"
        mend = "Correct it, or leave it out: the host is asked."
        yield Problem(f"hosts.{facts.host}.version", stated, why, mend)


def _only(sweep: Sweep, name: str | None, space_file: Path) -> Sweep:
    if name is None:
        return sweep
    hosts = [host for host in sweep.hosts if host.name == name]
    if not hosts:
        names = [host.name for host in sweep.hosts]
        mend = nearest(name, names) or f"There are {', '.join(names)}."
        problem = Problem("hosts", name, "the file names no such host", mend)
        raise BadInputError(str(space_file), [problem])
    return replace(sweep, hosts=hosts)


def _probe_all(sweep: Sweep, choice: HostChoice, state: State) -> list[tuple[HostSpec, HostFacts]]:
    """Return each host as it is settled, with what was found on it."""
    gpus = count_gpus()
    model = Path(resolve_path(sweep.model.path, Path.cwd())) if sweep.model.is_folder else None
    hosts = [settle_host(host, choice, gpus) for host in sweep.hosts]
    return [(host, _probe(host, state, model)) for host in hosts]


def _probe(host: HostSpec, state: State, model: Path | None) -> HostFacts:
    try:
        folder = state.host_folder(host.name)
    except OutsideStateError as error:
        problem = Problem("hosts.name", host.name, str(error), "It names a folder: use letters.")
        raise BadInputError("hosts", [problem]) from error
    return probe_host(host, folder, model=model)


def _as_found(host: HostSpec, facts: HostFacts) -> HostSpec:
    installed = facts.software.sglang_version
    return replace(host, version=facts.version) if installed else host


def _problems_on(
    sweep: Sweep, host: HostSpec, space_file: Path, choice: HostChoice, facts: HostFacts
) -> list[Problem]:
    """List what is wrong with a sweep on one host, by the version that was found there."""
    found = expression_problems(replace(sweep, hosts=[host]), facts)
    if not facts.software.sglang_version:
        found = []  # nothing is installed that could refuse a setting
    known = {problem.field for problem in found}
    try:
        prepare(replace(sweep, hosts=[_as_found(host, facts)]), space_file, choice)
    except BadInputError as error:
        found += [problem for problem in error.problems if problem.field not in known]
    return found


def _missing(host: HostSpec) -> list[Problem]:
    """Say that this machine's own interpreter has no SGLang."""
    if host.emulated:
        return []
    python = host.python or sys.executable
    why = missing_sglang(python)
    mend = "Check a space file whose host names the interpreter: `HostSpec(python=...)`."
    return [Problem("python", python, why, mend)] if why else []


def judge(facts: HostFacts, values: Values, problems: Sequence[Problem]) -> HostCheck:
    """Say what the facts of a host mean for a sweep of these values."""
    inert = () if problems else tuple(_inert(facts, values))
    return HostCheck(
        facts, tuple(problems), findings(facts, values), meanings(facts, values), inert
    )


def _inert(facts: HostFacts, values: Values) -> Iterator[tuple[str, str]]:
    """Yield the axes, or values of one, that make no difference on a host, with the reason."""
    for equal in equal_values(values, facts.version, facts.machine):
        which = equal.axis
        if not equal.whole:
            which += f" at {', '.join(show(value) for value in equal.values[:4])}"
        yield which, "; ".join(equal.reasons) or "they make the same server"
