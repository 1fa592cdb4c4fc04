"""Commands that measure again what was exported."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.choices import Driver, HostChoice
from orchestrator.cli.hosts import DEFAULT_INVENTORY, Inventory
from orchestrator.cli.options import (
    DEFAULT_STATE,
    AsJson,
    StateDir,
    TimeScale,
    Truth,
    bad_input_exits,
    finite,
    print_json,
)
from orchestrator.exit_codes import NOT_READY

if TYPE_CHECKING:
    from orchestrator.proof_plan import ProofChoice

Starts = Annotated[int, typer.Option(min=1, help="Fresh starts of each side.")]
Within = Annotated[
    float | None,
    typer.Option(
        min=0.001, callback=finite, help="Percent that are no difference; the sweep's own if none."
    ),
]
Edited = Annotated[bool, typer.Option("--edited", help="Measure a file as it was edited.")]
OneDriver = Annotated[Driver, typer.Option(help="What moves the starts.")]
HostName = Annotated[
    str | None, typer.Option("--host", help="A host of the inventory, or of a sweep here.")
]
Python = Annotated[str | None, typer.Option(help="Another interpreter with SGLang.")]
Prompts = Annotated[Path | None, typer.Option(help="Where the sweep's file of prompts lies.")]


def verify(  # noqa: PLR0913 - each is an option of the command
    file: Annotated[str, typer.Argument(help="A file of `export`, or a trial.")],
    state_dir: StateDir = DEFAULT_STATE,
    starts: Starts = 2,
    within: Within = None,
    with_plain: Annotated[
        bool, typer.Option("--with-plain", help="Judge the gain, with plain decode in turns.")
    ] = False,
    edited: Edited = False,
    host: HostName = None,
    inventory: Inventory = DEFAULT_INVENTORY,
    python: Python = None,
    prompts: Prompts = None,
    driver: OneDriver = Driver.SERIAL,
    truth: Truth = None,
    time_scale: TimeScale = None,
    as_json: AsJson = False,
) -> None:
    """Start what was exported again, and say whether its figure holds.

    Exits with 0 if it does, 5 if it does not, 6 if that stays undecided, 3 without a figure.
    """
    from orchestrator.proof_plan import ProofChoice

    with bad_input_exits():
        machine = HostChoice(truth=truth, time_scale=time_scale)
        choice = ProofChoice(starts, _fraction(within), with_plain, driver, host, machine, python,
                             prompts, inventory)  # fmt: skip
        code = _prove([file], state_dir, choice, edited=edited, as_json=as_json)
    raise typer.Exit(code)


def compare(  # noqa: PLR0913 - each is an option of the command
    one: Annotated[str, typer.Argument(metavar="A", help="A file of `export`, or a trial.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    state_dir: StateDir = DEFAULT_STATE,
    starts: Starts = 2,
    within: Within = None,
    edited: Edited = False,
    host: HostName = None,
    inventory: Inventory = DEFAULT_INVENTORY,
    python: Python = None,
    prompts: Prompts = None,
    driver: OneDriver = Driver.SERIAL,
    truth: Truth = None,
    time_scale: TimeScale = None,
    as_json: AsJson = False,
) -> None:
    """Start two plans in turns, A-B-B-A, and say which is faster, and by how much.

    Exits with 0 if they are alike, 5 if not, 6 if that stays undecided, 3 without figures.
    """
    from orchestrator.proof_plan import ProofChoice

    with bad_input_exits():
        machine = HostChoice(truth=truth, time_scale=time_scale)
        choice = ProofChoice(starts, _fraction(within), False, driver, host, machine, python,
                             prompts, inventory)  # fmt: skip
        code = _prove([one, other], state_dir, choice, edited=edited, as_json=as_json)
    raise typer.Exit(code)


def _fraction(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _prove(
    named: list[str], state_dir: Path, choice: "ProofChoice", *, edited: bool, as_json: bool
) -> int:
    from infra.host import HostError
    from orchestrator.proof_page import print_plan, print_proof
    from orchestrator.proving import Proving, proving_on
    from orchestrator.state import State
    from orchestrator.subjects import subject_of

    state = State(state_dir)
    subjects = [subject_of(one, state, edited=edited) for one in named]
    try:
        with proving_on(choice, state) as (ready, cluster):
            proving = Proving(state, subjects, ready, cluster)
            print_plan(proving)
            proof = proving.run()
    except HostError as error:
        typer.echo(str(error), err=True)
        return NOT_READY
    if as_json:
        print_json(proof.as_data())
    else:
        print_proof(proof, state_dir)
    return proof.exit_code
