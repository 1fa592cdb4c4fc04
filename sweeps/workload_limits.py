"""What each field of a workload may hold."""

from collections.abc import Iterator, Mapping

from sweeps.problems import Problem
from sweeps.ranges import Range

_NO_STEP = "no decode step could be timed"
_NO_INTERVAL = "no interval could be given"


LEAST_MEASURE_S = 30.0
"""In less, ten time blocks are too short to be nearly independent."""

_RANGES = {
    "max_tokens": Range(2, _NO_STEP),
    "cold_prompts": Range(0),
    "measured_prompts": Range(1),
    "most_measured_prompts": Range(1),
    "measure_s": Range(LEAST_MEASURE_S, f"in so short a pass {_NO_INTERVAL}", whole=False),
    "concurrency": Range(1),
    "loaded_prompts": Range(1),
    "requests_per_s": Range(0, whole=False, above=True),
    "open_loop_prompts": Range(2, _NO_INTERVAL),
    "probe_s": Range(0, whole=False),
    "probe_prompts": Range(1),
    "probe_tokens": Range(2, _NO_STEP),
    "warming_prompts": Range(1),
    "warming_passes": Range(0, most=1000),
    "temperature": Range(0, whole=False),
    "top_p": Range(0, "nothing could be drawn", most=1, whole=False, above=True),
    "top_k": Range(-1),
    "sampling_seed": Range(0, most=2**63),
    "seed": Range(-(2**63), most=2**63),
}
_OPTIONAL = ("requests_per_s", "most_measured_prompts")
_TEXTS = ("prompts", "contents")
_DIALECTS = ("chat", "generate")


def field_problems(values: Mapping[str, object]) -> list[Problem]:
    """List the fields that hold what they may not, each looked at alone."""
    found = [
        Problem(f"workload.{name}", str(values[name]), "it is no text", "Write it in quotes.")
        for name in _TEXTS
        if not isinstance(values[name], str)
    ]
    for name, allowed in _RANGES.items():
        value = values[name]
        unset = name in _OPTIONAL and value is None
        if not unset and not allowed.holds(value):
            found.append(Problem(f"workload.{name}", str(value), allowed.why, allowed.wanted))
    if values["top_k"] == 0:
        found.append(Problem("workload.top_k", "0", "nothing could be drawn", "Use -1 for all."))
    if not isinstance(values["ignore_eos"], bool):
        asked = str(values["ignore_eos"])
        found.append(Problem("workload.ignore_eos", asked, "it is no truth value", "Use True."))
    if values["dialect"] not in _DIALECTS:
        mend = f"Use {' or '.join(_DIALECTS)}, or leave it out."
        found.append(Problem("workload.dialect", str(values["dialect"]), "no such API", mend))
    return [*found, *_concurrency_problems(values["concurrencies"], values["concurrency"])]


def _concurrency_problems(given: object, measured: object) -> Iterator[Problem]:
    field = "workload.concurrencies"
    if not isinstance(given, tuple | list):
        yield Problem(field, str(given), "it is no list", "Write `(4, 16)`.")
        return
    for at, streams in enumerate(given):
        why = ""
        if not Range(1).holds(streams):
            why = "it is no number of streams"
        elif streams in given[:at]:
            why = "it stands there twice"
        elif streams == measured:
            why = "the measured pass runs at it already"
        if why:
            yield Problem(field, str(streams), why, "Take it out.")
