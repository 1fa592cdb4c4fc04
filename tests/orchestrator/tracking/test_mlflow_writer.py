"""What the MLflow writer leaves in a real store, read back with MLflow's own client."""

import contextlib
import errno
import hashlib
import logging
import math
import os
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.files import write_json
from orchestrator.sqlite_address import sqlite_uri
from orchestrator.tracking.events import TrialStarted
from orchestrator.tracking.mlflow_writer import TOLD_FILE, MlflowWriter
from orchestrator.tracking.seam import Sample
from sweeps.results import Outcome, TrialResult
from tests.attacks import attack
from tests.orchestrator.tracking import stores
from tests.patience import GIVE_UP_S

CLOSE_S = GIVE_UP_S


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return an empty store."""
    return stores.new_store(tmp_path)


@pytest.fixture
def writer(uri: str, tmp_path: Path) -> Iterator[MlflowWriter]:
    """Return a writer that knows the sweep."""
    writer = stores.writer(uri, tmp_path)
    writer.sweep_started(stores.SWEEP)
    yield writer
    writer.close(CLOSE_S)


def _only_run(uri: str) -> Any:
    (run,) = stores.runs(uri)
    return run


def _finish(writer: MlflowWriter, result: TrialResult, folder: Path) -> None:
    writer.trial_ended(result, folder)
    assert writer.close(CLOSE_S)


@contextlib.contextmanager
def _locked(uri: str) -> Iterator[None]:
    """Hold the store, so that the writer's thread waits in the middle of a call."""
    lock = sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        yield
        lock.execute("ROLLBACK")
    finally:
        lock.close()


@pytest.mark.slow
def test_numbers_are_what_was_sent(uri: str, writer: MlflowWriter, tmp_path: Path) -> None:
    estimates = {
        "decode_tok_s": stores.estimate(123.456789012345, 120.5, 126.25),
        "ttft_s": stores.estimate(0.125),
    }
    _finish(writer, stores.result(12, estimates=estimates), tmp_path)
    assert _only_run(uri).data.metrics == {
        "decode_tok_s": 123.456789012345,
        "decode_tok_s_low": 120.5,
        "decode_tok_s_high": 126.25,
        "ttft_s": 0.125,
        "gpu_hours": 0.25,
        "phase_s.cold_pass": 12.5,
    }


@pytest.mark.slow
def test_settings_are_requested_and_effective(
    uri: str, writer: MlflowWriter, tmp_path: Path
) -> None:
    effective = {"speculative_num_draft_tokens": 8, "mem_fraction_static": 0.1 + 0.2, "x y": True}
    _finish(writer, stores.result(12, effective=effective), tmp_path)
    assert _only_run(uri).data.params == {
        "config.speculative_algorithm": "NGRAM",
        "config.speculative_num_draft_tokens": "4",
        "config.NCCL_PROTO": "LL",
        "config.NCCL_ALGO": "unset",
        "effective.speculative_num_draft_tokens": "8",
        "effective.mem_fraction_static": "0.30000000000000004",
        "effective.x y": "on",
    }


@pytest.mark.slow
def test_four_trials_at_once_and_a_retry_are_five_runs(
    uri: str, writer: MlflowWriter, tmp_path: Path
) -> None:
    """Each with its own numbers, whoever told of them at the same time."""

    def tell(number: int) -> None:
        writer.trial_started(stores.card(number))
        for second in range(20):
            writer.progress(f"t{number}", Sample(float(second), 100.0 * number + second))
        estimates = {"decode_tok_s": stores.estimate(100.0 * number)}
        retry_of = 2 if number == 4 else None
        end = replace(stores.result(number, estimates=estimates), retry_of=retry_of)
        writer.trial_ended(end, tmp_path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tell, range(4)))
    tell(4)
    assert writer.close(CLOSE_S)
    told = [
        (run.data.tags["trial"], run.data.metrics["decode_tok_s"], run.data.tags.get("retry_of"))
        for run in stores.runs(uri)
    ]
    assert told == [(f"t{n}", 100.0 * n, "2" if n == 4 else None) for n in range(5)]


