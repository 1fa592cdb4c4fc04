"""Accept lengths of the n-gram drafter on the emulated host's texts, by replay and by table.

A table holds a coarse grid of draft settings for each kind of text; between its points it is
linear in the logarithms of draft tokens, breadth and depth. Tables are kept in bench/out: a replay
of the whole grid takes minutes.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from infra.emulated.text import BUILT_IN, Kind, kind_of, seed_of, tokenize
from search_worlds.kept import OUT, keep
from sweeps.drafting.ngram import NgramDrafter, NgramShape
from sweeps.workloads import Workload

Floats = NDArray[np.float64]

PROMPTS = {"code": "code", "reasoning": "think", "chat": "prose"}
"""Built-in prompt set to the kind of text that answers it."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The draft settings that are replayed, and over how much text."""

    name: str
    tokens: tuple[int, ...]
    breadths: tuple[int, ...]
    depths: tuple[int, ...]
    prompts: int
    tokens_each: int

    def points(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield indices of match type, draft tokens, breadth and depth."""
        return product(
            range(2), range(len(self.tokens)), range(len(self.breadths)), range(len(self.depths))
        )


FULL = Grid("full", (2, 3, 4, 5, 6, 8, 11, 16, 22, 32), (1, 3, 6, 16), (4, 8, 18), 12, 512)
QUICK = Grid("quick", (2, 4, 8, 32), (1, 16), (18,), 3, 192)


@dataclass(frozen=True, slots=True)
class AcceptTable:
    """Accept length by match type, draft tokens, breadth and depth."""

    grid: Grid
    values: Floats

    def lookup(
        self, prob: NDArray[np.intp], tokens: Floats, breadth: Floats, depth: Floats
    ) -> Floats:
        """Return accept lengths of many settings at once."""
        grid = self.grid
        places = [
            _place(grid.tokens, tokens),
            _place(grid.breadths, np.minimum(breadth, tokens)),
            _place(grid.depths, depth),
        ]
        found = np.zeros(len(tokens))
        for corner in product((0, 1), repeat=3):
            weight = np.ones(len(tokens))
            at = []
            for side, (low, share, size) in zip(corner, places, strict=True):
                weight = weight * (share if side else 1 - share)
                at.append(np.minimum(low + side, size - 1))
            found += weight * self.values[prob, at[0], at[1], at[2]]
        return found


@cache
def accept_table(prompts: str, grid: Grid = FULL) -> AcceptTable:
    """Return the table of a prompt set: from bench/out, or replayed and left there."""
    path = OUT / f"accept-{prompts}-{grid.name}.json"
    size = (2, len(grid.tokens), len(grid.breadths), len(grid.depths))
    if path.is_file():
        values = np.asarray(json.loads(path.read_text()), dtype=float)
        if values.shape == size:
            return AcceptTable(grid, values)
    streams = list(_requests(prompts, grid))
    values = np.ones(size)
    for point in grid.points():
        values[point] = _replayed(grid, point, streams)
    keep(path, values.round(5).tolist())
    return AcceptTable(grid, values)


def chain_accept(hit_rates: Sequence[float], steps: int) -> float:
    """Return the accept length of a chain of drafts whose hits are independent by position."""
    accept, alive = 1.0, 1.0
    for place in range(steps):
        alive *= hit_rates[min(place, len(hit_rates) - 1)]
        accept += alive
    return accept


Request = tuple[list[int], int, Kind]


def _requests(prompts: str, grid: Grid) -> Iterator[Request]:
    for prompt in Workload(prompts=prompts).measured()[: grid.prompts]:
        yield tokenize(prompt.text), seed_of(prompt.text), kind_of(prompt.text)


def _replayed(grid: Grid, point: tuple[int, int, int, int], requests: Sequence[Request]) -> float:
    prob, tokens, breadth, depth = point
    width = grid.tokens[tokens]
    shape = NgramShape(
        width,
        depth=grid.depths[depth],
        max_breadth=min(grid.breadths[breadth], width),
        by_likelihood=bool(prob),
        capacity_nodes=1_000_000,
    )
    drafter = NgramDrafter(shape)
    written = steps = 0
    for prompt, key, kind in requests:
        stream = BUILT_IN.stream(key, kind)
        request = drafter.open(prompt, key)
        output = 1
        request.commit(stream.window(0, 1))
        while output < grid.tokens_each:
            upcoming = stream.window(output, width)
            taken = upcoming[: request.correct_drafts(upcoming[:-1]) + 1]
            request.commit(taken)
            output += len(taken)
            steps += 1
        request.end(())
        written += output - 1
    return written / steps


def _place(points: Sequence[int], at: Floats) -> tuple[NDArray[np.intp], Floats, int]:
    """Return the grid point below, the share of the one above, and how many points there are."""
    logs, wanted = np.log(points), np.log(at)
    if len(points) == 1:
        return np.zeros(len(at), dtype=np.intp), np.zeros(len(at)), 1
    low = np.clip(np.searchsorted(logs, wanted, side="right") - 1, 0, len(points) - 2)
    share = np.clip((wanted - logs[low]) / (logs[low + 1] - logs[low]), 0, 1)
    return low.astype(np.intp), share, len(points)
