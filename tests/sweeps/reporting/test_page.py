"""The page as a whole: complete, self-contained, and every number leads to a trial."""

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from sweeps.intervals import Interval
from sweeps.limits import Limit
from sweeps.reporting.cache import Answered
from sweeps.reporting.page import Beside, page
from sweeps.reporting.promises import Promise
from sweeps.reporting.story import About, Story, story_of
from sweeps.reporting.thinning import thinned
from sweeps.results import Outcome, Phase, TrialResult
from sweeps.sweep import Objective
from sweeps.workloads import Workload
from tests.sweeps.makers import estimate, ngram, plain, result
from tests.sweeps.reporting.test_parts import timed

VOID = {"meta", "link", "input", "br", "hr", "img"}
WORK = Workload(concurrencies=(4,))


def _trials() -> list[TrialResult]:
    """Make a sweep with something for every section."""
    made = [timed(result(0, plain(NCCL_PROTO=None), 80, purpose="baseline"), 12.5, 1.0)]
    for number, tokens in enumerate(range(2, 14), start=1):
        proto = ("LL", None)[number % 2]
        rate = 90 - tokens
        one = timed(result(number, ngram(tokens, NCCL_PROTO=proto), rate), 12.5 + tokens, 1.5)
        one = replace(one, phase_s={Phase.STARTING.value: 60.0, Phase.MEASURING.value: 60.0})
        made.append(one)
    stopped = replace(timed(result(13, ngram(20), outcome=Outcome.STOPPED), 40.0), bound=60.0)
    failed = replace(
        result(14, ngram(30), outcome=Outcome.INFEASIBLE),
        signature="oom_load",
        reason="out of <memory>",
    )
    loaded = [_loaded(r) for r in made]
    return [replace(r, requested={"page_size": 1}) for r in (*loaded, stopped, failed)]


def _loaded(made: TrialResult) -> TrialResult:
    more = {"decode_tok_s_c4": estimate(200 - made.number, 2), "tpot_ms": estimate(12, 0.1)}
    more["accept_length_cold"] = estimate(1.2, 0.1)
    return replace(made, estimates={**made.estimates, **more})


def _story(trials: list[TrialResult] | None = None, **about: object) -> Story:
    goal = Objective(limits=[Limit("decode_tok_s", most=89)], also=["tpot_ms"])
    known = {"goal": goal, "workload": WORK, "configurations": 900,
        "clock_scales": {"local": 1.0}, **about,
    }  # fmt: skip
    facts = About("t-1", **known)  # type: ignore[arg-type] # as given
    return story_of(_trials() if trials is None else trials, facts, hints={"oom_load": "less"})


def made_page(story: Story | None = None) -> str:
    """Make a page with every section."""
    answers = [Answered("cold pass", 100, 80), Answered("measuring", 100, 60)]
    beside = Beside(
        answers={1: answers},
        predicted={0: Promise(Interval(81, 70, 92)), 1: Promise(Interval(60, 55, 65))},
        facts=[("host local", [("GPUs", "8 x <fast>")])],
        spools={n: f"sweeps/t-1/trials/{n:04d}/spool.jsonl" for n in range(15)},
    )
    return page(story or _story(), beside)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.trials: list[str] = []
        self.addresses: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "data-t":
                self.trials.append(value or "")
            elif name in ("href", "src", "action") and value:
                (self.links if value.startswith("#") else self.addresses).append(value)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.fixture(scope="module")
def text() -> str:
    return made_page()


@pytest.fixture(scope="module")
def read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    return reader


def test_every_section_is_there_in_the_order_of_answer_why_and_what_it_does_not_show(
    text: str,
) -> None:
    wanted = [
        "answer", "break-even", "cycles", "surfaces", "importance", "concurrency", "trade-offs",
        "cache", "foretold", "history", "hours", "failures", "settings", "facts", "not-shown",
        "trials",
    ]  # fmt: skip
    assert re.findall(r'<section id="([\w-]+)"', text) == wanted


def test_the_tags_are_balanced_and_ids_are_given_once(read: _Reader) -> None:
    assert (read.open, read.wrong) == ([], [])
    assert [name for name, count in Counter(read.ids).items() if count > 1] == []


def test_every_link_and_every_mark_leads_to_a_place_of_the_page(read: _Reader) -> None:
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert {f"t{number}" for number in read.trials} <= set(read.ids)
    assert len(read.trials) > 30


def test_of_many_trials_the_best_and_some_others_are_drawn_and_all_are_counted() -> None:
    whole = _story()
    story = thinned(whole, most=6)
    assert 5 <= len(story.results) <= 6
    assert story.count == len(whole.results)
    drawn = {r.config.variant for r in story.results}
    assert [s.variant for s in whole.ranking.standings][:3] == [
        s.variant for s in story.ranking.standings
    ][:3]
    assert whole.ranking.baseline is not None
    assert whole.ranking.baseline.variant in drawn
    assert story.answer == whole.answer
    reader, text = _Reader(), made_page(story)
    reader.feed(text)
    assert {link[1:] for link in reader.links} <= set(reader.ids)
    assert {f"t{number}" for number in reader.trials} <= set(reader.ids)
    assert f"{len(story.results)} of 15 trials" in text
    assert thinned(whole, most=15) is whole


def test_nothing_is_fetched_from_anywhere(text: str, read: _Reader) -> None:
    assert read.addresses == ["data:,"]
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)


def test_each_trial_names_its_spool(text: str) -> None:
    for number in range(15):
        assert f"sweeps/t-1/trials/{number:04d}/spool.jsonl" in text


def test_what_a_server_said_is_text_and_no_markup(text: str) -> None:
    assert "out of &lt;memory&gt;" in text
    assert "8 x &lt;fast&gt;" in text


def test_failures_come_with_hints_and_limits_are_told(text: str) -> None:
    assert "oom load" in text
    assert "less" in text
    assert "decode_tok_s at most 89 tok/s" in text


def test_predictions_stand_beside_what_was_measured_and_disagreement_is_named(text: str) -> None:
    part = text[text.index('id="foretold"') : text.index('id="history"')]
    assert "EMULATED In the median it was" in part
    assert "Beyond both intervals: trial 1 (NGRAM" in part
    assert "the measurement counts" in part


def test_emulated_is_in_the_title_the_banner_each_chart_and_each_caption(text: str) -> None:
    assert "<title>EMULATED" in text
    assert 'class="banner"' in text
    captions = re.findall(r"<caption>(.*?)</caption>", text)
    assert [c for c in captions if not c.startswith(("EMULATED", "Settings"))] == []
    charts = re.findall(r'<svg [^>]*class="chart">.*?</svg>', text)
    assert len(charts) >= 7
    assert all(">EMULATED</text>" in chart for chart in charts)


def test_a_real_host_is_not_called_emulated() -> None:
    real = [replace(r, emulated=False) for r in _trials()]
    assert "EMULATED" not in made_page(_story(real))


def test_without_a_rate_the_page_still_tells_the_failures() -> None:
    failed = [r for r in _trials() if r.outcome is Outcome.INFEASIBLE]
    text = made_page(_story(failed))
    assert "Nothing is recommended" in text
    assert 'id="failures"' in text
    assert 'id="break-even"' not in text


def test_before_the_first_trial_there_is_a_page() -> None:
    text = made_page(_story([], status="running"))
    assert "not ended" in text
    assert 'id="history"' not in text
