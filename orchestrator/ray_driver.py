"""Drives a sweep on Ray Tune: Ray lends whole hosts. The only importer of Ray."""

import contextlib
import functools
import json
import logging
import math
import os
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.ray_settings import SETTINGS, lent, referred

os.environ.update({**SETTINGS, **os.environ})

import ray
from ray import tune
from ray._private import ray_constants
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from infra.host import HostError
from infra.local_host import LocalHost
from infra.reaper import STATE_TAG, find_tagged
from infra.runtime_folder import RuntimeFolder
from orchestrator.cluster.lent import Cluster
from orchestrator.files import read_result, write_json
from orchestrator.job import StopKind, StopOrder, TrialJob, TrialProgress
from orchestrator.serial_driver import result_of
from orchestrator.signals import Interrupts
from orchestrator.state import State
from orchestrator.sweep_run import SweepRun
from orchestrator.tools import local_tools
from orchestrator.trial_records import lost_result
from orchestrator.trial_thread import TrialThread, order_data
from sweeps.hosts import HostSpec
from sweeps.results import Outcome, Phase, TrialResult

logger = logging.getLogger(__name__)

SLICE_S = 1.0
"""Longest wall time of one `step`: Tune can act on a trial only between two of them."""

STOP_WAIT_S = 9.0
"""Tune kills an actor about 10 s after it was asked to end; the guard stops the server anyway."""

OBJECT_STORE_BYTES = 80 << 20
"""Ray's smallest: no large object is passed."""

TOKEN_PATH = "~/.ray/auth_token"
"""Where Ray keeps it by itself, open to all (seen with 2.60)."""

HOST_RESOURCE = "whole_host"
LOOPBACK = "127.0.0.1"

_RUNS: dict[str, SweepRun] = {}
"""Sweeps that run in this process. Tune pickles its hooks, so they hold only the key."""
_CLUSTERS: dict[str, Cluster] = {}
"""The machines of those that do not run here."""
_ENDING: set[str] = set()
"""Those that were asked to end."""

LONELY_S = 900.0
"""Wall seconds without any host after which a sweep gives up; it can be taken up again."""


def drive(
    run: SweepRun, state: State, interrupts: Interrupts, cluster: Cluster | None = None
) -> None:
    """Run a sweep to its end, or until it is interrupted; `run.is_over` tells which.

    On the hosts of a cluster, which we have joined, or on this machine.
    """
    _RUNS[run.sweep_id] = run
    # Ray's own progress and its advice on files that we do not let it write.
    logging.getLogger("ray").setLevel(logging.ERROR)
    # In the main thread Ray would put a SIGTERM handler of its own in place. The kernel ends Ray's
    # processes with the thread that started them, so this one lives as long as they shall.
    starter = ThreadPoolExecutor(1, "ray starter")
    try:
        logger.info("sweep=%s Ray starts", run.sweep_id)
        if cluster is None:
            with interrupts.held():
                starter.submit(_init_here, run.sweep.hosts, referred(run.sweep)).result()
        else:
            _CLUSTERS[run.sweep_id] = cluster
        logger.info("sweep=%s Ray is up", run.sweep_id)
        with interrupts.heard():  # Ray has put a SIGTERM handler below Python's in place
            run.settle()
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
            with interrupts.first_told_to(lambda: _end_tune(run.sweep_id)):
                _tuner(run, state).fit()
    finally:
        _collect(run)
        logger.info("sweep=%s Ray ends", run.sweep_id)
        if cluster is None:
            ray.shutdown()
        starter.shutdown()
        del _RUNS[run.sweep_id]
        _CLUSTERS.pop(run.sweep_id, None)
        _ENDING.discard(run.sweep_id)


def _init_here(hosts: Sequence[HostSpec], names: Collection[str] = ()) -> None:
    gpus = max(host.gpus for host in hosts)
    folder = RuntimeFolder.of_user().for_ray()
    with _private_files(), _on_the_loopback(), _lean_environment(names):
        ray.init(
            address="local",
            _node_ip_address=LOOPBACK,
            _temp_dir=str(folder),
            num_cpus=max(len(hosts), os.cpu_count() or 1),
            num_gpus=gpus * len(hosts),
            resources={HOST_RESOURCE: len(hosts)},
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=OBJECT_STORE_BYTES,
        )


