"""What plain decode writes is recorded, filed for other sweeps, and predicts a drafter's trial."""

from dataclasses import replace
from pathlib import Path

import pytest

from infra.sglang.ngram_form import ngram_form
from orchestrator.job import StopOrder, TrialJob, TrialProgress
from orchestrator.recorder import accept_source, keep, recording_of
from orchestrator.simulation import simulated_tools
from orchestrator.state import State
from orchestrator.trial import run_trial
from sweeps import Budget, EngineName, HostSpec, Model, Sweep, Workload
from sweeps.axes import Choice
from sweeps.config import Config
from sweeps.replay.accepts import accept_of
from sweeps.replay.recording import Recording, read_recording
from sweeps.replay.replayer import Replayer
from sweeps.results import Outcome, Phase, TrialResult
from sweeps.values import Value

NGRAM: dict[str, Value] = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 4}
SWEEP = Sweep(
    name="recorded",
    model=Model("any/model"),
    axes=[Choice("speculative_algorithm", [None, "NGRAM"])],
    fixed={"tp_size": 8},
    workload=Workload(
        max_tokens=300,
        measured_prompts=3,
        most_measured_prompts=3,
        cold_prompts=3,
        measure_s=1e5,
        warming_passes=0,
        probe_s=0,
    ),
    budget=Budget(trials=4, trial_s=1e6),
    hosts=[HostSpec(engine=EngineName.EMULATED, time_scale=50)],
    sampler="tpe",
)


class Follower:
    """Follows a trial and leaves it alone."""

    def report(self, progress: TrialProgress) -> None:
        """Take a sign of life."""

    def order(self) -> StopOrder | None:
        return None


def trial(folder: Path, config: dict[str, Value], sweep: Sweep = SWEEP) -> tuple[TrialResult, Path]:
    folder.mkdir()
    job = TrialJob("t-1", "t", 1, sweep, Config.of(config), sweep.hosts[0], folder)
    result = run_trial(job, simulated_tools(), Follower())
    assert result.outcome is Outcome.MEASURED
    return result, job.recording_path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the recording that a plain decode trial left."""
    return trial(tmp_path_factory.mktemp("plain") / "0001", {"speculative_algorithm": None})[1]


def test_plain_decode_leaves_every_pass_with_its_tokens(recorded: Path) -> None:
    told = read_recording(recorded)
    parts = [stream.part for stream in told.streams]
    assert parts.count(Phase.COLD.value) == parts.count(Phase.MEASURING.value) == 3
    assert all(stream.prompt for stream in told.streams)
    cold = [s for s in told.streams if s.part == Phase.COLD.value]
    assert [len(stream.output) for stream in cold] == [300] * 3
    here = told.circumstances
    assert (here.model, here.emulated, here.workload) == ("any/model", True, SWEEP.workload.key)


def test_the_recording_predicts_the_cold_and_the_measured_pass_of_a_drafter(
    recorded: Path, tmp_path: Path
) -> None:
    served, none = trial(tmp_path / "0002", NGRAM)
    assert not none.exists(), "what a drafter's trial writes is plain decode's"
    told = read_recording(recorded)
    streams = [s for s in told.streams if s.part != Phase.WARMING.value]
    shape = ngram_form("0.5.23", SWEEP.fixed).shape(NGRAM)
    assert shape is not None
    steps = Replayer(streams).steps(shape)
    for metric, part in (("accept_length_cold", 0), ("accept_length", 3)):
        found = accept_of(steps, (steps.stream >= part) & (steps.stream < part + 3))
        assert found is not None
        # Tokens that overlap scheduling computed past an end were drafted from and not recorded.
        assert found.value == pytest.approx(served.value(metric), rel=0.005)


def test_a_recording_is_filed_once_and_found_by_sweeps_of_its_kind(
    recorded: Path, tmp_path: Path
) -> None:
    state = State(tmp_path / "state")
    kept = keep(state, recorded)
    assert kept is not None
    assert keep(state, recorded) == kept
    (state.recordings_path / "spoilt.recording").write_bytes(b"no recording")
    found = recording_of(state, SWEEP, emulated=True)
    assert isinstance(found, Recording)
    assert kept.stem == found.key
    assert recording_of(state, SWEEP, emulated=False) is None
    source = accept_source(state, SWEEP, "0.5.23", emulated=True)
    assert source is not None
    accept = source.accept(Config.of(NGRAM))
    assert accept is not None
    assert "3 recorded requests" in accept.method
    assert accept_source(state, SWEEP, "0.5.23", emulated=False) is None
    other = replace(SWEEP, workload=replace(SWEEP.workload, max_tokens=301))
    assert recording_of(state, other, emulated=True) is None
    assert keep(state, tmp_path / "none.recording") is None
    assert keep(state, state.recordings_path / "spoilt.recording") is None
