"""Commands that look at a sweep while it runs, from any other terminal or a browser."""

from typing import Annotated

import typer

from orchestrator.cli.hosts import DEFAULT_INVENTORY, Inventory
from orchestrator.cli.options import (
    DEFAULT_STATE,
    AsJson,
    StateDir,
    bad_input_exits,
    finite,
    page_teller,
    print_json,
)
from orchestrator.cli.remote import OnHost, attach, status_on, watch_on
from orchestrator.exit_codes import of_status

WatchedSweep = Annotated[
    str | None, typer.Argument(metavar="SWEEP", help="The id of a sweep; else the newest.")
]


def status(
    sweep_id: WatchedSweep = None,
    state_dir: StateDir = DEFAULT_STATE,
    follow: Annotated[bool, typer.Option(help="Renew it until the sweep ends.")] = False,
    as_json: AsJson = False,
    period_s: Annotated[
        float, typer.Option("--period", min=0.1, callback=finite, help="Seconds of a look.")
    ] = 1.0,
    host: OnHost = None,
    inventory: Inventory = DEFAULT_INVENTORY,
) -> None:
    """Show where a sweep stands: what runs, who leads, where the hours went.

    It reads the state folder alone, so it works beside any driver and hinders none. With --follow
    and --json each change is a line. Exits with 0 if the sweep runs or has finished, 3 if it
    measured nothing, 4 if it ended early or its driver is gone, 130 if it was interrupted.
    """
    from orchestrator.commands import watched
    from orchestrator.watching.following import follow as follow_looks
    from orchestrator.watching.following import follow_as_json, print_status
    from orchestrator.watching.watcher import changes

    if host is not None and follow:
        attach(host, inventory, state_dir)
    if host is not None:
        status_on(host, inventory, sweep_id, as_json=as_json)
    with bad_input_exits():
        watcher = watched(state_dir, sweep_id)
        if follow:
            looks = changes(watcher, period_s)
            seen = follow_as_json(looks) if as_json else follow_looks(looks)
        else:
            seen = watcher.look()
            if as_json:
                print_json(seen.as_data())
            else:
                print_status(seen)
    raise typer.Exit(of_status(seen.status, has_leader=seen.leader is not None))


def watch(
    sweep_id: WatchedSweep = None,
    state_dir: StateDir = DEFAULT_STATE,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8765,
    host: OnHost = None,
    inventory: Inventory = DEFAULT_INVENTORY,
) -> None:
    """Serve a live page of a running sweep on the loopback until Ctrl-C.

    With --host it is the newest sweep of that host, on any free port here.
    """
    from orchestrator.commands import serve_watch

    if host is not None:
        watch_on(host, inventory)
    with bad_input_exits():
        serve_watch(state_dir, sweep_id, port, page_teller("watch"))
