"""Configurations as rows, standings as numbers, and Gaussian beliefs by the textbook."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from sweeps.axes import Choice, FloatRange, IntRange
from sweeps.config import Config
from sweeps.search.encoding import Encoder, is_ordered, place, values_of
from sweeps.search.gaussian import Floats, Points, condition
from sweeps.search.roles import (
    TRAITS,
    cost_of,
    drafting_of,
    role_of,
    serving_of,
    trait_of,
    width_of,
)
from sweeps.search.standings import CAUTION, Standings, changes
from sweeps.space import Space
from sweeps.values import Value
from tests.sweeps.makers import ngram, plain
from tests.sweeps.search.host import BREADTH, IPC, NGRAM, PROTO, SPACE, WIDTH

PLAIN = dict(SPACE.plain())


def test_an_ordered_value_stands_between_the_ends_of_its_axis() -> None:
    by_ratio = IntRange("n", 2, 32)
    assert [place(by_ratio, v) for v in (2, 8, 32)] == pytest.approx([0.0, 0.5, 1.0])
    from_zero = IntRange("n", 0, 10)
    assert [place(from_zero, v) for v in (0, 3, 10)] == pytest.approx([0.0, 0.3, 1.0])
    below_zero = Choice("n", [-10, 0, 30])
    assert [place(below_zero, v) for v in (-10, 0, 30)] == pytest.approx([0.0, 0.25, 1.0])
    assert place(Choice("n", [5]), 5) == 0.0
    assert place(by_ratio, "x") == place(by_ratio, None) == 0.0


def test_a_continuous_axis_is_covered_evenly() -> None:
    assert values_of(FloatRange("x", 0.0, 7.0)) == pytest.approx(tuple(range(8)))
    assert values_of(FloatRange("x", 1.0, 128.0, log=True)) == pytest.approx(
        [2.0**n for n in range(8)]
    )
    assert values_of(FloatRange("x", 0.0, 1.0), most=3) == pytest.approx((0.0, 0.5, 1.0))
    assert values_of(Choice("x", [3, None, 1])) == (3, None, 1)
    assert is_ordered(IntRange("x", 1, 3))
    assert not is_ordered(Choice("x", [1, None]))
    assert not is_ordered(Choice("x", [True, False]))


def test_rows_hold_the_default_as_zero_and_near_values_of_a_range_alike() -> None:
    space = Space(
        (
            Choice("speculative_algorithm", [None, "NGRAM", "EAGLE3"]),
            IntRange(WIDTH, 2, 32, NGRAM),
            Choice("speculative_ngram_match_type", ["BFS", "PROB"], NGRAM),
            IntRange(BREADTH, 1, 16, NGRAM),
            FloatRange("mem_fraction_static", 0.1, 0.8),
            Choice(PROTO, [None, "LL", "Simple"]),
        )
    )
    encoder = Encoder(space)
    assert [a.name for a in encoder.serving_axes] == ["mem_fraction_static", PROTO]
    assert [a.name for a in encoder.shape_axes] == ["speculative_ngram_match_type", BREADTH]
    configs: list[dict[str, Value]] = [
        {"speculative_algorithm": None, PROTO: "LL"},
        {**NGRAM, WIDTH: 8, BREADTH: 4, "speculative_ngram_match_type": "PROB", PROTO: "Simple"},
        {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 3,
         "mem_fraction_static": 0.32},
    ]  # fmt: skip
    rows = encoder.cycles(configs)
    assert rows.codes[:, 0].tolist() == [0, 1, 2]
    assert rows.codes[:, 2].tolist() == [2, 3, 0]
    assert rows.codes[2, 1] == 1 + 2, "0.3 is the value that is next to 0.32"
    assert rows.numbers[:, 0].tolist() == [0.0, 3.0, 2.0]
    shapes = encoder.accepts(configs)
    assert shapes.codes.shape == (3, 1 + 2 + 1)
    assert shapes.codes[:, 3].tolist() == [0, 2, 0]
    assert shapes.numbers[:, 0].tolist() == [1.0, 8.0, 4.0]
    assert shapes.numbers[:, 1].tolist() == pytest.approx([0.0, 0.5, 0.0])
    assert shapes.numbers[0, 2:].tolist() == [0.0, 0.002], "plain decode accepts its one token"
    assert np.isnan(shapes.numbers[1:, 2:]).all()
    assert len(encoder.cycles([])) == len(encoder.accepts([])) == 0


@pytest.mark.parametrize(
    ("name", "bold", "replaces"),
    [
        (PROTO, True, False), (IPC, True, True), ("NCCL_ALGO", False, False),
        ("enable_torch_symm_all_reduce", True, True), ("flashinfer_allreduce_fusion", True, True),
        ("disable_custom_all_reduce", False, False), ("page_size", False, False),
        (WIDTH, False, False),
    ],
)  # fmt: skip
def test_traits_say_what_is_tried_before_the_model_asks(
    name: str, bold: bool, replaces: bool
) -> None:
    assert (trait_of(name).bold, trait_of(name).replaces) == (bold, replaces)


def test_no_change_is_expected_to_help_and_none_is_expected_to_ruin() -> None:
    for trait in TRAITS:
        assert 0.0 <= trait.cost <= 0.15
        assert 0.01 < trait.spread <= 0.25
        assert trait.cost < 3 * trait.spread
    assert cost_of(PROTO, "Simple") == 0.15
    assert cost_of(PROTO, "LL") == 0.0
    assert cost_of("NCCL_ALGO", "Ring") == trait_of("NCCL_ALGO").cost > 0


def test_settings_are_parted_into_drafts_and_the_rest_and_widths_are_told() -> None:
    config = Config.of({**ngram(6), BREADTH: 2, PROTO: "LL", "page_size": 16})
    assert dict(drafting_of(config)) == {**NGRAM, WIDTH: 6, BREADTH: 2}
    assert dict(serving_of(config)) == {PROTO: "LL", "page_size": 16}
    assert width_of(plain()) == 1
    assert width_of({**NGRAM}) == 4
    assert width_of({**NGRAM, "speculative_num_steps": 5}) == 6
    assert width_of({**NGRAM, "speculative_num_steps": 5, WIDTH: 3}) == 3
    assert role_of(BREADTH) is role_of("ngram_match_depth")


def test_standings_are_told_by_what_is_likely_reached() -> None:
    configs = [plain(), ngram(2), ngram(3)]
    mean = np.log([100.0, 104.0, 103.0])
    covariance = np.array([[0.0004, 0.0001, 0.0], [0.0001, 0.0100, 0.0], [0.0, 0.0, 0.0001]])
    found = Standings(configs, mean, covariance)
    assert CAUTION == 0.5
    assert found.leader == 2, "104 may be luck: half a deviation of 10 % is taken off"
    assert (found.place(ngram(3)), found.place(ngram(9))) == (2, None)
    ahead, spread = found.ahead(1, 0)
    assert ahead == pytest.approx(math.log(1.04))
    assert spread == pytest.approx(math.sqrt(0.0004 + 0.01 - 0.0002))
    # Half where both are alike; a deviation ahead is 84 %.
    assert found.chance_ahead(1, 0, by=ahead) == pytest.approx(0.5)
    assert found.chance_ahead(1, 0, by=ahead - spread) == pytest.approx(0.8413, abs=1e-4)
    assert found.chance_ahead(1, 0) > 0.5 > found.chance_ahead(0, 1)
    assert found.low(0) == pytest.approx(100.0 * math.exp(-1.64 * 0.02))
    assert found.low(0, 0.0) == pytest.approx(100.0)
    certain = Standings(configs[:2], mean[:2], np.zeros((2, 2)))
    assert certain.ahead(0, 1)[1] > 0
    assert changes(Config.of({**ngram(3), PROTO: None}), plain()) == 2


@dataclass(frozen=True)
class Square:
    """A prior over numbers: mean 1, covariance by the distance."""

    def mean(self, points: Points) -> Floats:
        return np.ones(len(points))

    def kernel(self, a: Points, b: Points) -> Floats:
        apart = a.numbers[..., 0] - b.numbers[..., 0]
        return np.asarray(2.0 * np.exp(-0.5 * apart**2))


def at(*numbers: float) -> Points:
    return Points(np.zeros((len(numbers), 1), dtype=np.int64), np.array(numbers)[:, None])


def test_a_belief_is_the_one_of_the_textbook() -> None:
    known, asked, noise = at(0.0, 1.0, 2.5), at(0.5, 4.0), np.array([0.1, 0.2, 0.3])
    values, prior = np.array([1.5, 0.2, 2.0]), Square()
    kernel = prior.kernel(known.down, known.along) + np.diag(noise)
    across = prior.kernel(known.down, asked.along)
    inverse = np.linalg.inv(kernel)
    belief = condition(prior, known, values, noise)
    found = belief.at(asked)
    assert np.allclose(found.mean, 1 + across.T @ inverse @ (values - 1))
    whole = prior.kernel(asked.down, asked.along) - across.T @ inverse @ across
    assert np.allclose(found.covariance, whole, atol=1e-7)
    assert np.allclose(found.variance, np.diag(whole), atol=1e-7)
    assert np.allclose(found.covariance_with(1), whole[:, 1], atol=1e-7)
    fit = -0.5 * (values - 1) @ inverse @ (values - 1) - 0.5 * math.log(np.linalg.det(kernel))
    assert belief.fit == pytest.approx(fit)
    nothing = condition(prior, at(), np.zeros(0), np.zeros(0))
    assert nothing.fit == 0.0
    assert np.allclose(nothing.at(asked).mean, 1.0)
    assert np.allclose(nothing.at(asked).variance, 2.0)
    assert known.take([2, 0]).numbers[:, 0].tolist() == [2.5, 0.0]


def test_a_variance_that_is_below_zero_by_rounding_is_none() -> None:
    rounded = Standings([plain()], np.log([100.0]), np.array([[-1e-15]]))
    assert rounded.low(0) == pytest.approx(100.0)
    assert rounded.leader == 0
