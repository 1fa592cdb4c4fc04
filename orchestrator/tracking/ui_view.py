"""How the runs are shown in MLflow's user interface: which columns, in which order."""

import json

VIEW = "sweep"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
"""The experiment's tag that holds the view."""

EXPERIMENT = "sweeps"
"""MLflow's experiment that holds all sweeps of a state folder."""


def view_state(objective: str, *, higher_is_better: bool) -> str:
    """Return a table of the trials, best first, in the form of MLflow's shared views.

    MLflow does not document the form (read from the interface of 3.17.2); one that does not know
    it says so and shows its own columns.
    """
    best = f"metrics.`{objective}`"
    columns = [best, f"metrics.`{objective}_low`", f"metrics.`{objective}_high`"]
    columns += ["tags.`outcome`", "tags.`purpose`", "tags.`emulated`", "attributes.`Created`"]
    return json.dumps(
        {"selectedColumns": columns, "orderByKey": best, "orderByAsc": not higher_is_better}
    )


def runs_url(address: str, experiment_id: str) -> str:
    """Return the page of an experiment's runs in that view."""
    return f"{address}/#/experiments/{experiment_id}/runs?viewStateShareKey={VIEW}"
