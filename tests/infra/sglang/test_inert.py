"""Settings and axes that cannot matter, on which machine and beside which others."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.machine import Interconnect, Machine
from infra.sglang.flags import ENVIRONMENT, FLAGS, NEWEST
from infra.sglang.inert import collapse, equal_values, inert_axes, inert_settings, partly_inert
from infra.sglang.inert_rules import INERT_RULES
from sweeps.drafting.ngram import NgramDrafter, NgramShape
from sweeps.values import Value

Settings = Mapping[str, Value]

PCIE = Machine(8, Interconnect.PCIE, (12, 0))
HOPPER = Machine(8, Interconnect.NVSWITCH, (9, 0))
EIGHT: Settings = {"tp_size": 8}
NGRAM: Settings = {"tp_size": 8, "speculative_algorithm": "NGRAM"}
BREADTH = "speculative_ngram_max_bfs_breadth"
TOKENS = "speculative_num_draft_tokens"
MATCH_TYPE = "speculative_ngram_match_type"


def names_inert(
    settings: Settings, version: str = NEWEST, machine: Machine | None = PCIE
) -> set[str]:
    return {inert.axis for inert in inert_settings(settings, version, machine)}


@pytest.mark.parametrize(
    ("inert", "settings", "beside"),
    [
        ("disable_custom_all_reduce", True, EIGHT),
        ("num_continuous_decode_steps", 4, EIGHT),
        ("CUDA_DEVICE_MAX_CONNECTIONS", 1, EIGHT),
        (BREADTH, 2, NGRAM),
        (BREADTH, 16, {**NGRAM, TOKENS: 2}),
        ("speculative_ngram_min_bfs_breadth", 2, {**NGRAM, MATCH_TYPE: "PROB"}),
        ("speculative_eagle_topk", 4, NGRAM),
        (TOKENS, 9, {"speculative_algorithm": "EAGLE3", "speculative_eagle_topk": 1,
                     "speculative_num_steps": 3}),
        ("ngram_match_depth", 8, EIGHT),
        ("NCCL_NVLS_ENABLE", "1", EIGHT),
        ("NCCL_NET_GDR_LEVEL", "PHB", EIGHT),
        ("NCCL_IB_DISABLE", "1", EIGHT),
        ("NCCL_P2P_LEVEL", "SYS", {**EIGHT, "NCCL_P2P_DISABLE": "1"}),
        ("NCCL_ALGO", "Ring", {**EIGHT, "enable_deterministic_inference": True}),
        ("NCCL_PROTO", "LL", {"tp_size": 1}),
        ("SGLANG_PCIE_IPC_MAX_NUMEL", 1024, EIGHT),
        ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "1", {"tp_size": 6}),
        ("enable_torch_symm_mem", True, EIGHT),
        ("schedule_policy", "lpm", {"disable_radix_cache": True}),
        ("hicache_ratio", 4.0, EIGHT),
    ],
)  # fmt: skip
def test_is_inert(inert: str, settings: Value, beside: Settings) -> None:
    assert inert in names_inert({**beside, inert: settings})


@pytest.mark.parametrize(
    ("name", "value", "beside"),
    [
        ("disable_custom_all_reduce", True, {"tp_size": 2}),
        ("NCCL_MIN_NCHANNELS", 4, EIGHT),
        ("NCCL_MAX_NCHANNELS", 4, EIGHT),
        ("NCCL_PROTO", "LL", {**EIGHT, "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}),
        ("NCCL_ALGO", "Tree", {**EIGHT, "NCCL_PROTO": "LL"}),
        ("NCCL_P2P_LEVEL", "SYS", EIGHT),
        (BREADTH, 3, NGRAM),
        (BREADTH, 2, {**NGRAM, MATCH_TYPE: "PROB"}),
        (BREADTH, 2, {**NGRAM, "speculative_ngram_min_bfs_breadth": 2}),
        (BREADTH, 2, {**NGRAM, "attention_backend": "fa3"}),
        (MATCH_TYPE, "PROB", NGRAM),
        ("ngram_match_depth", 8, NGRAM),
        ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "1", EIGHT),
        ("schedule_policy", "lof", {"disable_radix_cache": True}),
    ],
)
def test_may_matter(name: str, value: Value, beside: Settings) -> None:
    assert name not in names_inert({**beside, name: value})


@pytest.mark.parametrize(
    ("name", "value", "inert_in", "matters_in"),
    [
        (MATCH_TYPE, "PROB", "0.5.9", "0.5.10"),
        ("NCCL_CUMEM_ENABLE", "1", "0.5.4", "0.5.5"),
        ("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "1", "0.5.20", "0.5.21"),
        ("SGLANG_ENABLE_SPEC_V2", "1", "0.5.14", "0.5.13"),
        ("disable_overlap_schedule", True, "0.5.13", "0.5.14"),
    ],
)
def test_by_version(name: str, value: Value, inert_in: str, matters_in: str) -> None:
    assert name in names_inert({**NGRAM, name: value}, inert_in)
    assert name not in names_inert({**NGRAM, name: value}, matters_in)


def test_nothing_is_concluded_of_a_machine_that_nobody_described() -> None:
    settings: Settings = {
        **NGRAM, "disable_custom_all_reduce": True, "NCCL_NVLS_ENABLE": "1", BREADTH: 2,
    }  # fmt: skip
    assert names_inert(settings, NEWEST, None) == set()
    assert names_inert(settings, NEWEST, HOPPER) == set()


def test_a_collapsed_setting_takes_the_value_of_the_default() -> None:
    settings: Settings = {
        **NGRAM, BREADTH: 2, "disable_custom_all_reduce": True, "NCCL_P2P_DISABLE": "1",
        "NCCL_P2P_LEVEL": "SYS", "num_continuous_decode_steps": 4, "NCCL_PROTO": "LL",
    }  # fmt: skip
    assert collapse(settings, NEWEST, PCIE) == {
        **settings, BREADTH: 1, "disable_custom_all_reduce": False, "NCCL_P2P_LEVEL": None,
        "num_continuous_decode_steps": 1,
    }  # fmt: skip


def test_unset_and_default_are_one_where_the_setting_is_inert() -> None:
    unset = collapse({**EIGHT, "num_continuous_decode_steps": None}, NEWEST, PCIE)
    assert unset == collapse({**EIGHT, "num_continuous_decode_steps": 8}, NEWEST, PCIE)
    assert names_inert({**EIGHT, "num_continuous_decode_steps": None}) == set()


NAMES: Mapping[str, tuple[Value, ...]] = {
    "speculative_algorithm": (None, "NGRAM", "EAGLE3", "DFLASH"),
    "tp_size": (1, 2, 6, 8),
    TOKENS: (None, 2, 8),
    BREADTH: (1, 2, 10),
    MATCH_TYPE: ("BFS", "PROB"),
    "speculative_ngram_min_bfs_breadth": (1, 2),
    "speculative_eagle_topk": (None, 1, 4),
    "speculative_num_steps": (None, 3),
    "disable_custom_all_reduce": (False, True),
    "enable_p2p_check": (False, True),
    "enable_symm_mem": (False, True),
    "enable_nccl_nvls": (False, True),
    "enable_deterministic_inference": (False, True),
    "enable_mixed_chunk": (False, True),
    "attention_backend": (None, "triton", "fa3"),
    "NCCL_NVLS_ENABLE": (None, "0", "1"),
    "NCCL_CUMEM_ENABLE": (None, "0", "1"),
    "NCCL_P2P_DISABLE": (None, "1"),
    "NCCL_P2P_LEVEL": (None, "SYS"),
    "NCCL_ALGO": (None, "Ring"),
    "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": (None, "1"),
    "SGLANG_PCIE_IPC_MAX_NUMEL": (None, 4096),
    "ngram_match_depth": (4, 18),
    "num_continuous_decode_steps": (1, 4),
}
SETTINGS = st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in NAMES.items()})
VERSIONS = st.sampled_from(["0.5.4", "0.5.9", "0.5.13", "0.5.20", NEWEST])
MACHINES = st.sampled_from([None, PCIE, HOPPER, Machine(8, Interconnect.NVLINK)])


@given(SETTINGS, VERSIONS, MACHINES)
def test_collapsing_twice_changes_nothing(
    settings: dict[str, Value], version: str, machine: Machine | None
) -> None:
    once = collapse(settings, version, machine)
    assert once.keys() == settings.keys()
    assert collapse(once, version, machine) == once
    assert inert_settings(once, version, machine) == ()


@given(SETTINGS, VERSIONS, MACHINES, st.data())
def test_any_other_value_of_an_inert_setting_collapses_to_the_same(
    settings: dict[str, Value], version: str, machine: Machine | None, data: st.DataObject
) -> None:
    found = [i for i in inert_settings(settings, version, machine) if i.axis != BREADTH]
    for inert in found:
        other = data.draw(st.sampled_from(NAMES[inert.axis]))
        if settings[inert.axis] == inert.value:
            changed = collapse({**settings, inert.axis: other}, version, machine)
            assert changed[inert.axis] == inert.becomes


def test_the_axes_of_the_founding_space_that_cannot_matter() -> None:
    values: dict[str, tuple[Value, ...]] = {
        "tp_size": (8,),
        "speculative_algorithm": (None, "NGRAM"),
        TOKENS: (2, 4, 8),
        BREADTH: tuple(range(1, 17)),
        MATCH_TYPE: ("BFS", "PROB"),
        "disable_custom_all_reduce": (False, True),
        "NCCL_PROTO": (None, "LL", "Simple"),
        "NCCL_P2P_LEVEL": (None, "PXB", "SYS"),
    }
    (found,) = inert_axes(values, NEWEST, PCIE)
    assert (found.axis, found.values) == ("disable_custom_all_reduce", (False, True))
    assert "NVLink" in found.reasons[0]
    old = {group.axis for group in inert_axes(values, "0.5.9", PCIE)}
    assert old == {"disable_custom_all_reduce", MATCH_TYPE}
    two = {group.axis for group in inert_axes({**values, TOKENS: (2,)}, NEWEST, PCIE)}
    assert two == {"disable_custom_all_reduce", BREADTH}


def test_breadth_one_and_two_are_told_apart_from_the_rest() -> None:
    values: dict[str, tuple[Value, ...]] = {name: (value,) for name, value in NGRAM.items()}
    values[BREADTH] = (1, 2, 4, 8)
    (group,) = equal_values(values, NEWEST, PCIE)
    assert (group.axis, group.values, group.whole) == (BREADTH, (1, 2), False)


def test_an_axis_that_matters_in_one_corner_is_not_inert() -> None:
    values: dict[str, tuple[Value, ...]] = {
        "tp_size": (2, 8), "disable_custom_all_reduce": (False, True),
        "NCCL_P2P_DISABLE": (None, "1"), "NCCL_P2P_LEVEL": (None, "SYS"),
    }  # fmt: skip
    assert inert_axes(values, NEWEST, PCIE) == ()


def test_nccl_still_binds_prefill_beside_the_pcie_ipc_all_reduce() -> None:
    settings: Settings = {**EIGHT, "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1", "NCCL_PROTO": "LL"}
    (part,) = partly_inert(settings, NEWEST, PCIE)
    assert part.axis == "NCCL_PROTO"
    assert part.becomes == "LL"
    assert "prefill" in part.reason
    assert partly_inert(settings, "0.5.20", PCIE) == ()


def drafted(shape: NgramShape, tokens: list[int]) -> list[object]:
    request = NgramDrafter(shape).open(tokens[:4], 0)
    trees: list[object] = []
    for token in tokens[4:]:
        trees.append(request.tree())
        request.commit([token])
    return trees


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (NgramShape(8, max_breadth=1), NgramShape(8, max_breadth=2), True),
        (NgramShape(2, max_breadth=1), NgramShape(2, max_breadth=10), True),
        (NgramShape(8, max_breadth=2), NgramShape(8, max_breadth=4), False),
        (NgramShape(8, max_breadth=1, by_likelihood=True),
         NgramShape(8, max_breadth=2, by_likelihood=True), False),
    ],
)  # fmt: skip
def test_the_drafter_agrees_about_breadth(one: NgramShape, other: NgramShape, same: bool) -> None:
    chosen = random.Random(7)
    tokens = [chosen.randrange(1, 9) for _ in range(400)]
    assert (drafted(one, tokens) == drafted(other, tokens)) is same


def test_each_row_names_settings_that_exist() -> None:
    known = FLAGS.keys() | ENVIRONMENT.keys()
    for row in INERT_RULES:
        for name in row.settings:
            stem = name.removesuffix("*")
            assert any(k == name or (k.startswith(stem) and stem != name) for k in known), name
        assert set(row.reads) <= FLAGS.keys() | ENVIRONMENT.keys(), row.reason
