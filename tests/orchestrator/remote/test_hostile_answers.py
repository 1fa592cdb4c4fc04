"""A host that answers garbage: one error that names it, no loop, and no file elsewhere."""

import json
import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from infra.inventory import HostEntry
from infra.probing.asking import Answer
from infra.probing.facts import HostFacts
from infra.remote import Completed, Detached, Remote, RemoteError, TransferError
from infra.ssh.detached import read_start
from infra.ssh.transfer import _is_plain
from orchestrator.hosts import reaching
from orchestrator.hosts.preparing import find_base
from orchestrator.remote import answer_forms
from orchestrator.remote.answers import BadAnswerError, read_answer
from orchestrator.remote.calling import There
from orchestrator.remote.fetching import fetch
from orchestrator.remote.following import follow
from orchestrator.remote.place import Place
from tests.attacks import attack
from tests.infra.ssh.loopback import Sshd, sshd

__all__ = ["sshd"]

GOOD: dict[str, dict[str, Any]] = {
    "missing": {"missing": ["a"], "version": "1", "running": None},
    "lay_out": {"run_folder": "/r"},
    "runs": {"runs": [{"run": "r", "is_running": True}]},
    "stop": {"run": None, "asked": False},
    "manifest": {"files": {"a/b": [3, 5]}},
    "snapshot": {"path": "/p", "sha256": "0"},
    "status": {"run": None, "status": None},
    "frames": {"path": "a", "size": 3, "mtime_ns": 1},
    "serve": {"port": 80},
    "follow": {"kind": "output", "text": "x", "at": 1},
}
RUNNING = {"run": "r", "title": "t", "who": "w", "began_s": 1.0, "is_running": True}

BAD: list[tuple[str, object]] = [
    ("missing", {"missing": ["a"], "version": 1, "running": None}),
    ("missing", {"missing": "abc", "version": "1", "running": None}),
    ("missing", {"missing": [], "version": "1", "running": {**RUNNING, "began_s": float("nan")}}),
    ("missing", {"missing": [], "version": "1", "running": {**RUNNING, "began_s": 1e300}}),
    ("lay_out", {"run_folder": None}),
    ("runs", {"runs": [{"run": "r", "is_running": "no"}]}),
    ("runs", {"runs": {}}),
    ("stop", {"asked": True}),
    ("manifest", {"files": {"a": [-1, 5]}}),
    ("manifest", {"files": {"a": [1, 1 << 80]}}),
    ("manifest", {"files": {"a": [1]}}),
    ("manifest", {"files": {"a": [True, 1]}}),
    ("manifest", []),
    ("snapshot", {"path": ["/p"]}),
    ("frames", {"path": "a", "size": -5, "mtime_ns": 1}),
    ("frames", {"path": None, "size": 5, "mtime_ns": 1}),
    ("serve", {"port": 0}),
    ("serve", {"port": 1 << 20}),
    ("serve", {"elsewhere": "javascript:alert(1)"}),
    ("serve", {"elsewhere": "http://x/\u001b[2J"}),
    ("follow", {"kind": "output", "text": "x", "at": -1}),
    ("follow", {"kind": "unheard of"}),
    ("follow", {"no": "kind"}),
    ("follow", {"kind": "end", "code": "0"}),
    ("follow", None),
]  # fmt: skip


def test_every_verb_has_a_form_and_takes_what_ours_says() -> None:
    assert set(GOOD) == set(answer_forms.FORMS)
    for verb, answer in GOOD.items():
        assert read_answer("gpu1", verb, json.dumps(answer).encode()) == answer


@attack("13: sizes below zero, nulls and other types in an answer of a host")
@pytest.mark.parametrize(("verb", "answer"), BAD)
def test_what_ours_would_not_say_is_one_error_that_names_the_host(
    verb: str, answer: object
) -> None:
    with pytest.raises(BadAnswerError, match="gpu1 answers what ours does not") as caught:
        read_answer("gpu1", verb, json.dumps(answer).encode())
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


@attack("13: an answer of a host that is no JSON")
@pytest.mark.parametrize(
    "text", [b"", b"Welcome!\n{}", b"[" * 200_000, b"\xff\xfe", b'{"a":', b"\0" * 9, b"1" * 9000]
)
def test_what_is_no_json_is_one_error(text: bytes) -> None:
    for verb in GOOD:
        with pytest.raises(BadAnswerError, match="gpu1"):
            read_answer("gpu1", verb, text)


@attack("13: an answer of a host with random damage")
def test_any_damage_to_an_answer_is_read_or_refused() -> None:
    rng = random.Random(3)
    for _ in range(2000):
        verb = rng.choice(list(GOOD))
        data = bytearray(json.dumps(GOOD[verb]).encode())
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with suppress(BadAnswerError):
            read_answer("gpu1", verb, bytes(data))


