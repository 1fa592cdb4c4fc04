"""What a search calls its configurations: by the rules, by defaults, by what ran alike."""

from dataclasses import replace

import pytest

from sweeps.config import Config
from sweeps.results import Outcome, TrialResult
from sweeps.search.brief import same
from sweeps.search.names import Names
from sweeps.search.planner import Planner
from sweeps.search.steps import Purpose, Step
from sweeps.values import Value
from tests.sweeps.makers import result
from tests.sweeps.search.host import IPC, PROTO, SPACE, Host

CUSTOM = "disable_custom_all_reduce"
PLAIN = SPACE.plain()


def ran(number: int, config: Config, **told: Value) -> TrialResult:
    """Return a trial whose server ran with what it was asked for, but for what is told."""
    return replace(result(number, config, 80.0), effective={**config, **told})


def of(**values: Value) -> Config:
    return Config.of({**PLAIN, **values})


def named(config: Config, *history: TrialResult) -> Config:
    return Names(SPACE, history, same).canonical(config)


def test_what_ran_alike_goes_by_one_name() -> None:
    history = (ran(0, PLAIN), ran(1, of(**{IPC: "1"}), **{IPC: "0"}))
    assert named(of(**{IPC: "1"}), *history) == PLAIN
    assert named(PLAIN, *history) == PLAIN
    assert named(of(**{PROTO: "LL"}), *history) == of(**{PROTO: "LL"})


def test_a_name_is_read_anew_as_the_history_grows() -> None:
    late, early = of(NCCL_PROTO="LL", disable_custom_all_reduce=True), of(**{PROTO: "LL"})
    first = ran(2, late, **{CUSTOM: True})
    assert named(late, first) == late
    second = ran(1, early, **{CUSTOM: True})
    assert named(late, first, second) == named(early, first, second) == early
    assert named(late, first, second, ran(3, early, **{CUSTOM: False})) == late


def test_what_a_default_always_ran_as_goes_by_the_default() -> None:
    overridden = ran(0, PLAIN, **{CUSTOM: True})
    wanted = of(NCCL_PROTO="LL", disable_custom_all_reduce=True)
    assert named(wanted, overridden) == of(**{PROTO: "LL"})
    assert named(wanted, overridden, ran(1, of(**{PROTO: "Simple"}))) == wanted
    assert named(wanted) == named(wanted, ran(0, PLAIN)) == wanted


def test_what_was_tried_keeps_its_name_until_an_account_says_else() -> None:
    failed = replace(ran(1, of(**{CUSTOM: True})), outcome=Outcome.HUNG, effective={})
    overridden = ran(0, PLAIN, **{CUSTOM: True})
    assert named(failed.config, overridden, failed) == failed.config
    cut = replace(failed, outcome=Outcome.FAILED)
    assert named(failed.config, overridden, cut) == PLAIN


def test_what_asks_for_just_what_another_ran_with_is_that_other() -> None:
    clipped = ran(0, of(**{PROTO: "LL"}), **{PROTO: "Simple"})
    assert named(of(**{PROTO: "Simple"}), clipped) == clipped.config
    assert named(of(**{PROTO: "Simple", IPC: "1"}), clipped) == of(**{PROTO: "Simple", IPC: "1"})
    untold = replace(clipped, effective={CUSTOM: True})
    assert named(of(**{PROTO: "Simple"}), untold) == of(**{PROTO: "Simple"})
    unsure = ran(1, of(**{PROTO: "LL"}), **{PROTO: "LL"})
    assert named(of(**{PROTO: "Simple"}), clipped, unsure) == of(**{PROTO: "Simple"})


def test_an_axis_that_others_hang_on_is_never_renamed() -> None:
    fallen = ran(0, PLAIN, speculative_algorithm="NGRAM")
    drafted = of(speculative_algorithm="NGRAM", speculative_num_draft_tokens=4)
    assert named(drafted, fallen) == drafted


class Overriding(Host):
    """A host on which the custom all-reduce is off, whatever a server is asked for."""

    def trial(self, number: int, step: Step) -> TrialResult:
        made = super().trial(number, step)
        return replace(made, effective={**step.config, CUSTOM: True})


def sweep(history: list[TrialResult], most: int, *, by_accounts: bool = True) -> list[TrialResult]:
    host, planner = Overriding(hits=0.6), Planner(SPACE, by_accounts=by_accounts)
    while len(history) < most and (step := planner.next(history)) is not None:
        history.append(host.trial(len(history), step))
    return history


def test_a_search_does_not_pay_for_a_second_name() -> None:
    blind, seeing = sweep([], 8, by_accounts=False), sweep([], 8)
    assert any(r.config[CUSTOM] for r in blind)
    assert not any(r.config[CUSTOM] for r in seeing)


def test_a_name_that_must_not_be_started_takes_no_part() -> None:
    def refuses(config: Config) -> str:
        return "closed" if config[PROTO] == "LL" and not config[CUSTOM] else ""

    host, planner = Overriding(hits=0.6), Planner(SPACE, by_accounts=True, refusal=refuses)
    history: list[TrialResult] = []
    for number in range(8):
        step = planner.next(history)
        assert step is not None
        assert not refuses(step.config)
        history.append(host.trial(number, step))


def test_starts_under_two_names_are_starts_of_one() -> None:
    drafted = of(speculative_algorithm="NGRAM", speculative_num_draft_tokens=4,
                 speculative_ngram_max_bfs_breadth=1)  # fmt: skip
    host = Overriding(hits=0.6)
    history = [
        host.trial(number, Step(config, Purpose.SEARCH, ""))
        for number, config in enumerate(
            [PLAIN, drafted, Config.of({**drafted, CUSTOM: True}), of(**{CUSTOM: True})]
        )
    ]
    planner = Planner(SPACE, by_accounts=True)
    claim = planner.claim(history)
    assert claim is not None
    assert claim.recommendation in (PLAIN, drafted)
    view = planner._view(history, ())
    counts = {config: len(v.starts) for config, v in view.evidence.variants.items()}
    assert counts == {PLAIN: 2, drafted: 2}
    apart = Planner(SPACE)._view(history, ()).evidence
    assert apart.launch_variance != view.evidence.launch_variance
    sweep(history, 8)
    assert not any(r.config[CUSTOM] for r in history[4:])


@pytest.mark.parametrize("cut", [3, 7, 12])
def test_a_resumed_search_names_as_the_first_did(cut: int) -> None:
    host = Overriding(hits=0.6)
    history: list[TrialResult] = []
    steps: list[Step] = []
    planner = Planner(SPACE, by_accounts=True)
    for number in range(cut + 1):
        step = planner.next(history)
        assert step is not None
        steps.append(step)
        history.append(host.trial(number, step))
    assert Planner(SPACE, by_accounts=True).next(history[:cut]) == steps[cut]
