"""Neighbours of a draft, and what a planner says of one start."""

import math
from itertools import pairwise

import pytest

from sweeps.axes import Choice, IntRange
from sweeps.config import Config
from sweeps.search.beliefs import (
    MOST_UNPOOLED_DRAFTS,
    MOST_UNPOOLED_SERVINGS,
    TRIAL_ACCEPT_VARIANCE,
    TRIAL_CYCLE_VARIANCE,
    Models,
)
from sweeps.search.brief import never, same
from sweeps.search.encoding import Encoder
from sweeps.search.evidence import gather
from sweeps.search.looks import Foretold
from sweeps.search.planner import Planner
from sweeps.search.pool import PoolMaker
from sweeps.search.roles import serving_of, width_of
from sweeps.search.step_times import MOST_CURVES, bold_settings
from sweeps.search.steps import Purpose, Step
from sweeps.space import Space
from sweeps.values import Value
from tests.sweeps.search.host import (
    BREADTH,
    IPC,
    NGRAM,
    PROTO,
    SPACE,
    WIDTH,
    Host,
    canonical,
    drive,
)

PLAIN = dict(SPACE.plain())


def draft(width: int, breadth: int = 1, name: str = PROTO, value: Value = None) -> Config:
    return Config.of({**PLAIN, **NGRAM, WIDTH: width, BREADTH: breadth, name: value})


@pytest.mark.parametrize(
    ("width", "beside"), [(2, {3}), (3, {2, 4}), (8, {7, 9}), (31, {30, 32}), (32, {31})]
)
def test_a_draft_has_one_narrower_and_one_wider(width: int, beside: set[int]) -> None:
    maker = PoolMaker(SPACE, canonical, never, 0)
    found = list(maker.narrower_and_wider(draft(width)))
    assert {width_of(one) for one in found} == beside
    assert all(one[BREADTH] == 1 for one in found)


def test_neighbours_in_a_pool_take_one_step_along_one_axis() -> None:
    match = Choice("speculative_ngram_match_type", ["BFS", "PROB", "OTHER"], NGRAM)
    space = Space(
        (Choice("speculative_algorithm", [None, "NGRAM"]), IntRange(WIDTH, 2, 2000, NGRAM),
         IntRange(BREADTH, 1, 500, NGRAM), match)
    )  # fmt: skip
    maker = PoolMaker(space, same, never, 0)
    leader = Config.of({**NGRAM, WIDTH: 777, BREADTH: 333, match.name: "PROB"})
    drafts = set(maker.pool([leader], leader).drafts)
    for changed in ({WIDTH: 776}, {WIDTH: 778}, {BREADTH: 332}, {BREADTH: 334},
                    {match.name: "BFS"}, {match.name: "OTHER"}):  # fmt: skip
        assert Config.of({**leader, **changed}) in drafts
    for changed in ({WIDTH: 775}, {WIDTH: 779}, {BREADTH: 331}, {WIDTH: 776, BREADTH: 332}):
        assert Config.of({**leader, **changed}) not in drafts
    widths = sorted({width_of(one) for one in drafts})
    assert widths[-1] == 2000
    assert max(wider / width for width, wider in pairwise(widths)) < 3, "no wide gap"


def test_an_axis_of_few_values_keeps_them_all() -> None:
    for last, is_whole in ((15, True), (40, False)):
        space = Space(
            (Choice("speculative_algorithm", [None, "NGRAM"]), IntRange(WIDTH, 2, last, NGRAM))
        )
        maker = PoolMaker(space, same, never, 0)
        plain = Config.of({"speculative_algorithm": None})
        widths = {width_of(one) for one in maker.pool([], plain).drafts if not one.is_plain}
        assert (widths == set(range(2, last + 1))) is is_whole
        assert {2, 3, 4, 5, 6, 7, 8, last} <= widths


