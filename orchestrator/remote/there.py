"""What the other side asks of a host, one call each: JSON in, JSON out.

    python -m orchestrator.remote.there VERB ROOT

The caller is whoever may log in there: it can do nothing that its login could not.
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.remote import laying_out, listing
from orchestrator.remote.notes import RunNote, newest, notes_in
from orchestrator.remote.place import Place

Answer = Mapping[str, Any]


def missing(place: Place, asked: Answer) -> Answer:
    """Tell which files are yet to be sent, and what runs there now."""
    from infra.own_wheel import own_version

    found = newest(place.runs)
    return {
        "missing": laying_out.missing(place, asked["hashes"]),
        "version": own_version(),
        "running": found.as_data() if found and found.is_running else None,
    }


def lay_out(place: Place, asked: Answer) -> Answer:
    """Lay out a space file and write down the command that is to run it."""
    folder = laying_out.lay_out(place, asked["name"], asked["files"], asked["sent"])
    argv = [*asked["argv"], "--sent", str(folder / laying_out.SENT)]
    order = {"argv": argv, "cwd": str(folder), "env": asked["env"],
             "title": asked["title"], "who": asked["who"]}  # fmt: skip
    return {"run_folder": str(laying_out.order(place, asked["run"], order))}


def runs(place: Place, _asked: Answer) -> Answer:
    """List what was started from elsewhere."""
    return {"runs": [note.as_data() for note in notes_in(place.runs)]}


def stop(place: Place, _asked: Answer) -> Answer:
    """Ask what runs to end, as Ctrl-C does."""
    found = newest(place.runs)
    if found is None or not found.is_running:
        return {"run": found.as_data() if found else None, "asked": False}
    _interrupt(found)
    return {"run": found.as_data(), "asked": True}


def _interrupt(note: RunNote) -> None:
    """The launcher passes it on; where that was killed, the command is asked itself."""
    if note.launcher and not note.launcher.is_gone():
        os.kill(note.launcher.pid, signal.SIGTERM)
    elif note.driver and not note.driver.is_gone():
        os.kill(note.driver.pid, signal.SIGINT)


def manifest(place: Place, _asked: Answer) -> Answer:
    """List what can be fetched."""
    return {"files": listing.manifest(place)}


def snapshot(place: Place, asked: Answer) -> Answer:
    """Copy a database, to be fetched."""
    path = listing.snapshot(place, asked["name"])
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": str(path), "sha256": digest}


def frames(place: Place, asked: Answer) -> None:
    """Print files one after the other: a line of JSON, then the bytes of each."""
    for head, data in listing.frames(place.state, asked["paths"]):
        sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + data)
    sys.stdout.buffer.flush()


def follow(place: Place, asked: Answer) -> None:
    """Print what goes on until the run ends, or nobody listens any more."""
    from orchestrator.remote.telling import tell

    tell(place, asked)


def status(place: Place, asked: Answer) -> Answer:
    """Tell once how the newest run and its sweep stand."""
    from orchestrator.remote.telling import now

    return now(place, asked.get("sweep"))


def serve(place: Place, asked: Answer) -> None:
    """Serve a page on a free loopback port until nobody listens any more."""
    from orchestrator.remote.serving import Page, serve_tied

    serve_tied(place, Page[asked["page"]])


ASKING: dict[str, Callable[[Place, Answer], Answer]] = {
    "missing": missing, "lay_out": lay_out, "runs": runs, "stop": stop, "manifest": manifest,
    "snapshot": snapshot, "status": status,
}  # fmt: skip
TALKING: dict[str, Callable[[Place, Answer], None]] = {
    "frames": frames, "follow": follow, "serve": serve,
}  # fmt: skip


def main(verb: str, root: str) -> int:
    """Answer one call; the first line of the input is what is asked."""
    place, asked = Place(Path(root)), json.loads(sys.stdin.buffer.readline() or b"{}")
    if verb in TALKING:
        TALKING[verb](place, asked)
        return 0
    json.dump(ASKING[verb](place, asked), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
