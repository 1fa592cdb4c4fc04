"""Which axis values are closed for a host, and that nothing which ever worked is."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.sglang.signatures import LOG_SIGNATURES
from sweeps.closing import TOLD_BY_WORDS, Closed, closed_values, fault_of, is_closed
from sweeps.config import Config
from sweeps.reporting.failures import failures_of
from sweeps.results import Outcome, Phase, TrialResult
from sweeps.search.evidence import gather
from sweeps.search.feasibility import Feasibility
from sweeps.values import Value
from tests.sweeps.makers import ngram, plain, result

OFF, ON = "disable_custom_all_reduce", True
SUCCEEDED = (Outcome.MEASURED, Outcome.PARTIAL, Outcome.STOPPED)


def failed(
    number: int,
    config: Config,
    signature: str = "custom_all_reduce",
    outcome: Outcome = Outcome.INFEASIBLE,
) -> TrialResult:
    """Make a trial that ended during its start."""
    made = result(number, config, outcome=outcome)
    return replace(made, signature=signature, phase=Phase.STARTING, start_phase="graph capture")


def worked(number: int, config: Config, purpose: str = "search") -> TrialResult:
    """Make a trial that was measured."""
    return result(number, config, 80.0, purpose=purpose)


BASELINE = worked(0, plain(disable_custom_all_reduce=ON), "baseline")
THREE = [failed(i, ngram(i, disable_custom_all_reduce=False)) for i in (2, 3, 4)]


def test_a_value_that_failed_three_of_three_times_is_closed_and_said_so() -> None:
    results = [BASELINE, worked(1, ngram(8, disable_custom_all_reduce=ON)), *THREE]
    [closed] = closed_values(results)
    assert str(closed) == (
        "disable_custom_all_reduce=off failed 3 of 3 at graph capture (custom_all_reduce):"
        " closed for host local"
    )
    assert is_closed(plain(disable_custom_all_reduce=False), [closed]) == closed
    assert is_closed(plain(disable_custom_all_reduce=ON), [closed]) is None
    assert is_closed(plain(disable_custom_all_reduce=False), [closed], "another host") is None


def test_two_failures_or_one_configuration_three_times_close_nothing() -> None:
    assert closed_values([BASELINE, *THREE[:2]]) == ()
    same = [failed(i, ngram(2, disable_custom_all_reduce=False)) for i in (1, 2, 3)]
    assert closed_values([BASELINE, *same]) == ()


def test_values_that_cannot_be_told_apart_are_closed_together_until_they_can() -> None:
    [closed] = closed_values([BASELINE, *THREE])
    assert closed.items == (("speculative_algorithm", "NGRAM"), (OFF, False))
    assert "cannot be told apart" in str(closed)
    assert is_closed(plain(disable_custom_all_reduce=False), [closed]) is None
    assert is_closed(ngram(9, disable_custom_all_reduce=ON), [closed]) is None
    fourth = failed(5, plain(disable_custom_all_reduce=False, NCCL_PROTO="LL"))
    [apart] = closed_values([BASELINE, *THREE, fourth])
    assert apart.items == ((OFF, False),)
    assert (apart.count, apart.tried) == (4, 4)


def test_a_default_of_plain_decode_is_blamed_on_plain_evidence_alone() -> None:
    broken = result(0, plain(disable_custom_all_reduce=False), outcome=Outcome.CANCELLED,
                    purpose="baseline")  # fmt: skip
    eagle = [
        failed(i, Config.of({"speculative_algorithm": name, OFF: False}))
        for i, name in enumerate(["NGRAM", "EAGLE", "EAGLE3"])
    ]
    assert closed_values([broken, *eagle]) == ()
    alone = [
        failed(i, plain(disable_custom_all_reduce=False, NCCL_PROTO=p))
        for i, p in enumerate(["LL", "Simple", "^LL128"])
    ]
    worked_otherwise = worked(9, ngram(4, disable_custom_all_reduce=ON))
    [closed] = closed_values([broken, *alone, worked_otherwise])
    assert closed.items[-1] == (OFF, False)


def test_faults_of_the_platform_and_other_signatures_blame_nothing() -> None:
    faults = [replace(r, outcome=Outcome.FAILED) for r in THREE]
    assert closed_values([BASELINE, *faults]) == ()
    mixed = [replace(r, signature=name) for r, name in zip(THREE, "abc", strict=True)]
    assert closed_values([BASELINE, *mixed]) == ()
    assert closed_values([BASELINE, *THREE], not_blamed={"custom_all_reduce"}) == ()
    assert closed_values([BASELINE, *(replace(r, signature="") for r in THREE)]) == ()


TWICE = [
    *(failed(i, ngram(i, disable_custom_all_reduce=False), "capture_failed") for i in (2, 3)),
    *(
        failed(i, ngram(i, disable_custom_all_reduce=False), "hung_graphs", Outcome.HUNG)
        for i in (4, 5)
    ),
]
"""One value that fails at one place in two ways, twice each."""


def test_a_value_that_fails_at_one_place_in_several_ways_is_closed() -> None:
    fine = worked(1, ngram(8, disable_custom_all_reduce=ON))
    assert closed_values([BASELINE, fine, *TWICE[:3]]) == ()
    [closed] = closed_values([BASELINE, fine, *TWICE])
    assert str(closed) == (
        "disable_custom_all_reduce=off failed 4 of 4 at graph capture (capture_failed or"
        " hung_graphs): closed for host local"
    )
    # Something else that failed there once stands in nobody's way.
    stranger = failed(9, ngram(9, disable_custom_all_reduce=ON), "segfault")
    assert closed_values([BASELINE, fine, stranger, *TWICE]) == (closed,)


def test_failures_at_different_places_are_no_common_evidence() -> None:
    fine = worked(1, ngram(8, disable_custom_all_reduce=ON))
    spread = [replace(r, start_phase=p) for r, p in zip(TWICE, ("", "weights") * 2, strict=True)]
    assert closed_values([BASELINE, fine, *spread]) == ()


def test_what_a_closed_value_explains_blames_no_other() -> None:
    """Each NCCL_PROTO=LL failed, but always beside a value that is closed already."""
    fine = worked(1, ngram(8, disable_custom_all_reduce=ON))
    beside = [
        failed(20 + i, ngram(i, disable_custom_all_reduce=False, NCCL_PROTO="LL"), signature)
        for i, signature in enumerate(("custom_all_reduce", "hung_graphs", "crashed", "segfault"))
    ]
    [closed] = closed_values([BASELINE, fine, *THREE, *beside])
    assert closed.items == ((OFF, False),)


CRASHES = (
    "the server crashed: KeyError: 'model.layers.0.mlp'; its log: a (in graph capture)",
    "the server crashed: TypeError: unhashable type: 'list' (in graph capture)",
    "the server crashed: OutOfResources: out of resource: shared memory (in graph capture)",
)


@pytest.mark.parametrize("signature", sorted(TOLD_BY_WORDS))
def test_unrelated_ends_of_one_signature_close_nothing(signature: str) -> None:
    known = next(row for row in LOG_SIGNATURES if row.name == signature)
    assert known.outcome is Outcome.INFEASIBLE
    assert not known.retry
    ends = [
        replace(failed(i, ngram(i, disable_custom_all_reduce=False), signature), reason=reason)
        for i, reason in enumerate(CRASHES, start=2)
    ]
    assert not closed_values([BASELINE, *ends])
    assert [len(failure.trials) for failure in failures_of(ends, {})] == [1, 1, 1]
    settings = Feasibility.learn(gather(ends, lambda config: config, "decode_tok_s"))
    assert not settings.closed()
    alike = [
        replace(end, reason=f"the server crashed: need {1 << i} B, have 0x7f{i}; its log: {i}")
        for i, end in enumerate(ends)
    ]
    [closed] = closed_values([BASELINE, *alike])
    assert closed.signature == signature
    [failure] = failures_of(alike, {})
    assert len(failure.trials) == 3
    settings = Feasibility.learn(gather(alike, lambda config: config, "decode_tok_s"))
    assert ("speculative_algorithm", "NGRAM") in settings.closed()


def test_hangs_in_one_phase_are_one_fault() -> None:
    hangs = [replace(r, outcome=Outcome.HUNG, signature="") for r in THREE]
    [closed] = closed_values([BASELINE, *hangs])
    assert closed.signature == "no progress at graph capture"


def test_each_host_is_judged_by_itself() -> None:
    other = [replace(r, host="b") for r in THREE]
    assert closed_values([BASELINE, *THREE[:2], other[2]]) == ()
    assert [c.host for c in closed_values([BASELINE, *THREE, *other])] == ["local", "b"]


CONFIGS = st.fixed_dictionaries(
    {
        "speculative_algorithm": st.sampled_from([None, "NGRAM"]),
        "NCCL_PROTO": st.sampled_from([None, "LL", "Simple"]),
        OFF: st.booleans(),
        "level": st.sampled_from([0, 1, True]),
    }
).map(Config.of)
TRIALS = st.lists(
    st.builds(
        lambda config, outcome, signature, host, purpose: replace(
            result(0, config, outcome=outcome, purpose=purpose), signature=signature, host=host
        ),
        CONFIGS,
        st.sampled_from([*Outcome, Outcome.INFEASIBLE, Outcome.INFEASIBLE, Outcome.INFEASIBLE]),
        st.sampled_from(["x", "x", "x", "y", ""]),
        st.sampled_from(["a", "a", "b"]),
        st.sampled_from(["search", "search", "baseline"]),
    ),
    max_size=30,
)


def _items(results: Sequence[TrialResult], host: str) -> set[tuple[str, type, Value]]:
    good = [r.config for r in results if r.host == host and r.outcome in SUCCEEDED]
    return {(name, type(value), value) for config in good for name, value in config.items()}


@pytest.mark.slow
@given(TRIALS)
@settings(max_examples=400)
def test_a_value_that_ever_worked_on_a_host_is_never_closed_there(
    results: list[TrialResult],
) -> None:
    for closed in closed_values(results, times=2):
        known = _items(results, closed.host)
        assert not {(n, type(v), v) for n, v in closed.items} & known
        assert closed.count <= closed.tried
        faults = closed.signature.split(" or ")
        failures = [r for r in results if r.host == closed.host and fault_of(r) in faults]
        blamed = [r for r in failures if closed.closes(r.config)]
        assert len({r.config.variant for r in blamed}) >= 2
        assert closed.count <= len(blamed)


@given(TRIALS)
def test_what_worked_stays_open_and_the_order_of_results_decides_no_values(
    results: list[TrialResult],
) -> None:
    closed = closed_values(results, times=2)
    for made in results:
        if made.outcome in SUCCEEDED:
            assert is_closed(made.config, closed, made.host) is None

    def key(one: Closed) -> tuple[str, str, frozenset[tuple[str, Value]]]:
        return one.host, one.signature, frozenset(one.items)

    first = [r for r in results if r.purpose == "baseline"][:1]
    turned = [*first, *(r for r in reversed(results) if r not in first)]
    again = closed_values(turned, times=2)
    if len([r for r in results if r.purpose == "baseline"]) <= 1:
        assert {key(c) for c in closed} == {key(c) for c in again}
