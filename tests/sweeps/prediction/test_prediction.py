"""Predictions of a space: cells, what is dominated, what is said, what would be paid for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from sweeps.config import Config
from sweeps.prediction.cells import Cell
from sweeps.prediction.prediction import Prediction, predict
from sweeps.prediction.profile import PUBLISHED, HostProfile, VerifyCost, profile_of
from sweeps.prediction.words import best_by_width, sentences
from sweeps.problems import BadInputError
from sweeps.results import Estimate, TrialResult
from sweeps.search.brief import Foresight
from sweeps.search.planner import Planner
from sweeps.search.roles import serving_of
from sweeps.search.steps import Purpose, Step
from sweeps.values import Value
from tests.sweeps.search.host import BREADTH, NGRAM, PROTO, SPACE, WIDTH, Host, canonical, near

PLAIN = canonical(SPACE.plain())


@dataclass
class Replayed:
    """Accept lengths of a host, as a replay gives them."""

    host: Host
    factor: float = 1.0

    def accept(self, config: Config) -> Estimate | None:
        return near(self.factor * self.host.accept(config), 0.005)

    def prepare(self, configs: Sequence[Config]) -> None:
        """Know all of it anyway."""


def planner(host: Host, factor: float = 1.0, profile: HostProfile | None = None) -> Planner:
    foresight = Foresight(Replayed(host, factor), profile)
    return Planner(SPACE, canonical=canonical, foresight=foresight)


def predicted(
    host: Host, *configs: Mapping[str, Value], profile: HostProfile = PUBLISHED
) -> Prediction:
    trials = [
        host.trial(n, Step(Config.of({**PLAIN, **c}), Purpose.SEARCH, ""))
        for n, c in enumerate(configs)
    ]
    ours = planner(host, profile=profile)
    found = predict(ours, trials, profile, PLAIN, host="host", emulated=False)
    assert found is not None
    return found


def ngram(width: int, **more: Value) -> dict[str, Value]:
    return {**NGRAM, WIDTH: width, BREADTH: 1, **more}


def at_default(prediction: Prediction) -> dict[int, Cell]:
    return best_by_width(prediction.cells, "NGRAM", serving_of(PLAIN))


def test_before_any_trial_it_is_a_prior_that_tells_poor_drafts_from_good_ones() -> None:
    poor, good = predicted(Host(hits=0.25)), predicted(Host(hits=0.95))
    assert poor.as_data()["prior"] is True
    assert poor.trials == 0
    assert PUBLISHED.source in poor.basis
    assert at_default(poor)[8].verdict == "loses"
    assert at_default(good)[8].verdict == "gains"
    said = " ".join(sentences(poor))
    assert "NGRAM with 8 draft tokens loses" in said
    assert "unattributed" in said
    assert poor.next_step is not None


def test_a_few_trials_predict_what_was_not_started() -> None:
    host = Host(hits=0.45, cliff_ms=0.0)
    found = predicted(host, {}, ngram(2), ngram(4), ngram(12), ngram(32))
    errors = []
    for width, cell in at_default(found).items():
        truth = host.tok_s(cell.config)
        assert (cell.tok_s.low or 0) * 0.97 < truth < (cell.tok_s.high or 0) * 1.03, width
        errors.append(abs(math.log(cell.tok_s.value / truth)))
    assert sorted(errors)[len(errors) // 2] < 0.03
    assert found.trials == 5
    assert [cell.config for cell in found.cells if cell.measured]


def test_cells_that_no_draft_can_save_are_dominated_and_never_started() -> None:
    host = Host(hits=0.9, ms_per_token=14.0, cliff_ms=0.0)
    found = predicted(host, {}, ngram(2), ngram(8), ngram(32))
    lost = [cell for cell in found.cells if cell.dominated]
    assert lost
    assert all(host.cycle_ms(c.config) > host.plain_ms * c.width * 0.97 for c in lost)
    assert all(c.gain_per_gpu_hour == 0 for c in lost)
    assert "never started" in " ".join(sentences(found))


def test_contrasts_say_how_much_is_communication() -> None:
    host = Host(hits=0.4, cliff_ms=9.0)
    alone = predicted(host, {}, ngram(4))
    both = predicted(host, {}, ngram(4), ngram(4, **{PROTO: "LL"}))
    assert alone.attribution is not None
    assert both.attribution is not None
    assert alone.attribution.communication is None
    share = both.attribution.communication
    assert share is not None
    assert share.value == pytest.approx(9.0 / (12 + 1.2 + 9), abs=0.06)
    assert "At least" in " ".join(sentences(both))


def test_explanations_are_told_apart_by_width_and_protocol() -> None:
    found = predicted(Host(hits=0.4, cliff_ms=9.0), {}, ngram(8)).attribution
    assert found is not None
    assert sum(found.odds.values()) == pytest.approx(1.0)
    assert found.telling is not None
    assert found.telling.work.width != 8 or found.telling.work.serving != serving_of(PLAIN)


def test_a_measurement_that_refutes_the_replay_is_trusted() -> None:
    host = Host(hits=0.45, cliff_ms=0.0)
    ours = planner(host, factor=1.4)
    configs: list[dict[str, Value]] = [{}, ngram(4), ngram(8)]
    trials = [
        host.trial(n, Step(Config.of({**PLAIN, **c}), Purpose.SEARCH, ""))
        for n, c in enumerate(configs)
    ]
    found = predict(ours, trials, PUBLISHED, PLAIN, host="host", emulated=False)
    assert found is not None
    cell = next(c for c in found.cells if c.config == trials[1].config)
    assert cell.accept.value == pytest.approx(host.accept(cell.config), rel=0.06)


def test_what_no_cost_explains_is_believed_as_measured() -> None:
    host = Host(hits=0.45, cliff_ms=0.0)
    steps = [Step(Config.of({**PLAIN, **c}), Purpose.SEARCH, "")
             for c in ({}, ngram(2), ngram(3), ngram(4), ngram(8))]  # fmt: skip
    trials = [host.trial(n, step) for n, step in enumerate(steps)]
    odd = _slower(trials[2], 1.3)
    ours = planner(host)
    found = predict(ours, [*trials[:2], odd, *trials[3:]], PUBLISHED, PLAIN, host="h",
                    emulated=False)  # fmt: skip
    assert found is not None
    cell = next(c for c in found.cells if c.config == odd.config)
    assert cell.cycle_ms.value == pytest.approx(1.3 * host.cycle_ms(odd.config), rel=0.06)


def _slower(result: TrialResult, factor: float) -> TrialResult:
    changed = {n: near(result.estimates[n].value / factor, 0.01)
               for n in ("steps_per_s", "decode_tok_s")}  # fmt: skip
    return replace(result, estimates={**result.estimates, **changed})


def test_a_profile_is_read_and_its_faults_are_named() -> None:
    found = profile_of(
        {"plain_tok_s": 80, "verify": {"8": 2.5, "2": {"plain_steps": 1.3}}}, "p.toml"
    )
    assert found.plain_step_ms == pytest.approx(12.5)
    assert VerifyCost(8, 2.5) in found.verify
    with pytest.raises(BadInputError) as refused:
        profile_of({"plain_step_ms": -1, "verify": {"one": 2, "4": "x"}, "plane": 3}, "p.toml")
    fields = {problem.field for problem in refused.value.problems}
    assert fields == {"plain_step_ms", "verify.one", "verify.4", "plane"}
