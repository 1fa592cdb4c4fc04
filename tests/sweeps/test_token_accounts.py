"""Token counts held against each other: what is tolerated, what is told, and what ends a trial."""

from dataclasses import replace

import pytest

from sweeps.records import EndReason, PassRecord, RequestRecord
from sweeps.token_accounts import TOKENS_COUNTER, VERIFIES_COUNTER, ServerCounts, account_of
from tests.sweeps.passes import of, steady

TOKENS, STEPS = 801, 400
"""Of one request of `steady`."""


def record(*requests: RequestRecord) -> PassRecord:
    return of(*(requests or (steady(), steady(start_s=50.0))))


def counts(**factors: float) -> ServerCounts:
    whole = {TOKENS_COUNTER: 2.0 * TOKENS, VERIFIES_COUNTER: 2.0 * STEPS}
    return ServerCounts({name: count * factors.get(name, 1.0) for name, count in whole.items()})


def test_equal_counts_say_nothing() -> None:
    account = account_of(record(), 4, counts())
    assert (account.told, account.contradiction) == ((), "")


@pytest.mark.parametrize("name", [TOKENS_COUNTER, VERIFIES_COUNTER])
@pytest.mark.parametrize(("factor", "ends"), [(1.01, False), (0.99, False), (1.5, True)])
def test_counters_may_differ_by_little(name: str, factor: float, ends: bool) -> None:
    account = account_of(record(), 4, counts(**{name: factor}))
    text = account.contradiction if ends else account.told[0]
    assert text.startswith(f"the server's {name} rose by ")
    assert bool(account.contradiction) == ends


def test_counters_say_nothing_of_a_pass_with_unfinished_requests() -> None:
    cut = steady(start_s=50.0, end=EndReason.DEADLINE)
    assert not account_of(record(steady(), cut), 4, counts(**{TOKENS_COUNTER: 0.6})).contradiction


def test_a_step_commits_no_more_than_it_drafts() -> None:
    assert not account_of(record(), 2).contradiction
    assert "2.00 tokens a verify step" in account_of(record(), 1).contradiction
    assert not account_of(record(), None).contradiction


def test_a_rate_above_all_that_the_log_tells_is_told_and_ends_nothing() -> None:
    """Two tokens each 0.1 s; the intervals of the log hold prefills and pauses as well."""
    assert account_of(record(), 4, ServerCounts(log_tok_s=(12.0, 19.0, 20.0))).told == ()
    account = account_of(record(), 4, ServerCounts(log_tok_s=(9.0, 10.0, 13.0)))
    assert "20.0 tok/s by the counts of the requests, but the server's log" in account.told[0]
    assert account.contradiction == ""
    assert account_of(record(), 4, ServerCounts(log_tok_s=(9.0, 10.0))).told == ()


def test_requests_that_disagree_within_themselves_are_counted() -> None:
    off = replace(steady(), deviation_tokens=-2)
    told = account_of(record(off, steady(start_s=50.0)), 4).told
    assert told[0].startswith(
        "the token counts of 1 of 2 requests disagree within themselves, by 2"
    )
