"""The planner: what it asks for, in which order, and that it is a function of the history."""

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from sweeps.config import Config
from sweeps.results import Outcome, TrialResult
from sweeps.search.brief import Limits, Objective
from sweeps.search.planner import Planner
from sweeps.search.roles import width_of
from sweeps.search.steps import Purpose, Step, Taste
from sweeps.values import Value
from tests.sweeps.search.host import (
    BREADTH,
    IPC,
    PROTO,
    SPACE,
    WIDTH,
    Host,
    best,
    canonical,
    drive,
    near,
    result,
)

NEAR = math.log(1.02)
TRAP = 0.42
"""Speculation wins only where the draft is short and the protocol is LL."""


def planner(trials: int | None = None, seed: int = 1, taste: Taste | None = None) -> Planner:
    return Planner(
        SPACE, canonical=canonical, seed=seed, limits=Limits(trials), taste=taste or Taste()
    )


@cache
def trap_sweep() -> tuple[Planner, list[TrialResult], list[Step]]:
    """Run the sweep of the trap once: with its planner, that several tests look at."""
    ours = planner()
    return ours, *drive(ours, Host(hits=TRAP))


def regret(host: Host, config: Config) -> float:
    return math.log(best(host) / host.tok_s(config))


def test_plain_decode_comes_first_and_once() -> None:
    first = planner().next([])
    assert first is not None
    assert first.purpose is Purpose.BASELINE
    assert first.config == canonical(SPACE.plain())
    second = planner().next([], [first])
    assert second is None or second.config != first.config


def test_the_next_step_is_a_function_of_the_history() -> None:
    _, history, steps = trap_sweep()
    resumed = planner()
    for place in range(1, len(history), 6):
        assert resumed.next(history[:place]) == steps[place]
        assert planner().next(history[:place]) == steps[place]


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        (Host(hits=0.08, ms_per_token=1.5), True),
        pytest.param(Host(hits=0.4, ipc_ms=3.0), False, marks=pytest.mark.slow),
        pytest.param(Host(hits=0.1, ms_per_token=1.5, ipc_ms=3.0), True, marks=pytest.mark.slow),
    ],
    ids=["plain", "other-all-reduce", "plain-and-other-all-reduce"],
)
def test_a_sweep_ends_by_itself_with_a_good_claim(host: Host, plain: bool) -> None:
    ours = planner()
    history, _ = drive(ours, host)
    assert_well_claimed(ours, history, host, plain=plain)


def test_a_gain_that_two_axes_hold_together_is_found_and_claimed() -> None:
    ours, history, _ = trap_sweep()
    assert_well_claimed(ours, history, Host(hits=TRAP), plain=False)


def assert_well_claimed(
    ours: Planner, history: list[TrialResult], host: Host, *, plain: bool
) -> None:
    claim = ours.claim(history)
    assert claim is not None
    assert claim.settled, claim.reason
    assert claim.recommendation.is_plain is plain
    assert regret(host, claim.recommendation) < NEAR
    assert len(history) < 45


def test_one_axis_at_a_time_would_not_find_what_two_axes_hold() -> None:
    host = Host(hits=TRAP)
    base: dict[str, Value] = dict(canonical(SPACE.plain()))
    changes: list[dict[str, Value]] = [{}, {PROTO: "LL"}, {PROTO: "Simple"}, {IPC: "1"}]
    alone = max(host.tok_s(Config.of({**base, **change})) for change in changes)
    draft: dict[str, Value] = {"speculative_algorithm": "NGRAM", WIDTH: 4, BREADTH: 4}
    assert host.tok_s(Config.of({**base, **draft})) < alone
    assert alone < host.tok_s(Config.of({**base, **draft, PROTO: "LL"}))


def test_what_acts_alike_is_searched_once_and_all_that_is_asked_for_is_valid() -> None:
    _, _, steps = trap_sweep()
    searched = [
        canonical(s.config) for s in steps if s.purpose not in (Purpose.CONFIRM, Purpose.BASELINE)
    ]
    assert len(set(searched)) == len(searched)
    for step in steps:
        assert not SPACE.strays(step.config)
        assert not SPACE.broken_rules(step.config)
        assert step.why


def test_draft_length_meets_communication_before_the_end() -> None:
    _, _, steps = trap_sweep()
    seen = {(s.config[PROTO], width_of(s.config)) for s in steps if not s.config.is_plain}
    widths = [{width for proto, width in seen if proto == value} for value in (None, "LL")]
    assert widths[0] & widths[1]


def test_a_value_that_never_runs_is_closed() -> None:
    refusing = Host(hits=TRAP, refuses=lambda config: config[PROTO] == "LL")
    history, steps = drive(planner(), refusing)
    assert sum(1 for s in steps if s.config[PROTO] == "LL") <= 3
    assert any(r.outcome is Outcome.INFEASIBLE for r in history)


