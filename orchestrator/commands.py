"""What each command does, apart from parsing and printing."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from infra.engines import ENGINES, emulated_environment
from infra.redaction import Redactor
from orchestrator.choices import HostChoice
from orchestrator.dialect_choice import dialect_notes
from orchestrator.explain import evidence_of
from orchestrator.lookup import known_sweep, known_trial
from orchestrator.refusals import bad_option
from orchestrator.space_file import emulation_problems, load_sweep, prepare, settle_host
from orchestrator.state import State
from orchestrator.tracking.tracking_uri import is_remote, tracking_uri, without_login
from sweeps.config import Config
from sweeps.explaining import Explanation, explain
from sweeps.hosts import EngineName, HostSpec
from sweeps.launch import LaunchPlan
from sweeps.metrics import METRICS
from sweeps.problems import BadInputError, nearest
from sweeps.results import TrialResult
from sweeps.sampling import valid_samples
from sweeps.sweep import Sweep

if TYPE_CHECKING:
    from orchestrator.watching.watcher import Watcher

logger = logging.getLogger(__name__)

SHOWN_PORT = 30000
"""The port in plans that are only shown; a trial gets a free one."""


def load(space_file: Path, choice: HostChoice) -> Sweep:
    """Read and check a space file. Raises BadInputError."""
    return prepare(load_sweep(space_file), space_file, choice)


def describe(sweep: Sweep) -> dict[str, object]:
    """Return what `check` shows, as plain data."""
    count = sweep.space.count()
    redactor = Redactor.from_environment()
    return {
        "name": sweep.name,
        "key": sweep.key,
        "configurations": count.configs,
        "exact": count.exact,
        "axes": [axis.as_data() for axis in sweep.axes],
        "rules": [rule.message for rule in sweep.rules],
        "baseline": dict(sweep.space.plain()),
        "trials": sweep.budget.trials,
        "dialect": str(sweep.workload.dialect),
        "notes": list(dialect_notes(sweep)),
        "unsent": list(sweep.workload.unsent),
        "hosts": [redactor.data(host.as_data()) for host in sweep.hosts],
    }


def plans(sweep: Sweep, samples: int) -> list[tuple[Config, LaunchPlan]]:
    """Return the launch plans of the baseline and of some configurations, on the first host.

    They are to be shown: secrets are masked.
    """
    host = sweep.hosts[0]
    configs = [sweep.space.plain(), *islice(valid_samples(sweep.space, sweep.seed), samples)]
    made = []
    for config in configs:
        settings = sweep.settings(config)
        plan = ENGINES[host.engine].plan(settings, host, SHOWN_PORT, sweep.budget.deadlines)
        made.append((config, _masked(plan)))
    return made


def _masked(plan: LaunchPlan) -> LaunchPlan:
    shown = {"argv": list(plan.argv), "env": dict(plan.env)}
    masked: Any = Redactor.from_environment().data(shown)
    return replace(plan, argv=tuple(masked["argv"]), env=tuple(masked["env"].items()))


def trial_rows(state_dir: Path, sweep_id: str | None) -> list[dict[str, object]]:
    """Return a row for each trial that has ended: of one sweep, or of all, oldest first."""
    state = State(state_dir)
    aside = {one: state.set_aside(one) for one in state.sweep_ids()}
    return [
        {**_row(result), "aside": result.number in aside[result.sweep]}
        for result in trial_results(state_dir, sweep_id)
    ]


def trial_results(state_dir: Path, sweep_id: str | None) -> list[TrialResult]:
    """Return the trials that have ended: of one sweep, or of all, oldest first.

    Raises BadInputError.
    """
    state = State(state_dir)
    wanted = [known_sweep(state, sweep_id)] if sweep_id else state.sweep_ids()
    return [result for one in wanted for result in state.ended(one)]


def write_parquet(state_dir: Path, sweep_id: str | None, path: Path) -> int:
    """Write the table of `orchestrator.load` to a file; return its rows. Raises BadInputError."""
    from orchestrator.frame import results_frame

    results = trial_results(state_dir, sweep_id)
    with _writable("--parquet", path):
        results_frame(results).to_parquet(path, index=False)
    return len(results)


@contextmanager
def _writable(option: str, path: Path) -> Iterator[None]:
    """Turn a file that cannot be written into bad input."""
    try:
        yield
    except OSError as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        why = f"it cannot be written: {cause.strerror or cause}"
        mend = "Name a file in a folder that you may write to."
        raise bad_option(option, str(path), why, mend) from error


def make_report(
    state_dir: Path, sweep_id: str | None, form: str, output: Path | None
) -> tuple[str, bool]:
    """Write the report of the newest sweep, or of one named, to a file if one is given.

    Returns its text, and whether anything was measured. Raises BadInputError.
    """
    from orchestrator.files import write_text
    from orchestrator.reporting import FORMS, report

    if form not in FORMS:
        mend = nearest(form, FORMS) or f"There are {', '.join(FORMS)}."
        raise bad_option("--format", form, "there is no such format", mend)
    state = State(state_dir)
    text, story = report(state, known_sweep(state, sweep_id), form)
    if output is not None:
        with _writable("--output", output):
            write_text(output, text)
    return text, story.answer is not None


def explain_trial(state_dir: Path, trial: str, sweep_id: str | None) -> Explanation | None:
    """Explain a trial by its id; `best` and bare numbers are those of the newest sweep.

    None where a sweep has no best trial. Raises BadInputError.
    """
    state = State(state_dir)
    found = known_trial(state, trial, sweep_id)
    return None if found is None else explain(evidence_of(state, found))


def watched(state_dir: Path, sweep_id: str | None) -> "Watcher":
    """Return who looks at a sweep from outside, or at the newest one. Raises BadInputError."""
    from orchestrator.watching.watcher import Watcher

    state = State(state_dir)
    return Watcher(state, known_sweep(state, sweep_id, verifications=True))


def serve_watch(
    state_dir: Path, sweep_id: str | None, port: int, on_ready: Callable[[str], None]
) -> None:
    """Serve the page of a running sweep until interrupted. Raises BadInputError."""
    from orchestrator.watching.page import Board, serve_page

    board = Board(watched(state_dir, sweep_id).look)
    try:
        serve_page(board, port, on_ready)
    except OSError as error:
        raise bad_option("--port", str(port), str(error), "Try another port.") from error


def serve(
    state_dir: Path, port: int, on_ready: Callable[[str], None], store: str | None = None
) -> None:
    """Serve the MLflow UI until interrupted; `on_ready` gets the page to open.

    `store` is the address of the store where a command names one.
    Where the tracker is a server already, that is all: it serves its own.
    """
    from orchestrator.tracking.ui import UiError, serve_ui, sweeps_page
    from orchestrator.tracking.ui_view import EXPERIMENT

    state = State(state_dir)
    known_sweep(state, None)
    uri = tracking_uri(state.mlflow_uri, store)
    if is_remote(uri):
        on_ready(sweeps_page(without_login(uri), EXPERIMENT))
        return
    try:
        serve_ui(
            uri,
            state.artifact_root,
            port,
            state.root / "ui.log",
            on_ready=lambda address: on_ready(sweeps_page(address, EXPERIMENT)),
        )
    except UiError as error:
        raise bad_option("--port", str(port), str(error), "Try another port.") from error


def emulate_server(flags: list[str], choice: HostChoice, version: str | None) -> NoReturn:
    """Become an emulated server: signals and the exit code are then its own.

    Raises BadInputError.
    """
    host = settle_host(HostSpec(version=version), choice, gpus=0)
    if problems := list(emulation_problems(host, "emulate")):
        raise BadInputError("the command line", problems)
    env = {**os.environ, **emulated_environment(host)}
    argv = [sys.executable, "-m", ENGINES[EngineName.EMULATED].module, *flags]
    os.execve(sys.executable, argv, env)


def _row(result: TrialResult) -> dict[str, object]:
    """Return the fields that scripts rely on, then everything else."""
    rate = result.estimates.get("decode_tok_s")
    data = result.as_data()
    head = {
        name: data[name]
        for name in ("trial", "sweep", "number", "variant", "purpose", "outcome", "reason",
                     "config", "effective", "gpu_hours", "emulated")
    }  # fmt: skip
    head["decode_tok_s"] = rate.value if rate else None
    head["decode_tok_s_low"] = rate.low if rate else None
    head["decode_tok_s_high"] = rate.high if rate else None
    for metric in METRICS:
        head.setdefault(metric, result.value(metric))
    return {**head, **{name: value for name, value in data.items() if name not in head}}
