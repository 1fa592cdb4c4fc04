"""What each command does, apart from parsing and printing."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from infra.engines import ENGINES, emulated_environment
from orchestrator.choices import Driver, HostChoice
from orchestrator.exit_codes import DONE, INTERRUPTED, NO_TRIAL
from orchestrator.explain import BEST, evidence_of, find_trial
from orchestrator.signals import terminate_like_interrupt
from orchestrator.space_file import emulation_problems, load_sweep, prepare, settle_host
from orchestrator.state import State, StateInUseError, StateUnusableError, new_sweep_id
from sweeps.config import Config
from sweeps.explaining import Explanation, explain
from sweeps.exporters import EXPORTERS
from sweeps.exporters.recommendation import recommend
from sweeps.hosts import EngineName, HostSpec
from sweeps.launch import LaunchPlan
from sweeps.metrics import METRICS, known_metric
from sweeps.problems import BadInputError, Problem, nearest
from sweeps.ranking import Ranking, rank
from sweeps.results import TrialResult
from sweeps.sampling import valid_samples
from sweeps.sweep import Sweep

if TYPE_CHECKING:
    from orchestrator.sweep_run import SweepRun

logger = logging.getLogger(__name__)

EXPERIMENT = "sweeps"
"""MLflow's experiment that holds all sweeps of a state folder."""

TRACKER_CLOSE_S = 120.0
"""Wall seconds that the end of a sweep waits for its tracker."""

_EMULATE = "Add `--engine emulated`, or leave out `--driver simulated`."

SHOWN_PORT = 30000
"""The port in plans that are only shown; a trial gets a free one."""


def load(space_file: Path, choice: HostChoice) -> Sweep:
    """Read and check a space file. Raises BadInputError."""
    return prepare(load_sweep(space_file), space_file, choice)


def describe(sweep: Sweep) -> dict[str, object]:
    """Return what `check` shows, as plain data."""
    count = sweep.space.count()
    return {
        "name": sweep.name,
        "key": sweep.key,
        "configurations": count.configs,
        "exact": count.exact,
        "axes": [axis.as_data() for axis in sweep.axes],
        "rules": [rule.message for rule in sweep.rules],
        "baseline": dict(sweep.space.plain()),
        "trials": sweep.budget.trials,
        "hosts": [host.as_data() for host in sweep.hosts],
    }


def plans(sweep: Sweep, samples: int) -> list[tuple[Config, LaunchPlan]]:
    """Return the launch plans of the baseline and of some configurations, on the first host."""
    host = sweep.hosts[0]
    configs = [sweep.space.plain(), *islice(valid_samples(sweep.space, sweep.seed), samples)]
    made = []
    for config in configs:
        settings = sweep.settings(config)
        plan = ENGINES[host.engine].plan(settings, host, SHOWN_PORT, sweep.budget.deadlines)
        made.append((config, plan))
    return made


def run_sweep(
    space_file: Path,
    state_dir: Path,
    choice: HostChoice,
    trials: int | None,
    *,
    driver: Driver,
    resume: bool,
) -> int:
    """Run a sweep to its end and return the exit code. Raises BadInputError before it starts."""
    from orchestrator.pages import print_summary

    sweep = load(space_file, choice)
    if driver is Driver.SIMULATED:
        _refuse_simulation(sweep, space_file)
    if trials is not None:
        sweep = replace(sweep, budget=replace(sweep.budget, trials=trials))
    state = State(state_dir)
    sweep_id = _last_like(state, sweep, space_file) if resume else new_sweep_id(sweep.name)
    with _locked(state, sweep_id):
        _end_leftovers(state)
        card = _card(sweep, space_file)
        state.write_card(sweep_id, {**card, "status": "running"})
        _log_to(state.sweep_folder(sweep_id) / "driver.log")
        hosts = [_with_folder(host, state) for host in sweep.hosts]
        status, run = _drive(sweep_id, replace(sweep, hosts=hosts), state, driver)
        state.write_card(sweep_id, {**card, "status": status})
        ranking = ranking_of(sweep.objective.metric, run.results)
        print_summary(sweep_id, state_dir, status, ranking, run.results, sweep.objective.metric)
    if status == "interrupted":
        return INTERRUPTED
    return DONE if ranking.best is not None else NO_TRIAL


