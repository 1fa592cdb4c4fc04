"""The sums over a sweep that are kept trial by trial are those of all its results."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.standing import Standing
from sweeps.results import UNCOUNTED, Outcome, TrialResult
from sweeps.sweep import Objective
from tests.sweeps.makers import ngram, plain, result

ENDS = st.builds(
    lambda rate, outcome, draft, host: replace(
        result(0, ngram(draft) if draft else plain(), rate, outcome=outcome), host=host
    ),
    st.one_of(st.none(), st.floats(1.0, 100.0)), st.sampled_from(Outcome),
    st.integers(0, 3), st.sampled_from(["a", "b"]),
)  # fmt: skip


@given(st.lists(ENDS, max_size=20), st.sampled_from(["decode_tok_s", "tpot_ms"]))
def test_they_are_those_of_all_results(ends: list[TrialResult], metric: str) -> None:
    goal = Objective(metric)
    standing = Standing(goal, [])
    for end in ends:
        standing.add(end)
    ranked = [r for r in ends if r.may_lead and r.value(metric) is not None]
    best = max if goal.higher_is_better else min
    leader = best(ranked, key=lambda r: r.value(metric) or 0.0) if ranked else None
    assert standing.leader == leader
    assert standing.counted == sum(r.outcome not in UNCOUNTED for r in ends)
    assert standing.gpu_hours == sum(r.gpu_hours for r in ends)
    for host in ("a", "b"):
        assert list(standing.plain_on(host)) == [
            r for r in ends if r.config.is_plain and r.host == host
        ]
    failed = [r for r in ends if r.outcome is Outcome.FAILED and r.config == ngram(2)]
    assert standing.faults_of(ngram(2)) == len(failed)
