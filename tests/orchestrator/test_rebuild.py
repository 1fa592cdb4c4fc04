"""MLflow and the study, made again from what lies on disk, are what they were."""

import contextlib
import secrets
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from orchestrator.files import Spool, write_json
from orchestrator.interrupted import REASON
from orchestrator.rebuild import (
    Rebuilt,
    _unsent,
    events_of,
    rebuild,
    rebuild_study,
    recover,
    sweep_card,
)
from orchestrator.reviews import sweep_review
from orchestrator.search.study import StudySearch, write_study
from orchestrator.spool import (
    RESULT,
    SAMPLE,
    TRIAL,
    SpooledSample,
    SpooledTrial,
    result_record,
    sample_record,
    trial_record,
)
from orchestrator.state import State
from orchestrator.tracking.events import (
    Progress,
    SweepEnded,
    SweepsDied,
    SweepStarted,
    TrialEnded,
    TrialStarted,
)
from orchestrator.tracking.mlflow_writer import MlflowWriter
from orchestrator.tracking.run_content import card_of
from orchestrator.tracking.seam import Sample, SweepCard
from sweeps.again import to_try_again
from sweeps.definition import definition
from sweeps.problems import BadInputError
from sweeps.results import Outcome, TrialResult
from tests.orchestrator.search.ready import study_file
from tests.orchestrator.tracking import stores
from tests.patience import GIVE_UP_S
from tests.sweeps.makers import SMALL, ngram, plain, result

CLOSE_S = GIVE_UP_S
BEGAN_MS = 1_767_323_045_000
ENDS = [
    result(0, plain(), 20.0),
    result(1, ngram(4), 50.0),
    result(2, ngram(3), outcome=Outcome.INFEASIBLE),
]


def _end(end: TrialResult, sweep: str) -> TrialResult:
    return replace(
        end, sweep=sweep, trial=f"{sweep}-{end.number:04d}", phase_s={"measuring": 60.0},
        started_at="2026-01-02T03:04:05+00:00", argv=("python", "-m", "x"),
    )  # fmt: skip


def _spool(state: State, end: TrialResult, *, ended: bool = True) -> None:
    spool = Spool(state.trial_folder(end.sweep, end.number) / "spool.jsonl")
    trial = SpooledTrial(end.trial, end.number, end.config, end.purpose, end.host, end.emulated)
    spool.append(TRIAL, trial_record(trial))
    for second in range(5):
        at_ms = BEGAN_MS + second
        sample = SpooledSample(float(second), at_ms, 10.0 + second, None, None, 2.0)
        spool.append(SAMPLE, sample_record(sample))
    if ended:
        spool.append(RESULT, result_record(end))
    spool.close()


def _tracked(state: State, sweep: str, writer: MlflowWriter) -> list[TrialResult]:
    """Leave a sweep on disk, and tell a writer of it as it would have been told."""
    state.write_card(
        sweep, {"name": "small", "created_at": "2026-01-02T03:04:05+00:00", "status": "finished"}
    )
    writer.sweep_started(SweepCard(sweep, "small", emulated=True, params={"seed": "7"}))
    ends = [_end(end, sweep) for end in ENDS]
    for end in ends:
        _spool(state, end)
        folder = state.trial_folder(sweep, end.number)
        write_json(folder / "result.json", end.as_data())
        writer.trial_started(card_of(end))
        for second in range(5):
            sample = Sample(float(second), 10.0 + second, accept_length=2.0)
            writer.progress(end.trial, sample)
        writer.trial_ended(end, folder)
    writer.sweep_ended("finished", sweep_review(state, sweep))
    return ends


