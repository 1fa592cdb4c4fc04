"""When a sweep ends early, and which trials are tried again."""

from dataclasses import replace

import pytest

from sweeps.breaker import Breaker, Limits, may_retry, tripped
from sweeps.closing import closed_values
from sweeps.results import Outcome, TrialResult
from tests.sweeps.makers import ngram, plain, result

PORT = "port_in_use"
RETRYABLE = frozenset({PORT})
HOSTS = ["local"]


def ended(
    number: int, outcome: Outcome, signature: str = "", purpose: str = "search", reason: str = "x"
) -> TrialResult:
    """Make the end of a trial."""
    config = plain() if purpose == "baseline" else ngram(number)
    made = result(number, config, outcome=outcome, purpose=purpose)
    return replace(made, signature=signature, reason=reason)


BASELINE = ended(0, Outcome.MEASURED, purpose="baseline")


@pytest.mark.parametrize(
    ("outcome", "signature", "attempts", "again"),
    [
        (Outcome.FAILED, PORT, 1, True),
        (Outcome.FAILED, PORT, 2, True),
        (Outcome.FAILED, PORT, 3, False),
        (Outcome.FAILED, "", 1, True),
        (Outcome.FAILED, "model_unreadable", 1, False),
        (Outcome.INFEASIBLE, PORT, 1, False),
        (Outcome.HUNG, "", 1, False),
        (Outcome.MEASURED, "", 1, False),
    ],
)
def test_only_the_infrastructures_faults_are_tried_again_and_at_most_twice(
    outcome: Outcome, signature: str, attempts: int, *, again: bool
) -> None:
    assert may_retry(ended(1, outcome, signature), attempts, RETRYABLE) is again


def test_nothing_is_tried_again_on_a_dirty_host() -> None:
    dirty = replace(ended(1, Outcome.FAILED, PORT), dirty="port 31000 is still held")
    assert not may_retry(dirty, 1, RETRYABLE)


def test_a_baseline_that_cannot_run_ends_the_sweep_at_once_with_its_reason() -> None:
    first = ended(0, Outcome.INFEASIBLE, "oom_load", "baseline", "out of memory: 3 GiB")
    why = tripped([first], HOSTS)
    assert why == (
        "the baseline cannot run after one try: infeasible: out of memory: 3 GiB"
        " (see server.log of trial t-0000)"
    )


def test_a_baseline_that_the_platform_spoiled_has_its_retries_first() -> None:
    tries = [ended(i, Outcome.FAILED, PORT, "baseline") for i in range(3)]
    assert tripped(tries[:1], HOSTS, RETRYABLE) is None
    assert tripped(tries[:2], HOSTS, RETRYABLE) is None
    why = tripped(tries, HOSTS, RETRYABLE)
    assert why is not None
    assert "after three tries" in why
    assert tripped([*tries[:2], BASELINE], HOSTS, RETRYABLE) is None
    assert tripped([BASELINE, *tries], HOSTS, RETRYABLE) is None


def test_five_failures_in_a_row_end_it_and_a_success_between_does_not() -> None:
    bad = [ended(i, Outcome.FAILED, reason=f"why {i}") for i in range(1, 6)]
    assert tripped([BASELINE, *bad[:4]], HOSTS) is None
    why = tripped([BASELINE, *bad], HOSTS)
    assert why is not None
    assert why.startswith("five trials failed in a row, the last of them: failed: why 5")
    good = ended(9, Outcome.PARTIAL)
    assert tripped([BASELINE, *bad[:4], good, bad[4]], HOSTS) is None
    cancelled = [ended(i, Outcome.CANCELLED) for i in range(20, 25)]
    assert tripped([BASELINE, *cancelled], HOSTS) is None


