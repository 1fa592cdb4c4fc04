"""A story from a state folder: finished, running, and with what the card alone knows."""

from pathlib import Path

from orchestrator.files import write_json
from orchestrator.state import State
from orchestrator.stories import HINTS, sweep_story
from sweeps.results import TrialResult
from sweeps.search.claims import Claim, Gain, Verdict
from sweeps.workloads import Workload
from tests.sweeps.makers import ngram, plain, result

RESULTS = [
    result(0, plain(), 80, purpose="baseline"),
    result(1, ngram(3), 100, purpose="confirm"),
]


def _state(tmp_path: Path, results: list[TrialResult], **card: object) -> State:
    state = State(tmp_path)
    for each in results:
        write_json(state.trial_folder("t", each.number) / "result.json", each.as_data())
    state.write_card("t", {"objective": "decode_tok_s", "workload": Workload().as_data(), **card})
    return state


def test_a_sweep_that_still_runs_has_a_story(tmp_path: Path) -> None:
    story = sweep_story(_state(tmp_path, RESULTS, status="running"), "t")
    assert not story.is_over
    assert story.answer is not None
    assert story.answer.gain is not None


def test_the_claim_of_the_card_is_told(tmp_path: Path) -> None:
    gain = Gain(plain(), 1.2, 1.1, 1.3, (0, 1))
    claim = Claim(ngram(3), (), gain, Verdict.GAIN, "so", proofs=(1,))
    state = _state(tmp_path, RESULTS, status="finished", claim=claim.as_data(RESULTS), collapsed=2)
    story = sweep_story(state, "t")
    assert story.answer is not None
    assert story.answer.settled
    assert story.ledger.saved["inert settings"] == 1.0


def test_hints_are_those_of_the_signatures() -> None:
    assert "mem_fraction_static" in HINTS["oom_serving"]
