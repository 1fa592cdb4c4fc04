"""Commands beside sweeps: an emulated server by hand, what is made again, what is cleared."""

from typing import Annotated

import typer

from orchestrator.choices import HostChoice
from orchestrator.cli.options import (
    DEFAULT_STATE,
    Scenario,
    StateDir,
    SweepId,
    TimeScale,
    TrackingUri,
    Truth,
    bad_input_exits,
)
from sweeps.hosts import EngineName


def emulate(
    context: typer.Context,
    time_scale: TimeScale = None,
    truth: Truth = None,
    scenario: Scenario = None,
    version: Annotated[str | None, typer.Option(help="The SGLang that it resembles.")] = None,
) -> None:
    """Run an EMULATED SGLang server here, with SGLang's own flags."""
    from orchestrator.commands import emulate_server

    with bad_input_exits():
        choice = HostChoice(EngineName.EMULATED, truth, time_scale or 1.0, scenario)
        emulate_server(context.args, choice, version)


def rebuild(
    state_dir: StateDir = DEFAULT_STATE,
    sweep_id: SweepId = None,
    tracking_uri: TrackingUri = None,
) -> None:
    """Make MLflow's store and the study again from the trials' own files, of all sweeps or one."""
    from orchestrator.upkeep import rebuild_tracker

    with bad_input_exits():
        made = rebuild_tracker(state_dir, sweep_id, tracking_uri)
    typer.echo(f"{made.trials} trials of {len(made.sweeps)} sweeps are in MLflow and the study.")
    if made.recovered:
        typer.echo(f"{made.recovered} results were found in spools only.")
    if made.interrupted:
        typer.echo(f"{made.interrupted} trials that a killed driver left are closed as cancelled.")
    for name in made.without_study:
        typer.echo(f"{name} is of a release that kept no definition: it has no study.")
    for path in made.damaged:
        typer.echo(f"damaged: {path}")


def clean(state_dir: StateDir = DEFAULT_STATE) -> None:
    """Remove what dead sweeps left: processes, shared memory, temporary folders, locks."""
    from orchestrator.upkeep import clean_up

    with bad_input_exits():
        found = clean_up(state_dir)
    for leftover in found:
        typer.echo(f"{leftover.kind.value}: {leftover.what}")
    if not found:
        typer.echo("Nothing was left.")
