"""Predictions of trials: written before they start, held against what they measure."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.foretelling import Foretelling, LateAccepts, predictions
from sweeps.config import Config
from sweeps.intervals import Interval
from sweeps.prediction.source import PLAIN, NoSource
from sweeps.prediction.words import disagreement
from sweeps.reporting.promises import Promise
from sweeps.results import Estimate
from sweeps.search.brief import Foresight
from sweeps.search.planner import Planner
from sweeps.search.steps import Purpose, Step
from tests.sweeps.search.host import BREADTH, NGRAM, SPACE, WIDTH, Host, canonical, near

PLAIN_CONFIG = canonical(SPACE.plain())
DRAFT = Config.of({**PLAIN_CONFIG, **NGRAM, WIDTH: 4, BREADTH: 1})


def test_a_trial_is_predicted_before_it_starts_and_once(tmp_path: Path) -> None:
    planner = Planner(SPACE, canonical=canonical, foresight=Foresight())
    host, path = Host(), tmp_path / "predictions.json"
    first = host.trial(0, Step(PLAIN_CONFIG, Purpose.BASELINE, ""))
    told = Foretelling(path, planner, emulated=True)
    told.begin(0, PLAIN_CONFIG, [])
    assert not path.exists(), "nothing is known before the first trial"
    told.begin(1, DRAFT, [first])
    told.begin(1, PLAIN_CONFIG, [first])
    data = json.loads(path.read_text())
    (row,) = data["rows"]
    assert data["emulated"] is True
    assert row["variant"] == DRAFT.variant
    assert row["predicted"]["low"] < row["predicted"]["value"] < row["predicted"]["high"]
    whole = Promise(Interval(**row["predicted"]), Interval(**row["cycle_ms"]))
    assert predictions(path) == {1: whole}
    promising = {**row, "number": 2, "promised_gain": 0.02}
    path.write_text(json.dumps({**data, "rows": [row, promising, {"number": 3}, "x"]}))
    assert predictions(path) == {1: whole, 2: replace(whole, lift_fraction=0.02)}
    path.write_text(json.dumps(data))
    again = Foretelling(path, planner, emulated=True)
    measured = host.trial(1, Step(DRAFT, Purpose.SEARCH, ""))
    assert again.disagreement(measured) == ""


@pytest.mark.parametrize(("value", "said"), [(100.0, False), (104.0, False), (150.0, True)])
def test_only_intervals_that_do_not_meet_disagree(value: float, said: bool) -> None:
    text = disagreement(Interval(100.0, 97.0, 103.0), near(value, 0.01))
    assert bool(text) is said
    assert not said or "the measurement counts" in text


def test_accept_lengths_come_once_there_is_a_recording(tmp_path: Path) -> None:
    found: list[NoSource] = []

    class Always(NoSource):
        def accept(self, config: Config) -> Estimate | None:
            return near(1.5, 0.01)

    folder = tmp_path / "recordings"
    late = LateAccepts(folder, lambda: found[0] if found else None)
    assert late.accept(PLAIN_CONFIG) == PLAIN
    assert late.accept(DRAFT) is None
    folder.mkdir()
    assert late.accept(DRAFT) is None
    found.append(Always())
    (folder / "new").touch()
    accept = late.accept(DRAFT)
    assert accept is not None
    assert accept.value == 1.5