@contextlib.contextmanager
def _on_the_loopback() -> Iterator[None]:
    """Let Ray listen on the loopback alone; it would put the machine's own address in its place.

    What it asks before that is whether several machines could take part (seen with 2.60).
    Raises HostError where Ray listens elsewhere all the same.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
    if (address := ray.util.get_node_ip_address()) != LOOPBACK:
        ray.shutdown()
        raise HostError(f"Ray {ray.__version__} listens at {address} and not on the loopback alone")


@contextlib.contextmanager
def _private_files() -> Iterator[None]:
    """Let nobody else read what Ray writes as it starts: the token of its cluster is a secret."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
        token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", TOKEN_PATH)).expanduser()
        with contextlib.suppress(OSError):  # one that is not there, or not ours
            token.chmod(0o600)


@contextlib.contextmanager
def _lean_environment(names: Collection[str]) -> Iterator[None]:
    """Give Ray's processes only what they need: it starts them with a copy of the environment.

    `names` go as well. Only the copy lacks the rest: other threads, such as the tracker's, read the
    environment now.
    """
    own = vars(os.environ)
    own["copy"] = lambda: lent(os.environ, names)
    try:
        yield
    finally:
        del own["copy"]


def _end_tune(sweep_id: str) -> bool:
    """Have Tune's loop end its trials, by the signal that it listens to besides Ctrl-C.

    Where it does not listen yet, it finds that there is no trial to begin with.
    """
    _ENDING.add(sweep_id)
    if signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL:  # it would end this process
        os.kill(os.getpid(), signal.SIGUSR1)
    return True


class ServerTrial(tune.Trainable):  # type: ignore[misc] # Ray is untyped
    """One trial at a time in a Ray actor, told in slices; the actor is reused."""

    def setup(self, config: dict[str, Any]) -> None:
        """Start the first trial."""
        job = _job_here(config)
        self._tools = local_tools(job.host)
        self._thread = TrialThread(job, self._tools)
        self._thread.start()

    def step(self) -> dict[str, Any]:
        """Wait for news for at most a slice, and pass it on."""
        news = self._thread.wait(SLICE_S)
        report = _report(news[-1]) if news else {"tok_s": math.nan}
        if self._thread.done:
            result = result_of(self._thread)
            return {**report, "tok_s": math.nan, "result": json.dumps(result.as_data()),
                    "done": True}  # fmt: skip
        return report

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """End the last trial and start the next in the same actor."""
        self.cleanup()
        job = _job_here(new_config)
        if job.host != self._thread.job.host:
            self._tools = local_tools(job.host)
        self._thread = TrialThread(job, self._tools)
        self._thread.start()
        return True

    def cleanup(self) -> None:
        """Stop the server of a trial that is cut off."""
        order = StopOrder(StopKind.INTERRUPT, "the sweep was interrupted")
        if not self._thread.done:
            self._thread.stop(order, wall_s=STOP_WAIT_S)


