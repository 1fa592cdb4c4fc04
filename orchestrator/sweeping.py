"""Runs one sweep from the command line: what is locked, cleared, written down and printed."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from infra import reaper
from infra.host_lock import HostInUseError, host_lock, owner_text
from infra.leftovers import Leftover, LeftoverKind, find_leftovers, remove
from infra.probing.facts import HostFacts
from infra.redaction import RedactingFilter
from infra.runtime_folder import RuntimeFolderError
from orchestrator.choices import Driver, HostChoice
from orchestrator.display import follower_for
from orchestrator.exit_codes import DONE, INTERRUPTED, NO_TRIAL
from orchestrator.goals import ranking_of
from orchestrator.health import SweepHealth
from orchestrator.host_check import load_probed
from orchestrator.pages import print_summary
from orchestrator.rebuild import Rebuilt, rebuild, recover
from orchestrator.refusals import bad_option, locked
from orchestrator.search.known import KnownHost, KnownRules
from orchestrator.search.study import StudySearch
from orchestrator.signals import terminate_like_interrupt
from orchestrator.state import State, new_sweep_id
from orchestrator.stories import ending
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tracking.mlflow_writer import MlflowWriter, check_store
from orchestrator.tracking.tracking_uri import is_remote, shown_uri, tracking_uri
from orchestrator.tracking.ui_view import EXPERIMENT
from sweeps.hosts import HostSpec
from sweeps.problems import BadInputError, Problem
from sweeps.sweep import Sweep

logger = logging.getLogger(__name__)

TRACKER_CLOSE_S = 120.0
"""Wall seconds that the end of a sweep waits for its tracker."""

_EMULATE = "Add `--engine emulated`, or leave out `--driver simulated`."


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
    state = State(state_dir)
    uri = tracking_uri(state.mlflow_uri)
    sweep, facts = load_probed(space_file, choice, state)
    if driver is Driver.SIMULATED:
        _refuse_simulation(sweep, space_file)
    if is_remote(uri) and (why := check_store(uri, state.artifact_root, EXPERIMENT)):
        mend = "Mend the server, or leave MLFLOW_TRACKING_URI out."
        raise bad_option("MLFLOW_TRACKING_URI", shown_uri(uri), why, mend)
    if trials is not None:
        sweep = replace(sweep, budget=replace(sweep.budget, trials=trials))
    sweep_id = _last_like(state, sweep, space_file) if resume else new_sweep_id(sweep.name)
    with locked(state, sweep_id), _hosts_locked(sweep, facts, owner_text(sweep_id, state.root)):
        tell_removed(clear_leftovers(state))
        dead = [one for one in state.sweep_ids() if state.card(one).get("status") == "running"]
        recover(state, sweep_id)
        card = _card(sweep, space_file)
        state.write_card(sweep_id, {**card, "status": "running"})
        _log_to(state.sweep_folder(sweep_id) / "driver.log")
        hosts = [_with_folder(host, state) for host in sweep.hosts]
        ready = replace(sweep, hosts=hosts)
        status, run = _drive(sweep_id, ready, state, driver, facts, dead, uri)
        state.write_card(sweep_id, {**card, "status": status, **ending(run)})
        ranking = ranking_of(sweep.objective, run.results)
        print_summary(sweep_id, state_dir, status, ranking, run)
    if status == "interrupted":
        return INTERRUPTED
    return DONE if ranking.best is not None else NO_TRIAL


def _with_folder(host: HostSpec, state: State) -> HostSpec:
    """Give an emulated host its memory from server to server."""
    return replace(host, folder=str(state.host_folder(host.name))) if host.emulated else host


def _refuse_simulation(sweep: Sweep, space_file: Path) -> None:
    real = [host for host in sweep.hosts if not host.emulated]
    if real:
        why = "only an emulated host can live on a simulated clock"
        problem = Problem(f"hosts.{real[0].name}.engine", real[0].engine.value, why, _EMULATE)
        raise BadInputError(str(space_file), [problem])


def _drive(
    sweep_id: str,
    sweep: Sweep,
    state: State,
    driver: Driver,
    facts: Mapping[str, HostFacts],
    dead: Sequence[str],
    uri: str,
) -> tuple[str, SweepRun]:
    console = Console()
    tracker = MlflowWriter(
        uri,
        state.artifact_root,
        EXPERIMENT,
        outbox_path=state.outbox_path(sweep_id),
        earlier=state.unsent_outboxes(but=sweep_id),
    )
    tracker.close_stale(dead)
    results = state.results(sweep_id)
    health = SweepHealth(sweep, len(results))
    hosts = [KnownHost(name, found.version, found.machine) for name, found in facts.items()]
    guide = KnownRules(sweep, hosts, health.why_closed)
    search = StudySearch(sweep, state.study_path, sweep_id, results, guide)
    attendants = Attendants(tracker, [follower_for(console)])
    fingerprints = {name: found.fingerprint for name, found in facts.items()}
    run = SweepRun(sweep_id, sweep, state, search, attendants, health, fingerprints)
    run.start()
    status = "failed"
    try:
        _run_driver(run, state, driver)
        status = "finished" if run.is_over else "interrupted"
        status = "ended early" if run.health.trouble else status
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


def _run_driver(run: SweepRun, state: State, driver: Driver) -> None:
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


def clear_leftovers(state: State) -> list[Leftover]:
    """Remove what dead sweeps left on this machine; return what was found.

    Those of this state folder are dead, since its lock is ours; others are if nobody holds them.
    """
    try:
        found = find_leftovers(state.sweep_ids())
    except RuntimeFolderError as error:
        raise bad_option("TMPDIR", "", str(error), "Name a folder of your own.") from error
    for leftover in found:
        if not remove(leftover):
            logger.warning("%s could not be removed", leftover.what)
    return found


def rebuild_tracker(state_dir: Path, sweep_id: str | None) -> Rebuilt:
    """Make MLflow's store again from what the trials left on disk. Raises BadInputError."""
    state = State(state_dir)
    uri = tracking_uri(state.mlflow_uri)
    with locked(state, "rebuild"):
        return rebuild(state, sweep_id, experiment=EXPERIMENT, uri=uri)


