"""The part of an export that `verify` reads: what was measured, sealed with a hash."""

import json
from collections.abc import Mapping
from typing import Any

from sweeps.exporters.launches import Launch, UnreadableExportError
from sweeps.exporters.recommendation import Recommendation
from sweeps.values import digest

EXPORT = 1
"""Of the data; what was written under another one is not read."""

_KINDS: dict[str, type[Any]] = {
    "argv": list, "env": dict, "seal": dict, "format": str, "host": dict, "workload": dict,
    "budget": dict, "settings": dict, "config": dict, "engine_version": str, "fingerprint": str,
    "metric": str, "sweep": str, "trial": str, "emulated": bool, "confirmed": bool,
}  # fmt: skip
_BEGIN = "# --- measured, as data: read by `orchestrator verify`, sealed by a hash ---"
_END = "# --- end of data ---"
_MARGIN = "#  "


def record(what: Recommendation, form: str) -> dict[str, Any]:
    """Return all that an export holds, as plain data, with its seal."""
    best, trial, origin = what.best, what.trial, what.origin
    word = {"notice": "EMULATED: no GPU was used"} if trial.emulated else {}
    data: dict[str, Any] = {
        **word,
        "export": EXPORT,
        "format": form,
        "plan": what.launch.plan,
        "sweep": trial.sweep,
        "trial": trial.trial,
        "variant": best.variant,
        "emulated": trial.emulated,
        "measured_at": trial.started_at,
        "engine_version": trial.engine_version,
        "engine_versions": list(what.versions),
        "fingerprint": trial.fingerprint,
        "config": dict(best.config),
        "settings": what.settings,
        "pins": what.pins,
        "chosen_by_the_server": what.chosen,
        "argv": [*what.program, *what.launch.options],
        "env": dict(what.launch.env),
        "metric": what.metric,
        "unit": what.unit,
        "value": best.value,
        "low": best.low,
        "high": best.high,
        "starts": best.starts,
        "confirmed": best.confirmed,
        "gain_over_plain": what.gain,
        "gains": [
            {"over": dict(gain.over), "value": gain.value, "low": gain.low, "high": gain.high,
             "trials": list(gain.trials)}
            for gain in what.gains
        ],
        "certainty": what.certainty,
        "sure": list(what.sure),
        "baseline": what.baseline_data(),
        "ties": what.ties,
        "evidence": what.evidence,
        "warnings": list(what.warnings),
        **origin.as_data(),
    }  # fmt: skip
    return {**data, "seal": _seals(data)}


def changed_fields(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the fields that are not what was sealed."""
    sealed, found = data["seal"], _seals(data)
    return tuple(name for name in {**sealed, **found} if sealed.get(name) != found.get(name))


def _seals(data: Mapping[str, Any]) -> dict[str, str]:
    return {name: digest(value, length=8) for name, value in data.items() if name != "seal"}


def launch_of(data: Mapping[str, Any]) -> Launch:
    """Return what the sealed data start."""
    return Launch(tuple(data["argv"][3:]), dict(data["env"]))


def as_comments(data: Mapping[str, Any]) -> list[str]:
    """Write data as comments, a line for each field."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in data.items()]
    body = [_MARGIN + line + "," for line in lines[:-1]] + [_MARGIN + lines[-1]]
    return ["", _BEGIN, "# {", *body, "# }", _END]


def read_record(text: str) -> dict[str, Any]:
    """Read the sealed data of any format. Raises UnreadableExportError."""
    try:
        data = json.loads(text if text.lstrip().startswith("{") else _uncommented(text))
    except (ValueError, RecursionError) as error:
        raise UnreadableExportError(f"its data are damaged: {error}") from error
    if not isinstance(data, dict) or not {"argv", "env", "seal", "format"} <= data.keys():
        raise UnreadableExportError("it holds no data of an export")
    for name, kind in _KINDS.items():
        if not isinstance(data.get(name, kind()), kind):
            raise UnreadableExportError(f"its data on `{name}` are damaged")
    words = (*data["argv"], *data["env"].values())
    if len(data["argv"]) < 3 or not all(isinstance(word, str) for word in words):
        raise UnreadableExportError("its data on the command are damaged")
    if data.get("export") != EXPORT:
        raise UnreadableExportError("another version of this program wrote it: export it again")
    return data


def _uncommented(text: str) -> str:
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if _BEGIN not in lines or _END not in lines:
        raise UnreadableExportError("`orchestrator export` did not write it, or its data were cut")
    return "".join(line.removeprefix("#") for line in lines[lines.index(_BEGIN) + 1 :
                                                            lines.index(_END)])  # fmt: skip
