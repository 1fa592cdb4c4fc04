"""Which ranks of a start fell behind, by the lines of all."""

from collections.abc import Iterable

import pytest

from infra.sglang.rank_progress import laggards

ALL = range(8)


def said(text: str, ranks: Iterable[int] = ALL, layout: str = "") -> list[str]:
    return [f"[2026-01-01 00:00:{r:02} {layout}TP{r}] {text.format(r)}" for r in ranks]


BEGUN = [
    *said("Init torch distributed begin."),
    *said("Load weight begin. avail mem=139.{} GB"),
    *said("Loading safetensors checkpoint shards: 10% Completed", [0]),
]
LOADED = "Load weight end. elapsed={}.00 s, avail mem=9.00 GB"


def test_the_rank_that_lacks_what_the_others_wrote_is_named() -> None:
    lines = [*BEGUN, *said(LOADED, set(ALL) - {5}), *said("only the first says so", [0])]
    found = laggards(lines)
    assert found is not None
    assert str(found) == (
        "TP5 fell silent while 7 other ranks came to"
        " `Load weight end. elapsed=7.00 s, avail mem=9.00 GB`;"
        " TP5 said last: Load weight begin. avail mem=139.5 GB"
    )


def test_a_rank_that_never_wrote_anything_is_known_by_its_process() -> None:
    lines = [line for line in BEGUN if " TP7]" not in line]
    found = laggards(lines, [f"TP{rank}" for rank in ALL])
    assert found is not None
    assert (found.ranks, found.others) == (("TP7",), 7)
    assert str(found).endswith("TP7 said nothing")


@pytest.mark.parametrize(
    "lines",
    [
        BEGUN,  # all wait for each other
        [*BEGUN, *said(LOADED, [0])],  # one is ahead, and that says nothing of the others
        [*BEGUN, *said(LOADED, [0, 1, 2, 3])],
        [*BEGUN, *said("a warning that one lacks", set(ALL) - {3}), *said(LOADED)],
        ["no rank in any line", "[2026-01-01 00:00:00] nor here"],
        [],
    ],
)
def test_ranks_that_are_level_are_not_blamed(lines: list[str]) -> None:
    assert laggards(lines) is None


def test_ranks_of_several_layouts_keep_their_names() -> None:
    lines = [*said("Init torch distributed begin.", layout="DP1 PP0 "),
             *said("Load weight begin.", set(ALL) - {2, 6}, layout="DP1 PP0 ")]  # fmt: skip
    found = laggards(lines)
    assert found is not None
    assert found.ranks == ("DP1 PP0 TP2", "DP1 PP0 TP6")
