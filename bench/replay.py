"""How fast drafts are replayed, and whether the real SGLang takes the same steps.

The named alternative is SGLang's own C++ trie, driven from Python over the same streams, step by
step: it needs the environment that `make sweep-real` builds, and is left out without it. With that,
and not in haste, the real server serves prompts with six settings, and each request's verify steps
are held against a replay of what plain decode wrote. Speeds are of one core.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

from infra.emulated.text import Kind, TargetStream
from replaying.real_server import SETTINGS, compare
from replaying.sglang_trie import sglang_steps_per_s
from reporting.program import Figures, run
from sweeps.drafting.ngram import NgramShape
from sweeps.replay.fast import NumberedText
from sweeps.replay.reference import replay_by_drafter
from sweeps.replay.replayer import Replayer
from sweeps.replay.streams import Steps, Stream

STREAM_TOKENS = 1000
WIDTHS = (*range(2, 22), 24, 26, 28, 30, 32)
BREADTHS = (1, 4, 8, 10, 16)
DEPTHS = (6, 9, 12, 18)
TIMES, REFERENCE_TIMES = 5, 3


def measure(quick: bool) -> Figures:
    """Time both cores and the alternative, then a thousand settings, then the real server."""
    figures: dict[str, float] = {}
    tokens = 4_000 if quick else 100_000
    for kind in (Kind.CODE, Kind.THINK):
        streams = text(kind, tokens)
        figures |= speeds(kind.value, streams, beside=not quick or kind is Kind.CODE)
    figures |= many(text(Kind.CODE, tokens), quick)
    if not quick:
        figures |= exactness()
    return figures


def text(kind: Kind, tokens: int) -> list[Stream]:
    """Write requests of a kind of text."""
    return [
        Stream(TargetStream(10**6 + n, kind).window(0, 60), written)
        for n in range(tokens // STREAM_TOKENS)
        for written in [TargetStream(n, kind).window(0, STREAM_TOKENS)]
    ]


def speeds(name: str, streams: Sequence[Stream], *, beside: bool) -> dict[str, float]:
    """Return draft steps per second of one core, for one setting; SGLang's `beside` ours."""
    numbered = NumberedText(streams, 18)
    numbered.replay(NgramShape(8))  # compiles
    found: dict[str, float] = {}
    for match, by_likelihood in (("bfs", False), ("prob", True)):
        shape = NgramShape(8, by_likelihood=by_likelihood, overlap=False)
        steps, seconds = best(partial(numbered.replay, shape))
        found[f"{name}_{match}_fast_steps_per_s"] = len(steps) / seconds
        some = streams[: max(10, len(streams) // 5)]
        part, seconds = best(partial(replay_by_drafter, some, shape), REFERENCE_TIMES)
        found[f"{name}_{match}_reference_steps_per_s"] = len(part) / seconds
        if not by_likelihood:
            found[f"{name}_{match}_accept_tokens_per_step"] = float(steps.tokens.mean())
        theirs = sglang_steps_per_s(some, shape, part) if beside else None
        if theirs is not None:
            found[f"{name}_{match}_sglang_trie_steps_per_s"] = theirs
    return found


def best(replay: Callable[[], Steps], times: int = TIMES) -> tuple[Steps, float]:
    """Return the steps and the least processor seconds of some tries."""
    seconds = []
    for _ in range(times):
        began_s = time.process_time()
        steps = replay()
        seconds.append(time.process_time() - began_s)
    return steps, min(seconds)


def many(streams: Sequence[Stream], quick: bool) -> dict[str, float]:
    """Time a thousand settings on all cores."""
    widths = WIDTHS[::12] if quick else WIDTHS
    shapes = [
        NgramShape(width, depth, max_breadth=breadth, by_likelihood=by_likelihood)
        for width, breadth, depth, by_likelihood in product(widths, BREADTHS, DEPTHS, (False, True))
    ]
    began_s = time.monotonic()
    found = Replayer(streams).all_steps(shapes)
    spent_s = time.monotonic() - began_s
    steps = sum(map(len, found))
    return {
        "many_settings_count": len(shapes),
        "many_steps_count": steps,
        "many_s": spent_s,
        "many_steps_per_s": steps / spent_s,
    }


def exactness() -> dict[str, float]:
    """Return how many requests the real server verified in other steps than were replayed."""
    figures: dict[str, float] = {}
    for setting, told in zip(SETTINGS, compare(), strict=False):
        figures[f"{setting.name}_real_verify_steps_count"] = told.real
        figures[f"{setting.name}_replayed_verify_steps_count"] = told.replayed
        figures[f"{setting.name}_differing_requests_count"] = told.differing
    return figures


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    told = [v for n, v in figures.items() if n.endswith("_differing_requests_count")]
    real = [v for n, v in figures.items() if n.endswith("_real_verify_steps_count")]
    return {
        "the compiled core is faster than the reference": all(
            figures[f"{kind}_{match}_fast_steps_per_s"]
            > figures[f"{kind}_{match}_reference_steps_per_s"]
            for kind in (Kind.CODE.value, Kind.THINK.value)
            for match in ("bfs", "prob")
        ),
        "drafts of code are accepted": figures[f"{Kind.CODE.value}_bfs_accept_tokens_per_step"]
        > 1.2,
        "every setting takes steps": figures["many_steps_count"]
        > figures["many_settings_count"]
        > 0,
        "the real server takes the steps that were replayed": not any(told) and all(real),
    }


if __name__ == "__main__":
    run(__doc__ or "", measure, holds)
