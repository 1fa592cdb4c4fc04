"""Spaces: which axes exist, how many configurations there are, and what is refused."""

import itertools
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps import Choice, FloatRange, IntRange, Rule, ref, switch
from sweeps.axes import Axis
from sweeps.config import Config
from sweeps.sampling import valid_samples
from sweeps.space import COUNT_LIMIT, Space, exists
from sweeps.values import Value

ALGORITHM = Choice("algorithm", [None, "NGRAM", "EAGLE"])
DRAFT = IntRange("draft", 2, 5, {"algorithm": ["NGRAM", "EAGLE"]})
BREADTH = IntRange("breadth", 1, 3, {"algorithm": "NGRAM"})
DEEP = Choice("deep", ["x", "y"], {"draft": 5})


def _brute_count(space: Space) -> int:
    axes = space.ordered()
    found = set()
    names = [axis.name for axis in axes]
    for chosen in itertools.product(*(axis.grid or [None] for axis in axes)):
        picks = dict(zip(names, chosen, strict=True))
        config = space.walk(lambda axis, picks=picks: picks[axis.name])  # type: ignore[misc] # bound per draw
        if not space.broken_rules(config):
            found.add(config.variant)
    return len(found)


def test_an_axis_exists_only_under_its_conditions() -> None:
    space = Space([DEEP, BREADTH, DRAFT, ALGORITHM])
    picks: dict[str, Value] = {"algorithm": "EAGLE", "draft": 5, "deep": "y"}
    assert dict(space.walk(lambda axis: picks[axis.name])) == picks
    assert dict(space.plain()) == {"algorithm": None}


@pytest.mark.parametrize(
    "rules",
    [
        [],
        [Rule(ref("breadth") <= ref("draft"), "")],
        [Rule(~ref("deep").equals("x"), ""), Rule(ref("draft") < 5, "")],
    ],
)
def test_counts_as_enumeration_does(rules: list[Rule]) -> None:
    space = Space([ALGORITHM, DRAFT, BREADTH, DEEP, switch("free"), IntRange("n", 1, 4)], rules)
    assert space.count().configs == _brute_count(space)
    assert space.count().exact


def test_counts_large_unlinked_spaces_exactly() -> None:
    space = Space([IntRange(f"n{i}", 1, 1000) for i in range(5)])
    assert space.count().configs == 1000**5
    assert space.count().exact


def test_gives_a_bound_where_counting_would_take_too_long() -> None:
    axes = [IntRange("a", 1, COUNT_LIMIT), IntRange("b", 1, 10)]
    count = Space(axes, [Rule(ref("a") <= ref("b"), "")]).count()
    assert not count.exact
    assert count.configs == COUNT_LIMIT * 10


@given(st.integers(0, 10_000))
def test_every_sample_is_inside_the_space(seed: int) -> None:
    space = Space(
        [ALGORITHM, DRAFT, BREADTH, DEEP, FloatRange("f", 0.1, 1.0)],
        [Rule(ref("breadth") <= ref("draft"), "")],
    )
    for config in islice(valid_samples(space, seed), 3):
        assert space.strays(config) == []
        assert space.broken_rules(config) == []


@given(st.permutations([ALGORITHM, DRAFT, BREADTH, DEEP]))
def test_the_order_of_axes_changes_neither_hash_nor_order_of_conditions(axes: list[Axis]) -> None:
    space = Space(axes)
    assert space.as_data() == Space([ALGORITHM, DRAFT, BREADTH, DEEP]).as_data()
    seen: dict[str, object] = {}
    for axis in space.ordered():
        assert set(axis.when) <= seen.keys()
        seen[axis.name] = None


def test_strays_names_extra_missing_and_illegal_values() -> None:
    space = Space([ALGORITHM, DRAFT])
    config = Config.of({"algorithm": "NGRAM", "draft": 9, "other": 1})
    assert space.strays(config) == ["draft cannot be 9", "other is not an axis here"]
    assert space.strays(Config.of({"algorithm": "NGRAM"})) == ["draft is missing"]


@pytest.mark.parametrize(
    ("space", "field", "why", "mend"),
    [
        (Space([IntRange("n", 5, 2)]), "n", "empty", "Mend"),
        (Space([Choice("c", [])]), "c", "no value", "Mend"),
        (Space([Choice("c", [1, 1])]), "c", "twice", "Mend"),
        (Space([IntRange("n", 0, 4, log=True)]), "n", "log scale", "Mend"),
        (Space([FloatRange("f", 1.0, 1.0)]), "f", "empty", "Mend"),
        (Space([IntRange("n", "a", 4)]), "n", "no whole numbers", "Mend"),  # type: ignore[arg-type]
        (Space([Choice("c", "LL")]), "c", "no list", "Mend"),
        (Space([Choice("c", [["LL"]])]), "c", "no text", "Mend"),  # type: ignore[list-item]
        (Space([IntRange("n", 1, 2, "NGRAM")]), "n.when", "map", "Write"),  # type: ignore[arg-type]
        (Space([]), "axes", "nothing varies", "Add"),
        (Space([switch("a"), switch("a")]), "axes", "stands twice", "Keep one"),
        (Space([DRAFT, Choice("algoritm", [1])]), "draft.when", "no axis", "`algoritm`"),
        (Space([ALGORITHM, switch("b", {"algorithm": "X"})]), "b.when", "never", "unset, NGRAM"),
        (
            Space([switch("a", {"b": True}), switch("b", {"a": True})]),
            "when", "circle", "Take one",
        ),
        (Space([ALGORITHM], [Rule(ref("algorythm") > 1, "")]), "rules", "no axis", "algorithm"),
        (
            Space([IntRange("n", 1, 3)], [Rule(ref("n") > 5, "n is large")]),
            "rules", "no configuration", "Loosen",
        ),
    ],
)  # fmt: skip
def test_refuses(space: Space, field: str, why: str, mend: str) -> None:
    problem = space.problems()[0]
    assert problem.field == field
    assert why in problem.why
    assert mend in problem.mend


def test_an_axis_under_a_value_that_its_parent_never_takes_does_not_exist() -> None:
    assert not exists(DEEP, {"draft": 4})
    assert not exists(DEEP, {})


@pytest.mark.parametrize(
    "values",
    [[1, 1.0], [1, True], [0, False], [0.5, 0.50], [-0.0, 0], [None, None], ["a", "a"],
     ["1", 1], [1.5, "1.5"], [2**60, float(2**60)], [None, 4, 8, 4.0]],
)  # fmt: skip
def test_a_value_that_stands_twice_is_named_with_the_other(values: list[Value]) -> None:
    fault = Choice("x", values).fault()
    assert fault.startswith("a value stands twice: ")
    assert fault.endswith(" are one")


@pytest.mark.parametrize(
    "values",
    [[1, 2.0], [None, False, True], ["1", "1.0"], [1, "1.0"], [None, "None"], ["on", True],
     ["true", True], [0.1, 0.10000000001]],
)  # fmt: skip
def test_values_that_are_two_are_taken(values: list[Value]) -> None:
    assert Choice("x", values).fault() == ""


@pytest.mark.parametrize(
    "axis",
    [Choice("x", [1.0, float("nan")]), Choice("x", [float("inf")]),
     FloatRange("x", float("nan"), 1), FloatRange("x", 0, float("inf")), FloatRange("x", False, 1),
     IntRange("x", True, 4), IntRange("x", 1, 4, step=True)],
)  # fmt: skip
def test_what_is_no_finite_number_is_refused(axis: Axis) -> None:
    assert "number" in axis.fault()
