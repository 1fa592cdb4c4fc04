"""Predicts a space from what is at hand: trials in the state folder, a recording, a profile."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from infra.probing.cache import read_facts
from infra.sglang.flags import NEWEST
from orchestrator.choices import HostChoice
from orchestrator.commands import load
from orchestrator.files import read_json
from orchestrator.recorded import recorded_accepts
from orchestrator.screening import timed_all_reduces
from orchestrator.search.known import KnownHost, KnownRules
from orchestrator.state import State
from sweeps.hosts import HostSpec
from sweeps.prediction.all_reduces import NOT_TIMED, AllReduces
from sweeps.prediction.prediction import Prediction, predict
from sweeps.prediction.profile import PUBLISHED, HostProfile, profile_of
from sweeps.prediction.source import NOTHING_KNOWN
from sweeps.problems import BadInputError, Problem
from sweeps.results import TrialResult
from sweeps.search.brief import Foresight, Objective
from sweeps.search.planner import Planner
from sweeps.sweep import Sweep


def predict_space(
    space_file: Path, choice: HostChoice, state_dir: Path, recording: Path | None,
    profile: Path | None,
) -> Prediction:  # fmt: skip
    """Predict every cell of a space file. Raises BadInputError."""
    sweep = load(space_file, choice)
    known = PUBLISHED if profile is None else read_profile(profile)
    host = sweep.hosts[0]
    source = NOTHING_KNOWN if recording is None else recorded_accepts(recording, sweep, host)
    state = State(state_dir)
    foresight = Foresight(source, known, _screened(state, host))
    planner = planner_of(sweep, host, foresight)
    results = trials_like(state, sweep, host)
    found = predict(planner, results, known, planner.plain, host=host.name, emulated=host.emulated)
    if found is None:
        name = sweep.objective.metric
        why = "only decode tok/s is predicted: it is accept length over step time"
        mend = "Leave `objective` out, or sweep without predictions."
        raise BadInputError(str(space_file), [Problem("objective.metric", name, why, mend)])
    return found


def planner_of(sweep: Sweep, host: HostSpec, foresight: Foresight) -> Planner:
    """Make the planner of a sweep, as far as it is known without looking at its hosts."""
    rules = KnownRules(sweep, [KnownHost(host.name, host.version or NEWEST)])
    goal = Objective(sweep.objective.metric, sweep.objective.higher_is_better)
    return Planner(
        sweep.space, canonical=rules.canonical, refusal=rules.refusal, seed=sweep.seed,
        objective=goal, taste=sweep.taste, foresight=foresight,
    )  # fmt: skip


def _screened(state: State, host: HostSpec) -> AllReduces:
    """Return the all-reduces of the host that was probed last under this name."""
    facts = read_facts(state.host_folder(host.name))
    return timed_all_reduces(state, {host.name: facts.fingerprint}) if facts else NOT_TIMED


def trials_like(state: State, sweep: Sweep, host: HostSpec) -> Sequence[TrialResult]:
    """Return the trials on a host of the newest sweep that measured the same."""
    for sweep_id in reversed(state.sweep_ids()):
        if state.card(sweep_id).get("key") == sweep.key:
            found = [r for r in state.results(sweep_id) if r.host == host.name]
            if found:
                return found
    return ()


def read_profile(path: Path) -> HostProfile:
    """Read a host profile, TOML or JSON. Raises BadInputError."""
    if not path.is_file():
        raise _bad(path, "there is no such file", "Check the path.")
    if path.suffix == ".json":
        data = read_json(path)
        if data is None:
            raise _bad(path, "it is no JSON object", "Mend the file.")
        return profile_of(data, str(path))
    try:
        return profile_of(tomllib.loads(path.read_text("utf-8")), str(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _bad(path, f"it is no TOML: {error}", "Mend the file.") from error


def _bad(path: Path, why: str, mend: str) -> BadInputError:
    return BadInputError("--profile", [Problem("file", str(path), why, mend)])
