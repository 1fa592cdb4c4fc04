"""What finished trials say, to the last number: factors, pooling, hosts, and what counts at all."""

import math
from dataclasses import replace

import pytest

from sweeps.config import Config
from sweeps.quality import Verdict
from sweeps.results import Estimate, Outcome, TrialResult
from sweeps.search.equality import SAME_SPREAD, accepts_differ
from sweeps.search.evidence import (
    HOST_SPREAD,
    LAUNCH_SPREAD,
    LEAST_SPREAD,
    UNKNOWN_SPREAD,
    Evidence,
    Reading,
    between_starts,
    gather,
    mean_of,
    purposes,
    read_log,
)
from sweeps.search.steps import Purpose
from tests.sweeps.makers import ngram, plain, result
from tests.sweeps.search.host import near

RATE, STEPS, LENGTH = "decode_tok_s", "steps_per_s", "accept_length"


def told(number: int, config: Config, host: str = "one", /, **estimates: Estimate) -> TrialResult:
    return replace(result(number, config), estimates=dict(estimates), host=host)


def same(config: Config) -> Config:
    return config


def read(*history: TrialResult, metric: str = RATE, higher: bool = True) -> Evidence:
    return gather(history, same, metric, higher_is_better=higher)


def is_about(reading: Reading | None, value: float, variance: float) -> bool:
    assert reading is not None
    return reading.value == pytest.approx(value) and reading.variance == pytest.approx(variance)


def test_an_estimate_is_read_as_a_logarithm_with_the_spread_of_its_interval() -> None:
    assert is_about(read_log(near(20.0, 0.03)), math.log(20.0), 0.03**2)
    exact = Estimate(20.0, 20.0, 20.0, 1.0, "", False)
    assert is_about(read_log(exact), math.log(20.0), LEAST_SPREAD**2)
    for low, high in ((None, None), (19.0, None), (None, 21.0)):
        half_known = Estimate(20.0, low, high, 1.0, "", False)
        assert is_about(read_log(half_known), math.log(20.0), UNKNOWN_SPREAD**2)
    assert read_log(None) is None
    for value in (0.0, -1.0):
        assert read_log(Estimate(value, None, None, 1.0, "", False)) is None
    assert read_log(Estimate(0.5, None, None, 1.0, "", False)) is not None


def test_readings_are_pooled_by_their_precision() -> None:
    pooled = mean_of([Reading(1.0, 0.01), Reading(4.0, 0.03)], 0.01)
    assert is_about(pooled, (50 * 1.0 + 25 * 4.0) / 75, 1 / 75)
    assert is_about(mean_of([Reading(2.0, 0.5)]), 2.0, 0.5)


def test_the_variance_between_starts_is_shrunk_and_has_a_floor() -> None:
    groups = [
        [Reading(0.0, 0.0001), Reading(0.06, 0.0003)],
        [Reading(1.0, 0.0002), Reading(1.0, 0.0002), Reading(1.03, 0.0002)],
        [Reading(5.0, 1.0)],
    ]
    squares = (0.0018 - 1 * 0.0002) + (0.0006 - 2 * 0.0002)
    variance, worth = between_starts(groups, 0.02, 6.0)
    assert variance == pytest.approx((6 * 0.0004 + squares) / (6 + 3))
    assert worth == 9
    quiet = [[Reading(1.0, 0.01)] * 4]
    assert between_starts(quiet, 0.03, 1.0) == pytest.approx((0.0001, 4.0))
    assert between_starts([], 0.03, 5.0) == pytest.approx((0.0009, 5.0))


def test_a_rate_is_taken_apart_by_whatever_two_of_three_are_known() -> None:
    draft = ngram(4)
    rate, steps, length = near(60.0, 0.02), near(30.0, 0.01), near(2.0, 0.03)
    known = [
        {RATE: rate, STEPS: steps, LENGTH: length},
        {RATE: rate, LENGTH: length},
        {RATE: rate, STEPS: steps},
        {STEPS: steps, LENGTH: length},
    ]
    wanted = [  # variances of rate, cycle and accept length
        (0.02**2, 0.01**2, 0.03**2),
        (0.02**2, 0.02**2 + 0.03**2, 0.03**2),
        (0.02**2, 0.01**2, 0.02**2 + 0.01**2),
        (0.01**2 + 0.03**2, 0.01**2, 0.03**2),
    ]
    for estimates, (of_rate, of_cycle, of_accept) in zip(known, wanted, strict=True):
        (start,) = read(told(0, draft, **estimates)).starts
        assert is_about(start.rate, math.log(60.0), of_rate)
        assert is_about(start.cycle, -math.log(30.0), of_cycle)
        assert is_about(start.accept, math.log(2.0), of_accept)
        assert start.may_lead is (RATE in estimates)
    for lacking in ({RATE: rate}, {LENGTH: length}, {}):
        assert read(told(0, draft, **lacking)).starts == ()
    (probed,) = read(told(0, draft, **{STEPS: steps})).starts
    assert is_about(probed.cycle, -math.log(30.0), 0.01**2)
    assert (probed.measured_rate, probed.accept, probed.may_lead) == (None, None, False)


