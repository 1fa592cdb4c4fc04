"""The recommendation as JSON."""

import json

from sweeps.exporters.recommendation import Recommendation


def as_json(what: Recommendation) -> str:
    """Write configuration, launch command and evidence as one object."""
    trial, best = what.trial, what.best
    data = {
        "sweep": trial.sweep,
        "trial": trial.trial,
        "variant": best.variant,
        "emulated": trial.emulated,
        "engine_version": trial.engine_version,
        "config": dict(best.config),
        "pins": what.pins,
        "chosen_by_the_server": what.chosen,
        "argv": [*what.program, *what.options],
        "env": what.env,
        "metric": what.metric,
        "unit": what.unit,
        "value": best.value,
        "low": best.low,
        "high": best.high,
        "confirmed": best.confirmed,
        "gain_over_plain": what.gain,
        "ties": what.ties,
        "evidence": what.evidence,
        "warnings": list(what.warnings),
    }
    return json.dumps(data, indent=2) + "\n"
