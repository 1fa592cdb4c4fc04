"""What is believed before anything is measured, by its formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sweeps.axes import Choice
from sweeps.config import Config
from sweeps.search import accepts as accept_model
from sweeps.search import cycles as cycle_model
from sweeps.search.accepts import CHANCE_MEANS, CHANCES, AcceptPrior
from sweeps.search.beliefs import SCALES
from sweeps.search.cycles import GROWTH_WIDTHS, LEVEL, VERIFY_OFFSET, CyclePrior
from sweeps.search.encoding import Encoder
from sweeps.search.gaussian import Floats, Points
from sweeps.search.roles import cost_of, trait_of
from sweeps.space import Space
from sweeps.values import Value
from tests.sweeps.search.host import BREADTH, IPC, NGRAM, PROTO, SPACE, WIDTH

PLAIN = dict(SPACE.plain())
ENCODER = Encoder(SPACE)


def ngram(width: int, breadth: int = 1, /, **more: Value) -> Config:
    return Config.of({**PLAIN, **NGRAM, WIDTH: width, BREADTH: breadth, **more})


def plain(**more: Value) -> Config:
    return Config.of({**PLAIN, **more})


def covariance(prior: CyclePrior | AcceptPrior, points: Points) -> Floats:
    return prior.kernel(points.down, points.along)


MANY = [plain(), plain(**{PROTO: "LL"}), plain(**{IPC: "1"}), plain(NCCL_ALGO="Ring"),
        *(ngram(w, b) for w, b in ((2, 1), (4, 2), (8, 1), (8, 8), (32, 4))),
        ngram(8, 1, **{PROTO: "LL"}),
        ngram(8, 1, **{PROTO: "Simple"}, NCCL_ALGO="Tree")]  # fmt: skip


@pytest.mark.parametrize("prior", [CyclePrior(ENCODER), AcceptPrior(ENCODER),
                                   AcceptPrior(ENCODER, unpooled=True)])  # fmt: skip
def test_a_prior_is_a_covariance(prior: CyclePrior | AcceptPrior) -> None:
    points = (ENCODER.cycles if isinstance(prior, CyclePrior) else ENCODER.accepts)(MANY)
    found = covariance(prior, points)
    assert np.allclose(found, found.T)
    assert np.linalg.eigvalsh(found).min() > -1e-9
    assert np.allclose(np.diag(found), prior.kernel(points, points))


def test_a_step_is_expected_to_cost_its_width_and_what_was_changed() -> None:
    prior = CyclePrior(ENCODER, level=2.0)
    configs = [plain(), ngram(4), ngram(32), plain(**{PROTO: "Simple"}),
               ngram(4, NCCL_ALGO="Ring")]  # fmt: skip
    width = GROWTH_WIDTHS[0]

    def grown(tokens: int) -> float:
        return VERIFY_OFFSET + math.log((1 + tokens / width) / (1 + 1 / width))

    wanted = [2.0, 2.0 + grown(4), 2.0 + grown(32), 2.0 + cost_of(PROTO, "Simple"),
              2.0 + grown(4) + cost_of("NCCL_ALGO", "Ring")]  # fmt: skip
    assert np.allclose(prior.mean(ENCODER.cycles(configs)), wanted)
    unknown = CyclePrior(ENCODER).mean(ENCODER.cycles(configs))
    assert np.allclose(unknown, np.array(wanted) - 2.0), "no level is told"


def test_plain_steps_share_their_level_and_the_settings_that_they_share() -> None:
    prior = CyclePrior(ENCODER)
    points = ENCODER.cycles([plain(), plain(**{PROTO: "LL"}), plain(**{PROTO: "Simple"}),
                             plain(NCCL_ALGO="Ring"), ngram(4)])  # fmt: skip
    found = covariance(prior, points)
    bold, small = trait_of(PROTO).spread ** 2, trait_of("NCCL_ALGO").spread ** 2
    assert found[0, 0] == pytest.approx(LEVEL**2)
    assert found[1, 1] == pytest.approx(LEVEL**2 + bold)
    assert found[1, 2] == found[0, 1] == pytest.approx(LEVEL**2), "LL says nothing of Simple"
    assert found[3, 3] == pytest.approx(LEVEL**2 + small)
    assert found[0, 4] == pytest.approx(LEVEL**2), "plain decode says nothing of speculation"
    scaled = covariance(replace(prior, scale=3.0), points)
    assert scaled[3, 3] == pytest.approx(LEVEL**2 + 9 * small)
    assert scaled[1, 1] == found[1, 1], "bold settings are wide already"
    inert = covariance(replace(prior, inert=frozenset({PROTO})), points)
    assert inert[1, 1] == pytest.approx(LEVEL**2 + cycle_model.INERT_SCALE**2 * bold)


def test_a_setting_does_more_with_speculation_and_at_near_widths_alike() -> None:
    prior = CyclePrior(ENCODER)
    drafts = [ngram(4), ngram(4, **{PROTO: "LL"}), ngram(8, **{PROTO: "LL"}),
              ngram(4, NCCL_ALGO="Ring"), ngram(4, **{PROTO: "LL"}, NCCL_ALGO="Ring")]  # fmt: skip
    found = covariance(prior, ENCODER.cycles(drafts))
    bare, bold, small = found[0, 0], trait_of(PROTO).spread ** 2, trait_of("NCCL_ALGO").spread ** 2
    wide, cliff = cycle_model.WIDE_SHARE**2, cycle_model.CLIFF_SHARE**2
    assert found[1, 1] - bare == pytest.approx(bold * (1 + wide + cliff))
    assert found[3, 3] - bare == pytest.approx(small * (1 + wide))
    pair = (bold + small) * (1 + wide) + bold * cliff + cycle_model.PAIR_SHARE * bold * small
    assert found[4, 4] - bare == pytest.approx(pair)
    near = math.exp(-0.5 * (1 / cycle_model.CLIFF_LENGTH) ** 2)
    across = covariance(prior, ENCODER.cycles([ngram(4), ngram(8)]))[0, 1]
    assert found[1, 2] - across == pytest.approx(bold * (1 + wide + cliff * near))
    # Of one algorithm at one width: offset, bend, drafter, and growth at two scales.
    growths = [math.log((1 + 4 / w) / (1 + 1 / w)) for w in GROWTH_WIDTHS]
    spreads = [cycle_model.OFFSET_SPREAD, cycle_model.BEND_SPREAD, cycle_model.DRAFTER_SPREAD]
    spreads += [s * g for s, g in zip(cycle_model.GROWTH_SPREADS, growths, strict=True)]
    assert bare == pytest.approx(LEVEL**2 + sum(spread**2 for spread in spreads))


def test_an_accept_length_is_expected_to_be_a_mixture_of_chains() -> None:
    prior = AcceptPrior(ENCODER)
    points = ENCODER.accepts([plain(), ngram(2), ngram(16), ngram(16, 8)])
    mean = prior.mean(points)

    def chains(tokens: int) -> float:
        lengths = [math.log((1 - p**tokens) / (1 - p)) for p in CHANCES]
        return sum(m * length for m, length in zip(CHANCE_MEANS, lengths, strict=True))

    assert mean[0] == 0.0
    assert mean[1] == pytest.approx(chains(2))
    assert mean[2] == pytest.approx(chains(16))
    room = min(max(math.log2(16) - 1, 0.05), 3) / 3
    assert mean[3] == pytest.approx(chains(16) + 0.04 * room), "more breadth can only add"
    assert covariance(prior, points)[0].tolist() == [0.0] * 4, "plain decode is certain"


def test_shapes_of_drafts_differ_by_their_place_and_name() -> None:
    prior = AcceptPrior(ENCODER)
    found = covariance(prior, ENCODER.accepts([ngram(8, 1), ngram(8, 8), ngram(4, 1)]))
    ordered = accept_model.ORDERED_SPREAD**2
    room = (math.log2(8) - 1) / 3
    apart = math.exp(-0.5 * (1.0 / accept_model.ORDERED_LENGTH) ** 2)
    assert found[0, 0] - found[0, 1] == pytest.approx(ordered * room * (1 - apart))
    chains = {w: [math.log((1 - p**w) / (1 - p)) for p in CHANCES] for w in (4, 8)}
    bend = math.exp(-0.5 * (1.0 / accept_model.BEND_LENGTH) ** 2)
    shared = accept_model.SHARED + (1 - accept_model.SHARED) * bend
    narrow = max((math.log2(4) - 1) / 3, 0.05 / 3)
    wanted = (
        sum(s**2 * a * b for s, a, b in zip(accept_model.CHANCE_SPREADS, chains[8], chains[4],
                                            strict=True))
        + accept_model.BEND_SPREAD**2 * bend + shared * ordered * math.sqrt(room * narrow)
    )  # fmt: skip
    assert found[0, 2] == pytest.approx(wanted)


def test_unlike_settings_share_no_accept_length_once_it_was_seen_to_differ() -> None:
    points = ENCODER.accepts([ngram(8), ngram(8, **{PROTO: "LL"}), ngram(8, **{PROTO: "Simple"})])
    pooled = covariance(AcceptPrior(ENCODER), points)
    apart = covariance(AcceptPrior(ENCODER, unpooled=True), points)
    assert np.allclose(pooled, pooled[0, 0])
    own = accept_model.UNPOOLED_SPREAD**2
    assert np.allclose(apart - pooled, np.diag([0.0, own, own]))


def test_named_shapes_are_alike_only_where_they_are_the_same() -> None:
    axes = [axis for axis in SPACE.axes if axis.name != BREADTH]
    match = Choice("speculative_ngram_match_type", ["BFS", "PROB", "OTHER"], NGRAM)
    encoder = Encoder(Space((*axes, match)))
    prior = AcceptPrior(encoder)
    drafts = [Config.of({**PLAIN, **NGRAM, WIDTH: 8, match.name: v}) for v in match.values]
    found = covariance(prior, encoder.accepts(drafts))
    own = accept_model.NAMED_SPREAD**2 * (math.log2(8) - 1) / 3
    assert np.allclose(found - found[0, 1], own * np.eye(3))


def test_what_is_believed_is_modest() -> None:
    """No spread is nothing, none is half of all, and what shapes do is less than how much."""
    spreads = (*accept_model.CHANCE_SPREADS, accept_model.BEND_SPREAD, accept_model.ORDERED_SPREAD,
               accept_model.NAMED_SPREAD, accept_model.KNOWN_SPREAD, accept_model.UNPOOLED_SPREAD,
               cycle_model.OFFSET_SPREAD, cycle_model.DRAFTER_SPREAD, cycle_model.BEND_SPREAD,
               *cycle_model.GROWTH_SPREADS)  # fmt: skip
    assert all(0.001 < spread <= 0.3 for spread in spreads)
    assert min(accept_model.CHANCE_SPREADS) > accept_model.NAMED_SPREAD
    assert all(0.0 <= mean <= 0.3 for mean in CHANCE_MEANS)
    assert sum(CHANCE_MEANS) < 1
    assert all(0.1 < scale < 5 and 0 <= doubt <= 1 for scale, doubt in SCALES)
    assert all(0 < p < 1 for p in CHANCES)
