"""Numbers and texts that no sweep can mean are refused with the field's name."""

import math
from dataclasses import replace
from typing import Any

import pytest

from sweeps import Budget, HostSpec, Model, Objective, Sweep
from sweeps.limits import Limit
from sweeps.search.steps import Taste
from sweeps.shapes import shape_problems
from sweeps.value_checks import value_problems
from tests.attacks import attack
from tests.sweeps.makers import SMALL

BAD_NUMBERS: list[Any] = [math.nan, math.inf, -math.inf, -1, "8", True, [1], 10**400]
BUDGET = ("trials", "gpu_hours", "start_s", "phase_s", "trial_s", "silence_s", "stop_grace_s",
          "clean_s")  # fmt: skip


def _fields(sweep: Sweep) -> list[str]:
    problems = sweep.problems()
    assert problems == ([*shape_problems(sweep)] or value_problems(sweep))
    assert all(f"{p.value}{p.why}{p.mend}".isprintable() and p.mend for p in problems)
    return [problem.field for problem in problems]


@attack("15: NaN, infinity and numbers below zero in a budget")
@pytest.mark.parametrize("name", BUDGET)
@pytest.mark.parametrize("value", BAD_NUMBERS, ids=lambda v: str(v)[:8])
def test_a_budget_holds_finite_numbers(name: str, value: Any) -> None:
    assert _fields(replace(SMALL, budget=Budget(**{name: value}))) == [f"budget.{name}"]


@attack("15: NaN, infinity and numbers below zero in a host")
@pytest.mark.parametrize("name", ["gpus", "time_scale"])
@pytest.mark.parametrize("value", [*BAD_NUMBERS, 1e300, None], ids=lambda v: str(v)[:8])
def test_a_host_holds_finite_numbers(name: str, value: Any) -> None:
    made = replace(SMALL, hosts=[HostSpec("h1"), HostSpec("h2", **{name: value})])
    assert _fields(made) == [f"hosts.h2.{name}"]


@attack("15: NaN and other types in a goal")
@pytest.mark.parametrize("value", [math.nan, math.inf, "8", True, [1]])
def test_other_numbers_are_finite(value: Any) -> None:
    goal = Objective(limits=[Limit("ttft_p90_ms", most=value)])
    assert _fields(replace(SMALL, objective=goal)) == ["objective.limits.ttft_p90_ms.most"]
    taste = Taste(indifference_fraction=value)
    assert _fields(replace(SMALL, taste=taste)) == ["taste.indifference_fraction"]
    assert _fields(replace(SMALL, seed=value)) == ["seed"]


@pytest.mark.parametrize(
    ("sweep", "field"),
    [
        (replace(SMALL, model=Model("a\0b")), "model.path"),
        (replace(SMALL, model=Model("")), "model.path"),
        (replace(SMALL, model=Model("a\nb")), "model.path"),
        (replace(SMALL, model=Model("a\ud800")), "model.path"),
        (replace(SMALL, model=Model(3)), "model.path"),  # type: ignore[arg-type]
        (replace(SMALL, model=Model("a", draft_path="b\0")), "model.draft_path"),
        (replace(SMALL, name="a\0"), "name"),
        (replace(SMALL, fixed={"mem_fraction_static": math.nan}), "fixed.mem_fraction_static"),
        (replace(SMALL, fixed={"tp_size": [8]}), "fixed.tp_size"),  # type: ignore[dict-item]
        (replace(SMALL, fixed={"served_model_name": "a\0b"}), "fixed.served_model_name"),
        (replace(SMALL, fixed=[("tp_size", 8)]), "fixed"),  # type: ignore[arg-type]
        (replace(SMALL, hosts=[3]), "hosts"),  # type: ignore[list-item]
        (replace(SMALL, hosts=[HostSpec(env={"A B": "1"})]), "hosts.local.env"),
        (replace(SMALL, hosts=[HostSpec(env={"A": 1})]), "hosts.local.env.A"),  # type: ignore[dict-item]
        (replace(SMALL, hosts=[HostSpec(env={"A": "\0"})]), "hosts.local.env.A"),
        (replace(SMALL, hosts=[HostSpec(python="/a\0b")]), "hosts.local.python"),
        (replace(SMALL, hosts=[HostSpec("a\x1b[2J")]), "hosts.a\\x1b[2J.name"),
        (replace(SMALL, budget=5), "budget"),  # type: ignore[arg-type]
        (replace(SMALL, taste={}), "taste"),  # type: ignore[arg-type]
    ],
)
def test_the_field_is_named(sweep: Sweep, field: str) -> None:
    assert _fields(sweep) == [field]
