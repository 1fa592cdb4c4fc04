"""Rules as data: they compute, name their axes, print, and refuse Python's own `and`."""

import pytest

from sweeps import Rule, ref
from sweeps.expressions import Expr
from sweeps.values import Value


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        (ref("a") <= ref("b"), {"a": 2, "b": 2}, True),
        (ref("a") < ref("b"), {"a": 2, "b": 2}, False),
        (ref("a") + 1 > 2, {"a": 2}, True),
        (ref("a") * 2 - 1 >= 4, {"a": 2}, False),
        (ref("a").equals("x") & ref("b").is_set(), {"a": "x", "b": None}, False),
        (ref("a").one_of("x", None) | ref("b").is_set(), {"a": None, "b": None}, True),
        (~ref("a").equals(1), {"a": 1}, False),
    ],
)
def test_computes(expression: Expr, values: dict[str, Value], expected: bool) -> None:
    assert expression.evaluate(values) is expected


def test_names_every_axis_that_it_reads() -> None:
    expression = (ref("a") + 1 <= ref("b")) | ~ref("c").is_set()
    assert expression.names() == {"a", "b", "c"}


def test_prints_as_it_is_read() -> None:
    assert str((ref("a") + 1 <= ref("b")) & ref("c").equals(None)) == (
        "(((a + 1) <= b) and (c in [unset]))"
    )


def test_refuses_chained_comparisons_and_python_and() -> None:
    with pytest.raises(TypeError, match="an expression has no truth value"):
        bool(ref("a") < ref("b"))


@pytest.mark.parametrize("values", [{"a": 3}, {"a": None, "b": 1}, {"a": 3, "b": None}])
def test_a_rule_binds_nothing_where_an_axis_is_absent_or_unset(values: dict[str, Value]) -> None:
    assert Rule(ref("a") <= ref("b"), "").holds(values)
