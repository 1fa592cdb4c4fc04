"""What an edited space file means for the trials that were made of it."""

from dataclasses import replace

import pytest

from sweeps import (
    Budget,
    Choice,
    FloatRange,
    HostSpec,
    IntRange,
    Limit,
    Model,
    Objective,
    Rule,
    ref,
)
from sweeps.again import to_try_again
from sweeps.axes import Axis
from sweeps.definition import Effect, changes, definition, fitting, searched, study_key
from sweeps.results import Outcome, TrialResult
from sweeps.sweep import Sweep
from tests.sweeps.makers import NGRAM, SMALL, ngram, plain, result

DRAFT = "speculative_num_draft_tokens"


def _with_axis(number: int, axis: Choice | IntRange | FloatRange) -> Sweep:
    axes = list(SMALL.axes)
    axes[number] = axis
    return replace(SMALL, axes=axes)


@pytest.mark.parametrize(
    ("edited", "what", "effect"),
    [
        (_with_axis(3, Choice("NCCL_PROTO", [None, "LL", "Simple"])), "NCCL_PROTO", Effect.KEEPS),
        (_with_axis(3, Choice("NCCL_PROTO", [None, "Simple"])), "NCCL_PROTO", Effect.SPLITS),
        (_with_axis(1, IntRange(DRAFT, 2, 8, NGRAM)), DRAFT, Effect.KEEPS),
        (_with_axis(1, IntRange(DRAFT, 2, 4, NGRAM)), DRAFT, Effect.SPLITS),
        (_with_axis(1, IntRange(DRAFT, 2, 6)), DRAFT, Effect.SPLITS),
        (replace(SMALL, axes=SMALL.axes[:3]), "NCCL_PROTO", Effect.SPLITS),
        (replace(SMALL, axes=[*SMALL.axes, Choice("x", [1])]), "axis x", Effect.SPLITS),
        (replace(SMALL, rules=()), "rule", Effect.KEEPS),
        (replace(SMALL, rules=[*SMALL.rules, Rule(ref(DRAFT) < 4, "few")]), "rule", Effect.SPLITS),
        (replace(SMALL, fixed={"tp_size": 4}), "fixed.tp_size", Effect.BREAKS),
        (replace(SMALL, model=Model("other/model")), "model.path", Effect.BREAKS),
        (
            replace(SMALL, workload=replace(SMALL.workload, max_tokens=64)),
            "workload.max_tokens", Effect.BREAKS,
        ),
        (replace(SMALL, hosts=[HostSpec(version="0.5.9")]), "hosts.local.version", Effect.BREAKS),
        (replace(SMALL, hosts=[HostSpec("far")]), "host local", Effect.BREAKS),
        (replace(SMALL, budget=Budget(trials=99)), "budget.trials", Effect.KEEPS),
        (replace(SMALL, seed=5), "search.seed", Effect.KEEPS),
        (
            replace(SMALL, objective=Objective(limits=[Limit("ttft_p90_ms", most=5.0)])),
            "objective.limits", Effect.KEEPS,
        ),
    ],
)  # fmt: skip
def test_each_edit_has_one_meaning(edited: Sweep, what: str, effect: Effect) -> None:
    found = changes(definition(SMALL), definition(edited))
    assert what in found[0].what
    assert found[0].effect is effect
    assert changes(definition(edited), definition(edited)) == ()


def test_how_fast_an_emulated_host_is_played_is_no_edit() -> None:
    fast = replace(SMALL, hosts=[HostSpec(time_scale=9.0, scenario="/x.toml")])
    assert changes(definition(SMALL), definition(fast)) == ()


def test_only_budget_and_search_go_on_without_a_question() -> None:
    edited = replace(SMALL, seed=5, budget=Budget(trials=99), rules=())
    loud = [c.part for c in changes(definition(SMALL), definition(edited)) if not c.is_quiet]
    assert loud == ["rules"]


def test_trials_outside_the_edited_space_are_told_from_those_inside() -> None:
    breadth = {"speculative_ngram_max_bfs_breadth": 1, "NCCL_PROTO": None}
    results = [
        result(0, plain(NCCL_PROTO=None), 20.0),
        result(1, ngram(3, **breadth), 30.0),
        result(2, ngram(6, **breadth), 40.0),
        result(3, plain(NCCL_PROTO="LL"), 21.0),
    ]
    edited = _with_axis(1, IntRange(DRAFT, 2, 4, NGRAM))
    inside, outside = fitting(results, edited.space)
    assert [r.number for r in inside] == [0, 1, 3]
    assert [r.number for r in outside] == [2]


def test_the_searched_part_is_read_back_as_it_was() -> None:
    mem, log = FloatRange("mem_fraction_static", 0.5, 0.9), IntRange("log", 1, 64, log=True)
    more: list[Axis] = [mem, log]
    goal = Objective("tpot_ms", [Limit("ttft_p90_ms", most=5.0)], ["decode_tok_s"])
    sweep = replace(SMALL, axes=[*SMALL.axes, *more], objective=goal)
    data = definition(sweep)
    read = searched("small", data)
    assert [axis.as_data() for axis in read.axes] == [axis.as_data() for axis in sweep.axes]
    assert (read.objective.metric, read.objective.limits) == (goal.metric, goal.limits)
    assert definition(read)["axes"] == data["axes"]
    assert study_key(data) != study_key(definition(replace(sweep, rules=())))
    assert study_key(data) == study_key(definition(replace(sweep, budget=Budget(trials=1))))


def test_what_was_cut_off_and_nobody_tried_since_is_tried_again() -> None:
    def end(
        number: int, outcome: Outcome, retry_of: int | None = None, signature: str = ""
    ) -> None:
        made = result(number, ngram(number % 3 + 2), outcome=outcome)
        results.append(replace(made, retry_of=retry_of, signature=signature))

    results: list[TrialResult] = []
    end(0, Outcome.CANCELLED)
    end(1, Outcome.MEASURED)
    end(2, Outcome.INFEASIBLE)
    end(3, Outcome.CANCELLED, retry_of=0)
    end(4, Outcome.FAILED, signature="a fault of the configuration")
    end(5, Outcome.FAILED)
    assert [r.number for r in to_try_again(results, frozenset())] == [3, 5]
    assert [r.number for r in to_try_again(results[:3], frozenset())] == [0]


def test_a_fault_is_tried_again_within_its_cap_only() -> None:
    spoiled = [result(n, ngram(4), outcome=Outcome.FAILED) for n in range(3)]
    chain = [replace(r, retry_of=r.number - 1 if r.number else None) for r in spoiled]
    assert [r.number for r in to_try_again(chain[:2], frozenset())] == [1]
    assert to_try_again(chain, frozenset()) == ()
