"""What each field of a workload may hold."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sweeps.problems import Problem

_NO_STEP = "no decode step could be timed"
_NO_INTERVAL = "no interval could be given"


@dataclass(frozen=True, slots=True)
class _Range:
    """The least and the most of a number, both allowed unless `above`, and what lies below."""

    least: float
    why: str = "it makes no sense"
    most: float = math.inf
    whole: bool = True
    above: bool = False

    def holds(self, value: object) -> bool:
        """Tell whether a value is one of these."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        low = value > self.least if self.above else value >= self.least
        return low and value <= self.most and math.isfinite(value)

    @property
    def wanted(self) -> str:
        """Say what to give."""
        kind = "a whole number" if self.whole else "a number"
        low = f"{'above' if self.above else 'of at least'} {self.least:g}"
        return f"Give {kind} {low}{'' if math.isinf(self.most) else f', at most {self.most:g}'}."


LEAST_MEASURE_S = 30.0
"""In less, ten time blocks are too short to be nearly independent."""

_RANGES = {
    "max_tokens": _Range(2, _NO_STEP),
    "cold_prompts": _Range(0),
    "measured_prompts": _Range(1),
    "measure_s": _Range(LEAST_MEASURE_S, f"in so short a pass {_NO_INTERVAL}", whole=False),
    "concurrency": _Range(1),
    "loaded_prompts": _Range(1),
    "requests_per_s": _Range(0, whole=False, above=True),
    "open_loop_prompts": _Range(2, _NO_INTERVAL),
    "probe_s": _Range(0, whole=False),
    "probe_prompts": _Range(1),
    "probe_tokens": _Range(2, _NO_STEP),
    "warming_prompts": _Range(1),
    "warming_passes": _Range(0),
    "temperature": _Range(0, whole=False),
    "top_p": _Range(0, "nothing could be drawn", most=1, whole=False, above=True),
    "top_k": _Range(-1),
    "sampling_seed": _Range(0),
}
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
        unset = name == "requests_per_s" and value is None
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
        if not _Range(1).holds(streams):
            why = "it is no number of streams"
        elif streams in given[:at]:
            why = "it stands there twice"
        elif streams == measured:
            why = "the measured pass runs at it already"
        if why:
            yield Problem(field, str(streams), why, "Take it out.")
