"""Runs one sweep from the command line: what is locked, cleared, written down and printed."""

import contextlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from infra import reaper
from infra.host_lock import owner_text
from infra.probing.facts import HostFacts
from infra.redaction import RedactingFilter
from orchestrator.choices import THIS_MACHINE, ClusterChoice, Driver, HostChoice
from orchestrator.continuing import Chosen, Wish, choose, keeping_load
from orchestrator.dialect_choice import dialect_notes
from orchestrator.display import follower_for
from orchestrator.events import Follower
from orchestrator.exit_codes import DONE, INTERRUPTED, NO_TRIAL
from orchestrator.host_check import load_probed, with_folder
from orchestrator.host_locks import hosts_locked
from orchestrator.interrupted import close_interrupted, close_open
from orchestrator.pages import print_summary
from orchestrator.plain_console import plain_console
from orchestrator.rebuild import recover
from orchestrator.refusals import bad_option, locked, refuse_simulation
from orchestrator.reviews import sweep_review
from orchestrator.run_setup import make_run
from orchestrator.signals import Interrupts
from orchestrator.state import State, new_sweep_id
from orchestrator.stories import ending
from orchestrator.sweep_run import Attendants, RepeatingSearch, SweepRun
from orchestrator.tallying import counted
from orchestrator.tracking.jsonl import JsonlTracker
from orchestrator.tracking.mlflow_writer import CARD_FILE, TOLD_FILE, MlflowWriter, check_store
from orchestrator.tracking.review import SweepReview
from orchestrator.tracking.seam import Tracker
from orchestrator.tracking.tracking_uri import (
    chosen_by,
    ignored_words,
    is_remote,
    shown_uri,
    store_words,
    tracking_uri,
)
from orchestrator.tracking.ui_view import EXPERIMENT
from orchestrator.upkeep import clear_leftovers, tell_removed
from orchestrator.watchdog import watched
from sweeps.definition import definition
from sweeps.problems import BadInputError
from sweeps.reporting.answer import answer_of
from sweeps.results import TrialResult
from sweeps.sweep import Sweep

if TYPE_CHECKING:
    from orchestrator.cluster.lent import Cluster

logger = logging.getLogger(__name__)

AT_ONCE_S = 2.0
"""Wall seconds that a second signal leaves to the processes of a sweep to vanish."""

TRACKER_CLOSE_S = 120.0
"""Wall seconds that the end of a sweep waits for its tracker."""


def run_sweep(
    space_file: Path,
    state_dir: Path,
    choice: HostChoice,
    trials: int | None,
    *,
    driver: Driver,
    wish: Wish = Wish.AUTO,
    machines: ClusterChoice = THIS_MACHINE,
    store: str | None = None,
) -> int:
    """Run a sweep to its end and return the exit code.

    `store` is the address of its MLflow store where the command names one.
    Raises BadInputError before it starts, and HostError where a machine cannot be had.
    """
    if machines.is_local:
        return _run_sweep(space_file, state_dir, choice, trials, driver, wish, store)
    _refuse_other_drivers(driver)
    from orchestrator.cluster.bringing import lent_hosts

    with lent_hosts(machines, State(state_dir), new_sweep_id("cluster")) as cluster:
        return _run_sweep(space_file, state_dir, choice, trials, driver, wish, store, cluster)


def _refuse_other_drivers(driver: Driver) -> None:
    if driver is not Driver.RAY:
        why = "several machines are moved by Ray"
        raise bad_option("--driver", driver.value, why, "Leave it out.")


def _run_sweep(
    space_file: Path,
    state_dir: Path,
    choice: HostChoice,
    trials: int | None,
    driver: Driver,
    wish: Wish,
    store: str | None,
    cluster: "Cluster | None" = None,
) -> int:
    state = State(state_dir)
    uri = tracking_uri(state.mlflow_uri, store)
    probe = partial(cluster.probe_all, choice) if cluster else None
    sweep, facts = load_probed(space_file, choice, state, probe)
    if driver is Driver.SIMULATED:
        refuse_simulation(sweep, space_file)
    if is_remote(uri) and (why := check_store(uri, state.artifact_root, EXPERIMENT)):
        mend = f"Mend the server, or leave {chosen_by(store)} out."
        raise bad_option(chosen_by(store), shown_uri(uri), why, mend)
    if trials is not None:
        sweep = replace(sweep, budget=replace(sweep.budget, trials=trials))
    fingerprints = {name: found.fingerprint for name, found in facts.items()}
    with locked(state, f"a sweep of {space_file.name}"):
        left = _close_dead(state)
        sweep = keeping_load(state, sweep, space_file, wish)
        chosen = choose(state, sweep, space_file, wish, fingerprints)
        sweep_id = chosen.sweep_id
        with hosts_locked(sweep, facts, owner_text(sweep_id, state.root)):
            tell_removed(clear_leftovers(state))
            for line in (*chosen.said, *dialect_notes(sweep)):
                sys.stdout.write(f"{line}\n")
            card = {**_card(state, sweep, space_file, chosen), "driver": driver.value}
            state.write_card(sweep_id, {**card, "status": "running"})
            _log_to(state.sweep_folder(sweep_id) / "driver.log")
            if ignored := ignored_words():
                logger.warning("%s", ignored)
            if cluster is not None:
                cluster.occupy(facts, owner_text(sweep_id, state.root), state.sweep_ids())
            hosts = [with_folder(host, state) for host in sweep.hosts]
            ready = replace(sweep, hosts=hosts)
            # A sweep that was sent is shown where it was sent from.
            mover = Mover(driver, cluster)
            words = store_words(uri, state.mlflow_uri, store)
            told = _Told(uri, words, [] if choice.sent else [follower_for(plain_console())])
            status, run = _drive(chosen, ready, state, mover, facts, left, told)
            answer = answer_of(run.results, sweep.objective, run.claim())
            shown_dir = Path(choice.sent.fetched) if choice.sent else state_dir
            print_summary(sweep_id, shown_dir, status, answer, run, space_file)
    if status == "interrupted":
        return INTERRUPTED
    return DONE if answer is not None else NO_TRIAL


