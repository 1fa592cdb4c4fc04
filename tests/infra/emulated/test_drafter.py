"""The drafters: an n-gram trie with SGLang's quirks, and a chain with set hit rates."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from infra.emulated.drafter import ChainDrafter, NgramDrafter, NgramTrie, make_drafter
from infra.emulated.settings import Algorithm, Settings
from infra.emulated.text import Kind, TargetStream
from infra.emulated.truth import TRUTHS

NGRAM = Settings(algorithm=Algorithm.NGRAM, draft_tokens=8)


def accepted(
    settings: Settings, stream: Sequence[int], drafter: NgramDrafter | None = None
) -> list[int]:
    """Replay a stream; return the tokens of each verify."""
    request = (drafter or NgramDrafter(settings)).open([], 0)
    drafts = settings.draft_tokens - 1
    done, steps = 1, []
    request.commit(stream[:1])
    while done + drafts < len(stream):
        matched = request.correct_drafts(stream[done : done + drafts])
        request.commit(stream[done : done + matched + 1])
        done += matched + 1
        steps.append(matched + 1)
    return steps


def code(tokens: int = 1500) -> list[int]:
    return TargetStream(7, Kind.CODE).window(0, tokens)


def test_a_loop_is_drafted_to_the_last_node() -> None:
    assert accepted(NGRAM, [1, 2, 3] * 40)[-3:] == [8, 8, 8]


def test_fresh_text_is_never_matched() -> None:
    assert set(accepted(NGRAM, range(1, 400))) == {1}


def test_breadth_two_is_breadth_one() -> None:
    one, two, four = (accepted(replace(NGRAM, max_breadth=b), code()) for b in (1, 2, 4))
    assert one == two
    assert four != one


def test_breadth_does_nothing_for_one_draft() -> None:
    narrow = replace(NGRAM, draft_tokens=2, max_breadth=1)
    assert accepted(narrow, code()) == accepted(replace(narrow, max_breadth=10), code())


def test_the_newest_continuation_is_drafted_first() -> None:
    one_draft = replace(NGRAM, draft_tokens=2, max_breadth=1)
    drafter = NgramDrafter(one_draft)
    drafter.open([], 0).commit([5, 6, 9, 5, 7, 9, 5])
    request = drafter.open([5], 1)
    assert request.correct_drafts([7]) == 1
    assert request.correct_drafts([6]) == 0


def test_likely_continuation_is_drafted_first_by_count() -> None:
    one_draft = replace(NGRAM, draft_tokens=2, match_type="PROB")
    drafter = NgramDrafter(one_draft)
    drafter.open([], 0).commit([5, 6, 9, 5, 6, 9, 5, 7, 9])
    assert drafter.open([5], 1).correct_drafts([6]) == 1


def test_requests_share_the_trie_until_a_flush() -> None:
    drafter = NgramDrafter(NGRAM)
    stream = TargetStream(3).window(0, 600)
    cold = accepted(NGRAM, stream, drafter)
    warm = accepted(NGRAM, stream, drafter)
    drafter.reset()
    assert sum(warm) / len(warm) > 4 > 2 > sum(cold) / len(cold)
    assert accepted(NGRAM, stream, drafter) == cold


def test_only_the_end_of_the_prompt_is_learnt() -> None:
    drafter = NgramDrafter(NGRAM)
    drafter.open(list(range(100, 400)), 0)
    reader = drafter.open([], 1)
    reader.commit([120])
    assert reader.correct_drafts([121]) == 0
    reader.commit([390])
    assert reader.correct_drafts([391, 392]) == 2


def test_short_windows_are_lost_when_the_old_minimum_is_raised() -> None:
    old = replace(NGRAM, max_depth=18, min_match=1, max_match=12)
    lengths = [accepted(replace(old, min_match=low), code()) for low in (1, 3, 6)]
    means = [sum(steps) / len(steps) for steps in lengths]
    assert means == sorted(means, reverse=True)
    assert means[0] > 1.1 * means[2]


def test_a_full_trie_drops_what_is_oldest_and_goes_on() -> None:
    small = replace(NGRAM, capacity_nodes=3000)
    drafter = NgramDrafter(small)
    steps = accepted(small, TargetStream(1).window(0, 3000), drafter)
    assert drafter.trie.nodes <= 3000
    assert drafter.trie.epoch > 0
    assert max(steps) > 1


def test_node_count_is_kept_right_over_evictions() -> None:
    trie = NgramTrie(depth=4, capacity_nodes=40)
    path = trie.find([])
    for token in range(200):
        path = trie.extend(path, token % 23)
    assert 0 < trie.nodes <= 40


def test_chain_hits_follow_the_rates() -> None:
    drafter = ChainDrafter((0.7, 0.62), 2)
    request = drafter.open([], 12345)
    lengths = []
    for _ in range(4000):
        matched = request.correct_drafts([1, 1])
        request.commit([1] * (matched + 1))
        lengths.append(matched + 1)
    assert sum(lengths) / len(lengths) == pytest.approx(1 + 0.7 + 0.7 * 0.62, rel=0.03)


def test_plain_decode_never_drafts() -> None:
    request = make_drafter(Settings(), TRUTHS["M"]).open([1, 2], 3)
    assert request.correct_drafts([]) == 0
