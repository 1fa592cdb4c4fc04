"""The flag table: names, versions and values that are refused before a server starts."""

import pytest

from infra.sglang.flags import FLAGS, NEUTRAL, spelled, version_key
from infra.sglang.setting_checks import setting_problems
from sweeps.values import Value


def test_versions_order_by_number_and_post_release() -> None:
    ordered = ["0.5.2", "0.5.6", "0.5.6.post2", "0.5.9", "0.5.10", "0.5.23"]
    shuffled = [ordered[i] for i in (3, 0, 5, 1, 4, 2)]
    assert sorted(shuffled, key=version_key) == ordered


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("0.5.3", "speculative_ngram_max_match_window_size"),
        ("0.5.9", "speculative_ngram_max_match_window_size"),
        ("0.5.10", "speculative_ngram_max_trie_depth"),
        ("0.5.23", "speculative_ngram_max_trie_depth"),
    ],
)
def test_the_match_depth_follows_sglangs_renaming(version: str, flag: str) -> None:
    assert spelled("ngram_match_depth", version) == flag
    assert FLAGS[flag].exists_in(version)


def test_every_neutral_name_is_known_to_each_version_that_it_spans() -> None:
    for spellings in NEUTRAL.values():
        for spelling in spellings:
            assert FLAGS[spelling.flag].exists_in(spelling.first)
            assert FLAGS[spelling.flag].exists_in(spelling.last or "0.5.23")


@pytest.mark.parametrize(
    ("name", "values", "version", "why", "mend"),
    [
        ("speculative_num_draft_token", (4,), "0.5.23", "no such argument",
         "`speculative_num_draft_tokens`"),
        ("speculative_ngram_max_trie_depth", (8,), "0.5.9", "does not know it", "came with 0.5.10"),
        ("speculative_ngram_branch_length", (8,), "0.5.10", "does not know it", "0.5.3 to 0.5.9"),
        ("speculative_algorithm", ("NGARM",), "0.5.23", "must be one of", ""),
        ("speculative_num_draft_tokens", (0,), "0.5.23", "at least 1", ""),
        ("speculative_num_draft_tokens", ("four",), "0.5.23", "type int", ""),
        ("speculative_num_draft_tokens", (True,), "0.5.23", "type int", ""),
        ("disable_custom_all_reduce", ("yes",), "0.5.23", "type bool", ""),
        ("NCCL_PROTOS", ("LL",), "0.5.23", "no such environment variable", "`NCCL_PROTO`"),
        ("NCCL_PROTO", ("LL128",), "0.5.23", "not a value", "LL, Simple"),
        ("NCCL_P2P_LEVEL", ("sys",), "0.5.23", "not a value", "SYS"),
    ],
)  # fmt: skip
def test_refuses(
    name: str, values: tuple[str | int, ...], version: str, why: str, mend: str
) -> None:
    problem = setting_problems({name: values}, version)[0]
    assert problem.field == name
    assert why in problem.why
    assert mend in problem.mend


def test_unset_and_legal_values_pass() -> None:
    values: dict[str, tuple[Value, ...]] = {
        "speculative_algorithm": (None, "NGRAM"),
        "ngram_match_depth": (4, 18),
        "mem_fraction_static": (0.88, 1),
        "disable_custom_all_reduce": (False, True),
        "NCCL_MIN_NCHANNELS": (None, 2),
    }
    for version in ("0.5.9", "0.5.23"):
        assert setting_problems(values, version) == []
