"""Sweeps of SGLang servers. In a notebook: `import orchestrator; orchestrator.load()`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.frame import TrialTable


def load(sweep: str | None = None, state_dir: "str | Path" = ".sweeps") -> "TrialTable":
    """Return the trials of a sweep, or of all, as a pandas table: a row a trial that has ended.

    Columns of a metric carry its unit in `frame.attrs["units"]`, and what it means in
    `frame.attrs["descriptions"]`; `_low` and `_high` beside it are the ends of its 95 % interval.
    `config.*` is what was asked, `effective.*` what the server runs with. Times are in the host's
    own seconds. `emulated` must be said wherever a number of such a row is shown.
    Raises BadInputError for a sweep that is not there.
    """
    from pathlib import Path

    from orchestrator.commands import trial_results  # slow to import
    from orchestrator.frame import results_frame

    return results_frame(trial_results(Path(state_dir), sweep))