@pytest.mark.slow
def test_trials_stand_under_their_sweep(uri: str, writer: MlflowWriter, tmp_path: Path) -> None:
    writer.trial_started(stores.card(1))
    writer.trial_ended(stores.result(1), tmp_path)
    writer.trial_ended(stores.result(2), tmp_path)
    assert writer.close(CLOSE_S)
    (parent,) = stores.runs(uri, "sweep")
    children = stores.runs(uri)
    assert [run.info.run_name for run in children] == [
        "EMULATED ngram n4 · LL #1",
        "EMULATED ngram n4 · LL #2",
    ]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert parent.info.run_name == "EMULATED ngram"
    assert parent.data.params == {"seed": "7"}
    assert parent.data.tags["git"] == "abc"


@pytest.mark.slow
@pytest.mark.parametrize("emulated", [True, False])
def test_emulated_runs_carry_the_word(uri: str, tmp_path: Path, emulated: bool) -> None:
    writer = stores.writer(uri, tmp_path)
    writer.sweep_started(replace(stores.SWEEP, emulated=emulated))
    writer.trial_started(stores.card(1, emulated=emulated))
    assert writer.close(CLOSE_S)
    for run in (*stores.runs(uri), *stores.runs(uri, "sweep")):
        assert ("EMULATED" in run.info.run_name) == emulated
        assert ("emulated" in run.data.tags.get("mlflow.note.content", "")) == emulated
        assert run.data.tags["emulated"] == ("true" if emulated else "false")


@pytest.mark.slow
def test_status_follows_the_outcome(uri: str, writer: MlflowWriter, tmp_path: Path) -> None:
    for number, outcome in enumerate(Outcome):
        writer.trial_ended(stores.result(number, outcome, reason=f"why {number}"), tmp_path)
    assert writer.close(CLOSE_S)
    found = {run.data.tags["outcome"]: run.info.status for run in stores.runs(uri)}
    assert found == {
        "measured": "FINISHED",
        "partial": "FINISHED",
        "stopped": "KILLED",
        "cancelled": "KILLED",
        "infeasible": "FAILED",
        "hung": "FAILED",
        "failed": "FAILED",
    }
    assert [run.data.tags["reason"] for run in stores.runs(uri)] == [f"why {n}" for n in range(7)]


@pytest.mark.slow
def test_tags_say_where_and_what(uri: str, writer: MlflowWriter, tmp_path: Path) -> None:
    result = stores.result(1)
    _finish(writer, result, tmp_path)
    tags = _only_run(uri).data.tags
    assert _only_run(uri).info.start_time == 1_767_323_045_000  # its started_at
    assert tags["phase"] == "measuring"
    assert tags["host"] == "gpu1"
    assert tags["engine_version"] == "0.5.23"
    assert tags["variant"] == result.config.variant
    assert tags["purpose"] == "search"


@pytest.mark.slow
def test_samples_become_series(uri: str, writer: MlflowWriter, tmp_path: Path) -> None:
    writer.trial_started(stores.card(1))
    for second in range(1500):
        sample = Sample(second + 0.9, 100.0 + second, 90.0, 110.0, 2.5, 40.0)
        writer.progress("t1", sample)
    _finish(writer, stores.result(1), tmp_path)
    run_id = _only_run(uri).info.run_id
    reader = stores.client(uri)
    points = reader.get_metric_history(run_id, "tok_s_so_far")
    assert [(p.step, p.value) for p in points] == [(s, 100.0 + s) for s in range(1500)]
    constant = {"tok_s_so_far_low": 90.0, "tok_s_so_far_high": 110.0}
    constant |= {"accept_length_so_far": 2.5, "steps_per_s_so_far": 40.0}
    for name, value in constant.items():
        history = reader.get_metric_history(run_id, name)
        assert [(p.step, p.value) for p in history] == [(s, value) for s in range(1500)]


@pytest.mark.slow
def test_only_finite_numbers_are_sent(uri: str, writer: MlflowWriter, tmp_path: Path) -> None:
    writer.trial_started(stores.card(1))
    writer.progress("t1", Sample(1.0, math.inf, -math.inf, math.nan, 2.0, None))
    writer.progress("t1", Sample(math.nan, 1.0))
    writer.progress("t1", Sample(math.inf, 1.0))
    estimates = {
        "decode_tok_s": stores.estimate(100.0, math.nan, math.inf),
        "tpot_s": stores.estimate(math.nan, 1.0, 2.0),
    }
    _finish(writer, replace(stores.result(1, estimates=estimates), bound=math.inf), tmp_path)
    assert _only_run(uri).data.metrics == {
        "accept_length_so_far": 2.0,
        "decode_tok_s": 100.0,
        "gpu_hours": 0.25,
        "phase_s.cold_pass": 12.5,
    }
    tags = _only_run(uri).data.tags
    assert "not_finite" not in tags, "a result's are unknown once they were written down"
    assert tags["not_finite_so_far"] == (
        "tok_s_so_far=inf, tok_s_so_far_high=nan, tok_s_so_far_low=-inf"
    )


