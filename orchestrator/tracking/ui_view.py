"""How the runs are shown in MLflow's user interface: which columns and charts, in which order.

MLflow does not document the form of its shared views (this one is read from the interface of
3.17.2); one that does not know it says so and shows its own.
"""

import json
from collections.abc import Sequence
from typing import Any

VIEW = "sweep"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
"""The experiment's tag that holds the view."""

EXPERIMENT = "sweeps"
"""MLflow's experiment that holds all sweeps of a state folder."""

MOST_AXES = 6
"""Of a parallel-coordinates chart: more cannot be read."""

_RUN_NAME = "attributes.`Run Name`"
_WIDTHS = {_RUN_NAME: 360, "tags.`winner`": 70, "tags.`result`": 210}
_SERIES = ("tok_s_so_far", "accept_length_so_far", "steps_per_s_so_far", "tokens_so_far")
"""Against the host's seconds."""

_OURS, _REST, _SYSTEM = "sweep-charts", "all-metrics", "system-metrics"


def view_state(
    sweep: str, objective: str, axes: Sequence[str] = (), *, higher_is_better: bool
) -> str:
    """Return the table of one sweep, best first, and its charts, as JSON.

    `axes` are the parameters that vary, the most telling first.
    """
    best = f"metrics.`{objective}`"
    columns = [_tag("winner"), _tag("result"), best, "metrics.`accept_length`", _tag("outcome")]
    columns.append(_tag("purpose"))
    return json.dumps(
        {
            "searchFilter": f"tags.sweep = '{sweep}'",
            "selectedColumns": columns,
            "columnOrder": [_RUN_NAME, *columns],
            "columnWidths": {**dict.fromkeys(columns, 110), **_WIDTHS},
            "orderByKey": best,
            "orderByAsc": not higher_is_better,
            "runsHiddenMode": "SHOW_ALL",
            "isAccordionReordered": True,
            "compareRunCharts": _charts(objective, axes),
            "compareRunSections": [
                _section(_OURS, "The sweep", is_open=True),
                _section(_REST, "Model metrics", is_open=False),
                _section(_SYSTEM, "System metrics", is_open=False),
            ],
        },
        separators=(",", ":"),
    )


def runs_url(address: str, experiment_id: str) -> str:
    """Return the page of an experiment's runs in that view."""
    return f"{address}/#/experiments/{experiment_id}/runs?viewStateShareKey={VIEW}"


def _tag(name: str) -> str:
    return f"tags.`{name}`"


def _section(uuid: str, name: str, *, is_open: bool) -> dict[str, Any]:
    return {
        "uuid": uuid, "name": name, "display": is_open, "isReordered": True, "deleted": False,
        "isGenerated": False,
    }  # fmt: skip


def _charts(objective: str, axes: Sequence[str]) -> list[dict[str, Any]]:
    """Return what explains a sweep: which axis matters, who wins, break-even, and the curves."""
    return [
        _chart("PARALLEL", selectedParams=list(axes[:MOST_AXES]), selectedMetrics=[objective],
               showAllRuns=True),
        _chart("BAR", metricKey=objective, runsCountToCompare=30),
        _chart("SCATTER", runsCountToCompare=100, xaxis={"key": "cycle_ms", "type": "METRIC"},
               yaxis={"key": "accept_length", "type": "METRIC"}),
        *(_chart("LINE", metricKey=name, selectedMetricKeys=[name], xAxisKey="step")
          for name in _SERIES),
    ]  # fmt: skip


def _chart(kind: str, **rest: Any) -> dict[str, Any]:
    return {
        "uuid": f"{kind}-{rest.get('metricKey', '')}".lower(), "type": kind,
        "metricSectionId": _OURS, "isGenerated": False, "deleted": False, **rest,
    }  # fmt: skip
