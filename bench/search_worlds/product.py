"""One sweep of the product in a world: its own decisions, trials, early stop, planner and claim.

Everything that a user's `sweep --driver simulated` does is done here by the same code, but for what
is only shown or told: the display and MLflow.
"""

import json
import logging
import math
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.emulated import truth as emulated_truth
from infra.probing.facts import HostFacts
from infra.probing.probe import probe_host
from orchestrator.events import SweepStart, Tally
from orchestrator.foretelling import PREDICTIONS_FILE
from orchestrator.job import TrialJob, TrialProgress
from orchestrator.run_setup import make_run
from orchestrator.simulation import drive
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tracking.jsonl import JsonlTracker
from search_worlds.hosts import Setting
from search_worlds.kept import OUT
from search_worlds.truth import World, known_to_the_emulator
from sweeps.config import Config
from sweeps.hosts import EngineName, HostSpec
from sweeps.ranking import rank
from sweeps.results import TrialResult
from sweeps.search.claims import Claim
from sweeps.sweep import Sweep

TRIALS = 60
HOST = "local"
EAGLE_MODEL = "kimi-k2-instruct-eagle3"


@dataclass(frozen=True, slots=True)
class Held:
    """What a sweep would recommend after a trial."""

    gpu_hours: float
    config: Config | None


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What was predicted of a trial: 95 % intervals of its logarithms, as mean and deviation."""

    tok_s: tuple[float, float]
    cycle_ms: tuple[float, float]


@dataclass(frozen=True)
class Swept:
    """A sweep that is over."""

    results: Sequence[TrialResult]
    held: Sequence[Held]
    claim: Claim | None
    recommended: Config
    predicted: Mapping[int, Foreseen]
    promised: Mapping[int, float]
    """By trial: the lift that one start of it promised, as a fraction."""
    cpu_s: float


@dataclass
class _Watching:
    """A follower that asks after each trial what would be recommended."""

    run: list[SweepRun] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    gpu_hours: float = 0.0

    def sweep_started(self, start: SweepStart) -> None: ...

    def trial_started(self, job: TrialJob) -> None: ...

    def progress(self, progress: TrialProgress, tally: Tally) -> None: ...

    def trial_ended(self, result: TrialResult, tally: Tally) -> None:
        self.gpu_hours += result.gpu_hours
        self.held.append(Held(self.gpu_hours, recommended(self.run[0])))

    def sweep_ended(self, status: str) -> None: ...


def recommended(run: SweepRun) -> Config | None:
    """Return what a sweep recommends now, as its export would."""
    claim = run.claim()
    if claim is not None:
        return claim.recommendation
    goal = run.sweep.objective
    best = rank(run.results, goal.metric, higher_is_better=goal.higher_is_better).best
    return None if best is None else best.config


def sweep_world(
    world: World, seed: int, *, sampler: str = "", prediction: bool = True, trials: int = TRIALS,
    screened: bool = False, stop: str | None = None,
) -> Swept:  # fmt: skip
    """Run a sweep of a world to its end."""
    began_s = time.process_time()
    with _state() as state, _known(world.setting, seed) as name:
        if screened:
            _screen(world, state, name)
        sweep, facts = _ready(world, seed, state, name)
        sweep = replace(sweep, budget=replace(sweep.budget, trials=trials), prediction=prediction)
        if sampler:
            sweep = replace(sweep, sampler=sampler)
        if stop is not None:
            sweep = replace(sweep, stop_rule=stop or "bound", early_stopping=bool(stop))
        watching = _Watching()
        tracker = JsonlTracker(state.root / "events.jsonl")
        run = make_run("swept", sweep, state, facts, Attendants(tracker, [watching]))
        watching.run.append(run)
        run.start()
        drive(run)
        claim, results = run.claim(), run.results
        final = recommended(run)
        rows = state.sweep_folder("swept") / PREDICTIONS_FILE
        predicted, promised = _predictions(rows)
        run.end("finished")
    return Swept(
        results, watching.held, claim, final or sweep.space.plain(), predicted, promised,
        time.process_time() - began_s,
    )  # fmt: skip


def _ready(
    world: World, seed: int, state: State, name: str
) -> tuple[Sweep, Mapping[str, HostFacts]]:
    host = HostSpec(HOST, EngineName.EMULATED, truth=name)
    facts = _facts(world.setting, state)
    sweep = replace(world.sweep, hosts=(host,), seed=seed)
    return sweep, {HOST: facts}


_FACTS: dict[str, HostFacts] = {}


def _facts(setting: Setting, state: State) -> HostFacts:
    """Probe the emulated hardware once in a process: it is the same in all worlds of a profile."""
    profile = setting.truth.profile
    if profile not in _FACTS:
        base = next(n for n, t in emulated_truth.TRUTHS.items() if t.profile == profile)
        spec = HostSpec(HOST, EngineName.EMULATED, truth=base)
        _FACTS[profile] = probe_host(spec, state.host_folder(HOST))
    return _FACTS[profile]


@contextmanager
def _state() -> Iterator[State]:
    """Lend a state folder in memory; drafts are kept in bench/out."""
    base = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="bench-search-", dir=base))
    logging.getLogger("orchestrator").setLevel(logging.ERROR)
    try:
        (OUT / "drafts").mkdir(parents=True, exist_ok=True)
        (folder / "drafts").symlink_to(OUT / "drafts")
        yield State(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _known(setting: Setting, seed: int) -> Iterator[str]:
    models = emulated_truth.DRAFT_MODELS
    assert isinstance(models, dict), "so that a world can have a drafter of its own"
    before = models[EAGLE_MODEL]
    models[EAGLE_MODEL] = setting.hit_rates
    name = known_to_the_emulator(setting, seed)
    try:
        yield name
    finally:
        models[EAGLE_MODEL] = before
        emulated_truth.TRUTHS.pop(name)


def _predictions(path: Path) -> tuple[dict[int, Foreseen], dict[int, float]]:
    if not path.is_file():
        return {}, {}
    rows = json.loads(path.read_text())["rows"]
    promised = {r["number"]: r["promised_gain"] for r in rows if r.get("promised_gain") is not None}
    predicted = {
        r["number"]: Foreseen(_log(r["predicted"]), _log(r["cycle_ms"]))
        for r in rows
        if r.get("predicted")
    }
    return predicted, promised


def _log(interval: Mapping[str, float]) -> tuple[float, float]:
    low, high = math.log(interval["low"]), math.log(interval["high"])
    return (low + high) / 2, (high - low) / (2 * 1.96)


def _screen(world: World, state: State, name: str) -> None:
    """Screen the host's all-reduces as the command does."""
    raise NotImplementedError
