"""One answer everywhere: a lucky start that nobody repeated is named, and never recommended.

The trials are those of a planned sweep of a host that is a formula. After the confirming starts had
begun, one more start measured far more than anything else.
"""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from orchestrator.cli import app
from orchestrator.files import write_json
from orchestrator.pages import print_summary
from orchestrator.reviews import sweep_review
from orchestrator.search.study import StudySearch
from orchestrator.state import State
from orchestrator.stories import ending
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tracking.jsonl import JsonlTracker
from orchestrator.tracking.review import DATA_FILE
from orchestrator.watching.watcher import Watcher
from sweeps import Budget, Model, Sweep
from sweeps.config import Config
from sweeps.exporters.sealed import read_record
from sweeps.hosts import EngineName, HostSpec
from sweeps.naming import short
from sweeps.reporting.answer import Answer, answer_of
from sweeps.results import TrialResult
from sweeps.search.claims import Claim, Verdict
from sweeps.workloads import Workload
from tests.sweeps.exports import EMULATED, OPTIONS
from tests.sweeps.search.host import BREADTH, NGRAM, SPACE, WIDTH, Host, drive, near

pytestmark = pytest.mark.slow

HOST = HostSpec("local", engine=EngineName.EMULATED, version="0.5.23")
LUCKY_TOK_S = 400.0


@dataclass(frozen=True)
class Ended:
    """A sweep that has ended, in its folder."""

    state: State
    run: SweepRun
    claim: Claim
    answer: Answer
    lucky: TrialResult

    def command(self, *words: str) -> Result:
        """Run a command on its folder."""
        return CliRunner().invoke(app, [*words, "--state-dir", str(self.state.root)])


def _sweep(**changes: object) -> Sweep:
    made = Sweep(
        name="t", model=Model("some/model"), axes=list(SPACE.axes), rules=list(SPACE.rules),
        budget=Budget(trials=80), hosts=[HOST], prediction=False,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type] # fields of the sweep


def _run(state: State, sweep: Sweep, results: list[TrialResult]) -> SweepRun:
    search = StudySearch(sweep, state.root / "after.db", "t", results)
    tracker = JsonlTracker(state.root / "events.jsonl")
    return SweepRun("t", sweep, state, search, Attendants(tracker, []))


