"""Commands that look at a space file and run it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import click
import typer

from orchestrator.choices import ClusterChoice, Driver, HostChoice, Sent
from orchestrator.cli.hosts import DEFAULT_INVENTORY, Inventory
from orchestrator.cli.options import (
    DEFAULT_STATE,
    AsJson,
    Engine,
    Scenario,
    SpaceFile,
    StateDir,
    TimeScale,
    TrackingUri,
    Truth,
    bad_input_exits,
    print_json,
    print_problems,
)
from orchestrator.cli.remote import Detach, Elsewhere, OnHost, Patience, Send, sweep_on
from orchestrator.exit_codes import BAD_INPUT, INTERRUPTED, NOT_READY, worst
from sweeps.hosts import EngineName

if TYPE_CHECKING:
    from orchestrator.continuing import EditedError, Wish


def sweep(  # noqa: PLR0913 - each is an option of the command
    space_file: SpaceFile,
    state_dir: StateDir = DEFAULT_STATE,
    engine: Engine = EngineName.AUTO,
    trials: Annotated[int | None, typer.Option(min=1, help="Replaces the file's budget.")] = None,
    driver: Annotated[Driver, typer.Option(help="What moves the trials.")] = Driver.RAY,
    truth: Truth = None,
    time_scale: TimeScale = None,
    scenario: Scenario = None,
    resume: Annotated[bool, typer.Option("--resume", help="Demand the last sweep of it.")] = False,
    with_edits: Annotated[
        bool, typer.Option("--continue", help="The same with an edited file: keep what fits.")
    ] = False,
    new: Annotated[bool, typer.Option("--new", help="Begin another sweep.")] = False,
    host: OnHost = None,
    hosts: Annotated[
        str, typer.Option(help="Several machines of the inventory, with commas: over Ray.")
    ] = "",
    ray_address: Annotated[
        str, typer.Option(help="The nodes with GPUs of a Ray cluster that is there.")
    ] = "",
    inventory: Inventory = DEFAULT_INVENTORY,
    tracking_uri: TrackingUri = None,
    detach: Detach = False,
    patience: Patience = None,
    send: Send = None,
    sent: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a sweep: start each variant, measure it, and find the best.

    The last sweep of the same file goes on if it did not come to its end. With --host it runs on
    that host, whatever happens here: Ctrl-C only ends the following.
    """
    from infra.host import HostError
    from orchestrator.continuing import EditedError, Wish
    from orchestrator.sweeping import run_sweep

    asked = {Wish.RESUME: resume, Wish.CONTINUE: with_edits, Wish.NEW: new}
    wishes = [wish for wish, is_asked in asked.items() if is_asked]
    if len(wishes) > 1:
        raise typer.BadParameter("one excludes the other", param_hint=" and ".join(wishes))
    wish = wishes[0] if wishes else Wish.AUTO
    choice = HostChoice(engine, truth, time_scale, scenario, _sent(sent) if sent else None)
    if host is not None and (hosts or ray_address):
        raise typer.BadParameter("one excludes the other", param_hint="--host and --hosts")
    if host is not None:
        options = [*wishes, "--driver", driver.value]
        options += [] if trials is None else ["--trials", str(trials)]
        options += _store_options(tracking_uri)
        where = Elsewhere(host, inventory, detach, patience, send or [])
        sweep_on(where, space_file, state_dir, choice, options)
    names = tuple(filter(None, (name.strip() for name in hosts.split(","))))
    machines = ClusterChoice(names, inventory, ray_address)

    def run(wish: Wish) -> int:
        return run_sweep(
            space_file, state_dir, choice, trials,
            driver=driver, wish=wish, machines=machines, store=tracking_uri,
        )  # fmt: skip

    with bad_input_exits():
        try:
            code = run(wish)
        except EditedError as edited:
            answer = _answer(edited) if edited.can_continue else None
            if answer is None:
                raise
            code = run(answer)
        except HostError as error:
            typer.echo(str(error), err=True)
            code = NOT_READY
        except KeyboardInterrupt:
            typer.echo("interrupted before the first trial", err=True)
            code = INTERRUPTED
    raise typer.Exit(code)


def _store_options(uri: str | None) -> list[str]:
    """Return what a host is told of the store; one that cannot be used is refused here already."""
    from orchestrator.tracking import tracking_uri

    if uri is None:
        return []
    with bad_input_exits():
        return [tracking_uri.OPTION, tracking_uri.tracking_uri("", uri)]


def _sent(path: Path) -> Sent:
    """Read what came with a space file; advice then speaks of the command that was typed there."""
    from orchestrator.remote.sent_file import read_sent

    sent = read_sent(path)
    sys.argv[1:] = sent.typed
    return sent


def _answer(edited: "EditedError") -> "Wish | None":
    """Ask what an edited file means; None where nobody is there, or nothing is wanted."""
    from orchestrator.continuing import Wish

    if not sys.stdin.isatty():
        return None
    print_problems(edited)
    answers = {"continue": Wish.CONTINUE, "new": Wish.NEW, "quit": None}
    told = typer.prompt("continue, new or quit", type=click.Choice(list(answers)), default="quit")
    if answers[told] is None:
        raise typer.Exit(BAD_INPUT)
    return answers[told]


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


def screen(
    space_file: SpaceFile,
    state_dir: StateDir = DEFAULT_STATE,
    engine: Engine = EngineName.AUTO,
    settings: Annotated[int, typer.Option(min=1, help="How many to time on each host.")] = 32,
    truth: Truth = None,
    time_scale: TimeScale = None,
    scenario: Scenario = None,
    as_json: AsJson = False,
) -> None:
    """Time all-reduces under the communication settings of a space. No server, no model.

    Sweeps on the same host then leave out the settings that hang or fail.
    """
    from orchestrator.screening import screen as run_screening
    from orchestrator.screening_page import print_screening, teller

    with bad_input_exits():
        choice = HostChoice(engine, truth, time_scale, scenario)
        with teller() as tell:
            found = run_screening(space_file, state_dir, choice, settings, tell)
    if as_json:
        print_json([one.as_data() for one in found])
    else:
        for one in found:
            print_screening(one)
