"""The tracker that needs nothing: one line of JSON an event, in a file that only grows."""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from threading import Lock

from infra.redaction import Redactor
from orchestrator.tracking.review import SweepReview
from orchestrator.tracking.seam import Sample, SweepCard, TrialCard
from sweeps.results import TrialResult

log = logging.getLogger(__name__)


class JsonlTracker:
    """Appends to a file. Each line says its `event`; a number that is not finite reads null.

    Secrets are masked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._redactor = Redactor.from_environment()
        self._closed = False
        self._complete = True

    def sweep_started(self, card: SweepCard) -> None:
        """Append the sweep."""
        self._append("sweep_started", asdict(card))

    def trial_started(self, card: TrialCard) -> None:
        """Append the trial."""
        self._append(
            "trial_started",
            {
                "trial": card.trial, "sweep": card.sweep, "number": card.number,
                "config": dict(card.config), "purpose": card.purpose, "emulated": card.emulated,
            },
        )  # fmt: skip

    def progress(self, trial: str, sample: Sample) -> None:
        """Append the sample; none is thinned out."""
        self._append("progress", {"trial": trial, **sample.as_data()})

    def trial_ended(self, result: TrialResult, folder: Path) -> None:
        """Append the result; the files stay where they are."""
        self._append("trial_ended", {**result.as_data(), "folder": str(folder)})

    def sweep_ended(self, status: str, review: SweepReview | None = None) -> None:
        """Append the status, and what the sweep came to."""
        told = {} if review is None else {"review": asdict(review)}
        self._append("sweep_ended", {"status": status, **told})

    def wait_open(self, deadline_s: float) -> bool:
        """Return at once: there is nothing to open."""
        return True

    def close(self, deadline_s: float) -> bool:
        """Tell whether every line was written; there is nothing to wait for."""
        with self._lock:
            self._closed = True
            return self._complete

    def _append(self, event: str, data: Mapping[str, object]) -> None:
        with self._lock:
            if self._closed:
                log.debug("event=%s came after the end and is not kept", event)
                return
            try:
                masked = self._redactor.data({"event": event, **_finite_map(data)})
                line = json.dumps(masked, allow_nan=False)
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
            except (OSError, TypeError, ValueError) as error:
                self._complete = False
                log.warning("event=%s is not in %s: %s", event, self.path, error)


def _finite_map(data: Mapping[str, object]) -> dict[str, object]:
    return {name: _finite(value) for name, value in data.items()}


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return _finite_map(value)
    return value
