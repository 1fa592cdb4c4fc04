"""What commands share: their common options, and how they end on bad input."""

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from orchestrator.exit_codes import BAD_INPUT, NOT_READY
from sweeps.hosts import EngineName
from sweeps.problems import BadInputError


def finite(value: float | None) -> float | None:
    """Refuse what is no finite number: `nan` is neither below nor above a limit."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no finite number.")
    return value


SpaceFile = Annotated[Path, typer.Argument(help="A space file, such as search_spaces/ngram.py.")]
StateDir = Annotated[Path, typer.Option(help="Where studies, results and logs are kept.")]
Engine = Annotated[EngineName, typer.Option(help="Which program answers as SGLang.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Truth = Annotated[str | None, typer.Option(help="Which host is emulated.")]
TimeScale = Annotated[
    float | None, typer.Option(min=0.001, callback=finite, help="Times faster than life.")
]
Scenario = Annotated[Path | None, typer.Option(help="TOML: what goes wrong on an emulated host.")]
TrackingUri = Annotated[
    str | None,
    typer.Option(help="The MLflow store, before MLFLOW_TRACKING_URI and the state folder's own."),
]
SweepId = Annotated[str | None, typer.Option("--sweep", help="The id of a sweep.")]

DEFAULT_STATE = Path(".sweeps")


@contextmanager
def bad_input_exits() -> Iterator[None]:
    """Print what is wrong with an input, each problem on its line, and exit with 2."""
    from orchestrator.journal import DiskError

    try:
        yield
    except DiskError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(NOT_READY) from error
    except BadInputError as error:
        print_problems(error)
        raise typer.Exit(BAD_INPUT) from error


def print_problems(error: BadInputError) -> None:
    """Print what is wrong with an input, each problem on its line."""
    typer.echo(f"{error.source} cannot be used:", err=True)
    for problem in error.problems:
        typer.echo(f"  {problem}", err=True)


def print_json(data: Any) -> None:
    json.dump(data, sys.stdout, indent=1)
    sys.stdout.write("\n")


def page_teller(title: str) -> Callable[[str], None]:
    """Return what tells the address of a page that is served until Ctrl-C, and who may open it."""

    def tell(address: str) -> None:
        here = urlsplit(address).hostname == "127.0.0.1"
        open_to = "; no login: every user of this machine can open it" if here else ""
        typer.echo(f"{title}: {address} (Ctrl-C ends{open_to})")

    return tell