@pytest.mark.slow
def test_long_texts_become_files_with_a_short_form(
    uri: str, writer: MlflowWriter, tmp_path: Path
) -> None:
    long = "ä" * 20_000
    _finish(writer, stores.result(1, effective={"token_map": long}, reason=long), tmp_path)
    data = _only_run(uri).data
    for text in (data.params["effective.token_map"], data.tags["reason"]):
        assert text.startswith(long[:100])
        assert hashlib.sha256(long.encode()).hexdigest()[:12] in text
    kept = stores.client(uri).download_artifacts(
        _only_run(uri).info.run_id, "values/effective.token_map.txt", str(tmp_path)
    )
    assert Path(kept).read_text() == long


@pytest.mark.slow
def test_many_settings_go_in_several_batches(
    uri: str, writer: MlflowWriter, tmp_path: Path
) -> None:
    _finish(writer, stores.result(1, effective={f"flag_{n}": n for n in range(450)}), tmp_path)
    params = _only_run(uri).data.params
    assert {n: params[f"effective.flag_{n}"] for n in range(450)} == {n: str(n) for n in range(450)}


@pytest.mark.slow
def test_a_second_end_updates_the_run(uri: str, writer: MlflowWriter, tmp_path: Path) -> None:
    first = {"decode_tok_s": stores.estimate(100.0)}
    _finish(writer, stores.result(1, estimates=first, effective={"page_size": 1}), tmp_path)
    later = stores.writer(uri, tmp_path)
    second = {"decode_tok_s": stores.estimate(90.0)}
    effective = {"page_size": 16, "tp_size": 8}
    _finish(later, stores.result(1, Outcome.HUNG, second, effective), tmp_path)
    run = _only_run(uri)
    assert run.info.status == "FAILED"
    assert run.data.metrics["decode_tok_s"] == 90.0
    assert run.data.tags["outcome"] == "hung"
    assert run.data.params["effective.tp_size"] == "8"
    # A parameter cannot change, so the new value stands in the tag of the same name.
    assert run.data.params["effective.page_size"] == "1"
    assert run.data.tags["effective.page_size"] == "16"


@pytest.mark.slow
def test_the_sweep_ends_with_counts_and_its_best(
    uri: str, writer: MlflowWriter, tmp_path: Path
) -> None:
    for number, tok_s in enumerate([100.0, 130.0, 110.0]):
        estimates = {"decode_tok_s": stores.estimate(tok_s)}
        writer.trial_ended(stores.result(number, estimates=estimates), tmp_path)
    stopped = {"decode_tok_s": stores.estimate(999.0)}
    writer.trial_ended(stores.result(3, Outcome.STOPPED, stopped), tmp_path)
    writer.sweep_ended("finished")
    assert writer.close(CLOSE_S)
    (parent,) = stores.runs(uri, "sweep")
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["best_observed_trial"] == "t1"
    assert parent.data.metrics == {
        "best_observed_decode_tok_s": 130.0,
        "trials": 4.0,
        "trials_measured": 3.0,
        "trials_stopped": 1.0,
        **{f"trials_{o}": 0.0 for o in ("partial", "infeasible", "hung", "failed", "cancelled")},
    }


