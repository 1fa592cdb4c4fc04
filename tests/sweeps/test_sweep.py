"""A sweep as a whole: its hash, its settings, and the contradictions that are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from sweeps import Budget, Choice, Model, Objective, Rule, Sweep, Workload, ref
from sweeps.config import Config
from sweeps.sweep import missing_model
from tests.sweeps.makers import NGRAM, SMALL, ngram, plain


def test_the_key_ignores_order_and_limits_but_not_what_defines_results() -> None:
    turned = replace(SMALL, axes=list(reversed(SMALL.axes)), budget=Budget(trials=99))
    assert turned.key == SMALL.key
    assert replace(SMALL, seed=1).key != SMALL.key
    assert replace(SMALL, fixed={"tp_size": 8}).key != SMALL.key
    assert replace(SMALL, workload=Workload(max_tokens=33)).key != SMALL.key


def test_settings_join_model_fixed_and_config() -> None:
    sweep = replace(SMALL, fixed={"tp_size": 8}, model=Model("m/x", draft_path="d/x"))
    assert sweep.settings(plain(NCCL_PROTO="LL")) == {
        "model_path": "m/x", "tp_size": 8, "speculative_algorithm": None, "NCCL_PROTO": "LL",
    }  # fmt: skip
    assert "speculative_draft_model_path" not in sweep.settings(ngram(4))
    eagle = Config.of({"speculative_algorithm": "EAGLE3"})
    assert sweep.settings(eagle)["speculative_draft_model_path"] == "d/x"


def test_a_sound_sweep_has_no_problems() -> None:
    assert SMALL.problems() == []


@pytest.mark.parametrize(
    ("sweep", "field", "why"),
    [
        (replace(SMALL, name="a/b"), "name", "folders"),
        (replace(SMALL, objective=Objective("tok_s")), "objective.metric", "no metric"),
        (replace(SMALL, objective=Objective("output_tokens")), "objective.metric", "direction"),
        (replace(SMALL, budget=Budget(trials=0)), "budget.trials", "at least one"),
        (replace(SMALL, sampler="tpx"), "sampler", "no such sampler"),
        (replace(SMALL, hosts=()), "hosts", "need a host"),
        (replace(SMALL, fixed={"NCCL_PROTO": "LL"}), "fixed.NCCL_PROTO", "swept too"),
        (replace(SMALL, workload=Workload(prompts="codes")), "workload.prompts", "no such"),
        (replace(SMALL, workload=Workload(measured_prompts=700)), "workload.measured_prompts",
         "has 640"),
        (replace(SMALL, workload=Workload(dialect="grpc")), "workload.dialect", "no such"),
        (replace(SMALL, axes=[Choice("speculative_algorithm", ["NGRAM", None])], rules=()),
         "speculative_algorithm", "without speculation"),
        (replace(SMALL, rules=[Rule(ref("NCCL_PROTO").is_set(), "set it")]), "axes", "set it"),
    ],
)  # fmt: skip
def test_refuses(sweep: Sweep, field: str, why: str) -> None:
    problem = next(p for p in sweep.problems() if p.field == field)
    assert why in problem.why
    assert problem.mend


def test_all_problems_are_told_at_once() -> None:
    broken = replace(SMALL, name="", sampler="x", budget=Budget(trials=0))
    assert {p.field for p in broken.problems()} >= {"name", "sampler", "budget.trials"}


def test_a_model_folder_must_hold_a_model(tmp_path: Path) -> None:
    assert missing_model(Model("org/name")) is None
    for path in (tmp_path, tmp_path / "not-there"):
        problem = missing_model(Model(str(path)))
        assert problem is not None
        assert problem.field == "model.path"
    (tmp_path / "config.json").write_text("{}")
    assert missing_model(Model(str(tmp_path))) is None


def test_prompts_of_the_passes_never_overlap_and_follow_the_seed() -> None:
    work = Workload(prompts="code")
    passes = [work.warm_up(), work.cold(), work.measured()]
    flat = [prompt for one in passes for prompt in one]
    assert len(set(flat)) == len(flat) == 2 + work.cold_prompts + work.measured_prompts
    assert work.measured() == Workload(prompts="code").measured()
    assert work.measured() != Workload(prompts="code", seed=1).measured()


def test_all_values_hold_every_value_of_every_axis() -> None:
    values = replace(SMALL, fixed={"tp_size": 8}).all_values()
    assert values["speculative_num_draft_tokens"] == (2, 3, 4, 5, 6)
    assert values["tp_size"] == (8,)
    assert set(values) == {"tp_size", *(axis.name for axis in SMALL.axes)}
    assert list(NGRAM) == ["speculative_algorithm"]
