"""The cost model gives the published cycle table and says what each knob does."""

from dataclasses import replace

import pytest

from infra.emulated.cost import all_reduce_us, compute_ms, distinct_experts, step_cost
from infra.emulated.settings import Algorithm, Settings, make_settings
from infra.emulated.truth import TRUTHS
from sweeps.values import Value

PLAIN = Settings()
NGRAM = Settings(algorithm=Algorithm.NGRAM, draft_tokens=8)
WIDTHS = (2, 3, 4, 8, 16, 32)
CYCLES_MS = {
    ("S", ""): (16.4, 19.0, 21.5, 31.7, 52.1, 92.8),
    ("M", ""): (15.1, 26.5, 27.5, 31.6, 38.8, 50.3),
    ("M", "LL"): (15.1, 16.3, 17.5, 21.9, 30.0, 43.1),
    ("M", "Simple"): (25.4, 26.5, 27.5, 31.6, 38.8, 50.3),
    ("G", ""): (24.8, 26.0, 27.2, 31.6, 39.7, 52.8),
}


def cycle_ms(truth: str, settings: Settings, *, batch: int = 1, context_tokens: int = 0) -> float:
    tokens = settings.draft_tokens
    cost = step_cost(TRUTHS[truth], settings, batch=batch, tokens=tokens)
    return 1000 * cost.duration_s(context_tokens)


@pytest.mark.parametrize(("truth", "proto"), CYCLES_MS)
def test_cycles_match_the_table(truth: str, proto: str) -> None:
    got = [cycle_ms(truth, replace(NGRAM, draft_tokens=n, nccl_proto=proto)) for n in WIDTHS]
    assert got == pytest.approx(CYCLES_MS[truth, proto], rel=0.01)


@pytest.mark.parametrize("truth", ["S", "M", "G"])
def test_all_truths_give_the_founding_rates(truth: str) -> None:
    assert cycle_ms(truth, PLAIN) == pytest.approx(12.2, rel=0.01)
    assert cycle_ms(truth, NGRAM) == pytest.approx(31.7, rel=0.01)


def test_experts_saturate() -> None:
    assert distinct_experts(1) == pytest.approx(8)
    assert distinct_experts(8) == pytest.approx(59.5, rel=0.01)
    assert distinct_experts(10_000) == pytest.approx(384)


def test_custom_all_reduce_is_exactly_inert() -> None:
    given: dict[str, Value] = {"model_path": "m", "tp_size": 8}
    without = make_settings(given, {}, "0.5.23")
    with_flag = make_settings({**given, "disable_custom_all_reduce": True}, {}, "0.5.23")
    assert cycle_ms("M", with_flag) == cycle_ms("M", without)
    assert with_flag.launch != without.launch


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_BUFFSIZE", "8388608"),
        ("NCCL_NTHREADS", "256"),
        ("NCCL_CUMEM_ENABLE", "1"),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
        ("NCCL_MIN_NCHANNELS", "8"),
        ("NCCL_P2P_LEVEL", "SYS"),
        ("NCCL_SHM_DISABLE", "1"),
    ],
)
def test_variables_without_effect_change_nothing(name: str, value: str) -> None:
    given: dict[str, Value] = {"model_path": "m", "tp_size": 8}
    assert cycle_ms("M", make_settings(given, {name: value}, "0.5.23")) == cycle_ms(
        "M", make_settings(given, {}, "0.5.23")
    )


@pytest.mark.parametrize(
    ("change", "low", "high"),
    [
        ({"p2p_disable": True}, 1.05, 1.15),
        ({"p2p_level": "PHB"}, 1.02, 1.06),
        ({"p2p_disable": True, "shm_disable": True}, 3.0, 6.0),
        ({"max_channels": 2}, 1.005, 1.03),
        ({"nccl_proto": "Simple"}, 1.8, 1.95),
        ({"pcie_ipc": True}, 0.80, 0.90),
        ({"pcie_ipc": True, "pcie_ipc_max_elements": 100}, 1.0, 1.0),
        ({"cuda_graph": False}, 5.0, 5.2),
    ],
)
def test_each_knob_moves_plain_decode(change: dict[str, object], low: float, high: float) -> None:
    ratio = cycle_ms("M", replace(PLAIN, **change)) / cycle_ms("M", PLAIN)  # type: ignore[arg-type]
    assert low <= ratio <= high


def test_tree_helps_only_where_simple_is_in_use() -> None:
    tree = replace(PLAIN, nccl_algo="Tree")
    assert cycle_ms("M", tree) == cycle_ms("M", PLAIN)
    simple = replace(PLAIN, nccl_proto="Simple")
    assert cycle_ms("M", replace(simple, nccl_algo="Tree")) < 0.9 * cycle_ms("M", simple)


def test_protocol_does_not_matter_on_slow_links() -> None:
    assert cycle_ms("S", replace(NGRAM, nccl_proto="LL")) == cycle_ms("S", NGRAM)


def test_payload_grows_with_batch_times_width() -> None:
    truth = TRUTHS["M"]
    assert all_reduce_us(truth, NGRAM, 8) == pytest.approx(112, rel=0.01)
    wide = cycle_ms("M", replace(NGRAM, draft_tokens=16))
    two = cycle_ms("M", NGRAM, batch=2)
    assert two - wide == pytest.approx(truth.host_per_extra_request_ms)


def test_long_context_costs_reading_it() -> None:
    extra = cycle_ms("M", PLAIN, context_tokens=8192) - cycle_ms("M", PLAIN)
    assert extra == pytest.approx(0.41, rel=0.02)


def test_half_the_gpus_read_twice_the_weights() -> None:
    truth = TRUTHS["M"]
    assert compute_ms(truth, replace(PLAIN, tp_size=4), 1) == 2 * compute_ms(truth, PLAIN, 1)
