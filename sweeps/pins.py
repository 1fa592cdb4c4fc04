"""Capacity settings that must be equal in all arms, so that trials differ in what is swept.

With speculation SGLang limits the running requests to 48 by itself, and it derives memory fraction,
attention backend, page size, chunk size and graph sizes from the rest of the configuration (SGLang
0.5.2 to 0.5.23, srt/server_args.py and srt/arg_groups). What the user fixes or sweeps stays.
"""

from collections.abc import Callable, Mapping, Sequence

from sweeps.results import TrialResult
from sweeps.sweep import Sweep
from sweeps.values import Value

MAX_RUNNING, MEMORY = "max_running_requests", "mem_fraction_static"
BACKEND, PAGE, CHUNK = "attention_backend", "page_size", "chunked_prefill_size"
GRAPHS = "decode_graph_max_batch"
"""The neutral name of the largest decode batch that is captured as a graph."""

CAPACITY = (MAX_RUNNING, MEMORY, BACKEND, PAGE, CHUNK, GRAPHS)
"""What moves by itself. The sampling backend does not: it follows from the device alone."""

SPECULATIVE_MAX_RUNNING = 48
"""SGLang's own limit with speculation, all versions."""

_SAME_MATTER: Mapping[str, tuple[str, ...]] = {
    BACKEND: ("prefill_attention_backend", "decode_attention_backend"),
    GRAPHS: (
        "cuda_graph_max_bs", "cuda_graph_max_bs_decode", "cuda_graph_bs", "cuda_graph_bs_decode",
        "cuda_graph_config", "disable_cuda_graph", "disable_decode_cuda_graph",
        "cuda_graph_backend_decode",
    ),
}  # fmt: skip
"""Other settings by which a user decides the same."""
_BRANCHING = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_DRAFTLESS = (None, "NGRAM")
_PAGED_TREES = "flashinfer"
"""The one backend that verifies branching drafts with pages of several tokens, in all versions."""

Accepts = Callable[[str, Value], bool]
"""Tells whether the command line of a host takes a value of a setting."""


def pins(
    results: Sequence[TrialResult], host: str, sweep: Sweep, accepts: Accepts
) -> dict[str, Value]:
    """Return all pins for the next trial on a host, given the results so far."""
    found = static_pins(sweep)
    baseline = first_plain(results, host)
    return found if baseline is None else {**found, **adopted_pins(baseline, sweep, accepts)}


def first_plain(results: Sequence[TrialResult], host: str) -> TrialResult | None:
    """Return the first plain decode of a host that was measured and gave account of itself."""
    plain = (r for r in results if r.host == host and r.config.is_plain)
    return next((r for r in plain if r.outcome.has_rate and r.effective), None)


def with_pins(settings: Mapping[str, Value], pinned: Mapping[str, Value]) -> dict[str, Value]:
    """Add pins to the settings of a server, which go before them."""
    return {**settings, **{n: v for n, v in pinned.items() if n not in settings}}


def static_pins(sweep: Sweep) -> dict[str, Value]:
    """Return what holds from the first trial on: room for every request that is sent at a time."""
    if _is_users(MAX_RUNNING, sweep) or not _speculates(sweep):
        return {}
    work = sweep.workload
    # In an open loop all requests may be there at once.
    most = 0 if work.requests_per_s is None else work.open_loop_prompts
    return {MAX_RUNNING: max(SPECULATIVE_MAX_RUNNING, most, *work.streams)}


def adopted_pins(
    baseline: TrialResult, sweep: Sweep, accepts: Accepts = lambda name, value: True
) -> dict[str, Value]:
    """Return what all later trials on a host take over from its first plain decode.

    Left to the server: what it does not tell or its parser would refuse; the memory fraction where
    a draft model must find room, since the server lowers it for one; backend and pages that cannot
    verify a draft tree which the sweep may ask for.
    """
    seen = baseline.effective
    found: dict[str, Value] = {}
    for name, suits in _SUITS.items():
        value = seen.get(name)
        if not _is_users(name, sweep) and suits(value, seen, sweep) and accepts(name, value):
            found[name] = value
    if BACKEND not in found and not _is_users(BACKEND, sweep) and found.get(PAGE) != 1:
        found.pop(PAGE, None)  # larger pages come with the backend that needs them
    return found


def _memory(value: Value, seen: Mapping[str, Value], sweep: Sweep) -> bool:
    return isinstance(value, float) and 0 < value < 1 and not _has_draft_model(sweep)


def _backend(value: Value, seen: Mapping[str, Value], sweep: Sweep) -> bool:
    if not isinstance(value, str) or value == "auto" or _eagle_may_branch(sweep):
        return False
    split = {seen.get(name) for name in _SAME_MATTER[BACKEND]}
    return split <= {None, value} and _pages_suit(seen, sweep)


def _page(value: Value, seen: Mapping[str, Value], sweep: Sweep) -> bool:
    return type(value) is int and (value == 1 or (value > 1 and _pages_suit(seen, sweep)))


def _chunk(value: Value, seen: Mapping[str, Value], sweep: Sweep) -> bool:
    if type(value) is not int:
        return False
    pages = [size for size in sweep.all_values().get(PAGE, ()) if type(size) is int]
    return value == -1 or (value > 0 and all(value % size == 0 for size in pages))


def _graphs(value: Value, seen: Mapping[str, Value], sweep: Sweep) -> bool:
    return type(value) is int and value > 0


_SUITS: Mapping[str, Callable[[Value, Mapping[str, Value], Sweep], bool]] = {
    MEMORY: _memory,
    BACKEND: _backend,
    PAGE: _page,
    CHUNK: _chunk,
    GRAPHS: _graphs,
}


def _pages_suit(seen: Mapping[str, Value], sweep: Sweep) -> bool:
    """Tell whether the pages of plain decode can hold every draft tree of the sweep."""
    branches = _eagle_may_branch(sweep) or _ngram_may_branch(sweep)
    return seen.get(PAGE) in (None, 1) or not branches or seen.get(BACKEND) == _PAGED_TREES


def _is_users(name: str, sweep: Sweep) -> bool:
    """Tell whether the user decides a setting, fixed or swept, by this name or another."""
    return any(n in sweep.all_values() for n in (name, *_SAME_MATTER.get(name, ())))


def _algorithms(sweep: Sweep) -> tuple[Value, ...]:
    return sweep.all_values().get("speculative_algorithm", (None,))


def _speculates(sweep: Sweep) -> bool:
    return any(algorithm is not None for algorithm in _algorithms(sweep))


def _has_draft_model(sweep: Sweep) -> bool:
    return any(algorithm not in _DRAFTLESS for algorithm in _algorithms(sweep))


def _eagle_may_branch(sweep: Sweep) -> bool:
    """Tell whether a draft model may be asked for a tree; unset, SGLang decides by the model."""
    asked = sweep.all_values().get("speculative_eagle_topk", (None,))
    return any(a in _BRANCHING for a in _algorithms(sweep)) and any(topk != 1 for topk in asked)


def _ngram_may_branch(sweep: Sweep) -> bool:
    """Tell whether n-gram drafts may branch; unset, the breadth is 10."""
    asked = sweep.all_values().get("speculative_ngram_max_bfs_breadth", (None,))
    return "NGRAM" in _algorithms(sweep) and any(breadth != 1 for breadth in asked)
