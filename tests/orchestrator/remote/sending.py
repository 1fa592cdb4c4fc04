"""A user's folder with an inventory, and the commands that are typed in it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.remote.notes import RunNote, notes_in
from orchestrator.remote.place import Place
from tests.e2e.sweeping import write_space
from tests.infra.ssh.lan import Lan, Node
from tests.patience import GIVE_UP_S

DEADLINE_S = GIVE_UP_S
LIMITS = {"keepalive_s": 0.7, "lost_after_s": 2, "connect_s": 15, "retry_s": 60}


@dataclass(frozen=True, slots=True)
class Desk:
    """A machine that a person sits at, as far as commands can tell, and one host."""

    folder: Path
    node: Node
    place: Place
    """Where sweeps lie on the host; tests share its files."""

    @classmethod
    def at(cls, folder: Path, lan: Lan, root: Path, host: str = "gpu1", **told: object) -> "Desk":
        """Furnish a folder: an inventory that loses patience with a dead link early."""
        folder.mkdir(exist_ok=True)
        scale = {"time_scale": 200.0, "limits": LIMITS, "folder": str(root)}
        names = [name for name in (host, lan[host].jump) if name]
        lan.write_inventory(folder / "hosts.toml", *names, **{**scale, **told})
        return cls(folder, lan[host], Place(root))

    def notes(self) -> list[RunNote]:
        """Return all commands that were started on the host."""
        return notes_in(self.place.runs)

    def note(self) -> RunNote:
        """Return the newest of them."""
        return self.notes()[-1]

    @property
    def fetched(self) -> Path:
        """Return where results are brought to."""
        return self.folder / ".sweeps/fetched" / self.node.name

    def space(self, name: str, trials: int) -> str:
        """Write a space file whose sweep makes all its trials; return its name."""
        path = write_space(self.folder, name, trials=trials)
        text = path.read_text()
        path.write_text(
            text.replace("early_stopping=False", 'early_stopping=False, sampler="random"')
        )
        return path.name

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Type a command; return its code and all that it printed."""
        done = subprocess.run(
            _argv(words), cwd=self.folder, capture_output=True, text=True, timeout=DEADLINE_S,
            check=False, env={**os.environ, **(env or {})},
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    @contextmanager
    def typed(self, *words: str) -> Iterator["Typed"]:
        """Type a command that goes on; it is gone at the end, whatever happens."""
        log = self.folder / "typed.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                _argv(words), cwd=self.folder, stdout=output, stderr=output, start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        try:
            yield Typed(process, log)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


@dataclass(frozen=True, slots=True)
class Typed:
    """A command that runs."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def text(self) -> str:
        """Return what it has printed so far."""
        return self.log.read_text()

    def wait_for(self, words: str, count: int = 1) -> None:
        """Wait until it has printed some words so often."""
        until(lambda: self.text.count(words) >= count, lambda: f"no {words!r} in:\n{self.text}")

    def ends(self) -> int:
        """Wait for its end; return its code."""
        return self.process.wait(DEADLINE_S)


def until(true: Callable[[], bool], why: Callable[[], str]) -> None:
    """Wait for something; a busy machine is given time."""
    end_s = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < end_s, why()
        time.sleep(0.05)


def results(state: Path) -> dict[int, Any]:
    """Return the results of all trials in a state folder, by number."""
    found = sorted(state.glob("sweeps/*/trials/*/result.json"))
    return {int(path.parent.name): json.loads(path.read_text()) for path in found}


def _argv(words: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "orchestrator", *words]
