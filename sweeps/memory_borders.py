"""What a host has no memory for: configurations that ran out, and all that ask for as much.

A lack of memory depends on amounts, so no single value is to blame. A configuration that ran out
closes those that differ from it only in amounts and ask for at least as much of each. What ran
refutes that, for itself and for all that ask for less.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sweeps.axes import is_environment
from sweeps.config import Config
from sweeps.naming import short
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value

RAN_OUT = frozenset({
    "oom_load", "oom_capture", "oom_serving", "nccl_memory", "workspace_full", "no_host_room",
})  # fmt: skip
"""Faults of memory that ran out beside what the server had set apart."""
POOL_TOO_SMALL = frozenset({"no_kv_room", "kv_exhausted", "no_state_room"})
"""Faults of the memory that a server sets apart for the KV cache and for states."""
MEMORY_FAULTS = RAN_OUT | POOL_TOO_SMALL

_SHARE = "mem_fraction_static"
"""The share set apart: more of it leaves less beside it."""
_AMOUNTS = frozenset({
    "speculative_num_draft_tokens", "speculative_num_steps", "speculative_eagle_topk",
    "max_running_requests", "cuda_graph_max_bs", "chunked_prefill_size", "max_prefill_tokens",
    "context_length", "NCCL_BUFFSIZE", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS",
})  # fmt: skip
"""Settings of which more takes more memory, wherever it lies."""
_WITHOUT_MEMORY = ("speculative_ngram_", "ngram_match_depth")
"""How settings begin that take memory of the host alone."""

RAN = (Outcome.MEASURED, Outcome.PARTIAL, Outcome.STOPPED)


def fault_of_memory(result: TrialResult) -> bool:
    """Tell whether a trial ended because its configuration asked for too much memory."""
    refused = result.outcome in (Outcome.INFEASIBLE, Outcome.HUNG)
    return refused and result.signature in MEMORY_FAULTS


def with_least(config: Config, grids: Mapping[str, tuple[Value, ...]], fault: str) -> Config:
    """Return a configuration with the amounts in `grids` at the least that they can ask for."""
    least = {
        name: min(numbers, key=lambda pair: _signed(name, pair[0], fault))[1]
        for name in config
        if _is_amount(name) and (numbers := _numbers(grids.get(name, ())))
    }
    return Config.of({**config, **least})


@dataclass(frozen=True, slots=True)
class _Failure:
    config: Config
    fault: str
    number: int


class MemoryBorder:
    """What ran on one host and what ran out of memory there, taken in one by one."""

    def __init__(self) -> None:
        self._ran: dict[tuple[object, ...], list[Config]] = {}
        self._failed: dict[tuple[object, ...], list[_Failure]] = {}

    def take(self, result: TrialResult) -> None:
        """Take one more result in."""
        kind = _kind(result.config)
        if result.outcome in RAN:
            self._ran.setdefault(kind, []).append(result.config)
        elif fault_of_memory(result):
            failure = _Failure(result.config, result.signature, result.number)
            self._failed.setdefault(kind, []).append(failure)

    def refusal(self, config: Config) -> str:
        """Say why a configuration finds no room; empty where it may."""
        if not self._failed:
            return ""
        kind = _kind(config)
        for failure in self._failed.get(kind, ()):
            if not _asks_as_much(config, failure.config, failure.fault):
                continue
            if not any(
                _asks_as_much(ran, config, failure.fault)
                or _asks_as_much(ran, failure.config, failure.fault)
                for ran in self._ran.get(kind, ())
            ):
                return (
                    f"it asks for as much memory as trial {failure.number}, which found no room"
                    f" ({failure.fault})"
                )
        return ""

    def lines(self) -> Iterator[str]:
        """Say which least amounts found no room."""
        for failures in self._failed.values():
            for failure in failures:
                others = [o for o in failures if o.config != failure.config]
                covered = any(_asks_as_much(failure.config, o.config, o.fault) for o in others)
                if not covered and self.refusal(failure.config):
                    yield f"{short(failure.config)} and all that asks for more ({failure.fault})"


def _kind(config: Config) -> tuple[object, ...]:
    """Return what two configurations must share so that their amounts compare."""
    return tuple(
        (name, type(value), value)
        for name, value in sorted(config.items())
        if not (_is_amount(name) or is_environment(name) or name.startswith(_WITHOUT_MEMORY))
    )


def _is_amount(name: str) -> bool:
    return name in _AMOUNTS or name == _SHARE


def _asks_as_much(config: Config, other: Config, fault: str) -> bool:
    """Tell whether it asks for at least as much of each amount; unlike things do not compare."""
    names = {name for name in (*config, *other) if _is_amount(name)}
    return all(_is_as_much(name, config.get(name), other.get(name), fault) for name in names)


def _is_as_much(name: str, value: Value, other: Value, fault: str) -> bool:
    mine, theirs = _number(value), _number(other)
    if mine is None or theirs is None:  # a default may be any amount
        return value == other
    return _signed(name, mine, fault) >= _signed(name, theirs, fault)


def _signed(name: str, number: float, fault: str) -> float:
    """Return a number that grows with what is asked for: a small pool asks for too little."""
    return -number if name == _SHARE and fault in POOL_TOO_SMALL else number


def _number(value: Value) -> float | None:
    if isinstance(value, str) and value.isdecimal():
        return float(value)  # variables are texts
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _numbers(values: tuple[Value, ...]) -> list[tuple[float, Value]]:
    """Return the values that are numbers, each after its number."""
    pairs = [(_number(value), value) for value in values]
    return [(number, value) for number, value in pairs if number is not None]
