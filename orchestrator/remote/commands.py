"""What the commands with `--host` do, apart from parsing."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.inventory import HostEntry, load_inventory
from infra.remote import LinkLostError, RemoteError
from infra.ssh.remote import SshRemote
from orchestrator.exit_codes import DONE, INTERRUPTED, NOT_READY
from orchestrator.journal import DiskError
from orchestrator.remote.answers import bad_answer
from orchestrator.remote.calling import There
from orchestrator.remote.fetching import Fetched, fetch
from orchestrator.remote.following import End, follow, status_from
from orchestrator.remote.parcel import pack
from orchestrator.remote.serving import Page
from orchestrator.remote.starting import Order, start
from orchestrator.remote.view import view_of
from orchestrator.space_file import load_sweep
from orchestrator.watching.sweep_status import SweepStatus
from sweeps.phrases import counted
from sweeps.problems import BadInputError, Problem
from sweeps.sweep import Sweep

STOP_S = 300.0
"""Wall seconds that a sweep is given to stop its servers and to close its books."""
_FETCHED = "fetched"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class HostName:
    """A host, as the command line names it."""

    name: str
    inventory: Path

    @contextmanager
    def reached(self) -> Iterator[tuple[There, HostEntry]]:
        """Lend ours on it. Raises BadInputError, RemoteError."""
        listed = load_inventory(self.inventory)
        host = listed.host(self.name)
        with closing(SshRemote.to(host, listed)) as remote:
            yield There.on(remote, host), host

    def command(self, verb: str) -> str:
        """Return the command that does something else with it."""
        words = ["python -m orchestrator", verb, "--host", self.name]
        if self.inventory != Path("hosts.toml"):
            words += ["--inventory", str(self.inventory)]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Start:
    """A sweep to be started elsewhere, as it was typed."""

    space_file: Path
    scenario: Path | None
    options: Sequence[str]
    """Of the `sweep` command there, but for those that are paths of this machine."""
    more: Sequence[Path]
    """What else the space file reads."""
    state_dir: Path


def sweep_there(host: HostName, order: Start, *, detach: bool, patience_s: float | None) -> int:
    """Run a sweep on a host, and follow it. Raises BadInputError, RemoteError."""
    sweep = load_sweep(order.space_file)
    _refuse(sweep, order.space_file)
    base = Path.cwd()
    parcel = pack(order.space_file, sweep, base, order.scenario, order.more)
    options = list(order.options)
    if order.scenario:
        given = str(order.scenario)
        options += ["--scenario", parcel.moved.get(given, given)]
    with host.reached() as (there, entry):
        fetched = fetched_folder(order.state_dir, host.name)
        try:
            run = start(there, entry, Order(parcel, options, sys.argv[1:], fetched), _say)
        except KeyboardInterrupt:
            _say(f"\nWhether it was started on {host.name}, `{host.command('status')}` tells.")
            return INTERRUPTED
        _say(f"{host.name}: started; whatever happens here, it goes on there")
        if detach:
            _say(f"`{host.command('attach')}` follows it.")
            return DONE
        return _followed(host, there, run, patience_s, order.state_dir)


def attach(host: HostName, state_dir: Path, *, patience_s: float | None) -> int:
    """Follow what runs on a host, or show what ran last. Raises BadInputError, RemoteError."""
    with host.reached() as (there, _):
        return _followed(host, there, "", patience_s, state_dir)


def stop(host: HostName) -> int:
    """End what runs on a host as Ctrl-C would, and wait for its end."""
    with host.reached() as (there, _):
        found = there.ask("stop", repeatable=False)
        if not found["asked"]:
            _say(f"{host.name}: nothing runs that was started from elsewhere")
            return DONE
        run = found["run"]
        if run is None:
            raise bad_answer(host.name, "a run was asked to end, and it names none")
        _say(f"{host.name}: {run['title']} was asked to end; its servers are stopped first")
        until_s = time.monotonic() + STOP_S
        while time.monotonic() < until_s:
            alive = [one["run"] for one in there.ask("runs")["runs"] if one["is_running"]]
            if run["run"] not in alive:
                _say(f"{host.name}: it has ended, and goes on when it is started again")
                return DONE
            time.sleep(1.0)
    _say(f"{host.name}: it has not ended within {STOP_S:.0f} s; ask again")
    return NOT_READY


def status_there(
    host: HostName, sweep_id: str | None
) -> tuple[SweepStatus | None, dict[str, Any] | None]:
    """Return how a sweep of a host and its newest run stand. Raises BadInputError, RemoteError."""
    with host.reached() as (there, _):
        found = there.ask("status", {"sweep": sweep_id})
    seen = found["status"]
    return seen and status_from(seen), found["run"]


def fetch_from(host: HostName, state_dir: Path) -> Fetched:
    """Bring here what is new on a host. Raises BadInputError, RemoteError."""
    with host.reached() as (there, _):
        return fetch(there, fetched_folder(state_dir, host.name))


def fetched_folder(state_dir: Path, host: str) -> Path:
    """Return the state folder here that holds what was fetched from a host."""
    return state_dir / _FETCHED / host


def serve_there(host: HostName, page: Page, on_ready: Callable[[str], None]) -> None:
    """Serve a page of the host on a loopback port of this machine until Ctrl-C."""
    from orchestrator.tracking.ui import sweeps_page
    from orchestrator.tracking.ui_view import EXPERIMENT

    with host.reached() as (there, _):
        news = there.talk("serve", {"page": page.name})
        ended: dict[str, Any] = {"why": "it ended at once"}
        first = next((line for line in news if line is not None), ended)
        if "why" in first:
            raise RemoteError(f"{host.name}: {first['why']}")
        if "elsewhere" in first:
            on_ready(sweeps_page(first["elsewhere"], EXPERIMENT))
            return
        if "port" not in first:
            raise bad_answer(host.name, "neither where its page is nor why it is not")
        with there.remote.forward(first["port"]) as port:
            here = f"http://127.0.0.1:{port}"
            on_ready(sweeps_page(here, EXPERIMENT) if page is Page.MLFLOW else here)
            for _ in news:
                pass
    raise LinkLostError(f"{host.name}: {page} there has ended")


def _followed(
    host: HostName, there: There, run: str, patience_s: float | None, state_dir: Path
) -> int:
    try:
        with view_of(host.name) as view:
            end = follow(there, view, run, patience_s=patience_s)
    except KeyboardInterrupt:
        _say(
            f"\nNo longer followed. The sweep goes on on {host.name}: `{host.command('attach')}`"
            f" shows it, `{host.command('stop')}` ends it."
        )
        return INTERRUPTED
    _tell_end(host, there, end, state_dir)
    return end.exit_code


def _tell_end(host: HostName, there: There, end: End, state_dir: Path) -> None:
    if told := end.told(host.name):
        sys.stderr.write(f"{told}\n")
    if end.status is None:
        return
    folder = fetched_folder(state_dir, host.name)
    try:
        _say(fetched_text(fetch(there, folder), host.name, folder))
    except (RemoteError, DiskError, KeyboardInterrupt) as error:
        sys.stderr.write(
            f"{str(error) or 'interrupted'}\n`{host.command('fetch')}` brings the results later.\n"
        )


def fetched_text(found: Fetched, host: str, folder: Path) -> str:
    """Say what was brought, and how to look at it."""
    if not found.files and not found.left:
        return f"{host}: nothing is new; {folder} holds all"
    left = f"; {len(found.left)} are being written and come next time" if found.left else ""
    new = f"{counted(found.files, 'file')} ({found.size_bytes / 1000:.0f} kB) new or changed"
    return (
        f"{host}: {new}, {found.unchanged} as before{left}."
        f" Other commands read them with --state-dir {folder}"
    )


def _refuse(sweep: Sweep, space_file: Path) -> None:
    """Refuse what can be seen from here. Hosts and models are looked at there."""
    if len(sweep.hosts) > 1:
        names = ", ".join(host.name for host in sweep.hosts)
        mend = "Leave its `hosts` out, or run it without --host."
        problem = Problem("hosts", names, "the file names several, --host is one", mend)
        raise BadInputError(str(space_file), [problem])


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def show_status(host: str, seen: SweepStatus | None, run: dict[str, Any] | None) -> None:
    """Print how a host's sweep stands, and which command drives it."""
    from orchestrator.watching.following import print_status

    if run is not None:
        state = "runs" if run["is_running"] else "has ended"
        _say(f"{host}: {run['title']}, started by {run['who']}, {state}")
    if seen is not None:
        print_status(seen)
    elif run is None:
        _say(f"{host}: no sweep lies there")
