"""What is said of a trial: the founding story, and every way in which a trial ends."""

import json
from dataclasses import replace

import pytest

from sweeps.conclusions import Relation, relation
from sweeps.evidence import Evidence, RequestEnd
from sweeps.explaining import Explanation, explain
from sweeps.metrics import METRICS
from sweeps.quality import QualityReport, Verdict
from sweeps.records import EndReason
from sweeps.results import Estimate, Outcome, Phase, TrialResult
from tests.sweeps.makers import estimate, ngram, plain, result

BLOCKS = "10 time blocks"
BETWEEN = "tokens over 3 requests, spread between requests"


def measured(value: float, half: float, method: str = BLOCKS, *, few: bool = False) -> Estimate:
    return Estimate(value, value - half, value + half, 430.5, method, few)


PLAIN = replace(
    result(0, plain(), purpose="baseline"),
    estimates={
        "decode_tok_s": measured(82.0, 0.6),
        "accept_length": Estimate(1.0, 1.0, 1.0, 300.0, "plain decode: one token a step", False),
        "steps_per_s": measured(82.0, 0.6),
        "cycle_ms": measured(12.2, 0.1),
    },
)
STORY = replace(
    result(1, ngram(8), outcome=Outcome.PARTIAL),
    reason="the 600 s of the trial ended before its prompts",
    phase_s={"starting": 165.0, "warming": 4.0, "cold pass": 0.0, "measuring": 431.0},
    gpu_hours=8 * 600 / 3600,
    effective={"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 8},
    estimates={
        "decode_tok_s": measured(41.0, 0.9),
        "stream_tok_s": measured(41.0, 1.6, BETWEEN, few=True),
        "accept_length": measured(1.3, 0.03, BETWEEN, few=True),
        "steps_per_s": measured(31.54, 0.4),
        "cycle_ms": measured(31.7, 0.4),
        "output_tokens": Estimate(17650.0, 17650.0, 17650.0, 431.0, "the server's count", False),
    },
)
REQUESTS = (
    RequestEnd("warming", EndReason.FINISHED, 64),
    RequestEnd("measuring", EndReason.FINISHED, 8192),
    RequestEnd("measuring", EndReason.FINISHED, 8192),
    RequestEnd("measuring", EndReason.DEADLINE, 1266),
)


def evidence(mine: TrialResult, *others: TrialResult, **more: object) -> Evidence:
    return replace(Evidence(mine, (*others, mine)), **more)  # type: ignore[arg-type] # by name


def told(explanation: Explanation, title: str = "") -> str:
    """Return the sentences under a title, or all of them."""
    return "\n".join(
        paragraph
        for section in explanation.sections
        for paragraph in section.paragraphs
        if title in section.title
    )


@pytest.fixture
def story() -> Explanation:
    return explain(evidence(STORY, PLAIN, requests=REQUESTS, prompts=3, streams=1))


def test_the_story_says_the_rate_so_far(story: Explanation) -> None:
    assert story.headline == (
        "EMULATED trial t-0001: NGRAM with 8 draft tokens, partial,"
        " 41.0 tok/s (95 % interval 40.1 to 41.9) so far"
    )
    assert "17,650 tokens were received from three requests" in told(story)
    assert "one met the deadline after 1,266 tokens" in told(story)
    assert "the 600 s of the trial ended" in told(story, "How it ended")
    assert "measuring 431.0 s (0.96 GPU-hours)" in told(story, "time")
    assert "speculative_num_draft_tokens=8" in told(story, "What ran")


def test_the_story_says_why_it_is_slow(story: Explanation) -> None:
    rate = told(story, "Where the rate")
    assert "1.30 x 31.5 = 41.0" in rate
    assert "31.7 ms a cycle over 12.2 ms a step" in rate
    assert "Break-even is an accept length of 2.60" in rate
    assert "It has 1.30" in rate
    assert "slower than plain decode by about half (41.0 against 82.0 tok/s" in told(
        story, "What may be"
    )


def test_the_story_does_not_say_what_was_once_read_into_it(story: Explanation) -> None:
    text = json.dumps(story.as_data())
    assert "13.7" not in text
    assert "viable" not in text
    never = told(story, "What may not be")
    assert "deadline proves nothing about speed" in never
    assert "measured one setting of NGRAM so far" in never
    assert "EMULATED" in never
    assert "stream_tok_s and accept_length" in never
    assert "252" in told(story, "What may be")
    assert "the cycle alone does not rule the setting out" in told(story, "What may be")


def test_plain_data_holds_everything(story: Explanation) -> None:
    data = json.loads(json.dumps(story.as_data()))
    assert data["factors"]["break_even"]["value"] == pytest.approx(31.7 / 12.2)
    assert data["emulated"] is True
    assert {"trial", "headline", "sections"} <= data.keys()


def test_every_metric_is_told_in_its_own_words() -> None:
    mine = replace(STORY, estimates={name: estimate(41.5) for name in METRICS})
    explanation = explain(evidence(mine))
    text = told(explanation, "What was measured")
    for name, metric in METRICS.items():
        assert f"{name}: 41.5 {metric.unit} (95 % interval 40.5 to 42.5)" in text
        assert metric.description in text
    assert "No value" not in told(explanation, "What was not")


def test_a_metric_of_a_load_is_known_by_its_name() -> None:
    mine = replace(STORY, estimates={"decode_tok_s_c4": estimate(120.0)})
    text = told(explain(evidence(mine)), "What was measured")
    assert "decode_tok_s_c4: 120.0 tok/s" in text
    assert "4 at a time" in text


def test_a_provisional_number_is_marked() -> None:
    text = told(explain(evidence(STORY, PLAIN)), "What was measured")
    lines = [line for line in text.splitlines() if line.endswith("Provisional.")]
    assert [line.split(":")[0] for line in lines] == ["stream_tok_s", "accept_length"]


@pytest.mark.parametrize(
    ("outcome", "ended", "may", "may_not"),
    [
        (Outcome.MEASURED, "as long as", "slower than plain", "Another start"),
        (Outcome.PARTIAL, "shorter, not wrong", "slower than plain", "proves nothing"),
        (Outcome.STOPPED, "bound", "at most 60.0 tok/s", "Its rate itself is open"),
        (Outcome.INFEASIBLE, "cannot run", "does not run on this host", "nothing about speed"),
        (Outcome.HUNG, "sign of life", "no progress while measuring", "not known to be slow"),
        (Outcome.FAILED, "learns nothing", "Nothing about", "not known to be slow"),
        (Outcome.CANCELLED, "Somebody", "Nothing about", "not known to be slow"),
    ],
)
def test_every_outcome_has_its_words(outcome: Outcome, ended: str, may: str, may_not: str) -> None:
    bound = 60.0 if outcome is Outcome.STOPPED else None
    mine = replace(STORY, outcome=outcome, bound=bound, reason="because of a test")
    explanation = explain(evidence(mine, PLAIN, requests=REQUESTS))
    assert ended in told(explanation, "How it ended")
    assert "because of a test" in told(explanation, "How it ended")
    assert may in told(explanation, "What may be")
    assert may_not in told(explanation, "What may not be")
    assert f"{outcome.value}" in explanation.headline


def test_a_stop_below_plain_decode_says_so() -> None:
    mine = replace(STORY, outcome=Outcome.STOPPED, bound=60.0)
    assert "below plain decode too" in told(explain(evidence(mine, PLAIN)))
    above = replace(mine, bound=90.0)
    assert "below plain decode too" not in told(explain(evidence(above, PLAIN)))


def test_a_trial_without_a_token_says_what_it_did_not_reach() -> None:
    refused = replace(
        STORY, outcome=Outcome.INFEASIBLE, phase=Phase.STARTING, estimates={}, phase_s={}
    )
    explanation = explain(evidence(refused, PLAIN))
    assert "tok/s" not in explanation.headline
    missed = "warming, step probe, cold pass, generated warm-up and measuring"
    assert f"did not get to: {missed}" in told(explanation)
    assert "decode_tok_s" in told(explanation, "What was not measured")
    assert explanation.factors is None


def test_prompts_that_were_never_sent_are_counted() -> None:
    text = told(explain(evidence(STORY, PLAIN, requests=REQUESTS, prompts=24)))
    assert "Of 24 prompts, 21 were never sent" in text


def test_settings_of_the_same_algorithm_are_counted() -> None:
    others = [result(i, ngram(i), 50.0) for i in (2, 3)]
    stopped = result(5, ngram(5), 30.0, outcome=Outcome.STOPPED)
    failed = result(4, ngram(4), outcome=Outcome.FAILED)
    text = told(explain(evidence(STORY, PLAIN, *others, stopped, failed)))
    assert "measured four settings of NGRAM so far" in text


def test_without_plain_decode_there_is_no_gain() -> None:
    text = told(explain(evidence(STORY)))
    assert "no plain decode was measured" in text.lower()
    assert "break-even is unknown" in text
    elsewhere = replace(PLAIN, host="another")
    assert "break-even is unknown" in told(explain(evidence(STORY, elsewhere)))


def test_without_an_accept_length_the_rate_is_not_taken_apart() -> None:
    kept = {"decode_tok_s": STORY.estimates["decode_tok_s"]}
    explanation = explain(evidence(replace(STORY, estimates=kept), PLAIN))
    assert "accept length and cycle are unknown" in told(explanation)
    assert told(explanation, "Where the rate") == ""


def test_a_cycle_that_no_text_can_pay() -> None:
    mine = replace(STORY, config=ngram(2), effective={})
    assert "no text helps" in told(explain(evidence(mine, PLAIN)), "What may be")


def test_settings_that_the_server_changed_are_named() -> None:
    mine = replace(STORY, effective={"speculative_num_draft_tokens": 3})
    text = told(explain(evidence(mine, PLAIN, renamed={"ngram_match_depth": "depth"})))
    assert "speculative_num_draft_tokens is 3 and not 8" in text
    assert "ngram_match_depth became depth" in text


def test_variables_may_be_without_effect() -> None:
    mine = replace(STORY, config=ngram(8, NCCL_PROTO="LL"))
    assert "NCCL_PROTO may be without effect" in told(explain(evidence(mine, PLAIN)))


def test_factors_that_do_not_fit_are_suspect() -> None:
    odd = {**STORY.estimates, "steps_per_s": measured(40.0, 0.4)}
    mine = replace(STORY, outcome=Outcome.MEASURED, estimates=odd)
    done = [replace(r, end=EndReason.FINISHED) for r in REQUESTS]
    assert "SUSPECT" in told(explain(evidence(mine, PLAIN, requests=done, streams=1)))
    cut = told(explain(evidence(mine, PLAIN, requests=REQUESTS, streams=1)))
    assert "SUSPECT" not in cut
    assert "cut off" in cut
    assert "off the rate" not in told(explain(evidence(mine, PLAIN, requests=done)))


def test_broken_output_is_never_recommended() -> None:
    report = QualityReport(Verdict.BROKEN, "4 of 4 texts leave plain decode's within 8 tokens")
    explanation = explain(evidence(STORY, PLAIN, quality=report))
    assert "BROKEN" in explanation.headline
    assert "never recommended" in told(explanation, "What may be")
    assert "4 of 4 texts" in told(explanation, "writes the same")


def test_plain_decode_is_what_others_are_measured_against() -> None:
    explanation = explain(evidence(PLAIN, STORY))
    text = told(explanation)
    assert "a step takes 12.2 ms" in text
    assert "what speculation in this sweep has to beat" in text
    assert "other settings" not in told(explanation, "What may not be")


def test_a_real_host_is_not_called_emulated() -> None:
    real = [replace(r, emulated=False) for r in (STORY, PLAIN)]
    assert "EMULATED" not in json.dumps(explain(evidence(*real)).as_data())


@pytest.mark.parametrize(
    ("mine", "other", "expected"),
    [
        (estimate(100, 1), estimate(101.9, 0.1), Relation.TIE),
        (estimate(41, 1), estimate(82, 1), Relation.SLOWER),
        (estimate(82, 1), estimate(41, 1), Relation.FASTER),
        (estimate(80, 9), estimate(88, 9), Relation.UNCLEAR),
        (estimate(41, None), estimate(82, 1), Relation.UNCLEAR),
    ],
)
def test_only_what_intervals_show_is_a_difference(
    mine: Estimate, other: Estimate, expected: Relation
) -> None:
    assert relation(mine, other) is expected


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        (41.0, "slower than plain decode by about half"),
        (60.0, "slower than plain decode by 27 %"),
        (100.0, "faster than plain decode by 22 %"),
        (170.0, "2.07 times as fast as plain decode"),
        (81.0, "a tie within 2 %"),
    ],
)
def test_how_much_slower_or_faster(rate: float, says: str) -> None:
    mine = replace(STORY, estimates={"decode_tok_s": measured(rate, 0.5)})
    assert says in told(explain(evidence(mine, PLAIN)), "What may be")