@pytest.mark.slow
def test_the_sweep_tells_its_story_and_leads_to_its_winner(uri: str, tmp_path: Path) -> None:
    """All starts of one variant at a time: of a sweep that is taken up again another may win."""
    folder = tmp_path / "trial"
    folder.mkdir()
    (folder / "plan.json").write_text('{"argv": []}')
    for winner, starts in (("t1", ("t3", "t1")), ("t2", ("t2",))):
        writer = stores.writer(uri, tmp_path)
        writer.sweep_started(stores.SWEEP)
        for number in (1, 2, 3):
            ended = replace(stores.result(number), argv=("python", "-m", "x"), env={"A": "b c"})
            write_json(folder / "result.json", ended.as_data())
            writer.trial_ended(ended, folder)
            assert writer.wait_open(CLOSE_S)
        review = replace(stores.REVIEW, winner=winner, starts=starts)
        writer.sweep_ended("finished", review)
        assert writer.close(CLOSE_S)
        (parent,) = stores.runs(uri, "sweep")
        tags = {run.data.tags["trial"]: run.data.tags for run in stores.runs(uri)}
        marked = {name: tags[name].get("winner_rate") for name in tags if "winner" in tags[name]}
        assert marked == dict.fromkeys(starts, "60.0 tok/s, two starts")
        assert all("winner_rate" not in tags[name] for name in tags.keys() - set(starts))
        assert parent.data.tags["winner_trial"] == winner
        assert parent.data.tags["winner"] == "ngram n4 · LL"
        assert parent.data.tags["mlflow.note.content"].endswith("**Run ngram n4.**")
        assert parent.data.metrics["gain"] == 1.2 and "gain_low" not in parent.data.metrics
        reader = stores.client(uri)
        story = reader.download_artifacts(parent.info.run_id, "review/story.md", str(tmp_path))
        assert Path(story).read_text() == "Run ngram n4.\n"
        run_id = parent.data.tags["winner_run"]
        script = reader.download_artifacts(run_id, "launch/serve.sh", str(tmp_path))
        assert "export A='b c'" in Path(script).read_text()
        assert Path(script).read_text().endswith('exec python -m x "$@"\n')
        assert [f.path for f in reader.list_artifacts(run_id, "launch")] == [
            "launch/plan.json", "launch/serve.sh",
        ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "status"), [("finished", "FINISHED"), ("failed", "FAILED"), ("cancelled", "KILLED")]
)
def test_the_status_of_a_sweep(uri: str, writer: MlflowWriter, word: str, status: str) -> None:
    writer.sweep_ended(word)
    assert writer.close(CLOSE_S)
    (parent,) = stores.runs(uri, "sweep")
    assert (parent.info.status, parent.data.tags["status"]) == (status, word)


@pytest.mark.slow
def test_files_of_a_trial_are_kept(uri: str, writer: MlflowWriter, tmp_path: Path) -> None:
    folder = tmp_path / "a trial #1 %41"
    folder.mkdir()
    (folder / "plan.json").write_text("{}")
    (folder / "server.log").write_text("line\n" * 2_000_000 + "last words\n")
    _finish(writer, stores.result(1), folder)
    run_id = _only_run(uri).info.run_id
    reader = stores.client(uri)
    sizes = {entry.path: entry.file_size for entry in reader.list_artifacts(run_id)}
    assert sizes.keys() == {"plan.json", "server.log"}
    assert sizes["server.log"] < 5.1 * 1024 * 1024
    log = Path(reader.download_artifacts(run_id, "server.log", str(tmp_path))).read_text()
    assert log.startswith("[the first ")
    assert log.endswith("line\nlast words\n")
    assert (tmp_path / "artifacts").is_dir()


