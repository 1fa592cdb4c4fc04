"""Trials as a table for notebooks and spreadsheets; the only importer of pandas."""

from collections.abc import Sequence

import pandas as pd


def trials_frame(rows: Sequence[dict[str, object]]) -> pd.DataFrame:
    """Return a row for each trial, nested fields as columns such as `config.NCCL_PROTO`.

    `rows` are those of `orchestrator.commands.trial_rows`; times are in the host's seconds.
    """
    frame = pd.json_normalize([dict(row) for row in rows])
    return frame.drop(columns=[name for name in ("argv", "env") if name in frame])
