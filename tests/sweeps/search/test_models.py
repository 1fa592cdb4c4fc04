"""The models under the planner: beliefs, equality of accept lengths, encodings, limits of size."""

import numpy as np
import pytest

from sweeps.config import Config
from sweeps.search.beliefs import MOST_VARIANTS, Models, expected_gain, inert_axes
from sweeps.search.brief import never
from sweeps.search.cycles import CyclePrior
from sweeps.search.encoding import Encoder
from sweeps.search.equality import accepts_differ
from sweeps.search.evidence import Evidence, gather
from sweeps.search.gaussian import condition
from sweeps.search.pool import PoolMaker
from sweeps.search.roles import Role, role_of, width_of
from sweeps.search.standings import stand
from sweeps.search.step_times import SmoothTimes
from sweeps.search.steps import Purpose, Step
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
    every,
)

METRIC = "decode_tok_s"
PLAIN = dict(SPACE.plain())


def measured(host: Host, *configs: dict[str, Value]) -> list[Step]:
    return [Step(Config.of({**PLAIN, **c}), Purpose.SEARCH, "") for c in configs]


def ngram(width: int, breadth: int = 1, **more: Value) -> dict[str, Value]:
    return {**NGRAM, WIDTH: width, BREADTH: breadth, **more}


def at_protocol(width: int, protocol: Value) -> dict[str, Value]:
    return {**ngram(width), PROTO: protocol}


def evidence_of(host: Host, *configs: dict[str, Value]) -> Evidence:
    history = [host.trial(n, step) for n, step in enumerate(measured(host, *configs))]
    return gather(history, canonical, METRIC)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("speculative_num_draft_tokens", Role.DRAFTING),
        ("ngram_match_depth", Role.DRAFTING),
        ("NCCL_BUFFSIZE", Role.COMMUNICATION),
        ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", Role.COMMUNICATION),
        ("disable_custom_all_reduce", Role.COMMUNICATION),
        ("page_size", Role.GENERAL),
    ],
)
def test_names_tell_roles(name: str, role: Role) -> None:
    assert role_of(name) is role


def test_the_width_of_a_verify() -> None:
    assert width_of({"speculative_algorithm": None}) == 1
    assert width_of(ngram(7)) == 7
    assert width_of({"speculative_algorithm": "EAGLE3", "speculative_num_steps": 3}) == 4


def test_a_belief_meets_what_was_measured_and_knows_less_elsewhere() -> None:
    encoder = Encoder(SPACE)
    configs = every()[:40:7]
    points = encoder.cycles(configs)
    values = np.linspace(0.0, 0.3, len(configs))
    belief = condition(CyclePrior(encoder), points, values, np.full(len(configs), 1e-8))
    at = belief.at(points)
    assert np.allclose(at.mean, values, atol=1e-3)
    assert at.variance.max() < 1e-4
    assert np.allclose(np.diag(at.covariance), at.variance, atol=1e-6)
    assert np.allclose(at.covariance[:, 2], at.covariance_with(2), atol=1e-9)
    elsewhere = belief.at(encoder.cycles([Config.of({**PLAIN, **ngram(32), PROTO: "Simple"})]))
    assert elsewhere.variance[0] > 100 * at.variance.max()


def test_all_pairs_are_encoded_as_each_alone() -> None:
    encoder = Encoder(SPACE)
    servings = [Config.of({**PLAIN, PROTO: p}) for p in (None, "LL")]
    together = encoder.cycles_of_all([(0, 1), (1, 4)], servings)
    alone = encoder.cycles([*servings, *(Config.of({**s, **ngram(4)}) for s in servings)])
    assert np.array_equal(together.codes, alone.codes)
    assert np.allclose(together.numbers, alone.numbers)


def test_accept_lengths_are_pooled_until_they_are_seen_to_differ() -> None:
    configs = [at_protocol(n, p) for n in (3, 4, 6) for p in (None, "LL")]
    assert not accepts_differ(evidence_of(Host(), *configs))
    broken = Host(accept_factor=lambda c: 0.85 if c[PROTO] == "LL" else 1.0)
    evidence = evidence_of(broken, *configs)
    assert accepts_differ(evidence)
    models = Models.fit(Encoder(SPACE), evidence)
    mean, _ = models.joint([Config.of({**PLAIN, **at_protocol(5, p)}) for p in (None, "LL")])
    truth = [broken.tok_s(Config.of({**PLAIN, **at_protocol(5, p)})) for p in (None, "LL")]
    assert models.unpooled
    assert np.allclose(mean, np.log(np.array(truth) / 1000) + np.log(1000), atol=0.1)


def test_few_starts_predict_a_neighbour() -> None:
    host = Host(hits=0.5, cliff_ms=0.0)
    models = Models.fit(Encoder(SPACE), evidence_of(host, {}, ngram(4), ngram(8)))
    config = Config.of({**PLAIN, **ngram(6)})
    mean, covariance = models.joint([config])
    assert abs(mean[0] - np.log(host.tok_s(config))) < 3 * np.sqrt(covariance[0, 0]) + 0.01
    assert np.sqrt(covariance[0, 0]) < 0.08


def test_a_replacing_setting_without_effect_is_inert() -> None:
    encoder = Encoder(SPACE)
    useless, useful = Host(noise=0.1), Host(noise=0.1, ipc_ms=3.0)
    assert inert_axes(encoder, evidence_of(useless, {}, {IPC: "1"})) == {IPC}
    assert inert_axes(encoder, evidence_of(useful, {}, {IPC: "1"})) == set()


def test_an_expected_gain_grows_with_doubt_and_with_the_mean() -> None:
    ahead, spread = np.array([-0.02, -0.02, 0.03]), np.array([0.005, 0.05, 1e-12])
    gains = expected_gain(ahead, spread)
    assert 0 <= gains[0] < gains[1]
    assert gains[2] == pytest.approx(0.03)


def test_what_is_fitted_and_ranked_is_bounded() -> None:
    host = Host()
    configs = [{**ngram(n, b), PROTO: p} for n in range(2, 33) for b in (1, 2, 4, 8)
               for p in (None, "LL", "Simple") if b <= n]  # fmt: skip
    evidence = evidence_of(host, {}, *configs)
    assert len(configs) > 2 * MOST_VARIANTS
    models = Models.fit(Encoder(SPACE), evidence)
    assert isinstance(models.cycle, SmoothTimes)
    assert len(models.cycle.conditioned.points) <= MOST_VARIANTS + 20
    standings = stand(models, evidence)
    assert standings is not None
    assert len(standings.configs) <= 120


def test_a_pool_holds_what_is_valid_once() -> None:
    maker = PoolMaker(SPACE, canonical, never, 0)
    leader = Config.of({**PLAIN, **ngram(5, 4), PROTO: "LL"})
    pool = maker.pool([leader], leader)
    assert len(set(pool.drafts)) == len(pool.drafts)
    assert len(set(pool.servings)) == len(pool.servings)
    widths = {width_of(d) for d in pool.drafts}
    assert {1, 2, 3, 4, 5, 6, 32} <= widths
    joined = [maker.join(d, s) for d in pool.drafts for s in pool.servings]
    assert all(c is None or maker.allows(c) for c in joined)
    assert any(c == canonical(leader) for c in joined)
