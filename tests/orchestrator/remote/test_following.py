"""How a run is followed through lost connections: what is asked again, and what is told."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from infra.remote import LinkLostError, LoginRefusedError, Remote, RemoteError, UnreachableError
from orchestrator.exit_codes import NOT_READY
from orchestrator.remote.calling import There
from orchestrator.remote.following import End, OtherVersionError, follow
from orchestrator.remote.place import Place
from orchestrator.watching.sweep_status import SweepStatus
from tests.orchestrator.remote.sample import SEEN

RUN = {"kind": "run", "run": {"run": "r1"}}
BEAT = {"kind": "beat"}
LOST = LinkLostError("the link ended")


def output(text: str, at: int) -> dict[str, Any]:
    return {"kind": "output", "text": text, "at": at}


def end(code: int | None) -> dict[str, Any]:
    return {"kind": "end", "code": code}


@dataclass
class Script:
    """A connection: what it tells, then how it ends: by itself, or with an error."""

    news: Sequence[Mapping[str, Any] | None]
    error: RemoteError | None = None
    code: int = 0


class FakeStream:
    """A command that tells a script, in chunks that do not end where lines do."""

    def __init__(self, script: Script, asked: list[dict[str, Any]]) -> None:
        self._script, self._asked = script, asked
        self._chunks = list(self._cut())

    def _cut(self) -> Iterator[bytes | None]:
        for piece in self._script.news:
            if piece is None:
                yield None
                continue
            line = json.dumps(piece).encode() + b"\n"
            yield line[:5]
            yield line[5:]

    def write(self, data: bytes, deadline_s: float) -> None:
        self._asked.append(json.loads(data))

    def read(self, wait_s: float) -> bytes | None:
        if self._chunks:
            return self._chunks.pop(0)
        if self._script.error is not None:
            raise self._script.error
        return b""

    def exit_code(self, deadline_s: float) -> int:
        return self._script.code


@dataclass
class FakeRemote:
    """A host whose connections are scripted, one after the other."""

    scripts: list[Script | RemoteError]
    asked: list[dict[str, Any]] = field(default_factory=list)
    name: str = "gpu1"

    @contextmanager
    def open(self, argv: Sequence[str], env: object = None, *, cwd: str) -> Iterator[FakeStream]:
        script = self.scripts.pop(0)
        if isinstance(script, RemoteError):
            raise script
        yield FakeStream(script, self.asked)


@dataclass
class Heard:
    """A view that remembers."""

    text: str = ""
    told: list[str] = field(default_factory=list)

    def output(self, text: str) -> None:
        self.text += text

    def status(self, seen: SweepStatus) -> None:
        self.told.append(seen.status)

    def blind(self, why: str) -> None:
        self.told.append("blind")

    def heard(self, after_s: float) -> None:
        self.told.append("heard")


def followed(
    *scripts: Script | RemoteError,
    run: str = "",
    patience_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[End, Heard, FakeRemote, list[float]]:
    remote, view, pauses = FakeRemote(list(scripts)), Heard(), list[float]()
    there = There(cast(Remote, remote), "/py", Place(Path("/ours")))
    ended = follow(there, view, run, patience_s=patience_s, clock=clock, sleep=pauses.append)
    return ended, view, remote, pauses


def test_what_was_told_is_not_asked_again() -> None:
    first = Script([RUN, output("one\n", 4), BEAT], LOST)
    ended, view, remote, _ = followed(first, Script([RUN, output("two\n", 8), end(3)]))
    assert remote.asked == [{"run": "", "offset": 0}, {"run": "r1", "offset": 4}]
    assert view.text == "one\ntwo\n"
    assert view.told == ["blind", "heard"]
    assert (ended.code, ended.exit_code, ended.told("gpu1")) == (3, 3, "")


def test_pauses_grow_while_nothing_is_heard_and_begin_anew_after() -> None:
    gone = UnreachableError("no route")
    lost = Script([BEAT], LOST)
    *_, pauses = followed(Script([RUN], LOST), gone, gone, gone, lost, gone, Script([RUN, end(0)]))
    assert pauses == [0.5, 1.0, 2.0, 4.0, 0.5, 1.0]


def test_blindness_is_told_once_however_often_it_is_tried() -> None:
    gone = UnreachableError("no route")
    _, view, _, _ = followed(Script([RUN], LOST), gone, gone, Script([RUN, end(0)]))
    assert view.told == ["blind", "heard"]


def test_silence_on_a_standing_connection_is_blindness_too() -> None:
    now = iter(range(0, 1000, 3))
    script = Script([RUN, None, None, None, None, None, BEAT, end(0)])
    _, view, _, _ = followed(script, clock=lambda: float(next(now)))
    assert view.told == ["blind", "heard"]


def test_a_host_that_was_never_heard_is_an_error_at_once() -> None:
    with pytest.raises(UnreachableError):
        followed(UnreachableError("no route"))


def test_a_run_that_was_started_from_here_is_waited_for() -> None:
    gone = UnreachableError("no route")
    ended, view, _, _ = followed(gone, Script([RUN, end(0)]), run="r1")
    assert (ended.code, view.told) == (0, ["blind", "heard"])


def test_a_login_that_is_refused_later_is_not_tried_again() -> None:
    with pytest.raises(LoginRefusedError):
        followed(Script([RUN], LOST), LoginRefusedError("the key was taken away"))


def test_patience_ends() -> None:
    with pytest.raises(RemoteError, match="was not heard for"):
        followed(Script([RUN], LOST), patience_s=0.0)


def test_ours_missing_there_is_told_with_how_to_put_it() -> None:
    with pytest.raises(RemoteError, match="hosts prepare gpu1"):
        followed(Script([], code=127))


def test_a_status_of_another_version_ends_the_following() -> None:
    other = {"kind": "status", "status": {"version": 99}}
    with pytest.raises(OtherVersionError, match="`hosts prepare` renews it"):
        followed(Script([RUN, other]))


@pytest.mark.parametrize(
    ("status", "code", "is_told"), [("finished", 0, False), ("interrupted", 130, False),
                                    ("died", NOT_READY, True)],
)  # fmt: skip
def test_where_only_the_launcher_was_killed_the_sweep_says_how_it_ended(
    status: str, code: int, is_told: bool
) -> None:
    news = {"kind": "status", "status": replace(SEEN, status=status).as_data()}
    ended = followed(Script([RUN, news, end(None)]))[0]
    assert ended.exit_code == code
    assert bool(ended.told("gpu1")) is is_told


@pytest.mark.parametrize(("code", "words"), [(-9, "killed by signal 9"), (None, "without a word")])
def test_a_driver_that_was_killed_is_told_and_what_to_do(code: int | None, words: str) -> None:
    ended = followed(Script([RUN, end(code)]))[0]
    assert words in ended.told("gpu1")
    assert "`sweep --host gpu1` goes on" in ended.told("gpu1")
    assert ended.exit_code == NOT_READY