def test_plain_decode_and_one_token_a_step_have_no_accept_length() -> None:
    one = ngram(1)
    for config in (plain(), one):
        (start,) = read(told(0, config, **{STEPS: near(30.0, 0.01), LENGTH: near(9, 0.1)})).starts
        assert is_about(start.rate, math.log(30.0), 0.01**2)
        assert is_about(start.cycle, -math.log(30.0), 0.01**2)
        assert start.accept is None
        (start,) = read(told(0, config, **{RATE: near(31.0, 0.02)})).starts
        assert is_about(start.cycle, -math.log(31.0), 0.02**2)
        both = {RATE: near(31.0, 0.02), STEPS: near(30.0, 0.01)}
        (start,) = read(told(0, config, **both)).starts
        assert is_about(start.rate, math.log(31.0), 0.02**2)
        assert is_about(start.cycle, -math.log(30.0), 0.01**2)
    assert read(told(0, plain())).starts == ()


def test_another_metric_counts_as_it_is_better() -> None:
    seen = {"tpot_ms": near(20.0, 0.02), RATE: near(60.0, 0.01)}
    (start,) = read(told(0, ngram(4), **seen), metric="tpot_ms", higher=False).starts
    assert is_about(start.rate, -math.log(20.0), 0.02**2)
    assert is_about(start.cycle, math.log(20.0), 0.02**2)
    assert start.accept is None
    (start,) = read(told(0, ngram(4), **seen), metric="tpot_ms").starts
    assert is_about(start.rate, math.log(20.0), 0.02**2)
    assert read(told(0, ngram(4), **{RATE: near(60.0, 0.01)}), metric="tpot_ms").starts == ()


def test_repeats_say_how_much_starts_differ() -> None:
    def launch(*per_s: float) -> float:
        return read(
            *(told(n, plain(), **{STEPS: near(v, 0.01)}) for n, v in enumerate(per_s)),
            told(9, ngram(4), **{STEPS: near(1.0, 0.01), LENGTH: near(2.0, 0.01)}),
        ).launch_variance

    wanted = between_starts([[Reading(-math.log(v), 0.01**2) for v in (100.0, 112.0)]])[0]
    assert launch(100.0, 112.0) == pytest.approx(wanted)
    assert launch(100.0, 112.0) > launch(100.0) == pytest.approx(LAUNCH_SPREAD**2)


def test_starts_of_one_variant_are_pooled_with_what_a_start_adds() -> None:
    first = told(0, ngram(4), **{STEPS: near(30.0, 0.01), LENGTH: near(2.0, 0.02)})
    second = told(1, ngram(4), **{STEPS: near(31.0, 0.03), LENGTH: near(2.2, 0.04)})
    evidence = read(first, second)
    (variant,) = evidence.variants.values()
    more = evidence.launch_variance
    weights = [1 / (0.01**2 + more), 1 / (0.03**2 + more)]
    middle = -(weights[0] * math.log(30.0) + weights[1] * math.log(31.0)) / sum(weights)
    assert is_about(variant.cycle, middle, 1 / sum(weights))
    weights = [1 / 0.02**2, 1 / 0.04**2]
    middle = (weights[0] * math.log(2.0) + weights[1] * math.log(2.2)) / sum(weights)
    assert is_about(variant.accept, middle, 1 / sum(weights))
    assert [start.place for start in variant.starts] == [0, 1]
    assert not variant.may_lead
    led = told(2, ngram(4), **{RATE: near(60.0, 0.01), LENGTH: near(2.0, 0.02)})
    (variant,) = read(first, led).variants.values()
    assert variant.may_lead