def test_more_failures_than_half_end_it_after_ten_trials() -> None:
    good, bad = ended(1, Outcome.STOPPED), ended(2, Outcome.INFEASIBLE)
    half = [BASELINE, *[bad, good] * 4, bad]
    assert tripped(half, HOSTS) is None
    why = tripped([*half, bad], HOSTS)
    assert why is not None
    assert why.startswith("6 of 11 trials failed")
    assert tripped([*half, bad], HOSTS, limits=Limits(share=0.7)) is None


def test_failures_that_a_closed_value_explains_do_not_count() -> None:
    bad = [
        replace(result(i, ngram(i, NCCL_PROTO="LL"), outcome=Outcome.INFEASIBLE), signature="nccl")
        for i in range(1, 6)
    ]
    known = [BASELINE, result(9, ngram(9, NCCL_PROTO=None), 90.0), *bad]
    assert tripped(known, HOSTS) is not None
    assert tripped(known, HOSTS, closed=closed_values(known)) is None


def test_quarantined_hosts_end_it_once_none_is_left() -> None:
    dirty = replace(ended(1, Outcome.MEASURED), dirty="2 processes outlived the stop", host="a")
    breaker = Breaker(["a"], frozenset())
    for one in (BASELINE, dirty):
        breaker.take(one)
    assert breaker.quarantined == {"a": "2 processes outlived the stop"}
    assert tripped([BASELINE, dirty], ["a", "b"]) is None
    why = tripped([BASELINE, dirty], ["a"])
    assert why == "no host is left that is proved clean (a: 2 processes outlived the stop)"


SICK = "fabric_manager"


def sick(number: int, host: str = "a", *, purpose: str = "search") -> TrialResult:
    """Make the end of a trial that a fault of its host ended."""
    reason = "the GPUs' fabric is not up: start nvidia-fabricmanager"
    return replace(ended(number, Outcome.FAILED, SICK, purpose, reason), host=host)


def looked_at(results: list[TrialResult], hosts: list[str]) -> Breaker:
    breaker = Breaker(hosts, frozenset({PORT, SICK}), of_host=frozenset({SICK}))
    for one in results:
        breaker.take(one)
    return breaker


def test_a_host_that_keeps_failing_is_set_aside_with_its_remedy() -> None:
    faults = [sick(0, purpose="baseline") for _ in range(3)]
    assert looked_at(faults[:2], ["a", "b"]).quarantined == {}
    breaker = looked_at(faults, ["a", "b"])
    assert "three trials in a row failed there" in breaker.quarantined["a"]
    assert "start nvidia-fabricmanager" in breaker.quarantined["a"]
    assert breaker.why() is None, "the other host can have the baseline"
    assert all(map(breaker.is_left, faults))
    alone = looked_at(faults, ["a"])
    assert "no host is left that can be used (a: three trials in a row" in str(alone.why())
    assert not alone.is_left(faults[-1])


def test_a_host_that_worked_is_set_aside_for_several_configurations_alone() -> None:
    worked = replace(ended(9, Outcome.MEASURED), host="a")
    one = [sick(1), sick(1), sick(1)]
    assert looked_at([worked, *one], ["a"]).quarantined == {}
    assert "a" in looked_at([worked, *one, sick(2)], ["a"]).quarantined
    assert looked_at([worked, sick(1), worked, sick(2), worked, sick(3)], ["a"]).quarantined == {}
    others = replace(ended(4, Outcome.FAILED, PORT), host="a")
    assert looked_at([others, others, sick(1), sick(1), others], ["a"]).quarantined == {}


def test_failures_of_a_host_that_was_set_aside_do_not_end_the_sweep_on_others() -> None:
    faults = [sick(number) for number in range(1, 9)]
    good = [replace(BASELINE, host="b"), replace(ended(20, Outcome.MEASURED), host="b")]
    breaker = looked_at([good[0], *faults, good[1], *faults], ["a", "b"])
    assert set(breaker.quarantined) == {"a"}
    assert breaker.why() is None


def test_faults_of_a_host_close_no_value() -> None:
    known = [BASELINE, *(replace(sick(number), host="local") for number in range(1, 9))]
    assert closed_values(known) == ()