@dataclass
class Hostile:
    """A host whose answers are given by the test."""

    answers: dict[str, bytes]
    name: str = "gpu1"
    got: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        return Completed(tuple(argv), 0, self.answers[argv[3]], b"")

    def get(self, path: str, local: Path) -> None:
        self.got.append(path)
        raise TransferError("no such file")


def fetched(tmp_path: Path, files: dict[str, list[int]], frames: bytes) -> Path:
    answers = {"manifest": json.dumps({"files": files}).encode(), "frames": frames}
    there = There(cast(Remote, Hostile(answers)), "/py", Place(Path("/ours")))
    folder = tmp_path / "state" / "fetched"
    fetch(there, folder)
    return folder


def frame(path: object, size: object, data: bytes) -> bytes:
    return json.dumps({"path": path, "size": size, "mtime_ns": 1}).encode() + b"\n" + data


@attack("13: frames that nobody asked for")
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "frames",
    [
        frame("a", -40, b""),
        frame("a", 1 << 50, b"x"),
        frame("a", 3, b"abc") + frame("b", 3, b"abc"),
        frame("a", 3, b"abc") * 2,
        frame("../../victim", 3, b"bad"),
        frame("a", 3, b"ab"),
        b"no frame at all",
        b'{"path": "a", "size": 0, "mtime_ns": 1}',
        frame("a", 1.5, b"x"),
    ],
)
def test_frames_that_nobody_asked_for_are_refused(tmp_path: Path, frames: bytes) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    with pytest.raises(BadAnswerError, match="gpu1"):
        fetched(tmp_path, {"a": [3, 1]}, frames)
    assert victim.read_text() == "untouched"


@attack("13: names of files that lead elsewhere")
@pytest.mark.parametrize(
    "name", ["/etc/x", "../x", "a/../../x", "", ".", "a\0b", "a\nb", "\x1b[2J", "x" * 5000,
             "a/..", "\u202ex"],
)  # fmt: skip
def test_names_that_lead_elsewhere_or_that_no_file_has_are_refused(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(TransferError, match="the host names a file"):
        fetched(tmp_path, {name: [3, 1]}, b"")


def test_a_link_in_the_fetched_folder_leads_nowhere(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "state" / "fetched", tmp_path / "elsewhere"
    folder.mkdir(parents=True)
    elsewhere.mkdir()
    (folder / "sweeps").symlink_to(elsewhere)
    with pytest.raises(TransferError, match="is a link"):
        fetched(tmp_path, {"sweeps/x": [3, 1]}, frame("sweeps/x", 3, b"bad"))
    assert list(elsewhere.iterdir()) == []


class Stream:
    """A command that tells the same bytes, then ends."""

    def __init__(self, told: bytes) -> None:
        self._told = [told[at : at + 4096] for at in range(0, len(told), 4096)]

    def write(self, _data: bytes, _deadline_s: float) -> None:
        pass

    def read(self, _wait_s: float) -> bytes:
        return self._told.pop(0) if self._told else b""

    def exit_code(self, _deadline_s: float) -> int:
        return 0


class Telling:
    """A host that tells what the test gives."""

    name = "gpu1"

    def __init__(self, told: bytes) -> None:
        self._told = told

    def open(self, _argv: Sequence[str], **_: object) -> Any:
        from contextlib import nullcontext

        return nullcontext(Stream(self._told))


class Blind:
    """A view that shows nothing."""

    def output(self, _text: str) -> None: ...
    def status(self, _seen: object) -> None: ...
    def blind(self, _why: str) -> None: ...
    def heard(self, _after_s: float) -> None: ...


@attack("13: garbage in the news of a sweep on a host")
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "told",
    [
        b"hello\n", b"[]\n", b'{"kind": "status", "status": []}\n', b"null\n",
        b'{"kind": "status", "status": {"version": 1}}\n', b'{"kind": "run", "run": 7}\n',
        b'{"kind": "status", "status": {"version": 1, "hosts": 7}}\n', b"[" * 100_000 + b"\n",
    ],
)  # fmt: skip
def test_garbage_in_the_news_ends_the_following_at_once(told: bytes) -> None:
    there = There(cast(Remote, Telling(told)), "/py", Place(Path("/ours")))
    with pytest.raises(RemoteError, match=r"gpu1 answers what|another version"):
        follow(there, Blind(), "r1", sleep=lambda _: None)


@attack("13: a line of a host that never ends")
def test_a_line_without_an_end_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.remote.calling._LONGEST_LINE_BYTES", 10_000)
    there = There(cast(Remote, Telling(b"x" * 20_000)), "/py", Place(Path("/ours")))
    with pytest.raises(BadAnswerError, match="a line without an end"):
        follow(there, Blind(), "r1", sleep=lambda _: None)


@dataclass
class Saying:
    """A host that answers every command with the same text."""

    text: str
    name: str = "gpu1"

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        return Completed(tuple(argv), 0, self.text.encode(), b"")


@attack("13: a machine name that leads a cache out of its root")
@pytest.mark.parametrize(
    "told",
    [
        "3.11 ../../../tmp/out 2.36 /usr/bin/python3", "3.11 x86_64 ../../out /usr/bin/python3",
        "3.11 x86_64 2.999999999 /usr/bin/python3", "3.11 x86_64 2.36 python3",
        "9.9 x86_64 2.36 /usr/bin/python3", "3.11 x86_64 2.36 /usr/\x1b[2Jpython3",
        "Welcome to gpu1\n3.11 x86_64 2.36 /p",
    ],
)  # fmt: skip
def test_what_a_python_tells_of_itself_leads_no_cache_out_of_its_root(told: str) -> None:
    with pytest.raises(RemoteError, match="gpu1: its Python tells"):
        find_base(cast(Remote, Saying(told)), HostEntry("gpu1", "10.0.0.1"))


def test_a_usual_python_is_taken() -> None:
    base = find_base(
        cast(Remote, Saying("3.11 x86_64 2.36 /usr/bin/python3.11\n")), HostEntry("gpu1", "h")
    )
    assert (base.path, base.target.machine) == ("/usr/bin/python3.11", "x86_64")


@pytest.mark.parametrize("told", ["0 1 ab", "-1 1 ab", "7 x ab", "7 1 ../x", "7 1", "hi 7 1 ab"])
def test_a_process_that_is_none_is_never_signalled(told: str) -> None:
    with pytest.raises(RemoteError, match="could not be started on gpu1"):
        read_start(Completed((), 0, told.encode(), b""), "gpu1", "prog")
    done = Completed((), 0, b"7 1 0-a\n", b"")
    assert read_start(done, "gpu1", "prog") == Detached(7, 1, "0-a")


Change = Callable[[dict[str, Any]], object]


@attack("13: a probe of a host that answers other types")
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(version=7),
        lambda data: data.update(models=[{"path": "/m", "size_bytes": "much"}]),
        lambda data: data.update(models=[{"wrong": 1}]),
        lambda data: data.update(locks=[None]),
        lambda data: data.update(facts=None),
        lambda data: data.update(facts=[]),
        lambda data: data.pop("boot_id"),
    ],
)
def test_what_a_probe_answers_is_typed(change: Change) -> None:
    data = json.loads(json.dumps(Answer(HostFacts("h"), "1", "b").as_data()))
    assert Answer.from_data(data) == Answer(HostFacts("h"), "1", "b")
    change(data)
    with pytest.raises(ValueError):
        Answer.from_data(data)


