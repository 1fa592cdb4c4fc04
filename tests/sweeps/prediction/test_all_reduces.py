"""All-reduces that were timed alone: what they say of steps that were never started."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from sweeps.config import Config
from sweeps.prediction.all_reduces import NOT_TIMED, AllReduces, changes_of
from sweeps.prediction.attribution import attribute
from sweeps.prediction.cost_fit import OF_REDUCED, CostFit, growth
from sweeps.prediction.observations import Observation, Work
from sweeps.screening import STEP_TOKENS, Reduction, Screened
from sweeps.search.brief import Foresight
from sweeps.search.planner import Planner
from sweeps.search.steps import Purpose
from sweeps.values import Value
from tests.sweeps.search.host import IPC, PROTO, SPACE, Host, canonical

DEFAULT: Mapping[str, Value] = {"NCCL_PROTO": None, "NCCL_ALGO": None, "NCCL_MAX_NCHANNELS": None}
LL, TREE, NARROW = ("NCCL_PROTO", "LL"), ("NCCL_ALGO", "Tree"), ("NCCL_MAX_NCHANNELS", 2)
HUNG = ("NCCL_PROTO", "Simple")
PER_STEP, SPREAD = 122, 0.01


def reduce_us(tokens: float, *changes: tuple[str, Value]) -> float:
    """Say how long an all-reduce takes on a made-up host: LL is fast while messages are short."""
    if LL in changes:
        base = 30.0 + 3.0 * tokens
    else:
        base = 55.0 + 1.5 * tokens + (40.0 if tokens > 2 else 0.0)
    return base * (0.8 if TREE in changes else 1.0)


def timed(*changes: tuple[str, Value], trouble: str = "") -> Screened:
    sizes = [(14336 * tokens, reduce_us(tokens, *changes)) for tokens in STEP_TOKENS]
    rows = () if trouble else tuple(Reduction(size, us, us, us, 1) for size, us in sizes)
    return Screened(Config.of({**DEFAULT, **dict(changes)}), rows, trouble)


ALL = AllReduces((timed(), timed(LL), timed(TREE), timed(HUNG, trouble="hung"), timed(LL, TREE)))


def units(tokens: float, *changes: tuple[str, Value], known: AllReduces = ALL) -> float:
    return known.units(frozenset(changes), tokens)


def test_times_are_told_in_those_of_one_token_with_all_defaults() -> None:
    one = reduce_us(1)
    assert units(1) == pytest.approx(1.0)
    assert units(8, LL) == pytest.approx(reduce_us(8, LL) / one)
    between = units(12, LL)
    assert units(8, LL) < between < units(16, LL)
    assert units(64) == pytest.approx(2 * units(32))
    assert NOT_TIMED.units(frozenset(), 4) == 0.0


def test_settings_that_were_not_timed_together_multiply_and_unknown_ones_do_nothing() -> None:
    apart = AllReduces(ALL.screened[:3])
    alone = units(4, LL) * units(4, TREE) / units(4)
    assert units(4, LL, TREE, known=apart) == pytest.approx(alone)
    assert not apart.knows(frozenset([LL, TREE]))
    idle = AllReduces((timed(), timed(LL), timed(NARROW)))
    assert idle.knows(frozenset([LL, NARROW]))
    assert apart.knows_each(frozenset([LL, TREE]))
    assert ALL.knows(frozenset([LL, TREE]))
    assert units(4, LL, NARROW) == units(4, LL)
    assert not ALL.knows_each(frozenset([LL, NARROW]))


def test_changes_that_may_be_chance_do_not_add_up() -> None:
    rows = tuple(
        Reduction(r.size_bytes, 0.96 * r.median_us, 1.0, 1.0, 1) for r in timed().reductions
    )
    known = AllReduces((timed(), Screened(timed(TREE).setting, rows)))
    assert 0.99 < units(1, TREE, known=known) < 1.0
    assert units(1, LL) == pytest.approx(reduce_us(1, LL) / reduce_us(1))


def test_what_hung_is_not_known_and_without_the_defaults_nothing_is() -> None:
    assert not ALL.knows(frozenset([HUNG]))
    assert not AllReduces((timed(trouble="hung"), timed(LL))).were_timed


def test_only_communication_counts_and_not_what_is_known_to_do_nothing() -> None:
    told = {**DEFAULT, "NCCL_PROTO": "LL", "speculative_num_draft_tokens": 4, "page_size": 2}
    assert changes_of(told, DEFAULT) == frozenset([LL])
    assert changes_of(told, DEFAULT, frozenset(["NCCL_PROTO"])) == frozenset()


def step_ms(width: int, *changes: tuple[str, Value]) -> float:
    rest = 6.0 + (width > 1) * 1.7 + 5.0 * growth(width) + 0.05 * (width - 1)
    return rest + PER_STEP * reduce_us(width, *changes) / 1000


def work(width: int, *changes: tuple[str, Value]) -> Work:
    serving = Config.of({**DEFAULT, **dict(changes)})
    return Work("NGRAM" if width > 1 else None, width, serving)


def fitted(known: AllReduces, seed: int, widths: Sequence[int] = (1, 2, 4, 16)) -> CostFit:
    rng = np.random.default_rng(seed)
    seen = [
        Observation(work(w), step_ms(w) * math.exp(rng.normal(0, SPREAD)), SPREAD) for w in widths
    ]
    curves = (work(1, LL).serving,)
    return CostFit(seen, Config.of(DEFAULT), seen[0].cycle_ms, curves, all_reduces=known)


def test_steps_under_settings_that_no_server_had_are_told_by_their_all_reduces() -> None:
    errors, covered, sharper = [], [], []
    for seed in range(6):
        known, unknown = fitted(ALL, seed), fitted(NOT_TIMED, seed)
        for width in (1, 3, 4, 8, 16):
            for changes in ((LL,), (TREE,), (LL, TREE)):
                asked, true = work(width, *changes), step_ms(width, *changes)
                found, blind = known.cycle_ms(asked), unknown.cycle_ms(asked)
                errors.append(abs(found.value / true - 1))
                covered.append((found.low or 0) <= true <= (found.high or 0))
                sharper.append((blind.high or 0) - (blind.low or 0) > found.high - found.low)  # type: ignore[operator] # ends of draws
    assert np.median(errors) < 0.03
    assert np.quantile(errors, 0.95) < 0.08
    assert np.mean(covered) > 0.85
    assert np.mean(sharper) > 0.6


def test_how_much_of_a_verify_is_communication_is_told_with_its_interval() -> None:
    known = fitted(ALL, 1)
    told = attribute(known, "NGRAM", [known.default])
    assert told.timed
    assert told.communication is not None
    true = PER_STEP * reduce_us(8) / 1000 / step_ms(8)
    assert (told.communication.low or 0) < true < (told.communication.high or 0)
    assert OF_REDUCED in told.odds
    assert OF_REDUCED not in attribute(fitted(NOT_TIMED, 1), "NGRAM", []).odds


def test_the_planner_goes_where_all_reduces_are_fast_and_asks_no_contrast() -> None:
    host = Host(hits=0.2, ipc_ms=5.0)
    default = {name: SPACE.plain()[name] for name in (IPC, PROTO, "NCCL_ALGO")}

    def screened(factor: float, **changes: Value) -> Screened:
        rows = tuple(Reduction(t, factor * t, factor * t, factor * t, 1) for t in STEP_TOKENS)
        return Screened(Config.of({**default, **changes}), rows)

    known = AllReduces((screened(1.0), screened(0.3, **{IPC: "1"}), screened(1.1, **{PROTO: "LL"})))
    planner = Planner(SPACE, canonical=canonical, foresight=Foresight(all_reduces=known))
    first = planner.next([])
    assert first is not None
    history = [host.trial(0, first)]
    purposes = []
    while len(history) < 6 and (step := planner.next(history)) is not None:
        purposes.append(step.purpose)
        if len(history) == 1:
            assert step.config[IPC] == "1"
        history.append(host.trial(len(history), step))
    assert Purpose.CONTRAST not in purposes
    assert Purpose.SEARCH in purposes
