"""The search on a real SQLite study: what it proposes, what it tells, and how it resumes."""

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from orchestrator.job import Purpose
from orchestrator.search.needs import sampler_problems
from orchestrator.search.samplers import SAMPLER_MAKERS, SturdySampler
from orchestrator.search.seam import Proposal
from orchestrator.search.study import StudySearch
from orchestrator.search.verdicts import CONSTRAINT
from sweeps import Limit, Objective
from sweeps.config import Config
from sweeps.results import Outcome, TrialResult
from sweeps.search.brief import Foresight
from sweeps.sweep import FACTORISED, SAMPLERS, Sweep
from tests.orchestrator.search.ready import study_file
from tests.sweeps.makers import SMALL, estimate, result

pytestmark = pytest.mark.slow


def _search(folder: Path, sweep: Sweep = SMALL) -> StudySearch:
    return StudySearch(sweep, study_file(folder), "s")


def _study(folder: Path, search: StudySearch) -> optuna.Study:
    search.close()
    return optuna.load_study(study_name="s", storage=f"sqlite:///{folder / 'study.db'}")


def _ask(search: StudySearch) -> Proposal:
    proposal = search.ask()
    assert proposal is not None
    return proposal


def _tell(search: StudySearch, proposal: Proposal, rate: float | None = 50.0,
          outcome: Outcome = Outcome.MEASURED) -> None:  # fmt: skip
    made = result(proposal.number, proposal.config, rate, outcome=outcome,
                  purpose=proposal.purpose.value)  # fmt: skip
    search.tell(proposal, made, retry=True)


def test_the_space_files_know_exactly_the_samplers_that_exist() -> None:
    assert set(SAMPLERS) == {FACTORISED, *SAMPLER_MAKERS}


@pytest.mark.slow  # SciPy alone takes seconds to import
@pytest.mark.parametrize("sampler", SAMPLER_MAKERS)
def test_plain_comes_first_then_new_configurations_that_obey_the_rules(
    tmp_path: Path, sampler: str
) -> None:
    search = _search(tmp_path, replace(SMALL, sampler=sampler))
    seen: list[str] = []
    for _ in range(8):
        proposal = _ask(search)
        assert SMALL.space.strays(proposal.config) == []
        assert SMALL.space.broken_rules(proposal.config) == []
        seen.append(proposal.config.variant)
        _tell(search, proposal, rate=float(len(seen)))
    assert seen[0] == SMALL.space.plain().variant
    assert len(set(seen)) == len(seen)


def test_staged_changes_one_axis_at_a_time_beside_the_best_of_the_others(tmp_path: Path) -> None:
    search = _search(tmp_path, replace(SMALL, sampler="staged"))
    measured: list[tuple[float, Config]] = []
    for _ in range(6):
        proposal = _ask(search)
        if measured:
            best = max(measured, key=lambda pair: pair[0])[1]
            shared = best.keys() & proposal.config.keys()
            moved = [name for name in shared if best[name] != proposal.config[name]]
            assert len(moved) == 1
        rate = 50.0 + 10 * (proposal.config.algorithm == "NGRAM")
        rate += float(proposal.config.get("speculative_num_draft_tokens") or 0)
        measured.append((rate, proposal.config))
        _tell(search, proposal, rate)
    axes = [axis.name for axis in SMALL.space.ordered()]
    assert measured[1][1][axes[0]] != SMALL.space.plain()[axes[0]]


def test_it_ends_when_every_configuration_was_tried(tmp_path: Path) -> None:
    axes = [SMALL.axes[0], SMALL.axes[3]]
    search = _search(tmp_path, replace(SMALL, axes=axes, rules=()))
    for _ in range(4):
        _tell(search, _ask(search))
    assert search.ask() is None


def test_each_outcome_has_one_state(tmp_path: Path) -> None:
    states = {
        Outcome.MEASURED: (TrialState.COMPLETE, False),
        Outcome.PARTIAL: (TrialState.COMPLETE, False),
        Outcome.STOPPED: (TrialState.PRUNED, False),
        Outcome.INFEASIBLE: (TrialState.PRUNED, True),
        Outcome.HUNG: (TrialState.PRUNED, True),
        Outcome.FAILED: (TrialState.FAIL, None),
        Outcome.CANCELLED: (TrialState.FAIL, None),
    }
    assert states.keys() == set(Outcome)
    search = _search(tmp_path)
    for outcome in states:
        proposal = _ask(search)
        made = result(proposal.number, proposal.config, 50.0, outcome=outcome)
        search.tell(proposal, made, retry=False)
    trials = _study(tmp_path, search).trials
    for trial, (outcome, (state, violated)) in zip(trials, states.items(), strict=True):
        assert trial.state is state
        assert trial.user_attrs["result"]["outcome"] == outcome.value
        if violated is not None:
            assert (trial.constraints[CONSTRAINT] > 0) == violated