@pytest.mark.parametrize("told", ["nan", "inf", "-1", "1e400", "soon", "", "1 2"])
def test_a_clock_that_tells_no_time_is_unknown(told: str) -> None:
    assert reaching._clock(cast(Remote, Saying(told))) is None
    found = reaching._clock(cast(Remote, Saying(f"{time.time():.9f}\n")))
    assert found is not None
    assert abs(found.ahead_s) < 60


def test_names_in_folders_of_a_host_are_plain() -> None:
    assert _is_plain("a b.txt")
    assert not any(map(_is_plain, ("", ".", "..", "a/b", "../x", "a\0")))


@attack("13: a .bashrc that prints")
def test_a_shell_that_prints_is_told_with_its_remedy(sshd: Sshd, tmp_path: Path) -> None:
    """As one does whose .bashrc greets: sshd runs each command by the user's shell."""
    home = tmp_path / "home"
    home.mkdir()
    key = sshd.folder / "authorized_keys"
    before = key.read_text()
    # What the server runs instead prints first, as such a shell would.
    key.write_text(f'command="echo Welcome; eval \\"$SSH_ORIGINAL_COMMAND\\"" {before}')
    try:
        with (
            closing(sshd.remote()) as remote,
            pytest.raises(RemoteError, match=r"loopback: its shell prints.*Welcome.*\.bashrc"),
        ):
            remote.run(["echo", "x"])
    finally:
        key.write_text(before)
    with closing(sshd.remote()) as remote:
        assert remote.run(["echo", "x"]).text == "x\n"


@pytest.mark.slow
def test_a_hash_that_is_none_names_no_file_here(sshd: Sshd, tmp_path: Path) -> None:
    with closing(sshd.remote()) as remote:
        complete = remote._complete

        def lying(*args: Any, **kwargs: Any) -> Completed:
            done = complete(*args, **kwargs)
            return replace(done, stdout=b"../../../tmp/x  file") if "sha256sum" in args[1] else done

        remote._complete = lying  # type: ignore[method-assign]
        with pytest.raises(TransferError, match="sha256sum there answers"):
            remote.get("/etc/hostname", tmp_path / "here")