@pytest.mark.slow
def test_a_folder_with_an_odd_name_holds_store_and_files(tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s a "store"; 50 %'
    odd.mkdir()
    (odd / "plan.json").write_text("{}")
    uri = stores.new_store(odd)
    writer = stores.writer(uri, odd)
    _finish(writer, stores.result(1), odd)
    reader = stores.client(uri)
    listed = [entry.path for entry in reader.list_artifacts(_only_run(uri).info.run_id)]
    assert "plan.json" in listed


@pytest.mark.slow
def test_ids_with_quotes_are_found_again(uri: str, tmp_path: Path) -> None:
    for _ in range(2):
        writer = stores.writer(uri, tmp_path)
        writer.sweep_started(replace(stores.SWEEP, sweep="it's"))
        _finish(writer, replace(stores.result(1), trial="t'1", sweep="it's"), tmp_path)
    assert len(stores.runs(uri)) == len(stores.runs(uri, "sweep")) == 1


@pytest.mark.slow
def test_a_blocked_store_blocks_nobody_else(uri: str, writer: MlflowWriter, tmp_path: Path) -> None:
    writer.trial_started(stores.card(1))
    writer.progress("t1", Sample(0.0, 1.0))
    _wait_until_empty(writer)
    with _locked(uri):
        for second in range(1000):
            writer.progress("t1", Sample(float(second), 2.0))
        writer.trial_ended(stores.result(1), tmp_path)
        # All calls are back, and the store is still held.
        assert writer.waiting >= 1
    assert writer.close(CLOSE_S)
    run = _only_run(uri)
    points = stores.client(uri).get_metric_history(run.info.run_id, "tok_s_so_far")
    assert {p.step for p in points} == set(range(1000))
    assert run.data.tags["outcome"] == "measured"


def _wait_until_empty(writer: MlflowWriter) -> None:
    deadline_s = time.monotonic() + CLOSE_S
    while writer.waiting and time.monotonic() < deadline_s:
        time.sleep(0.05)


@pytest.mark.slow
def test_close_does_not_outstay_its_deadline(
    uri: str, writer: MlflowWriter, tmp_path: Path
) -> None:
    _wait_until_empty(writer)
    with _locked(uri):
        writer.trial_ended(stores.result(1), tmp_path)
        assert not writer.close(0.2)


@pytest.mark.slow
def test_a_lost_store_keeps_what_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    writer = stores.writer(sqlite_uri(tmp_path / "file" / "mlflow.db"), tmp_path)
    writer.trial_ended(stores.result(1), tmp_path)
    assert not writer.close(CLOSE_S)
    # The result and the files of the trial.
    assert writer.waiting == 2


@pytest.mark.slow
def test_a_store_that_comes_back_gets_all(tmp_path: Path) -> None:
    blocker = tmp_path / "later"
    blocker.write_text("no folder yet")
    writer = stores.writer(sqlite_uri(blocker / "mlflow.db"), tmp_path)
    writer.sweep_started(stores.SWEEP)
    writer.trial_started(stores.card(1))
    writer.trial_ended(stores.result(1), tmp_path)
    _wait_for_failures(writer, 9)
    assert writer.refused == 0
    blocker.unlink()
    blocker.mkdir()
    uri = stores.new_store(blocker)
    assert writer.close(CLOSE_S)
    run = _only_run(uri)
    (parent,) = stores.runs(uri, "sweep")
    assert run.info.status == "FINISHED"
    assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id


def _wait_for_failures(writer: MlflowWriter, count: int) -> None:
    deadline_s = time.monotonic() + CLOSE_S
    while writer.failures < count and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert writer.failures >= count


@pytest.mark.slow
def test_a_late_start_does_not_reopen_an_ended_trial(
    uri: str, writer: MlflowWriter, tmp_path: Path
) -> None:
    writer.trial_ended(stores.result(1), tmp_path)
    # As when the start could not be written before the end was.
    writer._put(TrialStarted(stores.card(1), at_ms=1), 1)
    assert writer.close(CLOSE_S)
    assert _only_run(uri).info.status == "FINISHED"


@pytest.mark.slow
def test_nothing_is_said_on_the_console(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    writer = stores.writer(sqlite_uri(tmp_path / "new" / "mlflow.db"), tmp_path)
    writer.sweep_started(stores.SWEEP)
    writer.trial_ended(stores.result(1, effective={"long": "x" * 10_000}), tmp_path)
    writer.sweep_ended("finished")
    assert writer.close(CLOSE_S)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_a_relative_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not absolute"):
        MlflowWriter("sqlite:///mlflow.db", tmp_path, "e")


@attack("Low: a power cut between the end of a trial and its line in the outbox")
@pytest.mark.parametrize("fails", [False, True])
def test_an_end_counts_as_told_once_its_line_is_on_disk(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "trial"
    folder.mkdir()
    told, fsync = folder / TOLD_FILE, os.fsync
    seen: list[bool] = []

    def watched(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if path.name == "outbox.jsonl":
            seen.append(b"TrialEnded" in path.read_bytes())
            assert not told.exists()
            if fails:
                raise OSError(errno.EIO, "the disk says no")
        fsync(fd)

    writer = stores.writer("http://127.0.0.1:9", tmp_path, tmp_path / "outbox.jsonl")
    monkeypatch.setattr(os, "fsync", watched)
    writer.trial_ended(stores.result(1), folder)
    monkeypatch.undo()
    assert seen
    assert seen[-1]
    assert told.exists() is not fails
    writer.close(0.1)
