"""The command line: parse, call, print.

Exit codes: 0 done, 2 bad input, 3 no trial, 4 a host is not ready, 130 cut.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from orchestrator.choices import Driver, HostChoice
from orchestrator.exit_codes import BAD_INPUT, NO_TRIAL, NOT_READY, worst
from sweeps.hosts import EngineName
from sweeps.problems import BadInputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help and errors: the framed ones cost half of the start
    help="Sweeps of speculative decoding and communication settings for SGLang.",
)

SpaceFile = Annotated[Path, typer.Argument(help="A space file, such as search_spaces/ngram.py.")]
StateDir = Annotated[Path, typer.Option(help="Where studies, results and logs are kept.")]
Engine = Annotated[EngineName, typer.Option(help="Which program answers as SGLang.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Truth = Annotated[str | None, typer.Option(help="Which host is emulated.")]
TimeScale = Annotated[float | None, typer.Option(min=0.001, help="Times faster than life.")]
Scenario = Annotated[Path | None, typer.Option(help="TOML: what goes wrong on an emulated host.")]
SweepId = Annotated[str | None, typer.Option("--sweep", help="The id of a sweep.")]

DEFAULT_STATE = Path(".sweeps")


@app.command()
def sweep(  # noqa: PLR0913 - each is an option of the command
    space_file: SpaceFile,
    state_dir: StateDir = DEFAULT_STATE,
    engine: Engine = EngineName.AUTO,
    trials: Annotated[int | None, typer.Option(min=1, help="Replaces the file's budget.")] = None,
    driver: Annotated[Driver, typer.Option(help="What moves the trials.")] = Driver.RAY,
    truth: Truth = None,
    time_scale: TimeScale = None,
    scenario: Scenario = None,
    resume: Annotated[bool, typer.Option(help="Continue the last sweep of this file.")] = False,
) -> None:
    """Run a sweep: start each variant, measure it, and find the best."""
    from orchestrator.sweeping import run_sweep

    with _bad_input_exits():
        choice = HostChoice(engine, truth, time_scale, scenario)
        code = run_sweep(space_file, state_dir, choice, trials, driver=driver, resume=resume)
    raise typer.Exit(code)


@app.command()
def check(
    space_file: Annotated[
        Path | None, typer.Argument(help="A space file; with --host it may be left out.")
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="HOST", help="With --host: only the host named so.")
    ] = None,
    host: Annotated[
        bool, typer.Option("--host", help="Probe the hosts of the file, or this machine.")
    ] = False,
    state_dir: StateDir = DEFAULT_STATE,
    engine: Engine = EngineName.AUTO,
    truth: Truth = None,
    as_json: AsJson = False,
) -> None:
    """Check a space file and show what it spans. Starts nothing.

    With --host, look at the hosts as well and say what a sweep would meet there. Only probes are
    started. Exits with 0 if all are ready, 2 if one cannot be used, 4 if one is not ready yet.
    """
    with _bad_input_exits():
        if host:
            _check_hosts(space_file, name, HostChoice(engine, truth), state_dir, as_json=as_json)
        _check_file(space_file, name, HostChoice(engine, truth), as_json=as_json)


def _check_file(
    space_file: Path | None, name: str | None, choice: HostChoice, *, as_json: bool
) -> None:
    from orchestrator.commands import describe, load
    from orchestrator.pages import print_space

    if space_file is None:
        raise typer.BadParameter("name one, or ask for --host", param_hint="SPACE_FILE")
    if name is not None:
        raise typer.BadParameter("a host is named with --host only", param_hint="HOST")
    loaded = load(space_file, choice)
    if as_json:
        _print_json(describe(loaded))
    else:
        print_space(loaded)


def _check_hosts(
    space_file: Path | None,
    name: str | None,
    choice: HostChoice,
    state_dir: Path,
    *,
    as_json: bool,
) -> NoReturn:
    from orchestrator.host_check import check_hosts
    from orchestrator.state import State

    checks = check_hosts(space_file, name, choice, State(state_dir))
    if as_json:
        _print_json([check.as_data() for check in checks])
    else:
        from orchestrator.host_page import print_host_pages

        print_host_pages(checks)
    raise typer.Exit(worst(check.exit_code for check in checks))


@app.command()
def plan(
    space_file: SpaceFile,
    engine: Engine = EngineName.AUTO,
    samples: Annotated[int, typer.Option(min=0, help="Configurations beside the baseline.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Show the commands and environments that a sweep would start. Starts nothing."""
    from orchestrator.commands import load, plans
    from orchestrator.pages import print_plans

    with _bad_input_exits():
        made = plans(load(space_file, HostChoice(engine)), samples)
    if as_json:
        _print_json([{"config": dict(config), **p.as_data()} for config, p in made])
    else:
        print_plans(made)


