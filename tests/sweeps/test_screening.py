"""Which settings a screening asks for, how it ranks them, and what it blames."""

import math

from sweeps import Choice, IntRange, Rule, ref, switch
from sweeps.config import Config
from sweeps.screening import (
    Reduction,
    Screened,
    blamed,
    communication_of,
    is_screened,
    known_alike,
    next_setting,
    ranked,
)
from sweeps.space import Space

SPACE = Space(
    (
        Choice("speculative_algorithm", [None, "NGRAM"]),
        IntRange("speculative_num_draft_tokens", 2, 8, {"speculative_algorithm": "NGRAM"}),
        switch("disable_custom_all_reduce"),
        Choice("NCCL_PROTO", [None, "LL", "Simple"]),
        Choice("NCCL_MIN_NCHANNELS", [None, 4]),
        Choice("NCCL_MAX_NCHANNELS", [None, 2]),
    ),
    (Rule(ref("NCCL_MIN_NCHANNELS") <= ref("NCCL_MAX_NCHANNELS"), "minimum above maximum"),),
)
DEFAULT = communication_of(SPACE.plain())


def timed(factor: float, **changes: object) -> Screened:
    setting = Config.of({**DEFAULT, **changes})  # type: ignore[dict-item]
    reductions = tuple(
        Reduction(size, size * factor, size * factor, size * factor, 40) for size in (100, 1000)
    )
    return Screened(setting, reductions)


def walk(truth: dict[str, float], *, emulated: bool = False) -> list[Screened]:
    """Screen a host on which each changed value multiplies the time."""
    done: list[Screened] = []
    while (setting := next_setting(SPACE, done, emulated=emulated)) is not None:
        changed = {n: v for n, v in setting.items() if v != DEFAULT[n]}
        factor = math.prod(truth.get(f"{n}={v}", 1.0) for n, v in changed.items())
        done.append(timed(factor, **changed))
    return done


def test_what_acts_like_a_setting_that_was_timed_is_known_by_it() -> None:
    done = walk({"NCCL_PROTO=LL": 0.5})[:3]
    as_ll = Config.of({**DEFAULT, "NCCL_PROTO": "LL", "disable_custom_all_reduce": True})

    def canonical(config: Config) -> Config:
        return Config.of({**config, "disable_custom_all_reduce": False})

    found = known_alike(SPACE, done, as_ll, canonical)
    assert found is not None
    assert found.setting == as_ll
    assert found.reductions == done[1].reductions
    other = Config.of({**DEFAULT, "NCCL_MAX_NCHANNELS": 2})
    assert known_alike(SPACE, done[:2], other, canonical) is None
    assert known_alike(SPACE, done, as_ll, lambda config: config) is None


def test_defaults_come_first_then_single_changes_then_those_that_helped_together() -> None:
    done = walk({"NCCL_PROTO=LL": 0.8, "NCCL_MAX_NCHANNELS=2": 0.9, "NCCL_PROTO=Simple": 1.3})
    changes = [{n: v for n, v in one.setting.items() if v != DEFAULT[n]} for one in done]
    assert changes[0] == {}
    assert changes[1:5] == [
        {"NCCL_PROTO": "LL"},
        {"NCCL_PROTO": "Simple"},
        {"NCCL_MIN_NCHANNELS": 4},
        {"NCCL_MAX_NCHANNELS": 2},
    ]
    assert changes[5:] == [{"NCCL_PROTO": "LL", "NCCL_MAX_NCHANNELS": 2}]
    best = ranked(done)[0]
    assert best.screened is done[5]
    assert math.isclose(best.ratio, 0.72)


def test_nothing_is_combined_that_did_not_help_or_breaks_a_rule() -> None:
    assert len(walk({})) == 5
    done = walk({"NCCL_MIN_NCHANNELS=4": 0.8, "NCCL_MAX_NCHANNELS=2": 0.9})
    assert len(done) == 5, "both together break a rule"


def test_axes_that_the_program_does_not_know_are_left_alone() -> None:
    assert not is_screened("disable_custom_all_reduce", emulated=False)
    assert is_screened("disable_custom_all_reduce", emulated=True)
    assert not is_screened("speculative_num_draft_tokens", emulated=True)
    assert all(one.setting["disable_custom_all_reduce"] is False for one in walk({}))
    assert any(one.setting["disable_custom_all_reduce"] for one in walk({}, emulated=True))


def test_a_change_that_hangs_alone_is_blamed_wherever_it_is() -> None:
    hung = Screened(Config.of({**DEFAULT, "NCCL_PROTO": "Simple"}), (), "hung: no answer")
    done = [timed(1.0), hung]
    assert ranked(done)[-1].ratio == math.inf
    assert blamed(done, {**SPACE.plain(), "NCCL_PROTO": "Simple", "NCCL_MIN_NCHANNELS": 4})
    assert not blamed(done, SPACE.plain())
    assert not blamed([], SPACE.plain())


def test_defaults_that_hang_end_the_screening_and_blame_nothing() -> None:
    hung = [Screened(DEFAULT, (), "hung: no answer")]
    assert next_setting(SPACE, hung) is None
    assert not blamed(hung, SPACE.plain())


def test_what_is_written_is_read_back() -> None:
    for one in (timed(0.5, NCCL_PROTO="LL"), Screened(DEFAULT, (), "failed with 1: error")):
        assert Screened.from_data(one.as_data()) == one