def _seen(uri: str) -> dict[str, Any]:
    """Return all that a store says of each sweep and trial, but for times and ids."""
    path = Path(uri.removeprefix("sqlite:///"))
    copy = path.with_name(f"seen-{secrets.token_hex(4)}.db")
    shutil.copy(path, copy)  # MLflow would keep looking into a file that was replaced
    uri = f"sqlite:///{copy}"
    reader = stores.client(uri)
    seen = {}
    for run in [*stores.runs(uri, "sweep"), *stores.runs(uri)]:
        name = run.data.tags.get("trial", run.data.tags["sweep"])
        assert name not in seen, "one run each"
        told_apart = ("mlflow.", "winner_run")
        tags = {n: t for n, t in run.data.tags.items() if not n.startswith(told_apart)}
        history = reader.get_metric_history(run.info.run_id, "tok_s_so_far")
        series = sorted((point.step, point.value) for point in history)
        files = sorted(
            file.path
            for folder in ("", "launch", "review")
            for file in reader.list_artifacts(run.info.run_id, folder)
        )
        seen_note = run.data.tags["mlflow.note.content"]
        told = (run.info.run_name, run.info.status, run.data.params, run.data.metrics, tags)
        seen[name] = (*told, series, files, seen_note)
    return seen


def _writer(state: State, uri: str, sweep: str) -> MlflowWriter:
    return MlflowWriter(
        uri, state.artifact_root, stores.EXPERIMENT, outbox_path=state.outbox_path(sweep),
        backoff=stores.FAST, linger_s=0.1,
    )  # fmt: skip


def _rebuild(state: State, sweep: str | None = None, uri: str | None = None) -> Rebuilt:
    return rebuild(state, sweep, experiment=stores.EXPERIMENT, uri=uri)


@pytest.mark.slow
def test_a_lost_store_is_made_again_value_by_value_and_twice_is_as_once(tmp_path: Path) -> None:
    state = State(tmp_path)
    uri = stores.new_store(tmp_path)
    assert uri == state.mlflow_uri
    for sweep in ("s1", "s2"):
        writer = _writer(state, uri, sweep)
        _tracked(state, sweep, writer)
        assert writer.close(CLOSE_S)
    before = _seen(uri)
    assert len(before) == 8
    shutil.rmtree(state.artifact_root)
    (tmp_path / "mlflow.db").write_bytes(b"not a database any more")
    rebuilt = _rebuild(state)
    assert (rebuilt.sweeps, rebuilt.trials, rebuilt.damaged) == (("s1", "s2"), 6, ())
    assert _seen(uri) == before
    # One sweep alone, into a copy: the other one stays.
    assert _rebuild(state, "s2").sweeps == ("s2",)
    assert _seen(uri) == before
    folders = [path.name for path in state.artifact_root.glob("*/")]
    assert len(folders) == 8
    assert not list(tmp_path.glob(".mlflow.db*"))


@pytest.mark.slow
def test_a_store_elsewhere_gets_what_it_lacks_and_nothing_twice(tmp_path: Path) -> None:
    """As a server: written to in place. A sweep whose driver was killed is closed."""
    state = State(tmp_path / "state")
    state.root.mkdir()
    away = _writer(state, "http://127.0.0.1:9", "s1")
    _tracked(state, "s1", away)
    _spool(state, _end(result(3, ngram(5)), "s1"), ended=False)
    assert not away.close(CLOSE_S)
    assert state.outbox_path("s1").exists()
    uri = stores.new_store(tmp_path)
    _rebuild(state, uri=uri)
    seen = _seen(uri)
    assert seen.keys() == {"s1", *(f"s1-000{n}" for n in range(4))}
    assert seen["s1-0001"][3]["decode_tok_s"] == 50.0
    assert seen["s1-0001"][5] == [(second, 10.0 + second) for second in range(5)]
    assert seen["s1-0003"][1] == "KILLED"
    assert seen["s1-0003"][4]["reason"] == REASON
    assert seen["s1"][1] == "FINISHED"
    assert seen["s1"][2] == {"seed": "7"}
    assert not state.outbox_path("s1").exists()
    _rebuild(state, uri=uri)
    assert _seen(uri) == seen