def ranking_of(metric: str, results: list[TrialResult]) -> Ranking:
    """Rank the trials of a sweep by its objective."""
    return rank(results, metric, higher_is_better=bool(known_metric(metric).higher_is_better))


def trial_rows(state_dir: Path, sweep_id: str | None) -> list[dict[str, object]]:
    """Return a row for each trial that has ended: of one sweep, or of all, oldest first."""
    state = State(state_dir)
    wanted = [_known(state, sweep_id)] if sweep_id else state.sweep_ids()
    return [_row(result) for one in wanted for result in state.results(one)]


def export_best(state_dir: Path, sweep_id: str | None, form: str) -> str | None:
    """Return the best configuration in a format; None where no trial was measured."""
    if form not in EXPORTERS:
        mend = nearest(form, EXPORTERS) or f"There are {', '.join(EXPORTERS)}."
        raise _bad("--format", form, "there is no such format", mend)
    state = State(state_dir)
    chosen = _known(state, sweep_id) if sweep_id else _newest(state, state_dir)
    metric = str(state.card(chosen)["objective"])
    results = state.results(chosen)
    ranking = ranking_of(metric, results)
    if ranking.best is None:
        return None
    return EXPORTERS[form](recommend(ranking, results, metric, known_metric(metric).unit))


def explain_trial(state_dir: Path, trial: str, sweep_id: str | None) -> Explanation | None:
    """Explain a trial by its id; `best` and bare numbers are those of the newest sweep.

    None where a sweep has no best trial. Raises BadInputError.
    """
    state = State(state_dir)
    newest = _newest(state, state_dir)
    if sweep_id:
        among = [_known(state, sweep_id)]
    elif trial == BEST or trial.isdecimal():
        among = [newest]
    else:
        among = state.sweep_ids()
    found = find_trial(state, trial, among)
    return None if found is None else explain(evidence_of(state, found))


