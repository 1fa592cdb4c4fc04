"""One look at each of several hosts, all at once, each within its time."""

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from infra.inventory import HostEntry, Inventory
from infra.ours import interpreter_on, ours_on
from infra.probing.asking import Answer, ModelOnDisk, Question
from infra.probing.facts import HostFacts
from infra.probing.plain import plain_facts
from infra.probing.reading import ReadError, message_of
from infra.remote import DeadlineError, Remote, RemoteError
from infra.ssh.remote import SshRemote
from sweeps.problems import BadInputError, Problem

PROBE_S = 120.0
"""Wall seconds for the whole look at one host."""

_CLOCK_TRIES = 3
_MODULE_MISSING = "No module named"
_NO_SHELL = "no login shell runs there, so what .bashrc, conda or pyenv put on the PATH is not seen"
_SECONDS = re.compile(r"\d{1,12}(\.\d{1,12})?")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far a host's clock is ahead of ours, and how well that is known."""

    ahead_s: float
    plus_minus_s: float


@dataclass(frozen=True, slots=True)
class Look:
    """What was found on one host; either trouble or facts."""

    host: HostEntry
    trouble: str = ""
    """Why it could not be reached at all."""
    interpreter: str = ""
    without_ours: str = ""
    """Why our probe did not run there; the facts are then only what is read without it."""
    facts: HostFacts | None = None
    version: str = ""
    """Of ours there."""
    models: tuple[ModelOnDisk, ...] = ()
    locks: tuple[str, ...] = ()
    clock: ClockOffset | None = None
    took_s: float = 0.0


def look_at(
    hosts: Sequence[HostEntry], inventory: Inventory, ssh_config: Path | None = None
) -> list[Look]:
    """Look at all hosts in parallel; a host that hangs costs its deadline, and only its own.

    A host whose way is not clear is told as one. Raises BadInputError where it is so for all.
    """
    ways = [_way(host, inventory, ssh_config) for host in hosts]
    unclear = [problem for way in ways if isinstance(way, list) for problem in way]
    if hosts and all(isinstance(way, list) for way in ways):
        raise BadInputError(inventory.source, unclear)
    calls = [partial(_timed, host, way) for host, way in zip(hosts, ways, strict=True)]
    late = [Look(host, trouble=f"no answer within {PROBE_S:g} s", took_s=PROBE_S) for host in hosts]
    return in_parallel(calls, late, PROBE_S)


def in_parallel(
    calls: Sequence[Callable[[], _T]], late: Sequence[_T], deadline_s: float
) -> list[_T]:
    """Make calls at once; where one is not done in time, what is given for it counts."""
    found = list(late)

    def work(at: int) -> None:
        found[at] = calls[at]()

    threads = [threading.Thread(target=work, args=(at,), daemon=True) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    until_s = time.monotonic() + deadline_s
    for thread in threads:
        thread.join(max(0.0, until_s - time.monotonic()))
    return list(found)


def _way(
    host: HostEntry, inventory: Inventory, ssh_config: Path | None
) -> SshRemote | list[Problem]:
    """Return the way to a host, or what is unclear about it."""
    try:
        return SshRemote.to(host, inventory, ssh_config)
    except BadInputError as error:
        return list(error.problems)


def _timed(host: HostEntry, way: SshRemote | list[Problem]) -> Look:
    if isinstance(way, list):
        return Look(host, trouble="; ".join(map(str, way)))
    since_s = time.monotonic()
    with closing(way):
        try:
            found = _look(host, way)
        except RemoteError as error:
            found = Look(host, trouble=str(error))
    return replace(found, took_s=time.monotonic() - since_s)


def _look(host: HostEntry, remote: Remote) -> Look:
    clock = _clock(remote)
    python, folder = interpreter_on(remote, host), ours_on(remote, host).probe
    question = Question(host.spec(), folder, host.models)
    try:
        answer = ask(remote, python, question)
    except ReadError as error:
        facts, models = _plainly(host, remote, folder)
        return Look(
            host,
            interpreter=python,
            without_ours=str(error),
            facts=facts,
            models=models,
            clock=clock,
        )
    return Look(
        host,
        interpreter=python,
        facts=answer.facts,
        version=answer.version,
        models=answer.models,
        locks=answer.locks,
        clock=clock,
    )


def _plainly(
    host: HostEntry, remote: Remote, folder: str
) -> tuple[HostFacts, tuple[ModelOnDisk, ...]]:
    """Look without ours."""
    facts = plain_facts(partial(_ask, remote), host.spec(), folder)
    models = tuple(ModelOnDisk(path, _disk_bytes(remote, path)) for path in host.models)
    sizes = [model.size_bytes for model in models if model.size_bytes is not None]
    room = replace(facts.room, model_bytes=max(sizes, default=None))
    return replace(facts, room=room), models


def ask(remote: Remote, python: str, question: Question) -> Answer:
    """Let ours on a host probe it. Raises RemoteError; ReadError where ours is not there."""
    argv = [python, "-m", "infra.probing"]
    done = remote.run(argv, cwd="/", stdin=question.line(), deadline_s=PROBE_S, repeatable=True)
    if done.code != 0:
        raise ReadError(_why(python, done.code, done.complaint))
    try:
        return Answer.from_data(json.loads(done.stdout))
    except (ValueError, RecursionError) as error:
        raise ReadError(f"the version of ours there answers in another form: {error}") from error


def _why(python: str, code: int, complaint: str) -> str:
    if code in (126, 127):
        return f"{python} is not there, or cannot be run ({_NO_SHELL})"
    if _MODULE_MISSING in complaint:
        return f"{python} has no such package: {complaint}"
    return f"{python} -m infra.probing ended with {code}: {complaint}"


def _ask(remote: Remote, argv: Sequence[str]) -> str:
    try:
        done = remote.run(argv, repeatable=True)
    except DeadlineError as error:
        raise ReadError(str(error)) from error
    if done.code != 0:
        words = message_of(done.stderr.decode(errors="replace"), done.text)
        raise ReadError(f"{argv[0]} ended with {done.code}: {words}", done.text)
    return done.text


def _disk_bytes(remote: Remote, folder: str) -> int | None:
    done = remote.run(["du", "-skL", "--", folder], repeatable=True)
    words = done.text.split()
    return int(words[0]) * 1024 if done.code == 0 and words and words[0].isdigit() else None


def _clock(remote: Remote) -> ClockOffset | None:
    """Compare clocks by the fastest of some round trips."""
    best: ClockOffset | None = None
    for _ in range(_CLOCK_TRIES):
        before_s, since_s = time.time(), time.monotonic()
        text = remote.run(["date", "+%s.%N"], repeatable=True).text.strip()
        half_s = (time.monotonic() - since_s) / 2
        if not _SECONDS.fullmatch(text):
            return None
        found = ClockOffset(float(text) - (before_s + half_s), half_s)
        if best is None or found.plus_minus_s < best.plus_minus_s:
            best = found
    return best
