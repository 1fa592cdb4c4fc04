"""Which values keep a server from running, and how far one that failed is trusted."""

from dataclasses import replace

from sweeps.results import Outcome, TrialResult
from sweeps.search.evidence import gather
from sweeps.search.feasibility import CLOSED_AFTER, Feasibility, Setting
from tests.sweeps.makers import ngram, plain, result


def refused(number: int, **more: str) -> TrialResult:
    return replace(result(number, ngram(4, **more)), outcome=Outcome.INFEASIBLE)


def test_a_value_is_closed_once_it_failed_so_often_and_stays_closed() -> None:
    counts: dict[Setting, int] = {
        ("a", 1): CLOSED_AFTER - 1,
        ("b", 1): CLOSED_AFTER,
        ("c", 1): CLOSED_AFTER + 1,
    }
    found = Feasibility(counts)
    assert list(found.closed()) == [("b", 1), ("c", 1)]
    assert found.odds({"a": 1, "z": 1}) == 0.5
    assert found.odds({"a": 2, "b": 2}) == 1.0
    assert found.odds({"b": 1}) == found.odds({"a": 1, "c": 1}) == 0.0
    twice = Feasibility({("a", 1): 1, ("b", 1): 1})
    assert twice.odds({"a": 1, "b": 1}) == 0.25
    assert Feasibility({}).odds({"a": 1}) == 1.0


def test_only_what_no_running_server_had_is_blamed() -> None:
    ran = result(0, ngram(4, NCCL_PROTO="LL"), 50.0)
    history = [result(1, plain(), 20.0), ran, refused(2, NCCL_PROTO="LL", NCCL_ALGO="Tree"),
               refused(3, NCCL_PROTO="Simple", NCCL_ALGO="Tree")]  # fmt: skip
    length = replace(ran.estimates["decode_tok_s"], value=2.0)
    history[1] = replace(ran, estimates={**ran.estimates, "accept_length": length})
    found = Feasibility.learn(gather(history, lambda config: config, "decode_tok_s"))
    assert found.failures == {("NCCL_ALGO", "Tree"): 2, ("NCCL_PROTO", "Simple"): 1}
    assert list(found.closed()) == [("NCCL_ALGO", "Tree")]