def _as_measured(made: TrialResult) -> TrialResult:
    """Return a trial as a sweep would have left it."""
    return replace(
        made, trial=f"t-{made.number:04d}", sweep="t", host="local", engine_version="0.5.23",
        argv=(*EMULATED, *OPTIONS), requested={**made.config, "tp_size": 8},
        started_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def _history(sweep: Sweep, folder: Path, host: Host) -> list[TrialResult]:
    planner = StudySearch(sweep, folder / "before.db", "t").planner
    assert planner is not None
    history, _ = drive(planner, host)
    return [_as_measured(made) for made in history]


def ended(folder: Path, host: Host, most: int | None = None, **changes: object) -> Ended:
    """Run a sweep over a formula, add the lucky start, and end it as its driver does."""
    sweep, state = _sweep(**changes), State(folder)
    folder.mkdir(exist_ok=True)
    history = _history(sweep, folder, host)[:most]
    config = Config.of({**SPACE.plain(), **NGRAM, WIDTH: 27, BREADTH: 8})
    assert config not in {one.config for one in history}
    found = {"decode_tok_s": near(LUCKY_TOK_S, 0.004)}
    last = max(history, key=lambda one: one.number)
    lucky = replace(last, number=last.number + 1, config=config, estimates=found, purpose="search")
    lucky = _as_measured(lucky)
    history.append(lucky)
    card = {
        "name": "t", "objective": sweep.objective.metric, "hosts": [HOST.as_data()],
        "workload": Workload().as_data(), "emulated": True, "plain": dict(SPACE.plain()),
        "limits": [limit.as_data() for limit in sweep.objective.limits],
    }  # fmt: skip
    state.write_card("t", card)
    for one in history:
        write_json(state.trial_folder("t", one.number) / "result.json", one.as_data())
    run = _run(state, sweep, history)
    claim = run.claim()
    assert claim is not None
    state.write_card("t", {**card, "status": "finished", **ending(run)})
    answer = answer_of(run.results, sweep.objective, claim)
    assert answer is not None
    return Ended(state, run, claim, answer, lucky)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return a sweep whose claim is a settled gain."""
    made = ended(tmp_path_factory.mktemp("gain"), Host(hits=0.45))
    assert made.claim.settled
    assert made.claim.verdict is Verdict.GAIN
    return made


def _name(sweep: Ended) -> str:
    return short(sweep.claim.recommendation)


def _gain(sweep: Ended) -> str:
    assert sweep.claim.gain is not None
    return f"{sweep.claim.gain.ratio:.3f} (95 % interval {sweep.claim.gain.low:.3f}"


def _luck(sweep: Ended) -> str:
    return f"Trial {sweep.lucky.number} ({short(sweep.lucky.config)}) measured more once, 400"


def test_the_ranking_alone_would_name_the_lucky_start(sweep: Ended) -> None:
    alone = answer_of(sweep.run.results, sweep.run.sweep.objective)
    assert alone is not None
    assert alone.standing.config == sweep.lucky.config
    assert alone.certainty == "provisional"


def test_the_terminal_names_what_was_confirmed(
    sweep: Ended, capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary("t", sweep.state.root, "finished", sweep.answer, sweep.run, Path("space.py"))
    text = capsys.readouterr().out
    assert f"best   {_name(sweep)}\n" in text
    assert _gain(sweep) in text
    assert "claim  Settled: a gain." in text
    assert _luck(sweep) in text


def test_explain_takes_a_start_of_what_was_confirmed(sweep: Ended) -> None:
    done = sweep.command("explain", "best", "--json")
    told = json.loads(done.stdout)
    assert told["trial"] == sweep.answer.trial
    paragraphs = "\n".join(text for part in told["sections"] for text in part["paragraphs"])
    assert _gain(sweep) in paragraphs
    assert "Settled: a gain." in paragraphs
    other = sweep.command("explain", str(sweep.lucky.number))
    assert "recommends" in other.stdout and "Settled" not in other.stdout


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_the_report_names_what_was_confirmed(sweep: Ended, form: str) -> None:
    text = sweep.command("report", "--format", form, "--output", "-").stdout
    assert f"Run {_name(sweep)}" in text
    assert f"Run {short(sweep.lucky.config)}" not in text
    assert _gain(sweep) in text
    assert "Settled: a gain." in text
    assert _luck(sweep) in text
    assert "no gain is shown" not in text and "tied with it" not in text


def test_mlflow_is_told_of_what_was_confirmed(sweep: Ended) -> None:
    review = sweep_review(sweep.state, "t")
    data = json.loads(review.texts[DATA_FILE])
    assert data["winner"]["config"] == dict(sweep.claim.recommendation)
    assert (data["settled"], data["certainty"]) == (True, "settled: a gain")
    assert review.winner == sweep.answer.trial
    starts = {one.trial for one in sweep.run.results
              if one.config == sweep.claim.recommendation and one.may_lead}  # fmt: skip
    assert set(review.starts) == starts > {review.winner}
    assert sweep.claim.gain is not None
    assert review.numbers["gain"] == sweep.claim.gain.ratio
    fresh = [sweep.run.results[at].value("decode_tok_s") or 0 for at in sweep.claim.proofs]
    assert review.numbers["winner"] == pytest.approx(sum(fresh) / len(fresh))
    assert review.numbers["winner_starts"] == len(fresh)


def test_the_export_is_what_was_confirmed_with_the_gain_of_the_claim(sweep: Ended) -> None:
    done = sweep.command("export", "--allow-emulated")
    told = read_record(done.stdout)
    assert told["config"] == dict(sweep.claim.recommendation)
    assert sweep.claim.gain is not None
    assert told["gain_over_plain"] == sweep.claim.gain.ratio
    assert told["gains"][0]["low"] == sweep.claim.gain.low
    assert told["certainty"] == "settled: a gain"
    assert told["starts"] == len(sweep.claim.proofs)
    assert told["baseline"]["config"] == dict(sweep.claim.gain.over)
    assert "provisional" not in done.stdout.lower() and "undecided" not in done.stdout.lower()
    named = sweep.command("export", "--allow-emulated", "--trial", str(sweep.lucky.number))
    assert f"not what the sweep recommends, which is {_name(sweep)}" in named.stderr


def test_who_watches_sees_what_was_confirmed(sweep: Ended) -> None:
    seen = Watcher(sweep.state, "t").look()
    told, over = sweep.answer.standing, sweep.answer.plain
    assert seen.leader is not None
    assert (seen.leader.trial, seen.leader.value) == (sweep.answer.trial, told.value)
    assert over is not None and seen.plain is not None
    assert seen.plain.value == over.value
    assert "settled: a gain" in sweep.command("status").stdout
    died = {**sweep.state.card("t"), "status": "running"}
    sweep.state.write_card("t", died)
    try:
        so_far = Watcher(sweep.state, "t").look()
    finally:
        sweep.state.write_card("t", {**died, "status": "finished"})
    assert so_far.leader is not None and so_far.certainty == ""
    assert so_far.leader.value == LUCKY_TOK_S


def test_an_undecided_sweep_is_exported_with_the_warning_in_the_file(tmp_path: Path) -> None:
    whole = _history(_sweep(), tmp_path, Host(hits=0.45))
    confirms = [place for place, one in enumerate(whole) if one.purpose == "confirm"]
    (tmp_path / "before.db").unlink()
    cut = ended(tmp_path, Host(hits=0.45), most=confirms[-1])
    assert not cut.claim.settled
    for form in ("sh", "json", "env", "systemd", "docker-compose", "kubernetes"):
        done = cut.command("export", "--allow-emulated", "--format", form)
        assert done.exit_code == 0
        assert "Undecided: still to come" in done.stdout
        assert "Undecided: still to come" in done.stderr
    text = cut.command("report", "--format", "markdown").stdout
    assert "Undecided" in text and "Settled" not in text


def test_a_sweep_that_runs_has_a_provisional_answer(tmp_path: Path) -> None:
    made = ended(tmp_path, Host(hits=0.45))
    card = {name: value for name, value in made.state.card("t").items() if name != "claim"}
    made.state.write_card("t", {**card, "status": "running"})
    text = made.command("report", "--format", "markdown").stdout
    assert "Provisional, not confirmed on fresh starts" in text
    assert "Settled" not in text


def test_an_old_card_is_read(sweep: Ended, tmp_path: Path) -> None:
    """A claim of before there were verdicts, as its sweep wrote it."""
    old = State(tmp_path)
    card = sweep.state.card("t")
    claim = card["claim"]
    assert isinstance(claim, dict)
    kept = ("recommendation", "ties", "gain", "settled", "reason")
    card["claim"] = {name: claim[name] for name in kept}
    old.write_card("t", card)
    for one in sweep.run.results:
        write_json(old.trial_folder("t", one.number) / "result.json", one.as_data())
    review = sweep_review(old, "t")
    assert review.tags["certainty"] == "settled: a gain"
    assert review.numbers == sweep_review(sweep.state, "t").numbers


SPACE_FILE = """
from sweeps import *

NGRAM = {{"speculative_algorithm": "NGRAM"}}

sweep = Sweep(
    name="small",
    model=Model("some/model"),
    axes=[
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 4, NGRAM),
    ],
    fixed={{"tp_size": 8}},
    workload=Workload(prompts="{prompts}", max_tokens=128, measured_prompts=4,
                      most_measured_prompts=4,
                      cold_prompts=1,
                      warming_passes=0),
    budget=Budget(trials=9),
    prediction=False,
    sampler="{sampler}",
)
"""


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("sampler", "prompts"), [("factorised", "quote"), ("factorised", "chat"), ("tpe", "quote")]
)
def test_a_simulated_sweep_gives_one_answer_by_all_its_commands(
    tmp_path: Path, sampler: str, prompts: str
) -> None:
    space, state = tmp_path / "small.py", State(tmp_path / "state")
    space.write_text(SPACE_FILE.format(sampler=sampler, prompts=prompts))

    def command(*words: str) -> Result:
        done = CliRunner().invoke(app, [*words, "--state-dir", str(state.root)])
        assert done.exit_code == 0, done.output
        return done

    ran = subprocess.run(
        [sys.executable, "-m", "orchestrator", "sweep", str(space), "--engine", "emulated",
         "--driver", "simulated", "--state-dir", str(state.root)],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    (sweep_id,) = state.sweep_ids()
    card = state.card(sweep_id)
    exported = read_record(command("export", "--allow-emulated").stdout)
    name, certainty = short(Config.of(exported["config"])), exported["certainty"]
    told = json.loads(command("explain", "best", "--json").stdout)
    page = command("report", "--format", "markdown", "--output", "-").stdout
    data = json.loads(sweep_review(state, sweep_id).texts[DATA_FILE])
    assert f"best   {name}\n" in ran.stdout
    assert told["trial"] == exported["trial"]
    assert name.removeprefix("plain") in page.split("\n\n")[2]
    assert data["winner"]["config"] == exported["config"]
    assert data["certainty"] == certainty
    word = certainty.split(":")[0].capitalize()
    for text in (ran.stdout, page, json.dumps(told), json.dumps(exported["sure"])):
        assert word in text
    claim = card["claim"]
    if sampler == "tpe":
        assert (claim, certainty) == (None, "provisional")
        return
    assert isinstance(claim, dict)
    assert claim["recommendation"] == exported["config"]
    assert claim["settled"] == (word == "Settled")
    gains = [f"{gain['value']:.3f} (95 % interval {gain['low']:.3f}" for gain in exported["gains"]]
    assert all(gain in ran.stdout and gain in page for gain in gains)
    if claim["gain"] is not None:
        assert exported["gain_over_plain"] == claim["gain"]["ratio"]
