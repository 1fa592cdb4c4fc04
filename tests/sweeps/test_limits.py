"""Service levels: what a recommended variant must keep."""

from dataclasses import replace

import pytest

from sweeps import Limit, Objective, Workload
from sweeps.ranking import incumbent_bar, rank
from sweeps.results import TrialResult
from tests.sweeps.makers import SMALL, estimate, ngram, plain, result

SLOW_START = Limit("ttft_ms", most=100.0)


def served(number: int, rate: float, ttft_ms: float | None, drafts: int = 0) -> TrialResult:
    config = ngram(drafts) if drafts else plain()
    made = result(number, config, rate)
    more = {} if ttft_ms is None else {"ttft_ms": estimate(ttft_ms, 1.0)}
    return replace(made, estimates={**made.estimates, **more})


def test_what_breaks_a_limit_is_not_recommended() -> None:
    results = [served(0, 80.0, 50.0), served(1, 120.0, 150.0, 4)]
    ranking = rank(results, "decode_tok_s", higher_is_better=True, limits=[SLOW_START])
    assert ranking.best is not None
    assert ranking.best.config.is_plain
    assert incumbent_bar(results, "decode_tok_s", [SLOW_START]) == pytest.approx(78.0, abs=0.1)


def test_an_unmeasured_metric_keeps_no_limit() -> None:
    assert SLOW_START.broken_by(served(0, 80.0, None)) == "ttft_ms was not measured"


def test_a_limit_says_by_how_much_it_is_broken() -> None:
    assert SLOW_START.broken_by(served(0, 80.0, 150.0)) == "ttft_ms is 150 ms, above 100"
    least = Limit("decode_tok_s", least=90.0)
    assert least.broken_by(served(0, 80.0, 1.0)) == "decode_tok_s is 80 tok/s, below 90"
    assert not least.broken_by(served(0, 90.0, 1.0))


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (Objective("decode_tok"), "Did you mean `decode_tok_s`?"),
        (Objective("output_tokens"), "no better direction"),
        (Objective("decode_tok_s_c8"), "Add 8 to `workload.concurrencies`."),
        (Objective("ttft_ms_open"), "the workload has no open loop"),
        (Objective(also=("tpot",)), "Did you mean `tpot_ms`?"),
        (Objective(limits=[Limit("tpot", most=1)]), "Did you mean `tpot_ms`?"),
        (Objective(limits=[Limit("ttft_ms")]), "it limits nothing"),
        (Objective(limits=[Limit("ttft_ms", most=1, least=2)]), "no value keeps both"),
        (
            Objective(limits=[Limit("ttft_ms", most=1), Limit("ttft_ms", least=2)]),
            "no value keeps both limits",
        ),
        (Objective(limits=[Limit("ttft_ms_c4", most=1)]), "Add 4 to `workload.concurrencies`."),
    ],
)
def test_goals_that_make_no_sense_are_refused(objective: Objective, said: str) -> None:
    found = [str(p) for p in replace(SMALL, objective=objective).problems()]
    assert any(said in problem for problem in found), found


def test_a_goal_at_a_load_of_the_workload_is_taken() -> None:
    work = Workload(concurrencies=(4,))
    goal = Objective("decode_tok_s_c4", limits=[Limit("ttft_p90_ms_c4", most=500)])
    assert not replace(SMALL, workload=work, objective=goal).problems()


def test_hours_that_cannot_pay_for_a_claim_are_refused_with_the_sum() -> None:
    poor = replace(SMALL, budget=replace(SMALL.budget, gpu_hours=0.5))
    (problem,) = poor.problems()
    assert problem.field == "budget.gpu_hours"
    assert "4 x 8 GPUs" in problem.why
    assert not replace(SMALL, budget=replace(SMALL.budget, gpu_hours=10.0)).problems()


def test_a_limit_comes_back_from_its_data() -> None:
    assert Limit.from_data(SLOW_START.as_data()) == SLOW_START
