"""A replay serves recorded streams as a server would."""

from sweeps.drafting.ngram import NgramShape
from sweeps.replay.reference import replay_by_drafter
from sweeps.replay.streams import Stream

SHAPE = NgramShape(4, depth=6)
LOOP = Stream([7], [1, 2, 3] * 10)


def test_the_first_token_is_the_prefill_s_and_all_others_are_verified() -> None:
    steps = replay_by_drafter([LOOP, Stream([8], [5, 6])], SHAPE)
    for number, output in ((0, 30), (1, 2)):
        assert steps.tokens[steps.stream == number].sum() == output - 1
    assert steps.correct[-2] == 3, "a loop is drafted in full"


def test_a_request_of_one_token_is_never_verified() -> None:
    assert len(replay_by_drafter([Stream([1], [2]), Stream([1], [])], SHAPE)) == 0


def test_streams_share_the_trie_in_order() -> None:
    steps = replay_by_drafter([LOOP, LOOP], SHAPE)
    assert (steps.stream == 0).sum() > (steps.stream == 1).sum()


def test_requests_of_a_batch_take_turns_and_the_next_follows_the_first_that_ends() -> None:
    short, long = Stream([1], [11, 12, 13]), Stream([2], list(range(20, 30)))
    steps = replay_by_drafter([short, long, short], SHAPE, concurrency=2)
    assert steps.stream[:6].tolist() == [0, 1, 0, 1, 1, 2]


def test_what_lies_beyond_the_end_is_counted_as_correct_and_not_as_written() -> None:
    steps = replay_by_drafter([Stream([7], [1, 2, 3] * 5 + [1], [2, 3, 1])], SHAPE)
    assert steps.tokens.sum() == 15
    assert steps.tokens[-1] < steps.correct[-1] + 1


def test_an_external_corpus_takes_its_budget() -> None:
    shape = NgramShape(4, depth=6, sam_budget=2)
    told = Stream([9], [1, 2, 3, 4, 5])
    assert len(replay_by_drafter([told], shape, corpora=[[[1, 2, 3, 4, 5]]])) < len(
        replay_by_drafter([told], shape)
    )
