"""Trials as a table for notebooks and spreadsheets; the only importer of pandas."""

from collections.abc import Sequence

import pandas as pd

from sweeps.metrics import Metric, metric_named
from sweeps.naming import short
from sweeps.results import TrialResult
from sweeps.values import show

TrialTable = pd.DataFrame


def trials_frame(rows: Sequence[dict[str, object]]) -> pd.DataFrame:
    """Return a row for each trial, nested fields as columns such as `config.NCCL_PROTO`.

    `rows` are those of `orchestrator.commands.trial_rows`; times are in the host's seconds.
    """
    frame = pd.json_normalize([dict(row) for row in rows])
    return frame.drop(columns=[name for name in ("argv", "env") if name in frame])


def results_frame(results: Sequence[TrialResult]) -> pd.DataFrame:
    """Return a row for each trial, typed for notebooks: see `orchestrator.load`.

    A cell that is not known is missing, never zero. What a setting may be in several types is text.
    """
    frame = pd.DataFrame([_row(result) for result in results])
    frame = frame.reindex(columns=sorted(frame.columns, key=_place))
    if "started_at" in frame:
        frame["started_at"] = pd.to_datetime(frame["started_at"], utc=True, errors="coerce")
    for name in frame.columns:
        frame[name] = _typed(frame[name])
    metrics = {name: metric for name in frame.columns if (metric := _metric_of(str(name)))}
    frame.attrs["units"] = _UNITS | {name: metric.unit for name, metric in metrics.items()}
    frame.attrs["descriptions"] = {name: metric.description for name, metric in metrics.items()}
    return frame


_UNITS = {"gpu_hours": "GPU-hours", "bound": "unit of the objective"}
_NESTED = ("config", "effective", "phase_s")


def _row(result: TrialResult) -> dict[str, object]:
    row: dict[str, object] = {
        "trial": result.trial, "sweep": result.sweep, "number": result.number,
        "name": short(result.config), "variant": result.config.variant,
        "algorithm": result.config.algorithm or "plain", "purpose": result.purpose,
        "outcome": result.outcome.value, "emulated": result.emulated, "host": result.host,
        "engine_version": result.engine_version, "fingerprint": result.fingerprint,
        "started_at": result.started_at, "gpu_hours": result.gpu_hours, "bound": result.bound,
        "quality": result.quality.value, "signature": result.signature, "reason": result.reason,
        "notes": "; ".join(result.notes),
    }  # fmt: skip
    for name, estimate in result.estimates.items():
        row[name] = estimate.value
        row[f"{name}_low"], row[f"{name}_high"] = estimate.low, estimate.high
        row[f"{name}_provisional"] = estimate.provisional
    for kind in _NESTED:
        row |= {f"{kind}.{name}": value for name, value in getattr(result, kind).items()}
    return row


def _place(name: str) -> int:
    """Order columns by kind; those of one kind stay as they came."""
    kind = name.partition(".")[0]
    return _NESTED.index(kind) + 1 if "." in name and kind in _NESTED else 0


def _metric_of(name: str) -> Metric | None:
    for end in ("_low", "_high"):
        name = name.removesuffix(end)
    return metric_named(name)


def _typed(column: pd.Series) -> pd.Series:
    """Give a column a type that has a value for what is missing."""
    kinds = {type(value) for value in column.dropna()}
    if len(kinds - {int, float}) > 1 or (kinds - {int, float} and kinds & {int, float}):
        column = column.map(lambda value: None if value is None else show(value))
    return column.convert_dtypes()
