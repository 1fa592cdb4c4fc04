"""How the runs are shown in MLflow's user interface: which columns and charts, in which order.

MLflow does not document the form of its shared views (this one is read from the interface of
3.17.2); one that does not know it says so and shows its own.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

VIEW = "sweep"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
"""The experiment's tag that holds the view."""

EXPERIMENT = "sweeps"
"""MLflow's experiment that holds all sweeps of a state folder."""

MOST_AXES = 6
"""Of a parallel-coordinates chart: more cannot be read."""

_SHOWN_METRICS = ("accept_length", "steps_per_s")
_SERIES = (
    ("tok_s_so_far", "tok/s so far, by the host's seconds"),
    ("accept_length_so_far", "accept length so far, by the host's seconds"),
    ("steps_per_s_so_far", "steps/s so far, by the host's seconds"),
    ("tokens_so_far", "tokens received, by the host's seconds"),
)
_OURS, _REST, _SYSTEM = "sweep-charts", "all-metrics", "system-metrics"


def view_state(
    sweep: str, objective: str, axes: Sequence[str] = (), *, higher_is_better: bool
) -> str:
    """Return the table of one sweep, best first, and its charts, as JSON.

    `axes` are the parameters that vary, the most telling first.
    """
    best = f"metrics.`{objective}`"
    columns = [best, f"metrics.`{objective}_low`", f"metrics.`{objective}_high`"]
    columns += [f"metrics.`{name}`" for name in _SHOWN_METRICS]
    columns += [f"tags.`{name}`" for name in ("winner", "outcome", "result", "purpose")]
    return json.dumps(
        {
            "searchFilter": f"tags.sweep = '{sweep}'",
            "selectedColumns": columns,
            "columnWidths": _widths(columns),
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


def _widths(columns: Sequence[str]) -> Mapping[str, int]:
    widths = dict.fromkeys(columns, 110)
    return {**widths, "tags.`winner`": 90, "tags.`result`": 260, "attributes.`Run Name`": 330}


def _section(uuid: str, name: str, *, is_open: bool) -> dict[str, Any]:
    return {
        "uuid": uuid, "name": name, "display": is_open, "isReordered": True, "deleted": False,
        "isGenerated": False,
    }  # fmt: skip


def _charts(objective: str, axes: Sequence[str]) -> list[dict[str, Any]]:
    """Return what explains a sweep: which axis matters, who wins, break-even, and the curves."""
    charts = [
        _chart("PARALLEL", "what leads where", selectedParams=list(axes[:MOST_AXES]),
               selectedMetrics=[objective], showAllRuns=True),
        _chart("BAR", objective, metricKey=objective, runsCountToCompare=30),
        _chart("SCATTER", "accept length against cycle time", runsCountToCompare=100,
               xaxis={"key": "cycle_ms", "type": "METRIC"},
               yaxis={"key": "accept_length", "type": "METRIC"}),
    ]  # fmt: skip
    lines = [
        _chart("LINE", name, metricKey=key, selectedMetricKeys=[key], xAxisKey="step")
        for key, name in _SERIES
    ]
    return charts + lines


def _chart(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {
        "uuid": f"{kind}-{name}".lower().replace(" ", "-"), "type": kind, "displayName": name,
        "metricSectionId": _OURS, "isGenerated": False, "deleted": False, **rest,
    }  # fmt: skip
