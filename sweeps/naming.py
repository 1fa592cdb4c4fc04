"""How a configuration is called where room is scarce: `ngram n3 b4 bfs · LL`.

What a server runs with anyway, the values of the sweep's plain decode, goes without saying. All
else is named, so that two configurations of one space never share a name; and nothing but the space
decides, so that a name stays what it is.
"""

from collections.abc import Iterator, Mapping

from sweeps.config import Config
from sweeps.values import Value, show

PLAIN = "plain"
SEPARATOR = " · "
"""Between how it drafts and what else is set."""

_ALGORITHM = "speculative_algorithm"
_NUMBERED = {
    "speculative_num_draft_tokens": "n",
    "speculative_ngram_max_bfs_breadth": "b",
    "ngram_match_depth": "d",
    "speculative_num_steps": "s",
    "speculative_eagle_topk": "k",
    "NCCL_MIN_NCHANNELS": "ch≥",
    "NCCL_MAX_NCHANNELS": "ch≤",
    "NCCL_NTHREADS": "threads",
    "NCCL_BUFFSIZE": "buf",
}
"""Before the value, without a space."""

_BY_VALUE = ("speculative_ngram_match_type", "NCCL_PROTO", "NCCL_ALGO")
"""Settings whose values say by themselves what they are of."""

_SWITCHES = {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "ipc", "disable_custom_all_reduce": "no-custom-ar"}
_PREFIXES = ("speculative_ngram_", "speculative_", "SGLANG_", "NCCL_")
_DRAFTING = ("speculative_", "ngram_")
_ON, _OFF = (True, "1", 1), (False, "0", 0)


def label(config: Config, plain: Mapping[str, Value]) -> str:
    """Name a configuration among those of its sweep, whose plain decode is `plain`.

    Where that is not known, an empty `plain`, all is named that is set and not switched off.
    """
    said = [(n, v) for n, v in config.items() if n != _ALGORITHM and not _is_usual(n, v, plain)]
    drafting = [_token(name, value) for name, value in said if name.startswith(_DRAFTING)]
    others = [_token(name, value) for name, value in said if not name.startswith(_DRAFTING)]
    head = " ".join([(config.algorithm or PLAIN).lower(), *drafting])
    return SEPARATOR.join([head, " ".join(others)]) if others else head


def shown_values(config: Config, axes: Mapping[str, bool]) -> Iterator[tuple[str, Value]]:
    """Yield a value for each axis of a sweep, also for those that a configuration has not.

    `axes` tells of each whether its values are numbers. Plain decode drafts 0 tokens; where that
    cannot be said in a number, a dash stands, so that tables and charts have no holes.
    """
    for name, value in config.items():
        yield name, PLAIN if name == _ALGORITHM and value is None else value
    for name, is_number in axes.items():
        if name not in config:
            yield name, 0 if is_number else "-"


def short(config: Config) -> str:
    """Write a configuration on a short line: unset and switched-off settings are left out."""
    shown = [
        f"{abbreviated(name)}={value}"
        for name, value in config.items()
        if value is not None and value is not False and name != _ALGORITHM
    ]
    return " ".join([config.algorithm or PLAIN, *shown])


def abbreviated(name: str) -> str:
    """Write the name of a setting without what says whose it is."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _is_usual(name: str, value: Value, plain: Mapping[str, Value]) -> bool:
    if name in plain:
        return value == plain[name] and type(value) is type(plain[name])
    return value is None or (value is False and not plain)


def _token(name: str, value: Value) -> str:
    if name in _SWITCHES and value in _ON:
        return _SWITCHES[name]
    if name in _SWITCHES and value in _OFF:
        return f"{_SWITCHES[name]}:off"
    if name in _NUMBERED and type(value) is int:
        return f"{_NUMBERED[name]}{value}"
    if name in _BY_VALUE and isinstance(value, str):
        return value.lower() if name.startswith(_DRAFTING) else value
    return f"{abbreviated(name).lower()}={show(value)}"