def test_a_measured_outcome_without_a_rate_is_a_failure_not_a_zero(tmp_path: Path) -> None:
    search = _search(tmp_path)
    _tell(search, _ask(search), rate=None)
    assert [t.state for t in _study(tmp_path, search).trials] == [TrialState.FAIL]


def test_a_fault_is_tried_again_if_its_caller_says_so(tmp_path: Path) -> None:
    search = _search(tmp_path)
    first = _ask(search)
    _tell(search, first, None, Outcome.FAILED)
    again = _ask(search)
    assert again.config == first.config
    assert again.purpose is first.purpose
    assert again.number == first.number + 1
    failed = result(again.number, again.config, None, outcome=Outcome.FAILED)
    search.tell(again, failed, retry=False)
    assert _ask(search).config != first.config


def test_a_resumed_search_repeats_nothing_and_takes_up_what_was_cut_off(tmp_path: Path) -> None:
    search = _search(tmp_path)
    done = [_ask(search) for _ in range(3)]
    for proposal in done[:2]:
        _tell(search, proposal)
    search.close()
    resumed = _search(tmp_path)
    assert resumed.proposed == 3
    again = _ask(resumed)
    assert again.config == done[2].config
    assert again.number == 3
    _tell(resumed, again)
    later = [_ask(resumed) for _ in range(4)]
    variants = [p.config.variant for p in [*done, *later]]
    assert len(set(variants)) == len(variants)
    assert all(t.state.is_finished() for t in _study(tmp_path, resumed).trials[:3])


def test_a_retry_that_was_cut_off_before_it_began_is_tried_once(tmp_path: Path) -> None:
    search = _search(tmp_path)
    _tell(search, _ask(search))
    cut = _ask(search)
    search.close()
    cancelled = result(cut.number, cut.config, outcome=Outcome.CANCELLED)

    def taken_up() -> StudySearch:
        return StudySearch(SMALL, tmp_path / "study.db", "s", [cancelled], again=[cancelled])

    killed = taken_up()
    assert _ask(killed).retry_of == cut.number
    killed.close()
    resumed = taken_up()
    retry = _ask(resumed)
    assert (retry.config, retry.retry_of) == (cut.config, cut.number)
    _tell(resumed, retry)
    assert cut.config not in [_ask(resumed).config for _ in range(3)]


def test_the_same_seed_gives_the_same_sweep_and_another_seed_another(tmp_path: Path) -> None:
    def proposals(name: str, seed: int) -> list[str]:
        folder = tmp_path / name
        folder.mkdir()
        search = _search(folder, replace(SMALL, seed=seed))
        found = []
        for i in range(4):
            proposal = _ask(search)
            found.append(proposal.config.variant)
            _tell(search, proposal, rate=float(i))
        return found

    first = proposals("a", 1)
    assert proposals("b", 1) == first
    assert proposals("c", 2) != first


def test_a_choice_of_the_caller_is_proposed_as_it_is(tmp_path: Path) -> None:
    search = _search(tmp_path)
    first = _ask(search)
    _tell(search, first)
    again = search.repeat(first.config, Purpose.CONFIRM)
    assert again.config == first.config
    assert again.purpose is Purpose.CONFIRM
    _tell(search, again)


def test_a_result_that_the_file_lacks_counts_and_is_not_measured_again(tmp_path: Path) -> None:
    search = _search(tmp_path)
    first = _ask(search)
    _tell(search, first)
    second = _ask(search)
    search.close()
    known = result(second.number, second.config, 77.0)
    resumed = StudySearch(SMALL, tmp_path / "study.db", "s", [known])
    third = _ask(resumed)
    assert third.number == 2
    assert third.config not in (first.config, second.config)
    trials = _study(tmp_path, resumed).trials
    assert [t.state for t in trials[:2]] == [TrialState.COMPLETE] * 2
    assert trials[1].value == 77.0


def test_the_file_keeps_every_proposal_with_its_parameters(tmp_path: Path) -> None:
    search = _search(tmp_path)
    proposals = [_ask(search) for _ in range(5)]
    for proposal in proposals:
        _tell(search, proposal)
    trials = _study(tmp_path, search).trials
    assert [t.params for t in trials] == [dict(p.config) for p in proposals]
    assert [t.user_attrs["number"] for t in trials] == [0, 1, 2, 3, 4]