def test_what_is_foretold_of_a_start_holds_its_own_luck() -> None:
    planner = Planner(SPACE, canonical=canonical)
    history, _ = drive(planner, Host(hits=0.4), most=7)
    evidence = gather(history, canonical, "decode_tok_s")
    models = Models.fit(Encoder(SPACE), evidence)
    launch = evidence.launch_variance
    for config in (canonical(SPACE.plain()), canonical(draft(6))):
        told = Foretold.by(models, config, launch)
        cycle, accept = models.cycle.at([config]), models.accepts([config])
        luck = TRIAL_ACCEPT_VARIANCE if not config.is_plain else 0.0
        of_cycle = float(cycle.variance[0]) + launch + TRIAL_CYCLE_VARIANCE
        of_accept = float(accept.variance[0]) + luck
        assert told.cycle_ms.value == pytest.approx(1000 * math.exp(cycle.mean[0]))
        assert told.accept.value == pytest.approx(math.exp(accept.mean[0]))
        assert told.tok_s.value == pytest.approx(told.accept.value / told.cycle_ms.value * 1000)
        for interval, variance in ((told.cycle_ms, of_cycle), (told.accept, of_accept),
                                   (told.tok_s, of_cycle + of_accept)):  # fmt: skip
            half = 1.96 * math.sqrt(variance)
            assert interval.high is not None
            assert math.log(interval.high / interval.value) == pytest.approx(half, rel=1e-3)
    bound = planner.accept_bound(history, draft(6))
    belief = models.accepts([draft(6)])
    wanted = math.exp(belief.mean[0] + 1.96 * math.sqrt(belief.variance[0]))
    assert bound == pytest.approx(wanted, rel=1e-6)


def test_bold_settings_are_listed_with_each_other_up_to_a_number() -> None:
    found = bold_settings(Encoder(SPACE), serving_of(SPACE.plain()))
    assert len(found) == len(set(found)) == 2 * 3
    assert {(c[IPC], c[PROTO]) for c in found} == {
        (ipc, proto) for ipc in (None, "1") for proto in (None, "LL", "Simple")
    }
    many = Space((*SPACE.axes, Choice("X_ALLREDUCE", [None, "1", "2"])))
    assert len(bold_settings(Encoder(many), serving_of(many.plain()))) == MOST_CURVES


@pytest.mark.parametrize("broken", [False, True], ids=["pooled", "unpooled"])
def test_an_outlook_holds_what_is_believed_of_each_pair(broken: bool) -> None:
    factor = (lambda c: 0.8 if c[PROTO] == "LL" else 1.0) if broken else (lambda c: 1.0)
    host = Host(accept_factor=factor)
    asked = [draft(n, 1, PROTO, p) for n in (3, 4, 6) for p in (None, "LL")]
    history = [host.trial(n, Step(c, Purpose.SEARCH, "")) for n, c in enumerate(asked)]
    models = Models.fit(Encoder(SPACE), gather(history, canonical, "decode_tok_s"))
    assert models.unpooled is broken
    maker = PoolMaker(SPACE, canonical, never, 0)
    pool = maker.pool(asked, asked[0])
    outlook = models.over(pool)
    cut = (MOST_UNPOOLED_DRAFTS, MOST_UNPOOLED_SERVINGS) if broken else (None, None)
    assert tuple(outlook.drafts) == pool.drafts[: cut[0]]
    assert tuple(outlook.servings) == pool.servings[: cut[1]]
    assert outlook.mean.shape == (len(outlook.drafts), len(outlook.servings))
    for row, column in ((0, 0), (1, 2), (5, 1), (9, 3)):
        config = Config.of({**outlook.drafts[row], **outlook.servings[column]})
        mean, covariance = models.joint([config])
        assert outlook.mean[row, column] == pytest.approx(mean[0], abs=1e-9)
        assert outlook.variance[row, column] == pytest.approx(covariance[0, 0], rel=1e-3, abs=1e-9)