@app.command()
def trials(
    state_dir: StateDir = DEFAULT_STATE,
    sweep_id: SweepId = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, for spreadsheets.")] = False,
) -> None:
    """List the trials of all sweeps, or of one."""
    from orchestrator.commands import trial_rows
    from orchestrator.pages import print_trials

    with _bad_input_exits():
        rows = trial_rows(state_dir, sweep_id)
    if as_json:
        _print_json(rows)
    elif as_csv:
        from orchestrator.frame import trials_frame

        typer.echo(trials_frame(rows).to_csv(index=False), nl=False)
    else:
        print_trials(rows)


@app.command()
def explain(
    trial: Annotated[str, typer.Argument(help="A trial's id, its number, or `best`.")],
    state_dir: StateDir = DEFAULT_STATE,
    sweep_id: SweepId = None,
    as_json: AsJson = False,
) -> None:
    """Say what a trial measured, what it did not, and what may be concluded from it."""
    from orchestrator.commands import explain_trial
    from orchestrator.pages import print_explanation

    with _bad_input_exits():
        explanation = explain_trial(state_dir, trial, sweep_id)
    if explanation is None:
        typer.echo("No trial of this sweep was measured, so there is no best one.", err=True)
        raise typer.Exit(NO_TRIAL)
    if as_json:
        _print_json(explanation.as_data())
    else:
        print_explanation(explanation)


@app.command()
def export(
    state_dir: StateDir = DEFAULT_STATE,
    sweep_id: SweepId = None,
    form: Annotated[str, typer.Option("--format", help="json or sh.")] = "sh",
    output: Annotated[Path | None, typer.Option(help="A file; standard output if none.")] = None,
) -> None:
    """Write the best configuration of the newest sweep, or of one named."""
    from orchestrator.commands import export_best

    with _bad_input_exits():
        text = export_best(state_dir, sweep_id, form)
    if text is None:
        typer.echo("No trial of this sweep was measured, so there is nothing to export.", err=True)
        raise typer.Exit(NO_TRIAL)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text)
        if form == "sh":
            output.chmod(0o755)


@app.command()
def ui(
    state_dir: StateDir = DEFAULT_STATE,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 5000,
) -> None:
    """Serve the MLflow UI on the loopback until Ctrl-C."""
    from orchestrator.commands import serve

    with _bad_input_exits():
        serve(state_dir, port, lambda address: typer.echo(f"MLflow UI: {address} (Ctrl-C ends)"))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def emulate(
    context: typer.Context,
    time_scale: TimeScale = None,
    truth: Truth = None,
    scenario: Scenario = None,
    version: Annotated[str | None, typer.Option(help="The SGLang that it resembles.")] = None,
) -> None:
    """Run an EMULATED SGLang server here, with SGLang's own flags."""
    from orchestrator.commands import emulate_server

    with _bad_input_exits():
        choice = HostChoice(EngineName.EMULATED, truth, time_scale or 1.0, scenario)
        emulate_server(context.args, choice, version)


@app.command()
def rebuild(state_dir: StateDir = DEFAULT_STATE, sweep_id: SweepId = None) -> None:
    """Make MLflow's store again from the trials' own files, of all sweeps or of one."""
    from orchestrator.sweeping import rebuild_tracker

    with _bad_input_exits():
        made = rebuild_tracker(state_dir, sweep_id)
    typer.echo(f"{made.trials} trials of {len(made.sweeps)} sweeps are in MLflow again.")
    if made.recovered:
        typer.echo(f"{made.recovered} results were found in spools only.")
    for path in made.damaged:
        typer.echo(f"damaged: {path}")


@app.command()
def clean(state_dir: StateDir = DEFAULT_STATE) -> None:
    """Remove what dead sweeps left: processes, shared memory, temporary folders, locks."""
    from orchestrator.sweeping import clean_up

    with _bad_input_exits():
        found = clean_up(state_dir)
    for leftover in found:
        typer.echo(f"{leftover.kind.value}: {leftover.what}")
    if not found:
        typer.echo("Nothing was left.")


@contextmanager
def _bad_input_exits() -> Iterator[None]:
    """Print what is wrong with an input, each problem on its line, and exit with 2."""
    from orchestrator.journal import DiskError

    try:
        yield
    except DiskError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(NOT_READY) from error
    except BadInputError as error:
        typer.echo(f"{error.source} cannot be used:", err=True)
        for problem in error.problems:
            typer.echo(f"  {problem}", err=True)
        raise typer.Exit(BAD_INPUT) from error


def _print_json(data: Any) -> None:
    json.dump(data, sys.stdout, indent=1)
    sys.stdout.write("\n")