class RunSearcher(Searcher):  # type: ignore[misc] # Ray is untyped
    """Hands out the trials of a sweep to Tune and takes back their ends."""

    def __init__(self, sweep_id: str) -> None:
        super().__init__(metric="tok_s", mode="max")
        self._sweep_id = sweep_id
        self._jobs: dict[str, TrialJob] = {}
        self._forsaken_since_s: float | None = None

    @property
    def _run(self) -> SweepRun:
        return _RUNS[self._sweep_id]

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the config of the next trial; None to be asked again, FINISHED at the end."""
        if self._sweep_id in _ENDING:
            return str(Searcher.FINISHED)
        try:
            job = self._next_job()
        except Exception:  # as for a hook, but Tune must then be told to stop asking
            logger.exception("no next trial could be found; the sweep ends")
            return str(Searcher.FINISHED)
        if job is None:
            over = self._run.is_over or self._is_forsaken
            return str(Searcher.FINISHED) if over else None
        self._jobs[trial_id] = job
        cluster = _CLUSTERS.get(self._sweep_id)
        return {"job": job, "folder": cluster.folder_there(job) if cluster else ""}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Take the end of a trial: reported, or lost with its process.

        Tune tells of a trial that it cuts off before it has ended; `_collect` takes those. An error
        in here would end the whole sweep.
        """
        self._run.hooks.call(self._take_end, trial_id, result, error)

    def _take_end(self, trial_id: str, result: dict[str, Any] | None, error: bool) -> None:
        job = self._jobs.pop(trial_id, None)
        text = (result or {}).get("result")
        if job is not None and text:
            _bring(self._sweep_id, job)
            self._run.on_result(TrialResult.from_data(json.loads(text)))
        elif job is not None and (error or _is_lost(self._sweep_id, job)):
            self._run.on_result(_lost(self._sweep_id, job))

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: the study is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing: a resumed sweep is a new run over the same study."""

    def _next_job(self) -> TrialJob | None:
        busy = {job.host.name for job in self._run.open_jobs}
        cluster = _CLUSTERS.get(self._sweep_id)
        hosts = [h for h in self._run.sweep.hosts if cluster is None or cluster.alive(h.name)]
        self._forsaken_since_s = None if hosts else self._forsaken_since_s or time.monotonic()
        free = [host for host in hosts if host.name not in busy]
        return self._run.next_job(free[0]) if free else None

    @property
    def _is_forsaken(self) -> bool:
        since_s = self._forsaken_since_s
        return since_s is not None and time.monotonic() - since_s > LONELY_S


class BoundScheduler(FIFOScheduler):  # type: ignore[misc] # Ray is untyped
    """Passes progress to the sweep, and its orders to stop to the trial.

    The order goes through the trial's folder, not through Tune's STOP: so the trial ends by its own
    path, with its bound, its partial figures and the proof that its server is gone.
    """

    def __init__(self, sweep_id: str) -> None:
        super().__init__()
        self._sweep_id = sweep_id

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Look at a report."""
        _RUNS[self._sweep_id].hooks.call(self._look, trial, result)
        return str(FIFOScheduler.CONTINUE)

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """Choose as ever; what waits for a host that is lost is ended, not waited for."""
        _RUNS[self._sweep_id].hooks.call(self._forsake, tune_controller)
        return super().choose_trial_to_run(tune_controller)

    def _forsake(self, tune_controller: Any) -> None:
        cluster = _CLUSTERS.get(self._sweep_id)
        lost = cluster.lost() if cluster else frozenset()
        for trial in tune_controller.get_live_trials() if lost else ():
            if trial.status == Trial.PENDING and trial.config["job"].host.name in lost:
                tune_controller.stop_trial(trial)

    def _look(self, trial: Any, result: dict[str, Any]) -> None:
        if "phase" not in result:
            return
        job: TrialJob = trial.config["job"]
        order = _RUNS[self._sweep_id].on_progress(_progress(job, result))
        if order is not None and not job.stop_path.exists():
            write_json(job.stop_path, order_data(order))
            if cluster := _CLUSTERS.get(self._sweep_id):
                cluster.order(job, order)


def _place(sweep_id: str, config: dict[str, Any]) -> tune.PlacementGroupFactory:
    """Return what a trial takes: all of its host, so that it runs there and alone."""
    host: HostSpec = config["job"].host
    cluster = _CLUSTERS.get(sweep_id)
    node = cluster.place(host.name) if cluster else None
    whole = {node.resource: node.share} if node else {HOST_RESOURCE: 1}
    bundle = {"CPU": 1, **whole, **({"GPU": host.gpus} if host.gpus else {})}
    return tune.PlacementGroupFactory([bundle], strategy="STRICT_PACK")