@dataclass(frozen=True, slots=True)
class _Told:
    """Who is told of a sweep: the tracker at an address, and those who show it."""

    uri: str
    store: str
    """The address in words."""
    followers: Sequence[Follower]


@dataclass(frozen=True, slots=True)
class Mover:
    """What moves the trials, and on which machines; None: on this one."""

    driver: Driver
    cluster: "Cluster | None" = None


@dataclass(frozen=True, slots=True)
class _Left:
    """What killed drivers left, by the id of each sweep: the trials whose end nobody was told,
    those that are only now closed among them."""

    untold: Mapping[str, Sequence[TrialResult]]

    def tell(self, tracker: MlflowWriter, state: State, taken_up: str) -> None:
        """Have the tracker know of them, and remember that these sweeps are dead.

        But for the one that is taken up, which runs again: its driver, too, may be killed.
        """
        tracker.close_stale(list(self.untold))
        for sweep_id, results in self.untold.items():
            for result in results:
                tracker.trial_ended(result, state.trial_folder(sweep_id, result.number))
            card = state.card(sweep_id)
            if card.get("status") == "running" and sweep_id != taken_up:
                state.write_card(sweep_id, {**card, "status": "interrupted"})


def _close_dead(state: State) -> _Left:
    """Close what killed drivers left open; the lock of the folder says that none lives."""
    dead = [one for one in state.sweep_ids() if state.card(one).get("status") == "running"]
    for sweep_id in dead:
        recover(state, sweep_id)
        close_interrupted(state, sweep_id)
    return _Left({sweep_id: _untold(state, sweep_id) for sweep_id in dead})


def _untold(state: State, sweep_id: str) -> list[TrialResult]:
    """Return the trials whose end the tracker does not know; it knows nothing of some sweeps."""
    if not state.outbox_path(sweep_id).with_name(CARD_FILE).exists():
        return []
    return [
        result
        for result in state.ended(sweep_id)
        if not (state.trial_folder(sweep_id, result.number) / TOLD_FILE).exists()
    ]


def _drive(
    chosen: Chosen,
    sweep: Sweep,
    state: State,
    mover: Mover,
    facts: Mapping[str, HostFacts],
    left: _Left,
    told: _Told,
) -> tuple[str, SweepRun]:
    interrupts = Interrupts(lambda: _end_at_once(chosen.sweep_id))
    with interrupts.heard():
        return _driven(chosen, sweep, state, mover, facts, left, told, interrupts)


def _end_at_once(sweep_id: str) -> NoReturn:
    """End the process now; what is not written waits on disk for the next run of the sweep."""
    with contextlib.suppress(OSError):
        sys.stderr.write("stopped at once; the next run of this file continues\n")
    reaper.reap(sweep_id, wait_s=AT_ONCE_S)
    os._exit(INTERRUPTED)


def _driven(
    chosen: Chosen,
    sweep: Sweep,
    state: State,
    mover: Mover,
    facts: Mapping[str, HostFacts],
    left: _Left,
    told: _Told,
    interrupts: Interrupts,
) -> tuple[str, SweepRun]:
    sweep_id = chosen.sweep_id
    tracker = MlflowWriter(
        told.uri,
        state.artifact_root,
        EXPERIMENT,
        outbox_path=state.outbox_path(sweep_id),
        earlier=state.unsent_outboxes(but=sweep_id),
    )
    left.tell(tracker, state, sweep_id)
    attendants = Attendants(tracker, told.followers, told.store)
    run = make_run(sweep_id, sweep, state, facts, attendants, chosen.aside)
    return _to_the_end(run, state, mover, tracker, interrupts), run