def test_a_sampler_that_fails_is_replaced_by_draws(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(optuna.samplers.RandomSampler):
        def sample_independent(self, *_: object) -> object:
            raise ValueError("singular matrix")

    sampler = SturdySampler(Broken(), seed=1)
    study = optuna.create_study(sampler=sampler)
    drawn = {study.ask().suggest_int("n", 1, 4) for _ in range(40)}
    assert drawn == {1, 2, 3, 4}
    assert sampler.failures == 40
    assert [r.message for r in caplog.records if "Broken failed" in r.message] != []
    assert sum("Broken failed" in r.message for r in caplog.records) == 1


def test_a_sampler_without_its_package_is_refused() -> None:
    (problem,) = sampler_problems("gp")
    assert "torch" in problem.why
    assert sampler_problems("tpe") == []


class _Half:
    """Knows that the protocol does not matter, and that wide drafts must not be started."""

    foresight = Foresight()

    def canonical(self, config: Config) -> Config:
        return Config.of({**config, "NCCL_PROTO": None})

    def refusal(self, config: Config) -> str:
        wide = config.get("speculative_num_draft_tokens", 0)
        return "too wide" if isinstance(wide, int) and wide > 4 else ""


@pytest.mark.parametrize("sampler", ["tpe", "random", "grid"])
def test_what_acts_alike_is_tried_once_and_what_is_refused_never(
    tmp_path: Path, sampler: str
) -> None:
    sweep = replace(SMALL, sampler=sampler)
    search = StudySearch(sweep, study_file(tmp_path), "s", guide=_Half())
    seen = []
    while (proposal := search.ask()) is not None:
        seen.append(proposal.config)
        _tell(search, proposal, rate=50.0 + len(seen))
    assert all(config.get("NCCL_PROTO") is None for config in seen)
    assert {config.get("speculative_num_draft_tokens") for config in seen} == {None, 2, 3, 4}
    assert len({config.variant for config in seen}) == len(seen) == 1 + 2 + 3 + 4


@pytest.mark.parametrize("keep_inert", [False, True])
@pytest.mark.parametrize("sampler", ["tpe", "random", "grid"])
def test_what_servers_said_to_run_alike_is_tried_once_unless_all_is_asked_for(
    tmp_path: Path, sampler: str, *, keep_inert: bool
) -> None:
    sweep = replace(SMALL, sampler=sampler, keep_inert=keep_inert)
    search = StudySearch(sweep, study_file(tmp_path), "s")
    seen: list[TrialResult] = []
    while (proposal := search.ask()) is not None:
        made = result(proposal.number, proposal.config, 50.0)
        seen.append(replace(made, effective={**proposal.config, "NCCL_PROTO": "LL"}))
        search.tell(proposal, seen[-1], retry=True)
        if len(seen) == 3:  # a resumed sweep knows it too
            search.close()
            search = StudySearch(sweep, study_file(tmp_path), "s", seen)
    protocols = {trial.config["NCCL_PROTO"] for trial in seen}
    assert protocols == ({None, "LL"} if keep_inert else {None})
    assert len({trial.config for trial in seen}) == len(seen) == 18 * (1 + keep_inert)


def test_a_limit_that_is_broken_is_a_violated_constraint(tmp_path: Path) -> None:
    goal = Objective(limits=[Limit("decode_tok_s", least=60.0)])
    search = _search(tmp_path, replace(SMALL, objective=goal))
    _tell(search, _ask(search), rate=50.0)
    _tell(search, _ask(search), rate=70.0)
    constraints = [t.constraints[CONSTRAINT] > 0 for t in _study(tmp_path, search).trials]
    assert constraints == [True, False]


def test_several_objectives_are_told_together(tmp_path: Path) -> None:
    goal = Objective("decode_tok_s", also=("tpot_ms",))
    search = _search(tmp_path, replace(SMALL, objective=goal, sampler="nsga2"))
    proposal = _ask(search)
    made = result(proposal.number, proposal.config, 50.0)
    both = {**made.estimates, "tpot_ms": estimate(20.0)}
    search.tell(proposal, replace(made, estimates=both), retry=False)
    half = _ask(search)
    _tell(search, half, rate=60.0)
    first, second = _study(tmp_path, search).trials
    assert first.values == [50.0, 20.0]
    assert second.state is TrialState.FAIL


@pytest.mark.slow
def test_a_viewer_that_holds_the_file_loses_nothing(tmp_path: Path) -> None:
    search = _search(tmp_path)
    proposal = _ask(search)
    holder = sqlite3.connect(tmp_path / "study.db", check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(7.0, holder.rollback)  # SQLite's own patience is 5 s
    release.start()
    _tell(search, proposal, rate=70.0)
    (kept,) = _study(tmp_path, search).trials
    release.join()
    holder.close()
    assert kept.value == 70.0
