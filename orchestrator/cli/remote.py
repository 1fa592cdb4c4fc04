"""Commands about a sweep that runs on another machine."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from orchestrator.choices import HostChoice
from orchestrator.cli.hosts import DEFAULT_INVENTORY, Inventory, remote_exits
from orchestrator.cli.options import DEFAULT_STATE, StateDir, finite, page_teller, print_json
from orchestrator.exit_codes import NO_TRIAL, of_status
from sweeps.hosts import EngineName

if TYPE_CHECKING:
    from orchestrator.remote.commands import HostName

ThisHost = Annotated[str, typer.Option("--host", help="The host of the inventory that it is on.")]
OnHost = Annotated[str | None, typer.Option("--host", help="On a host of the inventory instead.")]
Detach = Annotated[bool, typer.Option("--detach", help="With --host: start it, follow nothing.")]
Patience = Annotated[
    float | None,
    typer.Option(
        min=0,
        callback=finite,
        help="Seconds to go on trying a host that is not heard; else for ever.",
    ),
]
Send = Annotated[
    list[Path] | None, typer.Option(help="With --host: what else the space file reads.")
]


def attach(
    host: ThisHost,
    inventory: Inventory = DEFAULT_INVENTORY,
    state_dir: StateDir = DEFAULT_STATE,
    patience: Patience = None,
) -> None:
    """Follow the sweep that runs on a host; show the last one if none does.

    Ctrl-C only ends the following. Exits as the sweep does.
    """
    with remote_exits():
        from orchestrator.remote import commands

        code = commands.attach(_host(host, inventory), state_dir, patience_s=patience)
    raise typer.Exit(code)


def stop(host: ThisHost, inventory: Inventory = DEFAULT_INVENTORY) -> None:
    """End the sweep that runs on a host, as Ctrl-C would; a second time, at once. Waits for it."""
    with remote_exits():
        from orchestrator.remote import commands

        code = commands.stop(_host(host, inventory))
    raise typer.Exit(code)


def fetch(
    host: ThisHost,
    inventory: Inventory = DEFAULT_INVENTORY,
    state_dir: StateDir = DEFAULT_STATE,
) -> None:
    """Bring here what is new of a host's sweeps: results, studies, MLflow's store, logs."""
    with remote_exits():
        from orchestrator.remote import commands

        found = commands.fetch_from(_host(host, inventory), state_dir)
        folder = commands.fetched_folder(state_dir, host)
        typer.echo(commands.fetched_text(found, host, folder))


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where a sweep is to run, and how it is followed from here."""

    host: str
    inventory: Path
    detach: bool
    patience_s: float | None
    more: Sequence[Path]


def sweep_on(
    where: Elsewhere,
    space_file: Path,
    state_dir: Path,
    choice: HostChoice,
    options: Sequence[str],
) -> NoReturn:
    """Run a sweep on a host; exit with 2 on bad input, 4 where the host cannot be used."""
    with remote_exits():
        from orchestrator.remote.commands import Start, sweep_there

        words = [*options, *_options(choice)]
        order = Start(space_file, choice.scenario, words, where.more, state_dir)
        host = _host(where.host, where.inventory)
        code = sweep_there(host, order, detach=where.detach, patience_s=where.patience_s)
    raise typer.Exit(code)


def status_on(host: str, inventory: Path, sweep_id: str | None, *, as_json: bool) -> NoReturn:
    """Show how a sweep of a host stands, and exit as `status` does."""
    with remote_exits():
        from orchestrator.remote import commands

        seen, run = commands.status_there(_host(host, inventory), sweep_id)
        if as_json:
            print_json({"run": run, "status": seen and seen.as_data()})
        else:
            commands.show_status(host, seen, run)
    if seen is None:
        raise typer.Exit(NO_TRIAL)
    raise typer.Exit(of_status(seen.status, has_leader=seen.leader is not None))


def ui_on(host: str, inventory: Path) -> NoReturn:
    """Serve the MLflow UI of a host here, until Ctrl-C."""
    _page_on(host, inventory, "MLFLOW", "MLflow UI")


def watch_on(host: str, inventory: Path) -> NoReturn:
    """Serve the live page of a host's newest sweep here, until Ctrl-C."""
    _page_on(host, inventory, "WATCH", "watch")


def _page_on(host: str, inventory: Path, page: str, title: str) -> NoReturn:
    with remote_exits():
        from orchestrator.remote import commands
        from orchestrator.remote.serving import Page

        with suppress(KeyboardInterrupt):
            commands.serve_there(_host(host, inventory), Page[page], page_teller(title))
    raise typer.Exit


def _options(choice: HostChoice) -> list[str]:
    words = [] if choice.engine is EngineName.AUTO else ["--engine", choice.engine.value]
    words += [] if choice.truth is None else ["--truth", choice.truth]
    words += [] if choice.time_scale is None else ["--time-scale", f"{choice.time_scale:g}"]
    return words


def _host(name: str, inventory: Path) -> "HostName":
    from orchestrator.remote.commands import HostName

    return HostName(name, inventory)
