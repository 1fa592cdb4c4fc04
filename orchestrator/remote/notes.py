"""The notes that a command started from elsewhere leaves on its host: who runs it, how it ended.

Only the standard library and two small modules of `infra`: it is read at the start of every call
there.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.process_id import ProcessId
from infra.whole_file import write_whole

ORDER, LAUNCHER, DRIVER, END, OUTPUT = (
    "order.json", "launcher.json", "driver.json", "end.json", "output.log",
)  # fmt: skip
SEQUENCE = "sequence"
"""Under which an order holds its place in the host's own counting."""


@dataclass(frozen=True, slots=True)
class RunNote:
    """One command: what was ordered, and how it stands."""

    run: str
    title: str
    who: str
    """Whoever ordered it, and from which machine."""
    began_s: float
    """Since the epoch, by the host's clock; 0 where it never began."""
    launcher: ProcessId | None
    driver: ProcessId | None
    code: int | None
    """Its exit code, negative for the signal that killed it; None where it left none."""
    sequence: int = 0
    """Of the host's own counting of its runs; 0 for one of an earlier version."""

    @property
    def is_running(self) -> bool:
        """Tell whether more is to come of it."""
        alive = [one for one in (self.launcher, self.driver) if one and not one.is_gone()]
        return self.code is None and bool(alive)

    def as_data(self) -> dict[str, Any]:
        """Return what is told to others, for JSON."""
        return {
            "run": self.run, "title": self.title, "who": self.who, "began_s": self.began_s,
            "code": self.code, "is_running": self.is_running,
        }  # fmt: skip


def read_note(folder: Path) -> RunNote:
    """Read what a command has left in its folder."""
    order, launcher, driver, end = (
        read_object(folder / name) for name in (ORDER, LAUNCHER, DRIVER, END)
    )
    return RunNote(
        run=folder.name,
        title=str(order.get("title", "")),
        who=str(order.get("who", "")),
        began_s=float(launcher.get("began_s", 0.0)),
        launcher=_process(launcher),
        driver=_process(driver),
        code=end.get("code"),
        sequence=_sequence(order),
    )


def notes_in(runs: Path) -> list[RunNote]:
    """Read all commands in the host's own order. Names begin with a time, but with the sender's."""
    found = [read_note(order.parent) for order in runs.glob(f"*/{ORDER}")]
    return sorted(found, key=lambda note: (note.sequence, note.run))


def newest(runs: Path, run: str = "") -> RunNote | None:
    """Return one command, or the newest that runs, or else the newest that began; None for none."""
    found = [note for note in notes_in(runs) if (note.run == run if run else note.began_s)]
    found = [note for note in found if note.is_running] or found
    return found[-1] if found else None


def read_object(path: Path) -> dict[str, Any]:
    """Read a small file of ours; empty where there is none, or it holds no object."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def write_object(path: Path, data: Mapping[str, Any]) -> None:
    """Write a small file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, json.dumps(data).encode())


def _sequence(order: Mapping[str, Any]) -> int:
    found = order.get(SEQUENCE)
    return found if type(found) is int and found > 0 else 0


def _process(note: Mapping[str, Any]) -> ProcessId | None:
    data = note.get("process")
    return ProcessId(**data) if isinstance(data, dict) else None
