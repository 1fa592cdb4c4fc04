"""The n-gram drafter drafts, learns and forgets as SGLang's does."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from infra.emulated.text import Kind, TargetStream
from sweeps.drafting.draft_tree import DraftTree, HashMapOrder
from sweeps.drafting.ngram import MatchWindow, NgramDrafter, NgramShape
from tests.sweeps.drafting.ngram_cases import play, random_cases

NGRAM = NgramShape(draft_tokens=8)
OLD = replace(NGRAM, window=MatchWindow(1, 12), inserts_behind=False)

# Random ids only, so that no change of the texts moves them.
COMPARED_CASES = random_cases(2, (2, 3, 5, 30), requests=1)[::4]
COMPARED = "2cd740f9f3565e05"


def accepted(
    shape: NgramShape, stream: Sequence[int], drafter: NgramDrafter | None = None
) -> list[int]:
    """Replay a stream; return the tokens of each verify."""
    request = (drafter or NgramDrafter(shape)).open([], 0)
    drafts = shape.draft_tokens - 1
    done, steps = 1, []
    request.commit(stream[:1])
    while done + drafts < len(stream):
        matched = request.correct_drafts(stream[done : done + drafts])
        request.commit(stream[done : done + matched + 1])
        done += matched + 1
        steps.append(matched + 1)
    return steps


def teach(drafter: NgramDrafter, tokens: Sequence[int]) -> None:
    """Let a request verify each token without a hit."""
    request = drafter.open(tokens[:1], 0)
    for token in tokens[1:]:
        request.correct_drafts([])
        request.commit([token])
    request.correct_drafts([])
    request.commit([])


def code(tokens: int = 1500) -> list[int]:
    return TargetStream(7, Kind.CODE).window(0, tokens)


@pytest.mark.slow
def test_trees_are_those_that_were_compared_with_sglang() -> None:
    transcript = play(COMPARED_CASES)
    assert transcript.digest() == COMPARED


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
    drafter = NgramDrafter(replace(NGRAM, draft_tokens=2, max_breadth=1))
    teach(drafter, [5, 6, 9, 5, 7, 9, 5])
    request = drafter.open([5], 1)
    assert request.correct_drafts([7]) == 1
    assert request.correct_drafts([6]) == 0


def test_the_likely_continuation_is_drafted_first_by_count() -> None:
    drafter = NgramDrafter(replace(NGRAM, draft_tokens=2, by_likelihood=True))
    teach(drafter, [5, 6, 9, 5, 6, 9, 5, 7, 9])
    assert drafter.open([5], 1).correct_drafts([6]) == 1


def test_accepted_tokens_are_learnt_one_verify_later() -> None:
    behind, at_once = (
        accepted(replace(NGRAM, inserts_behind=late), [1, 2, 1, 2, 1, 2, 9, 9, 9, 9, 9, 9, 9])
        for late in (True, False)
    )
    assert behind[:3] == [1, 1, 2]
    assert at_once[:3] == [1, 1, 3]


def test_what_overlap_computes_past_the_end_is_learnt() -> None:
    for overlap, known in ((True, 1), (False, 0)):
        drafter = NgramDrafter(replace(NGRAM, overlap=overlap))
        request = drafter.open([1, 2, 3], 0)
        request.correct_drafts([])
        request.commit([4])
        request.end([5])
        assert drafter.open([3, 4], 1).correct_drafts([5]) == known


def test_requests_of_a_batch_do_not_see_each_other_s_step() -> None:
    drafter = NgramDrafter(NGRAM)
    first, second = drafter.open([1, 2, 3], 0), drafter.open([1], 1)
    assert first.correct_drafts([]) == second.correct_drafts([2]) == 0
    first.commit([4])
    second.commit([2])
    assert second.correct_drafts([3]) == 1


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
    teach(drafter, [5])
    first = drafter.open(list(range(100, 400)), 0)
    first.correct_drafts([])
    first.commit([1])
    assert drafter.open([120], 1).correct_drafts([121]) == 0
    assert drafter.open([390], 2).correct_drafts([391, 392]) == 2


def test_missing_drafts_are_padded_with_token_0() -> None:
    request = NgramDrafter(replace(NGRAM, draft_tokens=3)).open([5], 0)
    assert request.tree() == DraftTree((5, 0, 0), (-1, 0, 0))
    assert request.correct_drafts([0, 0]) == 1


def test_short_windows_are_lost_when_the_old_minimum_is_raised() -> None:
    lengths = [accepted(replace(OLD, window=MatchWindow(low, 12)), code()) for low in (1, 3, 6)]
    means = [sum(steps) / len(steps) for steps in lengths]
    assert means == sorted(means, reverse=True)
    assert means[0] > 1.1 * means[2]


def test_an_external_corpus_is_drafted_from_and_survives_a_flush() -> None:
    drafter = NgramDrafter(replace(NGRAM, sam_budget=4))
    drafter.add_corpus("manual", [[1, 2, 3, 4], [], [5, 6]])
    assert drafter.corpora() == {"manual": 7}
    drafter.reset()
    assert drafter.open([9, 2], 0).correct_drafts([3, 4]) == 2
    assert drafter.open([4], 1).correct_drafts([5]) == 0
    drafter.remove_corpus("manual")
    assert drafter.corpora() == {}
    assert drafter.open([9, 2], 2).correct_drafts([3, 4]) == 0


def test_a_corpus_name_is_used_once_and_a_corpus_has_tokens() -> None:
    drafter = NgramDrafter(NGRAM)
    drafter.add_corpus("a", [[1]])
    with pytest.raises(ValueError, match="'a' exists"):
        drafter.add_corpus("a", [[2]])
    with pytest.raises(ValueError, match="at least one token"):
        drafter.add_corpus("b", [[]])
    assert drafter.corpora() == {"a": 1}


def test_siblings_lie_in_the_order_of_a_hash_map() -> None:
    assert HashMapOrder([1, 2, 3]).keys == [3, 2, 1]
    assert HashMapOrder([1, 14, 2]).keys == [2, 14, 1]
    assert HashMapOrder(range(14)).keys == [13, *range(13)]
