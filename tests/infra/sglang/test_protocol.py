"""What each version of SGLang speaks, and which API a sweep is measured through because of it."""

import pytest

from infra.sglang.flags import NEWEST, version_key
from infra.sglang.protocol import (
    CHAT,
    DIALECT_NEEDS,
    GENERATE,
    ROUTES,
    SINCE,
    Feature,
    Load,
    dialect_problems,
    fitting_dialect,
    has,
    has_route,
)
from infra.sglang.version_range import RELEASES
from orchestrator.load_client.dialects import DIALECTS


def test_every_feature_begins_with_a_release() -> None:
    assert set(SINCE) == set(Feature)
    assert set(SINCE.values()) <= set(RELEASES)
    assert {first for first, _ in ROUTES.values()} <= set(RELEASES)
    assert set(DIALECT_NEEDS) == set(DIALECTS)


@pytest.mark.parametrize(("feature", "since"), SINCE.items())
def test_a_feature_is_there_from_its_release_on(feature: Feature, since: str) -> None:
    held = [release for release in RELEASES if has(feature, release)]
    assert held == [r for r in RELEASES if version_key(r) >= version_key(since)]
    assert has(feature, f"{since}.post1")


@pytest.mark.parametrize(
    ("path", "first", "last"),
    [
        ("/server_info", "0.5.6.post2", NEWEST),
        ("/v1/loads", "0.5.8", NEWEST),
        ("/get_load", "0.5.2", "0.5.20"),
        ("/ready", "0.5.20", NEWEST),
        ("/flush_cache", "0.5.2", NEWEST),
        ("/generate", "0.5.2", NEWEST),
    ],
)
def test_routes_come_and_go(path: str, first: str, last: str) -> None:
    held = [release for release in RELEASES if has_route(path, release)]
    assert (held[0], held[-1]) == (first, last)


@pytest.mark.parametrize("release", RELEASES)
def test_the_api_tells_what_is_measured_in_every_release(release: str) -> None:
    """Counts always, and verify steps where there are drafts."""
    for is_drafting in (False, True):
        load = Load({"h": release}, is_drafting=is_drafting)
        chosen = fitting_dialect(load)
        assert load.lacking(chosen) == load.untold(chosen) == ()
        least = "0.5.19" if is_drafting else "0.5.5"
        assert (chosen == CHAT) is (version_key(release) >= version_key(least))


def test_hosts_of_several_versions_are_measured_alike() -> None:
    assert fitting_dialect(Load({"new": "0.5.23", "old": "0.5.4"})) == GENERATE
    assert fitting_dialect(Load({"new": "0.5.23", "newer": "0.5.20"})) == CHAT


@pytest.mark.parametrize(
    ("versions", "is_sampled", "dialect", "told"),
    [
        ({"a": "0.5.4"}, False, CHAT, ("continuous_usage_stats", "host a", "0.5.5", "`generate`")),
        ({"a": "0.5.2"}, True, GENERATE, ("sampling_seed", "0.5.3", "newer SGLang")),
        ({"a": "0.5.2"}, True, "", ("no API can be measured", "`chat`", "temperature=0")),
        ({"a": "0.5.23", "b": "0.5.3"}, False, CHAT, ("SGLang 0.5.3 of host b",)),
    ],
)
def test_what_a_version_cannot_do_is_refused_with_a_mend(
    versions: dict[str, str], is_sampled: bool, dialect: str, told: tuple[str, ...]
) -> None:
    [problem] = dialect_problems(Load(versions, is_sampled=is_sampled), dialect)
    assert problem.field == "workload.dialect"
    assert all(word in str(problem) for word in told), problem


@pytest.mark.parametrize("release", RELEASES)
def test_the_mend_of_a_refused_dialect_works(release: str) -> None:
    load = Load({"a": release}, is_drafting=True)
    for dialect in DIALECT_NEEDS:
        for problem in dialect_problems(load, dialect):
            named = next(name for name in DIALECT_NEEDS if f"Use `{name}`" in problem.mend)
            assert dialect_problems(load, named) == []
    assert fitting_dialect(load, preferred=GENERATE) == GENERATE


def test_what_was_chosen_before_is_kept_as_long_as_it_can_be_spoken() -> None:
    assert fitting_dialect(Load({"a": "0.5.10"}, is_drafting=True), preferred=CHAT) == CHAT
    assert fitting_dialect(Load({"a": "0.5.4"}), preferred=CHAT) == GENERATE
