"""What the run of a sweep says of its end."""

import json
from pathlib import Path

from orchestrator.files import write_json
from orchestrator.reviews import sweep_review
from orchestrator.state import State
from orchestrator.tracking.launch_files import launch_script
from orchestrator.tracking.review import DATA_FILE, STORY_FILE, review_of
from orchestrator.tracking.ui_view import view_state
from sweeps.reporting.story import About, story_of
from sweeps.results import Outcome, TrialResult
from tests.sweeps.makers import SMALL, ngram, result, with_argv

PLAIN = SMALL.space.plain()
ENDS = [
    result(0, PLAIN, 50.0, purpose="baseline"),
    with_argv(result(1, ngram(4, NCCL_PROTO="LL"), 60.0), "python", "-m", "x", NAME="a b"),
    result(2, ngram(3), outcome=Outcome.INFEASIBLE),
]


def _written(state: State, ends: list[TrialResult]) -> None:
    state.write_card("t", {"name": "small", "status": "finished", "plain": dict(PLAIN)})
    for end in ends:
        write_json(state.trial_folder("t", end.number) / "result.json", end.as_data())
        write_json(state.trial_folder("t", end.number) / "plan.json", {"argv": list(end.argv)})


def test_a_review_names_the_winner_its_gain_and_what_it_cost() -> None:
    review = review_of(story_of(ENDS, About("t")), PLAIN)
    assert review.winner == "t-0001"
    assert review.tags["winner"] == "ngram n4 · LL"
    numbers = review.numbers
    assert (numbers["winner"], numbers["winner_low"], numbers["winner_high"]) == (60.0, 59.0, 61.0)
    assert numbers["baseline"] == numbers["best_plain"] == 50.0
    assert numbers["gain"] == 1.2
    assert numbers["gpu_hours"] == 1.5
    assert review.texts[STORY_FILE] == review.note + "\n"


def test_every_line_of_a_note_with_a_rate_says_emulated() -> None:
    note = review_of(story_of(ENDS, About("t")), PLAIN).note
    rated = [line for line in note.splitlines() if "tok/s (95" in line]
    assert len(rated) >= 3
    assert all("EMULATED" in line for line in rated)


def test_a_review_is_plain_data_as_well() -> None:
    data = json.loads(review_of(story_of(ENDS, About("t")), PLAIN).texts[DATA_FILE])
    assert data["winner"]["name"] == "ngram n4 · LL"
    assert data["winner"]["trials"] == ["t-0001"]
    assert data["gain"]["over"] == "plain"
    assert data["emulated"] is True


def test_a_sweep_that_measured_nothing_has_a_review_without_a_winner() -> None:
    review = review_of(story_of(ENDS[2:], About("t")), PLAIN)
    assert (review.winner, dict(review.tags)) == ("", {})
    assert "nothing is recommended" in review.note


def test_the_folder_alone_gives_the_review_and_the_winner_s_launch(tmp_path: Path) -> None:
    state = State(tmp_path)
    _written(state, ENDS)
    review = sweep_review(state, "t")
    assert review == sweep_review(state, "t")
    assert json.loads(review.texts["launch/plan.json"]) == {"argv": ["python", "-m", "x"]}
    script = review.texts["launch/serve.sh"]
    assert script == launch_script(ENDS[1])
    assert "EMULATED" in script
    assert script.splitlines()[-2:] == ["export NAME='a b'", 'exec python -m x "$@"']


def test_the_view_of_a_sweep_fits_into_a_tag_however_many_axes_it_has() -> None:
    axes = [f"config.an_axis_with_a_rather_long_name_{n}" for n in range(60)]
    text = view_state("s" * 90, "output_tok_s_c16", axes, higher_is_better=True)
    assert len(text) < 5000
    view = json.loads(text)
    (chart,) = [one for one in view["compareRunCharts"] if one["type"] == "PARALLEL"]
    assert chart["selectedMetrics"] == ["output_tok_s_c16"]
    assert len({one["uuid"] for one in view["compareRunCharts"]}) == 7
