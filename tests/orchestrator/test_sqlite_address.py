"""Addresses of SQLite files lead to the file that was meant, or to none."""

from pathlib import Path

import optuna
import pytest

from orchestrator.search.study_file import drop_study
from orchestrator.sqlite_address import path_in, sqlite_uri
from orchestrator.state import State
from sweeps.problems import BadInputError
from tests.attacks import attack


@attack("Low: a state folder whose name means more than a path in a SQLite address")
@pytest.mark.parametrize("name", ["a?b", "a%41", "x?mode=memory", "%2e%2e"])
def test_a_name_that_leads_elsewhere_is_refused_and_makes_no_file(
    name: str, tmp_path: Path
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    for use in (lambda: State(folder).mlflow_uri, lambda: drop_study(folder / "study.db", "s")):
        with pytest.raises(BadInputError, match="leads SQLite to another file"):
            use()
    with pytest.raises(BadInputError), State(folder).lock("s"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == [name]


@pytest.mark.parametrize("name", ["plain", "a b#c&d", "50%off", "é;=+@:'"])
def test_any_other_name_is_taken_as_it_is(name: str, tmp_path: Path) -> None:
    path = tmp_path / name / "study.db"
    path.parent.mkdir()
    assert path_in(sqlite_uri(path)) == path
    optuna.storages.RDBStorage(sqlite_uri(path))
    assert path.is_file()
