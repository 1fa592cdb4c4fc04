"""Starts a sweep on a host: what is missing there is sent, then the command is launched once."""

import getpass
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.inventory import HostEntry
from infra.own_wheel import own_version
from infra.remote import LinkLostError, RemoteError
from infra.secret_refs import SecretError, resolve
from orchestrator.remote.calling import There
from orchestrator.remote.parcel import Parcel
from sweeps.phrases import counted
from sweeps.problems import BadInputError, Problem

_TRIES = 3
_WIDTHS = (80, 200)

Tell = Callable[[str], None]


class BusyError(RemoteError):
    """Another sweep of ours runs there."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to run there, as it was typed here."""

    parcel: Parcel
    options: Sequence[str]
    """Of the `sweep` command, beside the space file and where it runs."""
    typed: Sequence[str]
    fetched: Path
    """The state folder here that its results are brought to."""


def start(there: There, host: HostEntry, order: Order, tell: Tell) -> str:
    """Send what is missing, start the sweep, and return the name of its run.

    Raises RemoteError; BadInputError where a secret that the inventory names cannot be had.
    """
    hidden = secrets_of(host)
    name = there.remote.name
    hashes = order.parcel.hashes()
    found = there.ask("missing", {"hashes": sorted(set(hashes.values()))})
    if found["running"]:
        raise BusyError(_busy(name, found["running"]))
    if found["version"] != own_version():
        tell(
            f"{name} has version {found['version']} of ours, here is {own_version()}:"
            f" `python -m orchestrator hosts prepare {name}` puts it there."
        )
    _send(there, order.parcel, hashes, found["missing"], tell)
    run = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    asked = _asked(there, host, order, hashes, run)
    folder = there.ask("lay_out", asked)["run_folder"]
    _launch(there, folder, hidden)
    return run


def secrets_of(host: HostEntry) -> dict[str, str]:
    """Return the variables that the inventory names for a host, and no others.

    Raises BadInputError.
    """
    try:
        return {name: resolve(reference) for name, reference in host.secrets.items()}
    except SecretError as error:
        problem = Problem(f"hosts.{host.name}.secrets", "", str(error), "Set it, or leave it out.")
        raise BadInputError("The inventory", [problem]) from error


def _send(
    there: There, parcel: Parcel, hashes: Mapping[Any, str], missing: Sequence[str], tell: Tell
) -> None:
    unsent = set(missing)
    sent_bytes = 0
    for place, digest in hashes.items():
        if digest in unsent:
            unsent.remove(digest)
            path = parcel.files[place]
            there.remote.put(path, str(there.place.blobs / digest), mode=0o600)
            sent_bytes += path.stat().st_size
    count = len(set(missing))
    already = len(set(hashes.values())) - count
    kept = f"; {already} were there already" if already else ""
    tell(f"{there.remote.name}: {counted(count, 'file')} sent, {sent_bytes / 1000:.1f} kB{kept}")


def _asked(
    there: There, host: HostEntry, order: Order, hashes: Mapping[Any, str], run: str
) -> dict[str, Any]:
    parcel = order.parcel
    width = min(max(shutil.get_terminal_size().columns, _WIDTHS[0]), _WIDTHS[1])
    state = ["--state-dir", str(there.place.state)]
    return {
        "run": run,
        "name": parcel.name,
        "files": {str(place): digest for place, digest in hashes.items()},
        "sent": {
            "host": host.spec().as_data(), "files": dict(parcel.moved),
            "typed": list(order.typed), "fetched": str(order.fetched),
        },
        "argv": ["sweep", str(parcel.space), *state, *order.options],
        "env": {"COLUMNS": str(width)},
        "title": f"a sweep of {parcel.space}",
        "who": f"{_user()} from {platform.node()}",
    }  # fmt: skip


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, a user may have no name
        return f"user {os.getuid()}"


def _launch(there: There, folder: str, hidden: Mapping[str, str]) -> None:
    """Start the launcher. Started again where no answer came: a second one finds it begun."""
    argv = [there.python, "-m", "orchestrator.remote.launcher", folder]
    for left in reversed(range(_TRIES)):
        try:
            there.remote.start(argv, log_path=f"{folder}/launcher.log", hidden=hidden)
            return
        except LinkLostError:
            if not left:
                raise


def _busy(name: str, run: Mapping[str, Any]) -> str:
    began = datetime.fromtimestamp(run["began_s"]).astimezone()
    return (
        f"{name} is busy with {run['title']}, started by {run['who']} at {began:%Y-%m-%d %H:%M}."
        f" `python -m orchestrator attach --host {name}` shows it; `stop` ends it."
    )