def serve(state_dir: Path, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve the MLflow UI until interrupted; `on_ready` gets the page to open."""
    from orchestrator.tracking.ui import UiError, serve_ui, sweeps_page

    state = State(state_dir)
    if not state.sweep_ids():
        raise _bad("--state-dir", str(state_dir), "no sweep lies there", "Run a sweep first.")
    try:
        serve_ui(
            state.mlflow_uri,
            state.artifact_root,
            port,
            state.root / "ui.log",
            on_ready=lambda address: on_ready(sweeps_page(address, EXPERIMENT)),
        )
    except UiError as error:
        raise _bad("--port", str(port), str(error), "Try another port.") from error


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


def clean_up(state_dir: Path) -> dict[str, int]:
    """End the processes of sweeps of a state folder whose driver is gone."""
    state = State(state_dir)
    with _locked(state, "clean"):
        return _end_leftovers(state)


def _with_folder(host: HostSpec, state: State) -> HostSpec:
    """Give an emulated host its memory from server to server."""
    return replace(host, folder=str(state.host_folder(host.name))) if host.emulated else host


def _refuse_simulation(sweep: Sweep, space_file: Path) -> None:
    real = [host for host in sweep.hosts if not host.emulated]
    if real:
        why = "only an emulated host can live on a simulated clock"
        problem = Problem(f"hosts.{real[0].name}.engine", real[0].engine.value, why, _EMULATE)
        raise BadInputError(str(space_file), [problem])


def _drive(sweep_id: str, sweep: Sweep, state: State, driver: Driver) -> tuple[str, "SweepRun"]:
    from rich.console import Console

    from infra import reaper
    from orchestrator.display import follower_for
    from orchestrator.search.study import StudySearch
    from orchestrator.sweep_run import Attendants, SweepRun
    from orchestrator.tracking.mlflow_writer import MlflowWriter

    console = Console()
    tracker = MlflowWriter(state.mlflow_uri, state.artifact_root, EXPERIMENT)
    search = StudySearch(sweep, state.study_path, sweep_id, state.results(sweep_id))
    attendants = Attendants(tracker, [follower_for(console)])
    run = SweepRun(sweep_id, sweep, state, search, attendants)
    run.start()
    status = "failed"
    try:
        _run_driver(run, state, driver)
        status = "finished" if run.is_over else "interrupted"
    except KeyboardInterrupt:
        status = "interrupted"
    finally:
        reaper.reap(sweep_id)
        run.end(status)
        closed = tracker.close(TRACKER_CLOSE_S)
        logger.info("sweep=%s tracker closed: %s", sweep_id, closed)
        if not closed:
            logger.warning("MLflow did not take everything; the results are all in %s", state.root)
    return status, run


def _run_driver(run: "SweepRun", state: State, driver: Driver) -> None:
    match driver:
        case Driver.RAY:
            from orchestrator import ray_driver

            ray_driver.drive(run, state)
        case Driver.SERIAL:
            from orchestrator import serial_driver
            from orchestrator.tools import local_tools

            with terminate_like_interrupt():
                serial_driver.drive(run, local_tools)
        case Driver.SIMULATED:
            from orchestrator import simulation

            with terminate_like_interrupt():
                simulation.drive(run)


@contextmanager
def _locked(state: State, who: str) -> Iterator[None]:
    try:
        with state.lock(who):
            yield
    except StateInUseError as error:
        mend = "Wait for it, or use another --state-dir."
        raise _bad("--state-dir", str(state.root), f"in use by {error}", mend) from error
    except StateUnusableError as error:
        mend = "Use another --state-dir."
        raise _bad("--state-dir", str(state.root), str(error), mend) from error


def _end_leftovers(state: State) -> dict[str, int]:
    from infra import reaper

    ours = set(state.sweep_ids())
    return {name: reaper.reap(name) for name in reaper.all_tags() if name in ours}


def _last_like(state: State, sweep: Sweep, space_file: Path) -> str:
    """Find the newest sweep of this file, to continue it."""
    for sweep_id in reversed(state.sweep_ids()):
        card = state.card(sweep_id)
        if card.get("name") != sweep.name:
            continue
        if card.get("key") != sweep.key:
            why = f"the file has changed since {sweep_id}, so its trials do not compare"
            raise _bad("--resume", space_file.name, why, "Run it without --resume.")
        return sweep_id
    raise _bad("--resume", space_file.name, "it was never run here", "Run it without --resume.")


def _card(sweep: Sweep, space_file: Path) -> dict[str, object]:
    return {
        "name": sweep.name,
        "key": sweep.key,
        "file": str(space_file),
        "created_at": datetime.now(UTC).isoformat(),
        "objective": sweep.objective.metric,
        "workload": sweep.workload.as_data(),
        "emulated": any(host.emulated for host in sweep.hosts),
        "hosts": [host.as_data() for host in sweep.hosts],
    }


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


def _known(state: State, sweep_id: str) -> str:
    if state.card(sweep_id):
        return sweep_id
    mend = nearest(sweep_id, state.sweep_ids()) or "`orchestrator trials` lists them."
    raise _bad("--sweep", sweep_id, "there is no such sweep", mend)


def _newest(state: State, state_dir: Path) -> str:
    ids = state.sweep_ids()
    if not ids:
        raise _bad("--state-dir", str(state_dir), "no sweep lies there", "Run a sweep first.")
    return ids[-1]


def _bad(field: str, value: str, why: str, mend: str) -> BadInputError:
    return BadInputError("The command line", [Problem(field, value, why, mend)])


def _log_to(path: Path) -> None:
    """Log to a file; only warnings reach the terminal, where the display is drawn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    form = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    file = logging.FileHandler(path)
    file.setFormatter(form)
    console = logging.StreamHandler()
    console.setLevel(logging.WARNING)
    console.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    ours = [logging.getLogger(name) for name in ("orchestrator", "infra", "sweeps")]
    for log in ours:
        log.setLevel(logging.INFO)
        log.handlers = [file, console]
        log.propagate = False
