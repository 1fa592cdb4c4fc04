"""Commands that show what came out and take it to production."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.hosts import DEFAULT_INVENTORY, Inventory
from orchestrator.cli.options import (
    DEFAULT_STATE,
    AsJson,
    StateDir,
    SweepId,
    TrackingUri,
    bad_input_exits,
    page_teller,
    print_json,
)
from orchestrator.cli.remote import OnHost, ui_on
from orchestrator.exit_codes import NO_TRIAL

FORMATS = "json, sh, yaml (SGLang's --config), env, systemd, docker-compose or kubernetes."


def trials(
    state_dir: StateDir = DEFAULT_STATE,
    sweep_id: SweepId = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for spreadsheets.")] = False,
    parquet: Annotated[Path | None, typer.Option(help="Write Parquet, for notebooks.")] = None,
) -> None:
    """List the trials of all sweeps, or of one."""
    from orchestrator.commands import trial_rows, write_parquet
    from orchestrator.pages import print_trials

    if parquet is not None:
        with bad_input_exits():
            rows_written = write_parquet(state_dir, sweep_id, parquet)
        typer.echo(f"{rows_written} trials {parquet.absolute()}")
        return
    with bad_input_exits():
        rows = trial_rows(state_dir, sweep_id)
    if as_json:
        print_json(rows)
    elif as_csv:
        from orchestrator.frame import trials_frame

        typer.echo(trials_frame(rows).to_csv(index=False), nl=False)
    else:
        print_trials(rows)


def explain(
    trial: Annotated[str, typer.Argument(help="A trial's id, its number, or `best`.")],
    state_dir: StateDir = DEFAULT_STATE,
    sweep_id: SweepId = None,
    as_json: AsJson = False,
) -> None:
    """Say what a trial measured, what it did not, and what may be concluded from it."""
    from orchestrator.commands import explain_trial
    from orchestrator.pages import print_explanation

    with bad_input_exits():
        explanation = explain_trial(state_dir, trial, sweep_id)
    if explanation is None:
        typer.echo("No trial of this sweep was measured, so there is no best one.", err=True)
        raise typer.Exit(NO_TRIAL)
    if as_json:
        print_json(explanation.as_data())
    else:
        print_explanation(explanation)


def report(
    state_dir: StateDir = DEFAULT_STATE,
    sweep_id: SweepId = None,
    form: Annotated[str, typer.Option("--format", help="html or markdown.")] = "html",
    output: Annotated[
        Path | None, typer.Option(help="A file, or - for standard output; report.html if none.")
    ] = None,
) -> None:
    """Write what a sweep found, and why, as one page: the newest sweep, or one named."""
    from orchestrator.commands import make_report

    path = output or (Path("report.html") if form == "html" else Path("-"))
    to_screen = str(path) == "-"
    with bad_input_exits():
        text, measured = make_report(state_dir, sweep_id, form, None if to_screen else path)
    typer.echo(text if to_screen else f"report {path.absolute()}", nl=not to_screen)
    if not measured:
        typer.echo("No trial of this sweep gave a rate: nothing is recommended.", err=True)
        raise typer.Exit(NO_TRIAL)


def export(
    state_dir: StateDir = DEFAULT_STATE,
    sweep_id: SweepId = None,
    trial: Annotated[str | None, typer.Option(help="A trial's id or number, not the best.")] = None,
    form: Annotated[str, typer.Option("--format", help=FORMATS)] = "sh",
    output: Annotated[Path | None, typer.Option(help="A file; standard output if none.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Requests at a time in production.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="For containers; SGLang's own if none.")] = None,
    allow_emulated: Annotated[
        bool, typer.Option("--allow-emulated", help="Export what no GPU has measured.")
    ] = False,
) -> None:
    """Write the best configuration of the newest sweep, or of one named, for production."""
    from orchestrator.exporting import ExportChoice
    from orchestrator.exporting import export as made_of

    with bad_input_exits():
        choice = ExportChoice(form, allow_emulated, concurrency, image)
        made = made_of(state_dir, sweep_id, trial, choice)
        if made is None:
            none = "No trial of this sweep was measured, so there is nothing to export."
            typer.echo(none, err=True)
            raise typer.Exit(NO_TRIAL)
        paths = () if output is None else made.written(output)
        if output is None:
            typer.echo(made.printable(), nl=False)
    for warning in made.warnings:
        typer.echo(f"warning: {warning}", err=True)
    for beside in paths[1:]:
        typer.echo(f"{beside} holds what {paths[0]} cannot: take both", err=True)


def ui(
    state_dir: StateDir = DEFAULT_STATE,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 5000,
    host: OnHost = None,
    inventory: Inventory = DEFAULT_INVENTORY,
    tracking_uri: TrackingUri = None,
) -> None:
    """Serve the MLflow UI on the loopback until Ctrl-C: of a host's sweeps with --host."""
    from orchestrator.commands import serve

    if host is not None:
        ui_on(host, inventory)
    with bad_input_exits():
        serve(
            state_dir,
            port,
            page_teller("MLflow UI"),
            tracking_uri,
        )