def test_a_budget_is_kept_and_the_proof_is_paid_for() -> None:
    ours = planner(trials=14)
    history, steps = drive(ours, Host(hits=0.45))
    assert len(history) <= 14
    confirms = [s for s in steps if s.purpose is Purpose.CONFIRM]
    assert len(confirms) >= 4
    claim = ours.claim(history)
    assert claim is not None
    assert claim.gain is not None


@pytest.mark.slow
def test_a_higher_threshold_ends_the_search_sooner() -> None:
    searched = []
    for gain in (0.05, 0.0002):
        _, steps = drive(planner(taste=Taste(least_gain_per_gpu_hour=gain)), Host(hits=0.45))
        searched.append([s.purpose for s in steps].count(Purpose.SEARCH))
    assert searched[0] < searched[1]


def test_plain_decode_is_measured_again_on_a_schedule() -> None:
    _, steps = drive(planner(taste=Taste(drift_every_trials=6)), Host(hits=TRAP), most=16)
    at = [place for place, s in enumerate(steps) if s.purpose is Purpose.BASELINE]
    assert len(at) >= 2
    assert all(later - earlier <= 7 for earlier, later in pairwise(at))


def test_two_hosts_are_not_given_the_same_trial() -> None:
    history = trap_sweep()[1][:6]
    first = planner().next(history)
    assert first is not None
    second = planner().next(history, [first])
    assert second is not None
    assert canonical(second.config) != canonical(first.config)


def test_a_fault_teaches_nothing_and_is_asked_for_again() -> None:
    first = planner().next([])
    assert first is not None
    failed: list[TrialResult] = [result(0, first, {}, Outcome.FAILED)]
    again = planner().next(failed)
    assert isinstance(again, Step)
    assert again.config == first.config


def test_a_first_draft_that_was_cut_off_is_asked_for_again() -> None:
    _, history, steps = trap_sweep()
    at = next(place for place, step in enumerate(steps) if step.purpose is Purpose.SEED)
    before = history[:at]
    cut = result(at, steps[at], {}, Outcome.CANCELLED)
    assert planner().next([*before, cut]) == steps[at]
    assert planner().next(before, [steps[at]]) != steps[at]


@pytest.mark.parametrize("higher", [True, False])
def test_any_metric_can_be_searched_without_factors(higher: bool) -> None:
    ours = Planner(
        SPACE, canonical=canonical, objective=Objective("other", higher), limits=Limits(12)
    )
    host = Host(hits=TRAP)
    history: list[TrialResult] = []
    while (step := ours.next(history)) is not None:
        measured = host.trial(len(history), step)
        value = measured.estimates["decode_tok_s"].value
        found = near(value if higher else 1000 / value, 0.013)
        history.append(result(len(history), step, {"other": found}))
    assert len(history) <= 12
    claim, bar = ours.claim(history), ours.bar(history)
    assert claim is not None
    assert bar is not None
    assert host.tok_s(claim.recommendation) >= 0.97 * host.tok_s(SPACE.plain())
    assert (bar > 50) is higher


def test_the_bar_is_what_the_leader_surely_reaches() -> None:
    host = Host(hits=TRAP)
    ours, history, _ = trap_sweep()
    claim, bar = ours.claim(history), ours.bar(history)
    assert claim is not None
    assert bar is not None
    assert 0.93 < bar / host.tok_s(claim.recommendation) < 1.0
    assert ours.accept_bound(history, claim.recommendation) > host.accept(claim.recommendation)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_leaders_neighbours_are_tried_unless_they_are_hopeless(seed: int) -> None:
    host = Host(hits=0.45, ipc_ms=3.0)
    never = Taste(least_gain_per_gpu_hour=1.0)  # the search itself asks for nothing
    _, steps = drive(Planner(SPACE, canonical=canonical, seed=seed, taste=never), host)
    near = [step.config for step in steps if step.purpose is Purpose.NEIGHBOUR]
    assert near, "what is a step beside the leader may surprise"
    for config in near:
        # At half the rate of the leader, and known to be: that start would teach nothing.
        assert config.is_plain or host.tok_s(config) > 0.9 * best(host)


def test_a_confirming_start_that_runs_is_counted() -> None:
    planner, host = Planner(SPACE, canonical=canonical), Host(hits=0.45)
    history, _ = drive(planner, host, most=4)
    while (step := planner.next(history)) is not None and step.purpose is not Purpose.CONFIRM:
        history.append(host.trial(len(history), step))
    assert step is not None
    beside = planner.next(history, (step,))
    assert beside is not None
    assert beside.purpose is Purpose.CONFIRM
    assert beside.config != step.config, "forth and back: the other one is next"
    # While something else runs, no proof begins.
    assert planner.next(history, (replace(step, purpose=Purpose.SEARCH),)) is None
