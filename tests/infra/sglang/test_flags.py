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


HELP = frozenset({
    "--speculative-algorithm", "--speculative-ngram-max-trie-depth", "--page-size",
    "--cuda-graph-max-bs-decode", "--cuda-graph-max-bs-prefill", "--brand-new",
})  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mend"),
    [
        ("speculative_ngram_max_match_window_size", "`speculative_ngram_max_trie_depth`"),
        ("speculative_ngram_max_match_window_size", "`ngram_match_depth`"),
        ("speculative_ngram_branch_length", "`speculative_ngram_max_trie_depth`"),
        ("cuda_graph_max_bs", "`cuda_graph_max_bs_decode`"),
        ("page_sice", "`page_size`"),
        ("schedule_policy", "Take the axis out"),
    ],
)
def test_what_the_hosts_own_help_does_not_name_is_refused_with_what_it_has(
    name: str, mend: str
) -> None:
    (problem,) = setting_problems({name: (8,)}, "0.5.9", HELP)
    assert problem.field == name
    assert f"no --{name.replace('_', '-')}" in problem.why
    assert mend in problem.mend


def test_the_hosts_own_help_decides_whatever_the_table_says() -> None:
    assert setting_problems({"speculative_ngram_max_trie_depth": (8,)}, "0.5.9", HELP) == []
    assert setting_problems({"brand_new": ("any",)}, "0.5.9", HELP) == []
    plain = frozenset(option.lstrip("-").replace("-", "_") for option in HELP)
    assert setting_problems({"page_size": (8,)}, "0.5.9", plain) == []
    (problem,) = setting_problems({"page_size": ("8",)}, "0.5.9", HELP)
    assert "type int" in problem.why


def test_a_neutral_name_is_refused_by_a_host_with_neither_spelling() -> None:
    (problem,) = setting_problems({"ngram_match_depth": (8,)}, "0.5.9", HELP)
    assert "speculative-ngram-max-match-window-size" in problem.why
    assert setting_problems({"ngram_match_depth": (8,)}, "0.5.23", HELP) == []


def test_choices_come_and_go_with_the_versions() -> None:
    backend = FLAGS["attention_backend"]
    assert "cutlass_mla" in backend.choices_in("0.5.19")
    assert "cutlass_mla" not in backend.choices_in("0.5.20")
    assert "fa4" not in backend.choices_in("0.5.2")
    assert FLAGS["page_size"].choices_in("0.5.23") == ()