def tell_removed(found: Sequence[Leftover]) -> None:
    """Say what an earlier sweep had left running."""
    for leftover in found:
        if leftover.kind is LeftoverKind.PROCESSES:
            logger.warning("an earlier sweep had left %s: ended", leftover.what)


@contextmanager
def _hosts_locked(sweep: Sweep, facts: Mapping[str, HostFacts], owner: str) -> Iterator[None]:
    """Keep other sweeps off the same GPUs. An emulated host has none that another could take."""
    names = [
        name
        for host in sweep.hosts
        if not host.emulated
        for name in ([gpu.uuid for gpu in facts[host.name].gpus] or [f"machine of {host.name}"])
    ]
    try:
        with host_lock(names, owner):
            yield
    except HostInUseError as error:
        mend = "Wait for that sweep, or stop it."
        raise bad_option("hosts", error.name, f"in use by {error.owner}", mend) from error


def clean_up(state_dir: Path) -> list[Leftover]:
    """Remove what dead sweeps left: those of a state folder, and any that nobody holds."""
    state = State(state_dir)
    with locked(state, "clean"):
        return clear_leftovers(state)


def _last_like(state: State, sweep: Sweep, space_file: Path) -> str:
    """Find the newest sweep of this file, to continue it."""
    for sweep_id in reversed(state.sweep_ids()):
        card = state.card(sweep_id)
        if card.get("name") != sweep.name:
            continue
        if card.get("key") != sweep.key:
            why = f"the file has changed since {sweep_id}, so its trials do not compare"
            raise bad_option("--resume", space_file.name, why, "Run it without --resume.")
        return sweep_id
    raise bad_option(
        "--resume", space_file.name, "it was never run here", "Run it without --resume."
    )


def _card(sweep: Sweep, space_file: Path) -> dict[str, object]:
    return {
        "name": sweep.name,
        "key": sweep.key,
        "file": str(space_file),
        "created_at": datetime.now(UTC).isoformat(),
        "objective": sweep.objective.metric,
        "limits": [limit.as_data() for limit in sweep.objective.limits],
        "also": list(sweep.objective.also),
        "workload": sweep.workload.as_data(),
        "emulated": any(host.emulated for host in sweep.hosts),
        "hosts": [host.as_data() for host in sweep.hosts],
        "configurations": sweep.space.count().configs,
    }


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
    for handler in (file, console):
        handler.addFilter(RedactingFilter())
    for log in ours:
        log.setLevel(logging.INFO)
        log.handlers = [file, console]
        log.propagate = False