def run_given(
    sweep_id: str, sweep: Sweep, state: State, mover: Mover, facts: Mapping[str, HostFacts],
    card: Mapping[str, object], search: RepeatingSearch,
) -> tuple[str, SweepRun]:  # fmt: skip
    """Run a small sweep whose trials are all given, and return how it ended.

    Its display goes to the standard error, as its answer is the output. MLflow is not told of it;
    `rebuild` adds it there. Raises BadInputError.
    """
    if mover.driver is Driver.SIMULATED:
        refuse_simulation(sweep, Path(sweep.name))
    with locked(state, sweep_id), hosts_locked(sweep, facts, owner_text(sweep_id, state.root)):
        _close_dead(state)
        tell_removed(clear_leftovers(state))
        state.write_card(sweep_id, {**card, "status": "running"})
        _log_to(state.sweep_folder(sweep_id) / "driver.log")
        if mover.cluster is not None:
            mover.cluster.occupy(facts, owner_text(sweep_id, state.root), state.sweep_ids())
        hosts = [with_folder(host, state) for host in sweep.hosts]
        tracker = JsonlTracker(state.sweep_folder(sweep_id) / "events.jsonl")
        attendants = Attendants(tracker, [follower_for(plain_console(stderr=True))])
        fingerprints = {name: found.fingerprint for name, found in facts.items()}
        ready = replace(sweep, hosts=hosts)
        run = SweepRun(sweep_id, ready, state, search, attendants, fingerprints=fingerprints)
        interrupts = Interrupts(lambda: _end_at_once(sweep_id))
        with interrupts.heard():
            status = _to_the_end(run, state, mover, tracker, interrupts)
    return status, run


def _to_the_end(
    run: SweepRun, state: State, mover: Mover, tracker: Tracker, interrupts: Interrupts
) -> str:
    run.start()
    status = "failed"
    try:
        with watched(lambda: run.turns, state.sweep_folder(run.sweep_id) / "driver.log"):
            _run_driver(run, state, mover, interrupts)
        status = "finished" if run.is_over else "interrupted"
        status = "ended early" if run.health.trouble else status
    except KeyboardInterrupt:
        status = "interrupted"
    finally:
        reaper.reap(run.sweep_id)
        if mover.cluster is not None:
            mover.cluster.reap_all(run.sweep_id)
        close_open(run, state)
        run.end(status, _review(run, state, status))
        closed = tracker.close(TRACKER_CLOSE_S)
        logger.info("sweep=%s tracker closed: %s", run.sweep_id, closed)
        if not closed:
            logger.warning("MLflow did not take everything; the results are all in %s", state.root)
    return status


def _review(run: SweepRun, state: State, status: str) -> SweepReview | None:
    """Keep how a sweep ended, and tell from its folder what it came to; None where that fails."""
    try:
        card = state.card(run.sweep_id)
        state.write_card(run.sweep_id, {**card, "status": status, **ending(run)})
        return sweep_review(state, run.sweep_id)
    except (OSError, BadInputError) as error:
        logger.warning("sweep=%s the tracker is not told what it came to: %s", run.sweep_id, error)
        return None


def _run_driver(run: SweepRun, state: State, mover: Mover, interrupts: Interrupts) -> None:
    match mover.driver:
        case Driver.RAY:
            from orchestrator import ray_driver

            ray_driver.drive(run, state, interrupts, mover.cluster)
        case Driver.SERIAL:
            from orchestrator import serial_driver
            from orchestrator.tools import local_tools

            serial_driver.drive(run, local_tools, interrupts)
        case Driver.SIMULATED:
            from orchestrator import simulation

            simulation.drive(run)


def _card(state: State, sweep: Sweep, space_file: Path, chosen: Chosen) -> dict[str, object]:
    """Return what is kept of a sweep; one that is taken up again keeps its begin and its edits."""
    before = state.card(chosen.sweep_id)
    now = datetime.now(UTC).isoformat()
    edits = before.get("edits")
    edited = [{"at": now, "edit": str(edit)} for edit in chosen.edits]
    aside = sorted(result.number for result in chosen.aside)
    return {
        "name": sweep.name,
        "key": sweep.key,
        "file": str(space_file.absolute()),
        "created_at": before.get("created_at", now),
        "began_at": now,
        "done_before": len(counted(state.results(chosen.sweep_id))),
        "definition": definition(sweep),
        "aside": aside,
        "edits": [*edits, *edited] if isinstance(edits, list) else edited,
        "objective": sweep.objective.metric,
        "limits": [limit.as_data() for limit in sweep.objective.limits],
        "also": list(sweep.objective.also),
        "workload": sweep.workload.as_data(),
        "trials": sweep.budget.trials,
        "plain": dict(sweep.space.plain()),
        "budget": asdict(sweep.budget),
        "zone_fraction": sweep.taste.indifference_fraction,
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
