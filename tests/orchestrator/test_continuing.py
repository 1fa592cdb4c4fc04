"""Which sweep a command runs, and how an edited file and a killed driver are met."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.continuing import (
    EditedError,
    Wish,
    choose,
    command_again,
    known_definition,
)
from orchestrator.files import Spool, write_json
from orchestrator.interrupted import REASON, close_interrupted
from orchestrator.spool import (
    PHASE,
    SAMPLE,
    TRIAL,
    SpooledSample,
    SpooledTrial,
    sample_record,
    trial_record,
)
from orchestrator.state import State
from sweeps import Choice, Model
from sweeps.problems import BadInputError
from sweeps.results import Outcome, Phase
from sweeps.sweep import Sweep
from tests.sweeps.makers import SMALL, plain, result

FILE = Path("small.py")
FINGERPRINTS = {"local": "abc"}
WIDER = replace(SMALL, axes=[*SMALL.axes[:3], Choice("NCCL_PROTO", [None, "LL", "Simple"])])
NARROWER = replace(SMALL, axes=[*SMALL.axes[:3], Choice("NCCL_PROTO", [None])])
OTHER = replace(SMALL, model=Model("other/model"))


def _swept(folder: Path, status: str = "interrupted", sweep: Sweep = SMALL) -> State:
    """Leave a sweep with one trial of each protocol."""
    state = State(folder)
    card = {"name": "small", "key": sweep.key, "file": str(FILE.absolute()), "status": status}
    state.write_card("s1", {**card, "definition": known_definition(sweep)})
    for number, protocol in enumerate([None, "LL"]):
        end = replace(result(number, plain(NCCL_PROTO=protocol), 20.0), fingerprint="abc")
        write_json(state.trial_folder("s1", number) / "result.json", end.as_data())
    return state


def _choose(state: State, sweep: Sweep = SMALL, wish: Wish = Wish.AUTO, file: Path = FILE) -> str:
    return choose(state, sweep, file, wish, FINGERPRINTS).sweep_id


@pytest.mark.parametrize("status", ["interrupted", "running", "failed"])
def test_the_same_file_goes_on_by_itself_and_says_so(tmp_path: Path, status: str) -> None:
    chosen = choose(_swept(tmp_path, status), SMALL, FILE, Wish.AUTO, FINGERPRINTS)
    assert chosen.sweep_id == "s1"
    assert "Continuing s1" in chosen.said[0]
    assert "2 of 8 trials are done" in chosen.said[0]
    assert "--new" in chosen.said[0]


@pytest.mark.parametrize("status", ["finished", "ended early"])
def test_after_the_end_a_new_sweep_begins_unless_the_old_one_is_demanded(
    tmp_path: Path, status: str
) -> None:
    state = _swept(tmp_path, status)
    assert _choose(state) != "s1"
    assert _choose(state, wish=Wish.RESUME) == "s1"


def test_a_new_sweep_can_be_asked_for_and_another_file_is_another_sweep(tmp_path: Path) -> None:
    state = _swept(tmp_path)
    assert _choose(state, wish=Wish.NEW) != "s1"
    assert _choose(state, file=Path("copy.py")) != "s1"
    assert _choose(state, replace(SMALL, name="other")) != "s1"
    for wish in (Wish.RESUME, Wish.CONTINUE):
        with pytest.raises(BadInputError, match="never run here"):
            _choose(state, replace(SMALL, name="other"), wish)


def test_a_larger_budget_asks_nothing(tmp_path: Path) -> None:
    more = replace(SMALL, budget=replace(SMALL.budget, trials=20))
    chosen = choose(_swept(tmp_path), more, FILE, Wish.RESUME, FINGERPRINTS)
    assert "edited budget.trials: 8 is now 20 (all trials stay)" in chosen.said
    assert chosen.edits == ()


@pytest.mark.parametrize("wish", [Wish.AUTO, Wish.RESUME])
def test_an_edited_space_is_met_with_its_difference_and_both_commands(
    tmp_path: Path, wish: Wish
) -> None:
    state = _swept(tmp_path)
    with pytest.raises(EditedError) as told:
        _choose(state, NARROWER, wish)
    text = str(told.value)
    assert 'axis NCCL_PROTO = [null]: it was [null, "LL"]; trials inside the new space stay' in text
    assert "of its trials 1 fit the file as it is now, and 1 do not" in text
    assert "small.py --continue" in text
    assert "small.py --new" in text
    assert told.value.can_continue


def test_what_fits_an_edited_space_is_kept_and_the_rest_set_aside(tmp_path: Path) -> None:
    state = _swept(tmp_path)
    chosen = choose(state, NARROWER, FILE, Wish.CONTINUE, FINGERPRINTS)
    assert [r.number for r in chosen.aside] == [1]
    assert "aside  trial 1: outside the space as it is now" in chosen.said
    state.write_card("s1", {**state.card("s1"), "aside": [1]})
    assert [r.number for r in state.results("s1")] == [0]
    assert [r.number for r in state.ended("s1")] == [0, 1]
    assert state.next_number("s1") == 2
    # The edit is undone: what was aside counts again.
    assert choose(state, SMALL, FILE, Wish.CONTINUE, FINGERPRINTS).aside == ()
    assert choose(state, WIDER, FILE, Wish.CONTINUE, FINGERPRINTS).aside == ()


@pytest.mark.parametrize("wish", [Wish.AUTO, Wish.RESUME, Wish.CONTINUE])
def test_trials_that_do_not_compare_are_never_mixed(tmp_path: Path, wish: Wish) -> None:
    state = _swept(tmp_path)
    with pytest.raises(EditedError, match="before and after it do not compare") as told:
        _choose(state, OTHER, wish)
    assert not told.value.can_continue
    assert "--continue" not in str(told.value)
    with pytest.raises(EditedError, match="fingerprint of host local = xyz: it was abc"):
        choose(state, SMALL, FILE, wish, {"local": "xyz"})


def test_a_sweep_of_an_older_release_is_compared_by_its_key(tmp_path: Path) -> None:
    state = _swept(tmp_path)
    card = {name: value for name, value in state.card("s1").items() if name != "definition"}
    state.write_card("s1", card)
    assert _choose(state) == "s1"
    with pytest.raises(EditedError):
        _choose(state, OTHER)


def test_a_trial_that_a_kill_cut_off_counts_as_what_it_is(tmp_path: Path) -> None:
    state = _swept(tmp_path, "running")
    state.write_card("s1", {**state.card("s1"), "hosts": [{"name": "local", "gpus": 8}]})
    spool = Spool(state.trial_folder("s1", 2) / "spool.jsonl")
    trial = SpooledTrial("s1-0002", 2, plain(), "search", "local", True, "it leads", 1)
    spool.append(TRIAL, trial_record(trial))
    spool.append(PHASE, {"phase": "starting", "at_s": 10.0})
    spool.append(PHASE, {"phase": "measuring", "at_s": 100.0})
    for at_s, tok_s in ((110.0, 20.0), (450.0, 21.0)):
        sample = SpooledSample(at_s, 0, tok_s, tok_s - 1, tok_s + 1, 1.5)
        spool.append(SAMPLE, sample_record(sample))
    spool.close()
    (state.trial_folder("s1", 3)).mkdir()
    (end,) = close_interrupted(state, "s1")
    assert state.ended("s1")[-1] == end
    assert (end.number, end.outcome, end.reason) == (2, Outcome.CANCELLED, REASON)
    assert (end.why, end.retry_of, end.phase) == ("it leads", 1, Phase.MEASURING)
    assert end.gpu_hours == 1.0
    assert end.phase_s == {"admitted": 10.0, "starting": 90.0, "measuring": 350.0}
    rate = end.estimates["decode_tok_s"]
    assert (rate.value, rate.low, rate.duration_s, rate.provisional) == (21.0, 20.0, 350.0, True)
    assert not end.may_lead
    assert close_interrupted(state, "s1") == []


def test_the_newest_sweep_of_a_name_is_the_one_that_goes_on(tmp_path: Path) -> None:
    state = _swept(tmp_path)
    card = state.card("s1")
    state.write_card("s2", {**card, "file": str(Path("copy.py").absolute())})
    state.write_card("s3", {**card, "name": "other"})
    # The newest is of another file: by itself a new one begins, asked for it goes on.
    assert _choose(state) not in ("s1", "s2", "s3")
    assert _choose(state, file=Path("copy.py")) == "s2"
    assert _choose(state, wish=Wish.RESUME) == "s2"
    state.write_card("s4", card)
    assert _choose(state) == _choose(state, wish=Wish.CONTINUE) == "s4"


def test_trials_set_aside_are_all_named_and_failed_ones_are_not_done(tmp_path: Path) -> None:
    state = _swept(tmp_path)
    for number, outcome in ((2, Outcome.MEASURED), (3, Outcome.CANCELLED)):
        end = replace(result(number, plain(NCCL_PROTO="LL"), 20.0, outcome=outcome),
                      fingerprint="abc")  # fmt: skip
        write_json(state.trial_folder("s1", number) / "result.json", end.as_data())
    chosen = choose(state, NARROWER, FILE, Wish.CONTINUE, FINGERPRINTS)
    assert "aside  trials 1, 2, 3: outside the space as it is now" in chosen.said
    assert "1 of 8 trials are done" in chosen.said[0]
    whole = choose(state, SMALL, FILE, Wish.AUTO, FINGERPRINTS)
    assert "it was interrupted; 3 of 8 trials are done" in whole.said[0]
    assert (whole.edits, whole.aside) == ((), ())
    assert len(whole.said) == 1


@pytest.mark.parametrize(
    ("typed", "again"),
    [
        (["sweep", "a b.py", "--resume", "--driver", "ray"],
         "python -m orchestrator sweep 'a b.py' --driver ray --new"),
        (["sweep", "x.py"], "python -m orchestrator sweep x.py --new"),
        (["somewhere", "else"], "python -m orchestrator sweep small.py --new"),
        ([], "python -m orchestrator sweep small.py --new"),
    ],
)  # fmt: skip
def test_the_command_is_told_as_it_was_typed_with_another_wish(
    monkeypatch: pytest.MonkeyPatch, typed: list[str], again: str
) -> None:
    monkeypatch.setattr("sys.argv", ["orchestrator", *typed])
    assert command_again(FILE, Wish.NEW) == again


def test_a_host_that_nobody_probed_is_no_other_machine(tmp_path: Path) -> None:
    state = _swept(tmp_path)
    assert choose(state, SMALL, FILE, Wish.AUTO, {}).sweep_id == "s1"
    assert choose(state, SMALL, FILE, Wish.AUTO, {"local": ""}).sweep_id == "s1"
    blank = replace(result(0, plain(), 20.0), fingerprint="")
    write_json(state.trial_folder("s1", 0) / "result.json", blank.as_data())
    write_json(state.trial_folder("s1", 1) / "result.json", replace(blank, number=1).as_data())
    assert choose(state, SMALL, FILE, Wish.AUTO, {"local": "new"}).sweep_id == "s1"
