"""What settings came to: values by meaning, axes without effect, and the notes on a trial."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.config import Config
from sweeps.effects import (
    Mark,
    NoEffect,
    Reason,
    marked_notes,
    mismatches,
    notes_of,
    same_meaning,
    server_choices,
    without_effect,
)
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value
from sweeps.workloads import Workload
from tests.sweeps.makers import estimate, ngram, plain, result

WORK = Workload(concurrency=1)


def ran(
    number: int, config: Config, effective: Mapping[str, Value], host: str = "a"
) -> TrialResult:
    """Make a measured trial with what its server told of itself."""
    return replace(result(number, config, 100.0), effective=dict(effective), host=host)


def rated(made: TrialResult, **rates: float) -> TrialResult:
    """Add rates with an interval of 2 % to both sides."""
    return replace(made, estimates={n: estimate(r, 0.02 * r) for n, r in rates.items()})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, "1", True),
        (True, "1", True),
        (True, "true", True),
        (False, "0", True),
        (0.88, 0.8800001, True),
        ("0.88", 0.88, True),
        (0.88, 0.881, False),
        (100_000_000, 100_000_001, False),
        (None, "0", False),
        (None, None, True),
        ("LL", "LL", True),
        ("phb", "PHB", False),
        ("1_0", 10, False),
        ("nan", "nan", True),
    ],
)
def test_values_are_compared_by_meaning(one: Value, other: Value, *, same: bool) -> None:
    assert same_meaning(one, other) is same
    assert same_meaning(other, one) is same


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()))
def test_a_value_means_what_it_means(value: Value) -> None:
    assert same_meaning(value, value)


def test_only_what_was_asked_for_can_differ() -> None:
    requested: dict[str, Value] = {
        "speculative_num_draft_tokens": 8, "page_size": None, "dtype": "auto", "tp_size": 8,
        "speculative_algorithm": "NEXTN", "unknown": 3, "model_path": "org/model",
    }  # fmt: skip
    effective: dict[str, Value] = {
        "speculative_num_draft_tokens": 16, "page_size": 1, "dtype": "bf16", "tp_size": "8",
        "speculative_algorithm": "EAGLE", "max_running_requests": 48, "kv_cache_dtype": "auto",
        "model_path": "/somewhere/model",
    }  # fmt: skip
    [only] = mismatches(requested, effective, {"speculative_num_draft_tokens": "server info"})
    assert str(only) == "speculative_num_draft_tokens is 16 and not 8 as requested"
    assert only.source == "server info"
    chosen = {"page_size": 1, "dtype": "bf16", "max_running_requests": 48}
    assert server_choices(requested, effective) == chosen


def test_an_axis_that_the_server_overrides_has_no_effect() -> None:
    results = [
        ran(i, plain(NCCL_CUMEM_ENABLE=value), {"NCCL_CUMEM_ENABLE": "0"})
        for i, value in enumerate([0, 1, None, 1])
    ]
    [found] = without_effect(results)
    expected = NoEffect("NCCL_CUMEM_ENABLE", (0, 1, None), "0", Reason.OVERRIDDEN, "a", whole=True)
    assert found == expected
    assert str(found) == (
        "NCCL_CUMEM_ENABLE: no effect on a: overridden; 0, 1 and unset all run as 0"
    )


def test_values_that_end_up_different_have_an_effect_and_so_may_those_that_sometimes_do() -> None:
    kept = [ran(i, plain(NCCL_NTHREADS=v), {"NCCL_NTHREADS": str(v)}) for i, v in enumerate([1, 2])]
    assert without_effect(kept) == ()
    sometimes = [
        ran(0, ngram(4), {"speculative_num_draft_tokens": 4}),
        ran(1, ngram(6), {"speculative_num_draft_tokens": 4}),
        ran(2, ngram(6), {"speculative_num_draft_tokens": 6}),
    ]
    assert without_effect(sometimes) == ()


def test_a_part_of_an_axis_without_effect_is_told_as_a_part() -> None:
    pairs: list[tuple[Value, Value]] = [(None, 12), (12, 12), (8, 8)]
    results = [
        ran(i, Config.of({"depth": asked}), {"depth": told})
        for i, (asked, told) in enumerate(pairs)
    ]
    [found] = without_effect(results)
    assert (found.values, found.reason, found.whole) == ((None, 12), Reason.DEFAULT, False)
    assert "of these values" in str(found)


def test_hosts_are_not_mixed_and_silence_proves_nothing() -> None:
    one = ran(0, plain(NCCL_PROTO="LL"), {"NCCL_PROTO": "LL"}, host="a")
    other = ran(1, plain(NCCL_PROTO="Simple"), {"NCCL_PROTO": "LL"}, host="b")
    silent = ran(2, plain(NCCL_PROTO="Simple"), {}, host="a")
    assert without_effect([one, other, silent]) == ()


def test_speculation_without_accepted_drafts_is_inactive() -> None:
    dull = rated(ran(1, ngram(8), {}), accept_length=1.01)
    assert notes_of(dull, None, WORK) == (
        "speculation is inactive: an accept length of 1.01 with NGRAM",
    )
    by_log = replace(ran(1, ngram(8), {}), log_accept_length=1.0)
    assert [n.mark for n in marked_notes(by_log, None, WORK)] == [Mark.SPECULATION_INACTIVE]
    assert notes_of(rated(dull, accept_length=1.06), None, WORK) == ()
    assert notes_of(rated(ran(0, plain(), {}), accept_length=1.0), None, WORK) == ()


def test_more_streams_than_the_server_runs_are_queue_bound() -> None:
    made = ran(1, ngram(8), {"max_running_requests": 48})
    busy = replace(WORK, concurrencies=(4, 64))
    [note] = marked_notes(made, None, busy)
    assert note.mark is Mark.QUEUE_BOUND
    assert note.text == (
        "queue-bound: 64 requests at a time, and the server runs at most 48 (max_running_requests)"
    )
    assert notes_of(made, None, replace(WORK, concurrencies=(48,))) == ()


def test_what_differs_from_plain_decode_unasked_is_named() -> None:
    base = ran(0, plain(), {"max_running_requests": 2048, "page_size": 1, "tp_size": 8})
    other = ran(1, ngram(8), {"max_running_requests": 48, "page_size": 1, "tp_size": 4})
    [note] = marked_notes(other, base, WORK)
    assert note.text == (
        "not like for like with plain decode: max_running_requests 48 against 2048"
    )
    swept = ran(1, ngram(8, max_running_requests=48), other.effective)
    assert notes_of(swept, base, WORK) == ()
    assert notes_of(other, replace(base, host="elsewhere"), WORK) == ()


def test_slower_than_plain_decode_is_said_in_plain_words_where_the_intervals_show_it() -> None:
    base = rated(ran(0, plain(), {}), decode_tok_s=80, decode_tok_s_c32=400)
    slow = rated(ran(1, ngram(8), {}), decode_tok_s=120, decode_tok_s_c32=300)
    assert notes_of(slow, base, replace(WORK, concurrencies=(32,))) == (
        "25 % slower than plain decode at 32 at a time: 300.0 against 400.0 tok/s",
    )
    close = rated(slow, decode_tok_s=78.5)
    assert notes_of(close, base, WORK) == ()
    assert notes_of(replace(slow, outcome=Outcome.FAILED), base, replace(WORK)) == ()


def test_one_slow_class_of_prompts_is_named() -> None:
    base = rated(ran(0, plain(), {}), stream_tok_s_prompts_to_512=80, decode_tok_s=80)
    names = {"stream_tok_s_prompts_to_512": 120.0, "stream_tok_s_prompts_to_8192": 50.0}
    made = rated(ran(1, ngram(8), {}), decode_tok_s=90, **names)
    assert notes_of(made, base, WORK) == ()
    longer = rated(base, decode_tok_s=80, stream_tok_s_prompts_to_8192=75)
    [note] = marked_notes(made, longer, WORK)
    assert note.mark is Mark.SLOWER_SOMEWHERE
    assert "33 % slower than plain decode on prompts to 8192 tokens" in note.text
