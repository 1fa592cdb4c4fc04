"""A study file that is lost, damaged, held, or of another space: a clear word, and nothing lost."""

import contextlib
import logging
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from optuna.study import StudyDirection

from orchestrator.search import study_file as module
from orchestrator.search.study import StudySearch
from orchestrator.search.study_file import StudyFile
from sweeps import Choice
from sweeps.problems import BadInputError
from sweeps.results import TrialResult
from sweeps.sweep import Sweep
from tests.orchestrator.search.ready import study_file
from tests.sweeps.makers import SMALL, result

pytestmark = pytest.mark.slow


def _left(folder: Path, sweep: Sweep = SMALL) -> list[TrialResult]:
    """Run three trials and return their ends."""
    search = StudySearch(sweep, study_file(folder), "s")
    ends = []
    for rate in (20.0, 30.0, 40.0):
        proposal = search.ask()
        assert proposal is not None
        end = result(proposal.number, proposal.config, rate, purpose=proposal.purpose.value)
        search.tell(proposal, end, retry=False)
        ends.append(end)
    search.close()
    return ends


def _values(path: Path) -> list[float | None]:
    with contextlib.closing(StudyFile(path, "s", [StudyDirection.MAXIMIZE])) as file:
        return [trial.value for trial in file.trials().values()]


@pytest.mark.slow  # tables are made anew
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_damaged_or_lost_file_is_set_aside_and_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_lost: bool
) -> None:
    ends = _left(tmp_path)
    path = tmp_path / "study.db"
    path.unlink() if is_lost else path.write_bytes(b"x" * 4096)
    with caplog.at_level(logging.WARNING, logger="orchestrator"):
        search = StudySearch(SMALL, path, "s", ends)
    proposal = search.ask()
    search.close()
    assert proposal is not None
    assert proposal.number == 3
    assert proposal.config not in [end.config for end in ends]
    assert _values(path) == [20.0, 30.0, 40.0, None]
    kept = tmp_path / "study.db.damaged-1"
    assert kept.exists() is not is_lost
    assert ("was damaged and is kept as study.db.damaged-1" in caplog.text) is not is_lost


def test_a_study_of_another_space_is_made_again(tmp_path: Path) -> None:
    ends = _left(tmp_path)
    wider = Choice("NCCL_PROTO", [None, "LL", "Simple"])
    search = StudySearch(
        replace(SMALL, axes=[*SMALL.axes[:3], wider]), tmp_path / "study.db", "s", ends[:2],
        first_number=3,
    )  # fmt: skip
    proposals = [search.ask() for _ in range(6)]
    search.close()
    assert [p.number for p in proposals if p] == [3, 4, 5, 6, 7, 8]
    assert _values(tmp_path / "study.db")[:3] == [20.0, 30.0, None]


def test_a_file_that_somebody_holds_for_too_long_is_one_clear_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_WAIT_S", 0.1)
    path = study_file(tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BadInputError, match="database is locked"):
            StudySearch(SMALL, path, "s")
    StudySearch(SMALL, path, "s").close()


def test_a_file_of_another_release_of_optuna_is_refused_and_stays(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE alembic_version SET version_num = 'v99.0.0.a'")
        file.execute("UPDATE version_info SET schema_version = 99, library_version = '99.0.0'")
        file.commit()
    before = path.read_bytes()
    with pytest.raises(BadInputError, match="another release of Optuna wrote it"):
        StudySearch(SMALL, path, "s")
    assert path.read_bytes() == before
