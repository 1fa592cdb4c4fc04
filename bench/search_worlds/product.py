"""One sweep of the product in a world: its own decisions, trials, early stop, planner and claim.

Everything that a user's `sweep --driver simulated` does is done here by the same code, but for what
is only shown or told: the display and MLflow.
"""

import json
import logging
import math
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.emulated import truth as emulated_truth
from infra.emulated.cost import all_reduce_us
from infra.probing.facts import HostFacts
from infra.probing.probe import probe_host
from orchestrator.events import Follower, SweepStart, Tally
from orchestrator.files import write_json
from orchestrator.foretelling import PREDICTIONS_FILE
from orchestrator.job import TrialJob, TrialProgress
from orchestrator.run_setup import make_run
from orchestrator.screening import FILE, TOKEN_BYTES, Screening
from orchestrator.search.known import KnownHost, KnownRules
from orchestrator.simulation import drive
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tracking.jsonl import JsonlTracker
from search_worlds.hosts import Setting
from search_worlds.kept import OUT
from search_worlds.spaces import settings_of
from search_worlds.truth import World, known_to_the_emulator
from sweeps.config import Config
from sweeps.hosts import EngineName, HostSpec
from sweeps.reporting.answer import answer_of
from sweeps.results import TrialResult
from sweeps.screening import STEP_TOKENS, Reduction, Screened, known_alike, next_setting
from sweeps.search.claims import Claim
from sweeps.search.roles import serving_of
from sweeps.sweep import Sweep

TRIALS = 60
MOST_SCREENED = 40
SETTING_S = 20.0
"""For one setting of a screening: eight processes start and meet."""
OWN_SIGMA, SIZE_SIGMA = 0.03, 0.01
"""Of each setting: an all-reduce alone is not quite one in a step; and of each of its sizes."""
HOST, SWEPT = "local", "swept"


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
    answer = answer_of(run.results, run.sweep.objective, run.claim())
    return None if answer is None else answer.standing.config


@dataclass(frozen=True, slots=True)
class How:
    """How a user would have the sweep searched."""

    sampler: str = "factorised"
    prediction: bool = True
    stop_rule: str | None = "bound"
    """None: every trial runs its course."""
    screened: bool = False
    """After a screening of the host's all-reduces, whose hours count."""


@dataclass(frozen=True, slots=True)
class Open:
    """A world as a sweep meets it: a state folder, and the one host, which was probed."""

    state: State
    sweep: Sweep
    facts: Mapping[str, HostFacts]


@contextmanager
def opened(world: World, seed: int) -> Iterator[Open]:
    """Lend a world; the seed decides its noise."""
    with _state() as state, known_to_the_emulator(world.setting, seed) as name:
        host = HostSpec(HOST, EngineName.EMULATED, truth=name)
        sweep = replace(world.sweep, hosts=(host,), seed=seed)
        yield Open(state, sweep, {HOST: _facts(world.setting, state)})


def sweep_world(world: World, seed: int, how: How, trials: int = TRIALS) -> Swept:
    """Run a sweep of a world to its end."""
    began_s = time.process_time()
    with opened(world, seed) as place:
        watching = _Watching(gpu_hours=screen(place) if how.screened else 0.0)
        sweep = replace(
            place.sweep, budget=replace(place.sweep.budget, trials=trials),
            prediction=how.prediction, sampler=how.sampler,
            early_stopping=how.stop_rule is not None,
            stop_rule=how.stop_rule or place.sweep.stop_rule,
        )  # fmt: skip
        run = make_run(SWEPT, sweep, place.state, place.facts, attendants(place, watching))
        watching.run.append(run)
        run.start()
        drive(run)
        predicted, promised = _predictions(place.state.sweep_folder(SWEPT) / PREDICTIONS_FILE)
        claim, final = run.claim(), recommended(run)
        run.end("finished")
    return Swept(
        run.results, watching.held, claim, final or sweep.space.plain(), predicted, promised,
        time.process_time() - began_s,
    )  # fmt: skip


def attendants(place: Open, *followers: Follower) -> Attendants:
    """Return who is told of a sweep."""
    return Attendants(JsonlTracker(place.state.root / "events.jsonl"), list(followers))


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
    logger = logging.getLogger("orchestrator")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        (OUT / "drafts").mkdir(parents=True, exist_ok=True)
        (folder / "drafts").symlink_to(OUT / "drafts")
        yield State(folder)
    finally:
        logger.setLevel(level)
        shutil.rmtree(folder, ignore_errors=True)


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


def screen(place: Open) -> float:
    """Screen the host's all-reduces by the emulated host's own account; return the GPU-hours.

    The command starts eight processes for each setting: their answer is computed here, with an
    error of its own.
    """
    sweep, (host,) = place.sweep, place.sweep.hosts
    found = place.facts[host.name]
    done: list[Screened] = []
    timed = 0
    guide = KnownRules(sweep, [KnownHost(host.name, found.version, found.machine)])
    while len(done) < MOST_SCREENED:
        setting = next_setting(sweep.space, done, emulated=True)
        if setting is None:
            break
        alike = known_alike(sweep.space, done, setting, guide.canonical)
        timed += alike is None
        done.append(alike or Screened(setting, _timed(sweep, setting, guide)))
    kept = Screening(host.name, found.fingerprint, host.emulated, TOKEN_BYTES, tuple(done))
    write_json(place.state.host_folder(host.name) / FILE, kept.as_data())
    return timed * SETTING_S * host.gpus / 3600


def _timed(sweep: Sweep, setting: Config, guide: KnownRules) -> tuple[Reduction, ...]:
    truth = emulated_truth.TRUTHS[sweep.hosts[0].truth]
    serving = guide.canonical(Config.of({**sweep.space.plain(), **setting}))
    settings = settings_of(sweep, Config.of({}), serving_of(serving))
    luck = random.Random(f"screening {truth.name} {setting.variant}")
    own = luck.gauss(0, OWN_SIGMA)
    found = []
    for tokens in STEP_TOKENS:
        us = all_reduce_us(truth, settings, tokens) * math.exp(own + luck.gauss(0, SIZE_SIGMA))
        found.append(Reduction(tokens, us, us, us, 1))
    return tuple(found)