def _tuner(run: SweepRun, state: State) -> tune.Tuner:
    return tune.Tuner(
        tune.with_resources(ServerTrial, functools.partial(_place, run.sweep_id)),
        tune_config=tune.TuneConfig(
            search_alg=RunSearcher(run.sweep_id),
            scheduler=BoundScheduler(run.sweep_id),
            num_samples=-1,
            max_concurrent_trials=len(run.sweep.hosts),
            reuse_actors=True,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=run.sweep_id,
            storage_path=str(state.ray_path),
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=0),
        ),
    )


def _trial_name(trial: Any) -> str:
    return str(trial.config["job"].trial)


def _report(progress: TrialProgress) -> dict[str, Any]:
    return {
        "tok_s": math.nan if progress.tok_s is None else progress.tok_s,
        "phase": progress.phase.value,
        "elapsed_s": progress.elapsed_s,
        "blocks": json.dumps(progress.blocks),
        "step_blocks": json.dumps(progress.step_blocks),
        "detail": progress.detail,
        "low": progress.low,
        "high": progress.high,
        "accept_length": progress.accept_length,
        "steps_per_s": progress.steps_per_s,
        "tokens": progress.tokens,
    }


def _progress(job: TrialJob, report: dict[str, Any]) -> TrialProgress:
    tok_s = report["tok_s"]
    return TrialProgress(
        trial=job.trial,
        phase=Phase(report["phase"]),
        elapsed_s=report["elapsed_s"],
        tok_s=None if math.isnan(tok_s) else tok_s,
        low=report["low"],
        high=report["high"],
        accept_length=report["accept_length"],
        steps_per_s=report["steps_per_s"],
        tokens=report["tokens"],
        blocks=tuple(json.loads(report["blocks"])),
        step_blocks=tuple(json.loads(report["step_blocks"])),
        detail=report["detail"],
    )


def _job_here(config: dict[str, Any]) -> TrialJob:
    """Return the trial as it is on this machine, which may not be the driver's."""
    job: TrialJob = config["job"]
    if job.state:
        os.environ[STATE_TAG] = job.state
    if not config["folder"]:
        return job
    folder = Path(config["folder"]).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return replace(job, folder=folder)


def _bring(sweep_id: str, job: TrialJob) -> bool:
    """Bring the files of a trial from its machine, if it ran on another."""
    cluster = _CLUSTERS.get(sweep_id)
    return cluster is not None and cluster.bring(job)


def _is_lost(sweep_id: str, job: TrialJob) -> bool:
    cluster = _CLUSTERS.get(sweep_id)
    return cluster is not None and not cluster.alive(job.host.name)


def _lost(sweep_id: str, job: TrialJob) -> TrialResult:
    """Return the end of a trial whose process, or whose machine, is gone."""
    cluster = _CLUSTERS.get(sweep_id)
    if cluster is None:
        return _leftover(job, "the process that ran the trial died")
    if _is_lost(sweep_id, job):
        return _leftover(job, f"host {job.host.name} was lost")
    cluster.reap(job.host.name, sweep_id, job.trial)
    cluster.bring(job)
    return _leftover(job, f"the process that ran the trial died, or host {job.host.name} did")


def _collect(run: SweepRun) -> None:
    """Take the results of trials that Tune cut off."""
    for job in run.open_jobs:
        _bring(run.sweep_id, job)
        run.on_result(_leftover(job, "the sweep was interrupted", Outcome.CANCELLED))


def _leftover(job: TrialJob, reason: str, outcome: Outcome = Outcome.FAILED) -> TrialResult:
    """Find the result that a trial leaves in its folder; without one, end what it left running.

    The trial, or the guard that it left behind, may still be stopping the server.
    """
    deadline_s = time.monotonic() + STOP_WAIT_S
    while time.monotonic() < deadline_s:
        found = read_result(job.result_path)
        if found is not None:
            return found
        if not find_tagged(job.sweep_id, job.trial):
            break
        time.sleep(0.1)
    LocalHost().reap(job.sweep_id, job.trial)
    result = lost_result(job, reason, outcome)
    write_json(job.result_path, result.as_data())
    return result
