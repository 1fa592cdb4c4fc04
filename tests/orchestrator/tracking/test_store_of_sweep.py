"""Where the runs of a sweep go, as its command says it, with another project's MLflow around."""

import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.cli import app
from tests.orchestrator.test_cli import Type, typed
from tests.orchestrator.test_damaged_results import SPACE

__all__ = ["typed"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # MLflow maps a relation with an option that SQLAlchemy deprecates.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)


def sweep(folder: Path, *words: str) -> tuple[str, str, int]:
    """Run a small sweep; return its first line, what it warned of, and its exit code."""
    (folder / "space.py").write_text(SPACE)
    simulated = ("--driver", "simulated", "--engine", "emulated")
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "sweep", "space.py", *simulated, *words],
        cwd=folder, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    return next(iter(done.stdout.splitlines()), ""), done.stderr, done.returncode


def runs_in(uri: str) -> int:
    client = MlflowClient(tracking_uri=uri)
    ids = [one.experiment_id for one in client.search_experiments()]
    return len(client.search_runs(ids))


def test_by_default_the_runs_stay_with_the_sweep(tmp_path: Path) -> None:
    first, warned, code = sweep(tmp_path)
    assert code == 0
    store = f"sqlite:///{tmp_path}/.sweeps/mlflow.db"
    assert "EMULATED" in first
    assert f"runs in MLflow at {store}" in first
    assert "ignored" not in warned
    assert runs_in(store) == 3


def test_the_environment_s_store_is_named_and_its_run_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = f"sqlite:///{tmp_path}/other.db"
    client = MlflowClient(tracking_uri=foreign)
    theirs = client.create_run(client.create_experiment("theirs")).info.run_id
    monkeypatch.setenv("MLFLOW_TRACKING_URI", foreign)
    monkeypatch.setenv("MLFLOW_RUN_ID", theirs)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    first, warned, code = sweep(tmp_path)
    assert code == 0
    assert f"runs in MLflow at {foreign} (MLFLOW_TRACKING_URI)" in first
    assert "MLFLOW_RUN_ID and MLFLOW_EXPERIMENT_NAME are ignored" in warned
    assert runs_in(foreign) == 1 + 3
    run = client.get_run(theirs)
    assert not run.data.metrics
    assert not [tag for tag in run.data.tags if not tag.startswith("mlflow.")]


def test_the_option_goes_before_the_environment(
    typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign, own = (f"sqlite:///{tmp_path}/{name}.db" for name in ("other", "own"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", foreign)
    first, _, code = sweep(tmp_path, "--tracking-uri", own)
    assert code == 0
    assert f"runs in MLflow at {own} (--tracking-uri)" in first
    assert runs_in(own) == 3
    assert not (tmp_path / "other.db").exists()
    again = f"sqlite:///{tmp_path}/again.db"
    assert typed("rebuild", "--tracking-uri", again, cwd=tmp_path).code == 0
    assert runs_in(again) == 3


@pytest.mark.parametrize(
    ("uri", "why"),
    [("./mlruns", "no longer takes"), ("https://me:hidden@host", "a password in a command line")],
)
@pytest.mark.parametrize("there", [(), ("--host", "rack1")])
def test_an_address_that_cannot_be_used_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, uri: str, why: str, there: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.py").write_text(SPACE)
    with pytest.raises(SystemExit) as ended:
        app(("sweep", "space.py", "--tracking-uri", uri, *there))
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert "--tracking-uri" in told
    assert why in told
    assert "hidden" not in told
    assert not (tmp_path / ".sweeps").exists()
