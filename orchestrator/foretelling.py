"""What was predicted of each trial of a sweep before it started, held against what it measured."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.files import read_json, write_json
from sweeps.config import Config
from sweeps.intervals import Interval
from sweeps.prediction.cells import interval_data
from sweeps.prediction.source import PLAIN, AcceptSource
from sweeps.prediction.words import disagreement
from sweeps.reporting.promises import Promise
from sweeps.results import Estimate, TrialResult
from sweeps.search.planner import Planner

PREDICTIONS_FILE = "predictions.json"
_RATE = "decode_tok_s"


class Foretelling:
    """The predictions of one sweep, in a file of its folder. A trial keeps its first one."""

    def __init__(self, path: Path, planner: Planner | None, *, emulated: bool) -> None:
        self._path, self._planner, self._emulated = path, planner, emulated
        rows = (read_json(path) or {}).get("rows", [])
        self._rows: dict[int, dict[str, object]] = {
            row["number"]: row
            for row in rows  # type: ignore[attr-defined] # as written below
        }

    def begin(
        self, number: int, config: Config, results: Sequence[TrialResult],
        promised_gain: float | None = None,
    ) -> None:  # fmt: skip
        """Predict a trial that is about to start, and keep the lift that it promised as a fraction
        of the best rate. Raises DiskError."""
        if self._planner is None or number in self._rows:
            return
        found = self._planner.foretell(results, config)
        if found is None:
            return
        self._rows[number] = {
            "number": number, "config": dict(config), "variant": config.variant,
            "predicted": interval_data(found.tok_s), "accept": interval_data(found.accept),
            "cycle_ms": interval_data(found.cycle_ms), "trials_before": len(results),
            "promised_gain": promised_gain,
        }  # fmt: skip
        data = {"emulated": self._emulated, "metric": _RATE, "rows": [*self._rows.values()]}
        write_json(self._path, data)

    def disagreement(self, result: TrialResult) -> str:
        """Say that a trial measured something else than was predicted; empty where it did not."""
        row, measured = self._rows.get(result.number), result.estimates.get(_RATE)
        if row is None or measured is None or not result.outcome.has_rate:
            return ""
        return disagreement(Interval(**row["predicted"]), measured)  # type: ignore[arg-type] # as written above


def predictions(path: Path) -> dict[int, Promise]:
    """Read what was predicted of each trial, by its number; what cannot be read is left out."""
    rows = (read_json(path) or {}).get("rows")
    found = {}
    for row in rows if isinstance(rows, list) else ():
        with contextlib.suppress(KeyError, TypeError):
            found[int(row["number"])] = Promise(
                Interval(**row["predicted"]),
                Interval(**row["cycle_ms"]) if "cycle_ms" in row else None,
                row.get("promised_gain"),
            )
    return found


class LateAccepts:
    """Accept lengths of a recording that may not be there yet: the first plain decode writes it."""

    def __init__(self, folder: Path, find: Callable[[], AcceptSource | None]) -> None:
        self._folder, self._find = folder, find
        self._source: AcceptSource | None = None
        self._seen_ns = -1

    def accept(self, config: Config) -> Estimate | None:
        """Return it once there is a recording; None before."""
        if config.is_plain:
            return PLAIN
        source = self._sought()
        return None if source is None else source.accept(config)

    def prepare(self, configs: Sequence[Config]) -> None:
        """Pass it on, once there is a recording."""
        source = self._sought()
        if source is not None:
            source.prepare(configs)

    def _sought(self) -> AcceptSource | None:
        if self._source is None and self._changed():
            self._source = self._find()
        return self._source

    def _changed(self) -> bool:
        try:
            now_ns = self._folder.stat().st_mtime_ns
        except OSError:
            return False
        changed, self._seen_ns = now_ns != self._seen_ns, now_ns
        return changed
