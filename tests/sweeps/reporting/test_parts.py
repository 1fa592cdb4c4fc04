"""The parts of the page: what each figure counts, and how it draws."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from markupsafe import Markup

from sweeps.ledger import IDLE, MEASURING, STARTING
from sweeps.reporting.break_even import points_of
from sweeps.reporting.cache import Answered, chosen
from sweeps.reporting.contrasts import contrasts_of
from sweeps.reporting.importance import importances
from sweeps.reporting.story import About, story_of
from sweeps.reporting.svg import Mark, Scale, around, drawn, el, joined, label, ticks_between
from sweeps.reporting.timeline import spans_of
from sweeps.results import Outcome, Phase, TrialResult
from tests.sweeps.makers import estimate, ngram, plain, result


def timed(made: TrialResult, cycle_ms: float, accept: float | None = None) -> TrialResult:
    """Add a cycle, and an accept length if there is one."""
    more = {"cycle_ms": estimate(cycle_ms, cycle_ms / 100)}
    more |= {} if accept is None else {"accept_length": estimate(accept, accept / 50)}
    return replace(made, estimates={**made.estimates, **more})


def test_break_even_is_a_cycle_over_the_best_plain_step() -> None:
    slow = timed(result(1, ngram(8), 41), 31.7, 1.3)
    points = points_of([timed(result(0, plain(), 82), 12.2, 1.0), slow])
    even, drafted = sorted(points, key=lambda p: p.gain, reverse=True)
    assert (even.cost.value, even.gain) == (1.0, 1.0)
    assert drafted.cost.value == pytest.approx(31.7 / 12.2)
    assert drafted.gain == pytest.approx(1.3 / (31.7 / 12.2))
    assert drafted.verdict == "it loses"
    assert drafted.trials == (1,)


def test_a_trial_that_was_stopped_in_its_probe_stands_at_its_bound() -> None:
    stopped = timed(result(1, ngram(4), None, outcome=Outcome.STOPPED), 20.0)
    points = points_of([timed(result(0, plain(), 80), 12.5, 1.0), replace(stopped, bound=70.0)])
    bounded = next(p for p in points if not p.config.is_plain)
    assert bounded.is_bound
    assert bounded.accept.value == pytest.approx(70.0 * 0.020)
    assert bounded.gain == pytest.approx(70 / 80)


def test_the_gain_of_an_unsure_point_is_a_tie() -> None:
    close = timed(result(1, ngram(2), 80), 15.0, 1.21)
    point = points_of([timed(result(0, plain(), 80), 12.5, 1.0), close])[1]
    assert "tie" in point.verdict


def test_contrasts_are_of_one_change_alone_and_go_from_the_default() -> None:
    base = timed(result(0, plain(NCCL_PROTO=None), 80, purpose="baseline"), 12.2)
    wide = timed(result(1, ngram(8, NCCL_PROTO="LL"), 74), 21.9)
    wide_default = timed(result(2, ngram(8, NCCL_PROTO=None), 51), 31.6)
    found = contrasts_of([base, wide, wide_default], "cycle_ms")
    assert [(c.axis, c.change) for c in found] == [("NCCL_PROTO", "PROTO: unset → LL")]
    assert found[0].ratio == pytest.approx(21.9 / 31.6)
    assert found[0].is_shown


def test_a_contrast_within_the_luck_of_starts_is_not_shown() -> None:
    pair = [
        timed(result(n, ngram(8, NCCL_ALGO=algo), 50), ms)
        for n, (algo, ms) in enumerate([(None, 20.0), ("Tree", 20.4)])
    ]
    assert not contrasts_of(pair, "cycle_ms")[0].is_shown


def _designed(effect: float, noise: float) -> list[TrialResult]:
    random = np.random.default_rng(3)
    made = []
    for number in range(48):
        proto, algo = ("LL", None)[number % 2], ("Ring", "Tree")[number // 2 % 2]
        rate = 80 * (1 + effect * (proto == "LL")) * float(np.exp(random.normal(0, noise)))
        config = ngram(2 + number // 4, NCCL_PROTO=proto, NCCL_ALGO=algo)
        made.append(result(number, config, rate))
    return made


def test_importance_finds_the_axis_that_matters_and_not_the_one_that_does_not() -> None:
    made = _designed(0.3, 0.03)
    by_axis = {one.axis: one for one in importances(made, "decode_tok_s", higher_is_better=True)}
    proto, algo = by_axis["NCCL_PROTO"], by_axis["NCCL_ALGO"]
    assert proto.is_shown
    assert proto.low < 0.3 < proto.high * 1.1
    assert proto.best == "LL"
    assert not algo.is_shown


def test_importance_does_not_mix_algorithms_in_which_an_axis_does_not_exist() -> None:
    made = [*_designed(0.1, 0.01), *(result(100 + n, plain(X=n), 80 + n) for n in range(12))]
    found = importances(made, "decode_tok_s", higher_is_better=True)
    assert {(one.algorithm, one.axis) for one in found if one.algorithm is None} == {(None, "X")}
    assert "speculative_algorithm" not in {one.axis for one in found}


def test_an_axis_that_exists_only_under_another_is_compared_where_it_exists() -> None:
    made = []
    for n in range(24):
        rare = {"P2P_LEVEL": ("PHB", "SYS")[n // 2 % 2]} if n % 2 else {}
        rate = 200 if not rare else 100 + 30 * (rare["P2P_LEVEL"] == "SYS")
        made.append(result(n, ngram(2 + n // 8, P2P=n % 2, **rare), rate))
    by_axis = {one.axis: one for one in importances(made, "decode_tok_s", higher_is_better=True)}
    assert by_axis["P2P_LEVEL"].best == "SYS"
    assert by_axis["P2P_LEVEL"].spread == pytest.approx(0.3, abs=0.05)


def test_axes_that_always_changed_together_are_named_as_such() -> None:
    made = [
        result(n, ngram(2 + n // 2, A=n % 2, B=("x", "y")[n % 2]), 80 + n % 2 * 9)
        for n in range(12)
    ]
    by_axis = {one.axis: one for one in importances(made, "decode_tok_s", higher_is_better=True)}
    assert by_axis["A"].along_with == ("B",)
    assert by_axis["speculative_num_draft_tokens"].along_with == ()


def test_a_lower_metric_has_its_best_level_where_it_is_low() -> None:
    made = [replace(r, estimates={"tpot_ms": r.estimates["decode_tok_s"]})
            for r in _designed(0.3, 0.01)]  # fmt: skip
    by_axis = {one.axis: one for one in importances(made, "tpot_ms", higher_is_better=False)}
    assert by_axis["NCCL_PROTO"].best == "unset"


def _at(number: int, second: int, starting_s: float, measuring_s: float) -> TrialResult:
    phases = {Phase.STARTING.value: starting_s, Phase.MEASURING.value: measuring_s}
    stamp = f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}+00:00"
    return replace(result(number, plain()), started_at=stamp, phase_s=phases)


def test_a_gap_between_trials_is_idle_time_of_the_host() -> None:
    trials = [_at(0, 0, 100, 50), _at(1, 200, 100, 50)]
    spans = spans_of(trials, 1.0)
    assert [(s.kind, s.length_s) for s in spans] == [
        (STARTING, 100), (MEASURING, 50), (IDLE, 50), (STARTING, 100), (MEASURING, 50),
    ]  # fmt: skip
    assert spans[-1].trial == 1


def test_on_a_simulated_clock_nothing_is_idle() -> None:
    spans = spans_of([_at(0, 0, 100, 50), _at(1, 3000, 100, 50)], None)
    assert IDLE not in {span.kind for span in spans}
    assert spans[-1].end_s == 300


def _warmed(number: int, tokens: int, rate: float, **more: str) -> TrialResult:
    made = timed(result(number, ngram(tokens, **more), rate), 15.0, 1.4)
    return replace(made, estimates={**made.estimates, "accept_length_cold": estimate(1.3, 0.1)})


def test_curves_of_the_cache_are_of_different_drafts() -> None:
    trials: Sequence[TrialResult] = [
        _warmed(0, 3, 90), _warmed(1, 3, 95, NCCL_PROTO="LL"), _warmed(2, 4, 80)
    ]  # fmt: skip
    assert chosen(story_of(trials, About("t"))) == (1, 2)


def test_an_accept_length_leaves_the_token_of_the_prefill_out() -> None:
    assert Answered("measuring", 101, 50).accept_length == 2.0


@pytest.mark.parametrize(("low", "high"), [(0, 1), (78.2, 107.9), (0.8, 1.62), (1e-4, 3e-4)])
def test_ticks_are_few_round_and_inside(low: float, high: float) -> None:
    ticks = ticks_between(low, high)
    assert 4 <= len(ticks) <= 11
    assert low - 1e-9 <= ticks[0]
    assert ticks[-1] <= high + 1e-9


def test_scales_cut_off_what_is_outside_and_survive_one_value() -> None:
    scale = Scale(1, 16, 0, 100, log=True)
    assert scale(4) == pytest.approx(50)
    assert scale(1000) == 100
    assert Scale(5, 5, 0, 100)(5) == 50
    assert around([3.0])[0] < 3 < around([3.0])[1]


def test_words_cannot_break_out_of_a_chart() -> None:
    assert "<script" not in label(0, 0, "<script>")
    mark = drawn(Mark("s0", '"><script>', 3, 'v"'), 1, 1)
    assert "<script" not in mark
    assert 'data-v="v&#34;"' in mark
    assert "<b>" not in el("title", "<b>")
    assert "<b" not in joined(["<b>", el("a", Markup("x"))])
    assert el("g", el("b", "<")) == "<g><b>&lt;</b></g>"
