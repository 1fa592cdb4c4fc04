"""When a running trial is surely worse than the leader."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.early_stop import EarlyStop
from orchestrator.job import Purpose, StopKind, StopOrder, TrialJob, TrialProgress
from sweeps.config import Config
from sweeps.limits import Limit
from sweeps.results import Outcome, Phase, TrialResult
from sweeps.search.planner import Planner
from tests.sweeps.makers import SMALL, estimate, ngram, plain, result
from tests.sweeps.search.host import BREADTH, NGRAM, SPACE, WIDTH, Host, canonical, drive

LEADER = result(0, plain(), 100.0)
DRAFTS = {"speculative_ngram_max_bfs_breadth": 1, "NCCL_PROTO": None}


def job(config: Config, purpose: Purpose = Purpose.SEARCH) -> TrialJob:
    return TrialJob("t-0009", "t", 9, SMALL, config, SMALL.hosts[0], Path("/none"), purpose)


def steps(*per_s: float, phase: Phase = Phase.PROBING) -> TrialProgress:
    return TrialProgress("t-0009", phase, 10.0, step_blocks=per_s)


def looked(
    stop: EarlyStop, trial: TrialJob, seen: TrialProgress, results: list[TrialResult]
) -> StopOrder | None:
    """Begin a trial after some results, and look at it once."""
    stop.begin(trial, results)
    return stop.look(trial, seen)


def with_length(made: TrialResult, tokens_per_step: float) -> TrialResult:
    more = {"accept_length": estimate(tokens_per_step, 0.05)}
    return replace(made, estimates={**made.estimates, **more})


def test_plain_decode_is_judged_by_its_steps_alone() -> None:
    stop, slow = EarlyStop(SMALL), job(plain(NCCL_PROTO="LL"))
    order = looked(stop, slow, steps(60.0, 61.0, 60.0), [LEADER])
    assert order is not None
    assert order.kind is StopKind.BOUND
    assert order.bound is not None
    assert 60 < order.bound < 98
    assert looked(stop, slow, steps(97.0, 98.0, 97.0, 98.0), [LEADER]) is None


def test_a_variant_is_stopped_only_where_even_accepting_all_is_too_slow() -> None:
    stop = EarlyStop(SMALL)
    assert looked(stop, job(ngram(4, **DRAFTS)), steps(30.0, 30.0, 30.0), [LEADER]) is None
    order = looked(stop, job(ngram(2, **DRAFTS)), steps(30.0, 30.0, 30.0), [LEADER])
    assert order is not None
    assert order.bound is not None
    assert (
        f" {order.bound / 2:.1f}/s with 2.00 tokens each, were every draft accepted" in order.reason
    )


def test_what_the_same_drafts_accepted_elsewhere_bounds_a_variant() -> None:
    known = with_length(result(1, ngram(4, **DRAFTS), 40.0), 1.3)
    other = job(ngram(4, **{**DRAFTS, "NCCL_PROTO": "LL"}))
    order = looked(EarlyStop(SMALL), other, steps(40.0, 40.0, 40.0), [LEADER, known])
    assert order is not None
    assert "1.35 tokens each" in order.reason


def test_a_lucky_single_start_does_not_raise_the_bar() -> None:
    exact = replace(LEADER, estimates={"decode_tok_s": estimate(100.0, 0.01)})
    close = steps(*[98.0] * 4)
    assert looked(EarlyStop(SMALL), job(plain(NCCL_PROTO="LL")), close, [exact]) is None


@pytest.mark.parametrize("purpose", [Purpose.BASELINE, Purpose.CONFIRM])
def test_only_trials_of_the_search_are_stopped(purpose: Purpose) -> None:
    slow = job(plain(), purpose)
    assert looked(EarlyStop(SMALL), slow, steps(1.0, 1.0, 1.0), [LEADER]) is None


def test_steps_count_only_in_the_probe() -> None:
    seen = steps(1.0, 1.0, 1.0, phase=Phase.COLD)
    assert looked(EarlyStop(SMALL), job(plain()), seen, [LEADER]) is None


@pytest.mark.parametrize("unit", [1.0, 0.005])
def test_the_sweeps_own_spread_tightens_the_bound(unit: float) -> None:
    near, leader = job(plain(NCCL_PROTO="LL")), result(0, plain(), 100.0 * unit, unit)
    close = steps(*[90.0 * unit] * 4)
    fresh, learnt = EarlyStop(SMALL), EarlyStop(SMALL)
    for number in range(4):
        # Two trials are too few to say what is usual, three are enough, and more are as well.
        assert (looked(learnt, near, close, [leader]) is not None) is (number >= 3)
        rates = (99.0 * unit, 100.0 * unit, 100.0 * unit)
        other = replace(steps(*rates), trial=f"t-{number}")
        looked(learnt, replace(near, trial=f"t-{number}"), other, [leader])
        learnt.learn(replace(result(number, plain(), 100.0), trial=f"t-{number}"))
    assert looked(fresh, near, close, [leader]) is None
    assert looked(learnt, near, close, [leader]) is not None


def test_trials_that_were_cut_off_teach_no_spread() -> None:
    stop, near = EarlyStop(SMALL), job(plain(NCCL_PROTO="LL"))
    for number in range(3):
        looked(stop, near, steps(100.0, 100.0, 100.0), [])
        cut = result(number, plain(), 100.0, outcome=Outcome.STOPPED)
        stop.learn(replace(cut, trial=near.trial))
    assert looked(stop, near, steps(*[90.0] * 4), [LEADER]) is None


@pytest.mark.parametrize("rule", ["asha", "median"])
def test_rules_of_other_tuners_can_be_chosen(rule: str) -> None:
    stop = EarlyStop(replace(SMALL, stop_rule=rule))
    trial = job(plain(NCCL_PROTO="LL"))
    for number in range(3):
        other = replace(trial, trial=f"t-{number}")
        seen = TrialProgress(other.trial, Phase.MEASURING, 30.0, blocks=(100.0,) * 5)
        looked(stop, other, seen, [])
    order = looked(stop, trial, replace(seen, trial=trial.trial, blocks=(99.0,) * 5), [])
    assert order is not None
    assert rule in order.reason
    assert order.bound is None


def test_streams_together_must_reach_the_bar() -> None:
    two = replace(SMALL, workload=replace(SMALL.workload, concurrency=2))
    slow = replace(job(plain(NCCL_PROTO="LL")), sweep=two)
    assert looked(EarlyStop(two), slow, steps(60.0, 60.0, 60.0), [LEADER]) is None
    order = looked(EarlyStop(two), slow, steps(30.0, 30.0, 30.0), [LEADER])
    assert order is not None
    assert order.bound is not None
    assert 60 < order.bound < 98


def test_a_trial_of_few_blocks_teaches_no_spread() -> None:
    def after(*blocks_per_s: float) -> StopOrder | None:
        """Look at a close trial after three others of these blocks of tokens."""
        stop, near = EarlyStop(SMALL), job(plain(NCCL_PROTO="LL"))
        for number in range(3):
            seen = TrialProgress(f"t-{number}", Phase.MEASURING, 30.0, blocks=blocks_per_s)
            looked(stop, replace(near, trial=f"t-{number}"), seen, [LEADER])
            stop.learn(replace(result(number, plain(), 100.0), trial=f"t-{number}"))
        close = TrialProgress(near.trial, Phase.MEASURING, 30.0, blocks=(80.0,) * 5)
        return looked(stop, near, close, [LEADER])

    assert after(100.0, 101.0, 100.0, 101.0) is None
    assert after(100.0, 101.0, 100.0, 101.0, 100.0) is not None


@pytest.mark.parametrize("names", [("t-0000", "t-0001", "t-0002"), ("t-0010", "t-0011", "t-0012")])
def test_all_others_are_peers_and_not_the_trial_itself(names: tuple[str, ...]) -> None:
    stop, trial = EarlyStop(replace(SMALL, stop_rule="median")), job(plain(NCCL_PROTO="LL"))
    seen = TrialProgress(trial.trial, Phase.MEASURING, 30.0, blocks=(99.0,) * 5)
    for number, name in enumerate(names):
        assert looked(stop, trial, seen, []) is None, f"{number} others are too few"
        other = replace(seen, trial=name, blocks=(100.0,) * 5)
        looked(stop, replace(trial, trial=name), other, [])
    assert looked(stop, trial, seen, []) is not None


def test_pooled_beliefs_lower_the_ceiling_and_raise_the_bar() -> None:
    host, planner = Host(hits=0.3), Planner(SPACE, canonical=canonical)
    history, _ = drive(planner, host, most=8)
    sweep = replace(SMALL, axes=SPACE.axes, rules=SPACE.rules)
    tried = {r.config.get(WIDTH) for r in history}
    wide = Config.of({**SPACE.plain(), **NGRAM, WIDTH: 24, BREADTH: 2, "NCCL_ALGO": "Ring"})
    assert 24 not in tried, "nothing measured these drafts"
    trial = replace(job(wide), sweep=sweep)
    slow = steps(*[0.6 * host.tok_s(SPACE.plain()) / host.accept(wide)] * 4)
    order = looked(EarlyStop(sweep, planner), trial, slow, history)
    assert order is not None
    assert "tokens each, at most, by all trials so far" in order.reason
    # Alone, it could still accept all 24.
    assert looked(EarlyStop(sweep), trial, slow, history) is None
    # What a narrow draft can reach needs no belief: 2 of 2 is less than any bound on 2.
    narrow = replace(trial, config=Config.of({**wide, WIDTH: 2}))
    bound = planner.accept_bound(history, narrow.config)
    told = looked(EarlyStop(sweep, planner), narrow, steps(0.1, 0.1, 0.1), history)
    assert told is not None
    expected = "by all trials so far" if bound < 2 else "were every draft accepted"
    assert expected in told.reason


def test_limits_keep_the_beliefs_out_of_the_bar() -> None:
    """Beliefs know nothing of a service level: what surely keeps it is the bar then."""
    planner = Planner(SPACE, canonical=canonical)
    history, _ = drive(planner, Host(hits=0.3), most=8)
    sweep = replace(SMALL, axes=SPACE.axes, rules=SPACE.rules)
    plain_again = replace(job(Config.of({**SPACE.plain(), "NCCL_ALGO": "Ring"})), sweep=sweep)
    believed = planner.bar(history)
    assert believed is not None
    told = looked(EarlyStop(sweep, planner), plain_again, steps(1.0, 1.0, 1.0), history)
    assert told is not None
    assert f"below the {believed:.1f} tok/s" in told.reason
    limit = Limit("ttft_ms", most=1e9)
    limited = replace(sweep, objective=replace(sweep.objective, limits=(limit,)))
    kept = [with_ttft(one) for one in history]
    surely = EarlyStop(limited, planner)
    told = looked(surely, replace(plain_again, sweep=limited), steps(1.0, 1.0, 1.0), kept)
    alone = looked(
        EarlyStop(limited), replace(plain_again, sweep=limited), steps(1.0, 1.0, 1.0), kept
    )
    assert told is not None
    assert told == alone
    assert f"below the {believed:.1f} tok/s" not in told.reason


def with_ttft(made: TrialResult) -> TrialResult:
    return replace(made, estimates={**made.estimates, "ttft_ms": estimate(100.0)})
