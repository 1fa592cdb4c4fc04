"""A sweep that is ready to be driven, in a folder of its own."""

from pathlib import Path

from orchestrator.events import Follower
from orchestrator.search.study import StudySearch
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tracking.jsonl import JsonlTracker
from sweeps.sweep import Sweep
from sweeps.values import digest


def sweep_run(sweep: Sweep, folder: Path, *followers: Follower) -> SweepRun:
    """Make the run of a sweep with a real study and a tracker that writes JSON lines."""
    state = State(folder)
    # Of the whole path: another run of the tests has folders of the same names at the same time.
    name = f"sd-{digest(str(folder))}"
    search = StudySearch(sweep, state.study_path, name)
    attendants = Attendants(JsonlTracker(folder / "events.jsonl"), list(followers))
    return SweepRun(name, sweep, state, search, attendants)
