"""The command that says what a sweep would find, before it is paid for."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.choices import HostChoice
from orchestrator.cli.options import (
    DEFAULT_STATE,
    AsJson,
    Engine,
    SpaceFile,
    StateDir,
    bad_input_exits,
    print_json,
)
from sweeps.hosts import EngineName


def predict(
    space_file: SpaceFile,
    recording: Annotated[
        Path | None, typer.Option(help="JSONL of completions: what the drafter would see.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="TOML or JSON: a plain step, and what a verify costs.")
    ] = None,
    state_dir: StateDir = DEFAULT_STATE,
    engine: Engine = EngineName.AUTO,
    as_json: AsJson = False,
) -> None:
    """Predict tok/s and break-even of every cell, and what to measure next. Starts nothing.

    It uses the trials of the newest sweep of this file, if there are any. Without, it rests on the
    profile, or on published figures of one host, and says that it is a prior.
    """
    from orchestrator.predicting import predict_space

    with bad_input_exits():
        found = predict_space(space_file, HostChoice(engine), state_dir, recording, profile)
    if as_json:
        print_json(found.as_data())
    else:
        from orchestrator.prediction_page import print_prediction

        print_prediction(found, space_file.name)
