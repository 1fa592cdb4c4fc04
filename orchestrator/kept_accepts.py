"""Replayed accept lengths that are kept in the state folder: a replay is a function of its text."""

import logging
from collections.abc import Sequence
from pathlib import Path

from infra.code_digest import code_digest
from orchestrator.files import read_json, write_json
from sweeps import drafting, replay
from sweeps.config import Config
from sweeps.replay.accepts import RecordedAccepts
from sweeps.results import Estimate
from sweeps.search.roles import drafting_of
from sweeps.values import digest

logger = logging.getLogger(__name__)


class KeptAccepts:
    """An `AcceptSource` that replays a drafting setting once for all sweeps of a folder."""

    def __init__(self, inner: RecordedAccepts, folder: Path) -> None:
        self._inner = inner
        self._path = folder / f"{digest([inner.digest, code_digest(drafting, replay)])}.json"
        self._known = _read(self._path)

    def accept(self, config: Config) -> Estimate | None:
        """Return the accept length of a configuration; None where nothing can be replayed."""
        if config.is_plain:
            return self._inner.accept(config)
        self.prepare([config])
        return self._known[drafting_of(config).variant]

    def prepare(self, configs: Sequence[Config]) -> None:
        """Replay at once what is not known of many configurations, and keep it."""
        drafts = {c.variant: c for c in map(drafting_of, configs) if not c.is_plain}
        missing = {name: draft for name, draft in drafts.items() if name not in self._known}
        if not missing:
            return
        self._inner.prepare(list(missing.values()))
        self._known |= {name: self._inner.accept(draft) for name, draft in missing.items()}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, {n: e and e.as_data() for n, e in self._known.items()})
        except OSError as error:
            logger.warning("replayed accept lengths are not kept: %s", error)


def _read(path: Path) -> dict[str, Estimate | None]:
    """Read what was kept; nothing where the file is not what was written."""
    try:
        kept = read_json(path) or {}
        return {name: row and Estimate.from_data(row) for name, row in kept.items()}  # type: ignore[arg-type, misc] # as written above
    except (OSError, LookupError, TypeError, ValueError):
        return {}
