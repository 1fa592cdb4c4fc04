"""The quality gate: near ties pass, broken verification does not, and ignorance is said."""

from dataclasses import replace

import pytest

from sweeps.quality import (
    EARLY_TOKENS,
    Output,
    Outputs,
    Verdict,
    compare,
    first_divergence,
    judge,
)
from sweeps.records import EndReason, RequestRecord
from tests.sweeps import passes
from tests.sweeps.test_loops import prose

TOKENS = 128
LOOP = "and then it is the same again " * 60


def outputs(*texts: str, finished: bool = True, temperature: float = 0.0) -> Outputs:
    made = {f"p{i}": Output(text, TOKENS, finished) for i, text in enumerate(texts)}
    return Outputs(made, temperature)


def text(seed: int) -> str:
    return prose(TOKENS, seed)


def leaves_at(token: int, seed: int) -> str:
    """Write plain decode's text up to a token, then another of the same length."""
    plain, other = text(seed), text(seed + 1000)
    at = token * len(plain) // TOKENS + 1
    return plain[:at] + "#" + other[at + 1 :]


PLAIN = outputs(*(text(i) for i in range(4)))


def test_equal_texts_are_the_same() -> None:
    report = judge(PLAIN, PLAIN)
    assert report.verdict is Verdict.SAME
    assert report.identical_fraction == 1.0


def test_near_ties_diverge_late_as_bf16_does() -> None:
    report = judge(outputs(text(0), leaves_at(69, 1), leaves_at(79, 2), text(3)), PLAIN)
    assert report.verdict is Verdict.DIVERGES_LATE
    assert report.verdict.recommendable
    assert report.identical_fraction == 0.5
    assert [c.diverges_at_token for c in report.comparisons] == [
        None, pytest.approx(69, abs=1), pytest.approx(79, abs=1), None,
    ]  # fmt: skip
    assert "about token" in report.reason


def test_one_early_near_tie_among_four_is_no_proof() -> None:
    report = judge(outputs(leaves_at(3, 0), leaves_at(69, 1), text(2), text(3)), PLAIN)
    assert report.verdict is Verdict.DIVERGES_LATE


@pytest.mark.parametrize("early", [3, 4])
def test_most_texts_leaving_early_are_broken(early: int) -> None:
    made = [leaves_at(i % EARLY_TOKENS, i) if i < early else text(i) for i in range(4)]
    report = judge(outputs(*made), PLAIN)
    assert report.verdict is Verdict.BROKEN
    assert not report.verdict.recommendable
    assert f"{early} of 4" in report.reason


def test_one_text_alone_cannot_be_called_broken() -> None:
    report = judge(outputs(leaves_at(1, 0)), outputs(text(0)))
    assert report.verdict is Verdict.UNKNOWN
    assert report.verdict.recommendable


def test_loops_where_plain_decode_has_none_are_broken() -> None:
    stuck = [leaves_at(60, i) + LOOP for i in range(2)]
    report = judge(outputs(*stuck, text(2), text(3)), PLAIN)
    assert report.verdict is Verdict.BROKEN
    assert "loop" in report.reason
    assert judge(outputs(stuck[0], text(1), text(2), text(3)), PLAIN).verdict.recommendable


def test_loops_that_plain_decode_has_too_are_allowed() -> None:
    plain = outputs(*(text(i) + LOOP for i in range(4)))
    other = outputs(*(leaves_at(60, i) + LOOP for i in range(4)))
    assert judge(other, plain).verdict is Verdict.DIVERGES_LATE
    assert judge(plain, plain).verdict is Verdict.SAME


def test_a_loop_beyond_where_plain_decode_was_cut_has_no_counterpart() -> None:
    cut = {key: replace(output, finished=False) for key, output in PLAIN.by_prompt.items()}
    longer = outputs(*(leaves_at(60, i) + LOOP for i in range(4)))
    assert judge(longer, Outputs(cut)).verdict is Verdict.DIVERGES_LATE


def test_an_empty_answer_is_broken() -> None:
    report = judge(outputs(" \n", text(1), text(2), text(3)), PLAIN)
    assert report.verdict is Verdict.BROKEN
    assert "empty" in report.reason
    nothing = outputs("", "", "", "")
    assert judge(nothing, nothing).verdict is Verdict.UNKNOWN


def test_a_request_that_was_cut_off_diverges_nowhere() -> None:
    short = {k: Output(o.text[:200], 40, False) for k, o in PLAIN.by_prompt.items()}
    assert judge(Outputs(short), PLAIN).verdict is Verdict.SAME
    assert judge(PLAIN, Outputs(short)).verdict is Verdict.SAME
    unsent = {k: Output("", 0, False) for k in PLAIN.by_prompt}
    assert judge(Outputs(unsent), PLAIN).verdict is Verdict.UNKNOWN


def test_an_answer_that_ends_sooner_diverges_where_it_ends() -> None:
    short = Output(text(0)[:300], 60, True)
    compared = compare("p", short, PLAIN.by_prompt["p0"])
    assert compared is not None
    assert compared.diverges_at_char == 300


def test_a_stream_cut_within_a_letter_is_equal_up_to_it() -> None:
    cut = Output(text(0)[:100] + "\ufffd", 20, False)
    compared = compare("p", cut, PLAIN.by_prompt["p0"])
    assert compared is not None
    assert compared.diverges_at_char is None


@pytest.mark.parametrize(
    ("mine", "reference"),
    [
        (None, PLAIN),
        (PLAIN, None),
        (replace(PLAIN, temperature=0.7), PLAIN),
        (Outputs({"another": Output("x", 1, True)}), PLAIN),
    ],
    ids=["nothing", "no plain decode", "sampled", "other prompts"],
)
def test_what_cannot_be_compared_is_unknown(
    mine: Outputs | None, reference: Outputs | None
) -> None:
    report = judge(mine, reference)
    assert report.verdict is Verdict.UNKNOWN
    assert report.identical_fraction is None
    assert report.reason


def test_outputs_come_from_the_requests_of_a_pass_and_survive_json() -> None:
    def request(key: str, end: EndReason) -> RequestRecord:
        return replace(passes.steady(end=end), prompt_key=key, text=f"text of {key}")

    record = passes.of(request("a", EndReason.FINISHED), request("b", EndReason.DEADLINE),
                       request("", EndReason.FINISHED))  # fmt: skip
    made = Outputs.of(record, 0.0)
    assert made.by_prompt == {
        "a": Output("text of a", 801, True), "b": Output("text of b", 801, False),
    }  # fmt: skip
    assert Outputs.from_data(made.as_data()) == made


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [("same", "same", None), ("same", "sane", 2), ("a", "ab", 1), ([1, 2, 3], [1, 2, 4], 2)],
)
def test_first_divergence_of_texts_and_tokens(
    one: str | list[int], other: str | list[int], at: int | None
) -> None:
    assert first_divergence(one, other) == at