def test_other_hosts_are_brought_to_the_first_by_what_both_had() -> None:
    def steps(number: int, config: Config, host: str, per_s: float) -> TrialResult:
        return told(number, config, host, **{STEPS: near(per_s, 0.01), LENGTH: near(2.0, 0.01)})

    both = [steps(0, plain(), "one", 100.0), steps(1, plain(), "two", 80.0)]
    drafts = [steps(2, ngram(4), "one", 50.0), steps(3, ngram(4), "two", 50.0)]
    alone = steps(4, ngram(6), "two", 40.0)
    starts = {start.place: start for start in read(*both, *drafts, alone).starts}
    # Plain decode tells: two is slower by 100 over 80, whatever drafts say.
    assert starts[1].cycle.value == pytest.approx(-math.log(100.0))
    assert starts[3].cycle.value == pytest.approx(-math.log(50.0 * 100 / 80))
    assert is_about(starts[4].cycle, -math.log(50.0), 0.01**2 + 2 * LAUNCH_SPREAD**2)
    assert is_about(starts[2].cycle, -math.log(50.0), 0.01**2)
    assert starts[4].rate.value == pytest.approx(math.log(2 * 50.0))
    # Without plain decode on both, other shared variants do, each as one gap.
    shared = [steps(0, ngram(4), "one", 50.0), steps(1, ngram(4), "two", 40.0),
              steps(2, ngram(4), "two", 44.0), steps(3, ngram(5), "one", 60.0),
              steps(4, ngram(5), "two", 60.0)]  # fmt: skip
    starts = {start.place: start for start in read(*shared).starts}
    gap = (math.log(50.0) - (math.log(40.0) + math.log(44.0)) / 2) / 2
    assert is_about(starts[4].cycle, -math.log(60.0) - gap, 0.01**2 + LAUNCH_SPREAD**2)
    # And where nothing is shared, nothing is known of the gap.
    apart = read(steps(0, ngram(4), "one", 50.0), steps(1, ngram(5), "two", 60.0)).starts
    assert is_about(apart[1].cycle, -math.log(60.0), 0.01**2 + HOST_SPREAD**2)


def test_faults_say_nothing_and_what_cannot_run_is_bad() -> None:
    fine = {RATE: near(60.0, 0.01)}
    cut = [replace(told(n, plain(NCCL_PROTO="LL"), **fine), outcome=outcome)
           for n, outcome in enumerate((Outcome.FAILED, Outcome.CANCELLED))]  # fmt: skip
    refused = [replace(told(n, ngram(n), **fine), outcome=outcome)
               for n, outcome in ((2, Outcome.INFEASIBLE), (3, Outcome.HUNG))]  # fmt: skip
    broken = replace(told(4, ngram(4), **fine), quality=Verdict.BROKEN)
    stopped = replace(told(5, ngram(5), **{RATE: near(9.0, 0.1), LENGTH: near(2.0, 0.1)}),
                      outcome=Outcome.STOPPED)  # fmt: skip
    good = told(6, plain(), **fine)
    evidence = read(*cut, *refused, broken, stopped, good)
    assert evidence.bad == (ngram(2), ngram(3), ngram(4))
    assert evidence.spent == {ngram(2), ngram(3), ngram(4), ngram(5), plain()}
    assert [start.place for start in evidence.starts] == [5, 6]
    assert [start.may_lead for start in evidence.starts] == [False, True]


def test_hours_are_those_of_trials_that_were_run() -> None:
    trials = [replace(told(n, plain()), gpu_hours=hours) for n, hours in enumerate((1.0, 4.0, 0.0))]
    lost = replace(told(3, plain()), gpu_hours=100.0, outcome=Outcome.FAILED)
    timed = replace(trials[2], phase_s={"starting": 1800.0, "measuring": 3600.0})
    stopped = replace(told(5, ngram(5), **{STEPS: near(9.0, 0.1)}), gpu_hours=0.6,
                      outcome=Outcome.STOPPED)  # fmt: skip
    assert read(*trials[:2], lost).gpu_hours == 2.5
    assert read(timed).gpu_hours == 1.5, "a host without GPUs has hours of its own"
    assert read(trials[0], stopped).stopped_gpu_hours == 0.6
    assert read(trials[0]).stopped_gpu_hours < 1.0
    assert read().gpu_hours == read(lost).gpu_hours == 1.0
    expected = replace(told(4, ngram(9), **{RATE: near(5.0, 0.1)}), purpose="prior")
    assert read(expected).spent == frozenset()


def test_purposes_are_counted_without_faults() -> None:
    history = [replace(told(n, plain()), purpose=Purpose.CONFIRM.value) for n in range(3)]
    history[1] = replace(history[1], outcome=Outcome.FAILED)
    assert purposes(history, Purpose.CONFIRM) == 2
    assert purposes(history, Purpose.BASELINE) == 0


def test_small_differences_of_many_drafts_add_up() -> None:
    """Each pair lies 1.95 variances from its mean, eight of them: by chance 1 in 10,000."""

    def differ(variances: float) -> bool:
        apart = math.sqrt(variances * (0.01**2 + SAME_SPREAD**2))
        trials = [
            told(2 * width + side, ngram(width, NCCL_PROTO=protocol),
                 **{STEPS: near(30.0, 0.01), LENGTH: near(2.0 * math.exp(sign * apart), 0.01)})
            for width in range(2, 10)
            for side, (protocol, sign) in enumerate(((None, 1), ("LL", -1)))
        ]  # fmt: skip
        return accepts_differ(read(*trials))

    assert differ(1.95)
    assert not differ(0.95)
    assert not accepts_differ(read(told(0, ngram(4), **{STEPS: near(3, 0.1), LENGTH: near(2, 9)})))