def test_a_failed_rebuild_leaves_the_old_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(tmp_path)
    state.write_card("s1", {"name": "small"})
    (tmp_path / "mlflow.db").write_bytes(b"old")

    def fail(*args: object, **options: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("orchestrator.rebuild._write", fail)
    with pytest.raises(OSError, match="no space"):
        _rebuild(state)
    assert (tmp_path / "mlflow.db").read_bytes() == b"old"
    assert not list(tmp_path.glob("*rebuilt*"))


def test_a_sweep_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    State(tmp_path).write_card("ngram-1", {"name": "ngram"})
    with pytest.raises(BadInputError, match=r"Did you mean `ngram-1`\?"):
        _rebuild(State(tmp_path), "ngram-2")


def test_results_that_only_spools_hold_become_files(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.write_card("s1", {"name": "small"})
    ends = [_end(end, "s1") for end in ENDS]
    for end in ends:
        _spool(state, end)
    write_json(state.trial_folder("s1", 0) / "result.json", ends[0].as_data())
    assert [found.number for found in recover(state, "s1")] == [1, 2]
    assert recover(state, "s1") == []
    for end in ends:
        (state.trial_folder("s1", end.number) / "spool.jsonl").unlink()
    assert state.results("s1") == ends


def test_damaged_lines_are_reported_and_the_rest_counts(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.write_card("s1", {"name": "small"})
    _spool(state, _end(ENDS[1], "s1"))
    path = state.trial_folder("s1", 1) / "spool.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"tok_s": 12.0', b'"tok_s": 13.0'))
    events = list(events_of(state, "s1"))
    ended = [event.result.number for event in events if isinstance(event, TrialEnded)]
    assert ended == [1]
    assert not [event for event in events if isinstance(event, SweepEnded)]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state folder with six trials of a sweep and its study, each with another end."""
    state = State(tmp_path_factory.mktemp("left"))
    state.write_card("s1", {"name": "small", "definition": definition(SMALL)})
    search = StudySearch(SMALL, study_file(state.root), "s1")
    outcomes = [Outcome.MEASURED, Outcome.INFEASIBLE, Outcome.FAILED, Outcome.STOPPED,
                Outcome.CANCELLED]  # fmt: skip
    for n in range(6):
        proposal = search.ask()
        assert proposal is not None
        end = _end(
            replace(
                result(n, proposal.config, 20.0 + n, outcome=outcomes[n % 5]),
                purpose=proposal.purpose.value, why=proposal.why, retry_of=proposal.retry_of,
                bound=33.0,
            ),
            "s1",
        )  # fmt: skip
        search.tell(proposal, end, retry=True)
        write_json(state.trial_folder("s1", n) / "result.json", end.as_data())
    search.close()
    return state.root


def _study_of(state: State) -> list[tuple[object, ...]]:
    study = optuna.load_study(study_name="s1", storage=f"sqlite:///{state.study_path}")
    return [
        (
            t.number, t.state, t.values, t.params, t.distributions, t.user_attrs, t.system_attrs,
            t.intermediate_values, study.user_attrs, study.directions,
        )
        for t in study.trials
    ]  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("a wrong value", marks=pytest.mark.slow),
        pytest.param("torn", marks=pytest.mark.slow),
        pytest.param("lost", marks=pytest.mark.slow),
        pytest.param("no database", marks=pytest.mark.slow),
    ],
)
def test_the_study_is_made_again_as_it_was(tmp_path: Path, left: Path, damage: str) -> None:
    """States, values, bounds and attributes; and it goes on from there, with other draws."""
    shutil.copytree(left, tmp_path, dirs_exist_ok=True)
    state = State(tmp_path)
    ends = state.results("s1")
    before = _study_of(state)
    path = state.study_path
    match damage:
        case "lost":
            path.unlink()
        case "no database":
            path.write_bytes(b"not a database any more" * 1000)
        case "torn":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        case _:
            with contextlib.closing(sqlite3.connect(path)) as file:
                file.execute("UPDATE trial_values SET value = 1")
                file.commit()
    assert rebuild_study(state, ["s1"], write_study) == ()
    assert _study_of(state) == before
    assert not list(tmp_path.glob(".study.db*"))
    again = to_try_again(ends, frozenset())
    search = StudySearch(SMALL, path, "s1", state.results("s1"), again=again)
    drawn = [search.ask() for _ in range(4)]
    search.close()
    assert [(p.number, p.retry_of) for p in drawn if p][:2] == [(6, 4), (7, None)]
    tried = {end.config.variant for end in ends}
    assert not {p.config.variant for p in drawn[1:] if p} & tried


def test_a_sweep_without_a_definition_is_named_and_others_stay(tmp_path: Path, left: Path) -> None:
    shutil.copytree(left, tmp_path, dirs_exist_ok=True)
    state = State(tmp_path)
    before = _study_of(state)
    state.write_card("old", {"name": "old"})
    assert rebuild_study(state, ["old"], write_study) == ("old",)
    assert _study_of(state) == before


def test_what_a_tracker_would_have_been_told_has_the_times_of_then(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.write_card(
        "s1",
        {"name": "small", "created_at": "2026-01-02T03:04:05+00:00", "status": "interrupted",
         "objective": "ttft_ms", "key": "abc", "emulated": True, "plain": {"x": 1}},
    )  # fmt: skip
    first, second = (_end(end, "s1") for end in ENDS[:2])
    second = replace(second, started_at="", phase_s={"starting": 1.5, "measuring": 0.25})
    for end in (first, second):
        _spool(state, end)
        write_json(state.trial_folder("s1", end.number) / "result.json", end.as_data())
    _spool(state, _end(result(3, ngram(5)), "s1"), ended=False)
    told = list(events_of(state, "s1"))
    kinds = ["SweepStarted", *(["TrialStarted", "Progress", "TrialEnded", "TrialFiles"] * 2),
             "TrialStarted", "Progress", "TrialFiles", "SweepEnded", "SweepsDied"]  # fmt: skip
    assert [type(event).__name__ for event in told] == kinds
    begun, _, _, one, _, start, _, two, _, cut, samples, _, over, died = told
    assert isinstance(begun, SweepStarted)
    assert (begun.at_ms, begun.card.name, begun.card.objective) == (BEGAN_MS, "small", "ttft_ms")
    assert (begun.card.emulated, begun.card.higher_is_better) == (True, False)
    assert (begun.card.plain, begun.card.params["space"]) == ({"x": 1}, "abc")
    assert isinstance(one, TrialEnded)
    assert isinstance(two, TrialEnded)
    assert isinstance(start, TrialStarted)
    assert isinstance(cut, TrialStarted)
    assert one.at_ms == BEGAN_MS + 60_000
    # Of the second nobody knows when it began: after the first.
    assert (start.at_ms, two.at_ms) == (one.at_ms, one.at_ms + 1750)
    assert (cut.card.number, cut.at_ms) == (3, two.at_ms)
    assert isinstance(samples, Progress)
    assert samples.samples.keys() == set(range(5))
    assert samples.samples[4] == (Sample(4.0, 14.0, accept_length=2.0), BEGAN_MS + 4)
    assert isinstance(over, SweepEnded)
    assert (over.status, over.at_ms) == ("interrupted", two.at_ms + 1)
    assert died == SweepsDied(("s1",), two.at_ms + 1)


@pytest.mark.parametrize(
    ("objective", "higher"),
    [("decode_tok_s", True), ("tpot_ms", False), ("a_metric_of_a_later_release", True)],
)
def test_a_card_of_an_older_sweep_is_made_of_what_is_known(
    tmp_path: Path, objective: str, higher: bool
) -> None:
    state = State(tmp_path)
    state.write_card("s1", {"objective": objective, "created_at": "long ago", "plain": "odd"})
    card = sweep_card(state, "s1")
    assert (card.higher_is_better, card.emulated, card.name, card.plain) == (
        higher,
        False,
        "s1",
        {},
    )
    begun, *_ = events_of(state, "s1")
    assert isinstance(begun, SweepStarted)
    assert begun.at_ms == 24 * 3600 * 1000, "no time is known: a day after MLflow's zero"


def test_what_was_never_sent_is_read_and_stays_unsent(tmp_path: Path) -> None:
    state = State(tmp_path)
    away = _writer(state, "http://127.0.0.1:9", "s1")
    ends = _tracked(state, "s1", away)
    assert not away.close(0.0)
    path = state.outbox_path("s1")
    before = path.read_bytes()
    told = list(_unsent(path))
    assert [e.result.number for e in told if isinstance(e, TrialEnded)] == [e.number for e in ends]
    assert isinstance(told[0], SweepStarted)
    assert any(isinstance(event, SweepEnded) for event in told)
    assert list(_unsent(path)) == told
    assert path.read_bytes() == before
    assert list(_unsent(tmp_path / "none")) == []
