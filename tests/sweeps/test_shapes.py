"""Whatever a field of a space file holds, it is taken or refused by its name."""

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sweeps
from orchestrator.cli import app
from orchestrator.space_file import prepare
from sweeps import (
    Budget,
    Choice,
    EngineName,
    FloatRange,
    HostSpec,
    IntRange,
    Limit,
    Model,
    Objective,
    Rule,
    Sweep,
    Taste,
    Workload,
    ref,
)  # fmt: skip
from sweeps.problems import BadInputError
from sweeps.shapes import shape_problems
from tests.sweeps.makers import SMALL

ALGORITHM = Choice("speculative_algorithm", [None, "NGRAM"])
WHOLE = replace(SMALL, hosts=[HostSpec(engine=EngineName.EMULATED)])
PARTS: list[tuple[Any, str, Callable[[Any], Sweep]]] = [
    # An object, where it stands, and a sweep that has it there.
    (WHOLE, "", lambda one: one),
    (Model("a/b"), "model", lambda one: replace(WHOLE, model=one)),
    (Workload(), "workload", lambda one: replace(WHOLE, workload=one)),
    (Budget(), "budget", lambda one: replace(WHOLE, budget=one)),
    (Taste(), "taste", lambda one: replace(WHOLE, taste=one)),
    (Objective(), "objective", lambda one: replace(WHOLE, objective=one)),
    (HostSpec("h", EngineName.EMULATED), "hosts.h", lambda one: replace(WHOLE, hosts=[one])),
    (Limit("ttft_p90_ms", 5), "objective.limits.ttft_p90_ms",
     lambda one: replace(WHOLE, objective=Objective(limits=[one]))),
    (ALGORITHM, "axes.speculative_algorithm", lambda one: replace(WHOLE, axes=[one])),
    (IntRange("page_size", 1, 4), "axes.page_size",
     lambda one: replace(WHOLE, axes=[ALGORITHM, one])),
    (FloatRange("mem_fraction_static", 0.5, 0.8), "axes.mem_fraction_static",
     lambda one: replace(WHOLE, axes=[ALGORITHM, one])),
    (Rule(ref("page_size") < 9, "small"), "rules", lambda one: replace(WHOLE, rules=[one])),
]  # fmt: skip
STRANGE: list[Any] = [
    None, 5, -1, 1.5, math.nan, True, "x", "", "\ud800", b"x", [], [1], [None], [[]], (), {},
    {1: 2}, {"a": 1}, {1}, object(), Path("/x"), int, 10**400,
]  # fmt: skip


def _cases() -> Iterator[tuple[Any, str, str, Callable[[Any], Sweep]]]:
    for one, place, put in PARTS:
        for each in fields(one):
            yield one, each.name, place, put


CASES = [pytest.param(*case, id=f"{case[2]}.{case[1]}".strip(".")) for case in _cases()]


def test_all_of_the_vocabulary_is_tried() -> None:
    spoken = {made for name in sweeps.__all__ if is_dataclass(made := getattr(sweeps, name))}
    assert spoken == {type(one) for one, _, _ in PARTS}


@pytest.mark.parametrize(("one", "name", "place", "put"), CASES)
def test_a_strange_value_is_taken_or_refused_by_its_field(
    one: Any, name: str, place: str, put: Callable[[Any], Sweep]
) -> None:
    (problem,) = shape_problems(put(replace(one, **{name: object()})))
    where = place.rpartition(".")[0] if name in ("name", "metric") and "." in place else place
    assert problem.field == f"{where}.{name}".strip(".")
    for strange in STRANGE:
        made = put(replace(one, **{name: strange}))
        problems = [*shape_problems(made)]
        assert all(f"{p.value}{p.why}{p.mend}".isprintable() and p.mend for p in problems)
        if not problems:
            try:
                assert prepare(made, Path("space.py")).key
            except BadInputError as refused:
                assert refused.problems


def test_the_word_of_an_engine_is_taken() -> None:
    assert HostSpec(engine="emulated").engine is EngineName.EMULATED  # type: ignore[arg-type]
    assert not [*shape_problems(replace(SMALL, hosts=[HostSpec(engine="sglang")]))]  # type: ignore[arg-type]


HEAD = """from sweeps import *
SPEC = Choice("speculative_algorithm", [None, "NGRAM"])
HOST = HostSpec(engine="emulated")
"""


@pytest.mark.parametrize("options", [[], ["--host"]], ids=["file", "host"])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ("axes=[SPEC], hosts=[HOST]", ""),
        ("axes=[SPEC], hosts=HOST", "hosts = HostSpec("),
        ("axes=[SPEC], hosts=['rack1']", "hosts = 'rack1'"),
        ("axes=[SPEC], hosts=[HostSpec(engine='vllm')]", "hosts.local.engine = 'vllm'"),
        ("axes=[SPEC], hosts=[HostSpec(env={'A': 1})]", "hosts.local.env.A = 1"),
        ("axes=[SPEC, IntRange('page_size', '1', 4)]", "axes.page_size.low = '1'"),
        ("axes=[SPEC, IntRange('page_size', 1, 10**400)]", "page_size = IntRange("),
        ("axes=[SPEC, IntRange('page_size', 1, 4, {'algorithm': 'NGRAM'})]", "page_size.when"),
        ("axes=[SPEC, Choice('page_size', [])]", "page_size = Choice("),
        ("axes=SPEC", "axes = Choice("),
        ("axes=[SPEC], budget=Budget(trials='24')", "budget.trials = '24'"),
        ("axes=[SPEC], objective=Objective(limits=Limit('ttft_p90_ms', 5))", "objective.limits ="),
        ("axes=[SPEC], objective='decode_tok_s'", "objective = 'decode_tok_s'"),
        ("axes=[SPEC], workload='code'", "workload = 'code'"),
    ],
)  # fmt: skip
def test_a_typed_check_names_the_field(
    tmp_path: Path, fields: str, named: str, options: list[str]
) -> None:
    (tmp_path / "space.py").write_text(
        f"{HEAD}sweep = Sweep(name='x', model=Model('a/b'), {fields})\n"
    )
    state = ["--state-dir", str(tmp_path / "state")]
    done = CliRunner().invoke(app, ["check", str(tmp_path / "space.py"), *options, *state])
    assert done.exit_code == (2 if named else 0), done.output
    assert named in " ".join(done.output.split())
