"""Commands that look at a space file and run it."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from orchestrator.choices import Driver, HostChoice
from orchestrator.cli.options import (
    DEFAULT_STATE,
    AsJson,
    Engine,
    Scenario,
    SpaceFile,
    StateDir,
    TimeScale,
    Truth,
    bad_input_exits,
    print_json,
)
from orchestrator.exit_codes import worst
from sweeps.hosts import EngineName


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

    with bad_input_exits():
        choice = HostChoice(engine, truth, time_scale, scenario)
        code = run_sweep(space_file, state_dir, choice, trials, driver=driver, resume=resume)
    raise typer.Exit(code)


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
    with bad_input_exits():
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
        print_json(describe(loaded))
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
        print_json([check.as_data() for check in checks])
    else:
        from orchestrator.host_page import print_host_pages

        print_host_pages(checks)
    raise typer.Exit(worst(check.exit_code for check in checks))


def plan(
    space_file: SpaceFile,
    engine: Engine = EngineName.AUTO,
    samples: Annotated[int, typer.Option(min=0, help="Configurations beside the baseline.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Show the commands and environments that a sweep would start. Starts nothing."""
    from orchestrator.commands import load, plans
    from orchestrator.pages import print_plans

    with bad_input_exits():
        made = plans(load(space_file, HostChoice(engine)), samples)
    if as_json:
        print_json([{"config": dict(config), **p.as_data()} for config, p in made])
    else:
        print_plans(made)
