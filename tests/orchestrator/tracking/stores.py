"""MLflow stores for tests, ready at once, and an independent look into them."""

import functools
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.sqlite_address import sqlite_uri
from orchestrator.tracking.mlflow_writer import MlflowWriter
from orchestrator.tracking.review import SweepReview
from orchestrator.tracking.seam import SweepCard, TrialCard
from orchestrator.tracking.writer_loop import Backoff
from sweeps.config import Config
from sweeps.results import Estimate, Outcome, Phase, TrialResult
from sweeps.values import Value

EXPERIMENT = "spec"
CONFIG = Config.of(
    {
        "speculative_algorithm": "NGRAM",
        "speculative_num_draft_tokens": 4,
        "NCCL_PROTO": "LL",
        "NCCL_ALGO": None,
    }
)
REVIEW = SweepReview(
    "**Run ngram n4.**", {"gain": 1.2, "gain_low": None},
    {"winner": "ngram n4 · LL", "winner_rate": "60.0 tok/s, two starts"},
    {"review/story.md": "Run ngram n4.\n"}, "t1",
)  # fmt: skip
SWEEP = SweepCard("s1", "ngram", emulated=True, params={"seed": "7"}, tags={"git": "abc"})


def client(uri: str) -> Any:
    """Return MLflow's own client."""
    with warnings.catch_warnings():
        # MLflow 3.17 maps a relation with an option that SQLAlchemy 2.1 deprecates.
        warnings.filterwarnings("ignore", "The ``noload`` loader strategy", DeprecationWarning)
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=uri, registry_uri=uri)


@functools.cache
def _migrated() -> bytes:
    """Return an empty store; making one takes seconds, so it is made once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        client(sqlite_uri(path)).search_experiments()
        return path.read_bytes()


def new_store(folder: Path) -> str:
    """Put an empty store into a folder; return its address."""
    path = folder / "mlflow.db"
    path.write_bytes(_migrated())
    return sqlite_uri(path)


FAST = Backoff(first_s=0.01, longest_s=0.05)


def writer(uri: str, folder: Path, outbox_path: Path | None = None) -> MlflowWriter:
    """Return a writer that retries fast."""
    return MlflowWriter(
        uri,
        folder / "artifacts",
        EXPERIMENT,
        outbox_path=outbox_path,
        backoff=FAST,
        linger_s=0.1,
    )


def runs(uri: str, kind: str = "trial") -> list[Any]:
    """Return the runs of the trials, by number, or of the sweeps."""
    reader = client(uri)
    found = reader.get_experiment_by_name(EXPERIMENT)
    if found is None:
        return []
    asked = f"tags.kind = '{kind}'"
    listed = list(reader.search_runs([found.experiment_id], asked, max_results=1000))
    return sorted(listed, key=lambda run: int(run.data.tags.get("number", "0")))


def card(number: int, config: Config = CONFIG, *, emulated: bool = True) -> TrialCard:
    """Return the card of a trial `t<number>`."""
    return TrialCard(f"t{number}", SWEEP.sweep, number, config, "search", emulated)


def estimate(value: float, low: float | None = None, high: float | None = None) -> Estimate:
    """Return a measured number."""
    return Estimate(value, low, high, 60.0, "blocks", provisional=False)


def result(
    number: int,
    outcome: Outcome = Outcome.MEASURED,
    estimates: Mapping[str, Estimate] | None = None,
    effective: Mapping[str, Value] | None = None,
    *,
    emulated: bool = True,
    reason: str = "",
) -> TrialResult:
    """Return the end of trial `t<number>`."""
    return TrialResult(
        trial=f"t{number}",
        sweep=SWEEP.sweep,
        number=number,
        config=CONFIG,
        outcome=outcome,
        reason=reason,
        phase=Phase.MEASURING,
        emulated=emulated,
        host="gpu1",
        engine_version="0.5.23",
        gpu_hours=0.25,
        started_at="2026-01-02T03:04:05+00:00",
        phase_s={"cold pass": 12.5},
        estimates=dict(estimates or {}),
        effective=dict(effective or {}),
    )
