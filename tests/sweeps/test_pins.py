"""Capacity is the same in all arms: what is pinned, what the user keeps, what must not be taken."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from sweeps.axes import Axis, Choice, IntRange
from sweeps.exporters import EXPORTERS, Recommendation
from sweeps.exporters.recommendation import Chosen, recommend
from sweeps.pins import CAPACITY, adopted_pins, pins, static_pins, with_pins
from sweeps.reporting.answer import answer_of
from sweeps.results import Outcome, TrialResult
from sweeps.sweep import Objective, Sweep
from sweeps.values import Value
from tests.sweeps.makers import NGRAM, SMALL, ngram, plain, result, with_argv

SEEN: Mapping[str, Value] = {
    "max_running_requests": 2048, "mem_fraction_static": 0.88, "attention_backend": "fa3",
    "page_size": 1, "chunked_prefill_size": 8192, "decode_graph_max_batch": 160,
}  # fmt: skip
ADOPTED = {name: value for name, value in SEEN.items() if name != "max_running_requests"}


def baseline(**told: Value) -> TrialResult:
    """Make a measured plain decode that tells its settings."""
    made = result(0, plain(), 80.0, purpose="baseline")
    return replace(made, effective={**SEEN, **told})


def sweeping(algorithms: Sequence[str], *axes: Axis, **fixed: Value) -> Sweep:
    """Make a sweep over algorithms and more."""
    chosen = Choice("speculative_algorithm", [None, *algorithms])
    return replace(SMALL, axes=[chosen, *axes], rules=(), fixed=fixed)


def test_the_limit_that_speculation_brings_is_pinned_from_the_first_trial_on() -> None:
    assert static_pins(SMALL) == {"max_running_requests": 48}
    busy = replace(SMALL, workload=replace(SMALL.workload, concurrencies=(8, 64)))
    assert static_pins(busy) == {"max_running_requests": 64}
    open_loop = replace(SMALL.workload, requests_per_s=2.0, open_loop_prompts=100)
    assert static_pins(replace(SMALL, workload=open_loop)) == {"max_running_requests": 100}


@pytest.mark.parametrize(
    "sweep",
    [
        replace(SMALL, fixed={"max_running_requests": 8}),
        replace(SMALL, axes=[*SMALL.axes, Choice("max_running_requests", [8, 16], NGRAM)]),
        sweeping([]),
    ],
)
def test_the_users_own_limit_and_a_sweep_without_speculation_are_left_alone(sweep: Sweep) -> None:
    assert static_pins(sweep) == {}


def test_all_else_is_adopted_from_plain_decode() -> None:
    assert adopted_pins(baseline(), SMALL) == ADOPTED
    assert {*ADOPTED, "max_running_requests"} == set(CAPACITY)


def test_what_the_user_fixes_or_sweeps_by_any_name_stays() -> None:
    for name in ADOPTED:
        assert name not in adopted_pins(baseline(), replace(SMALL, fixed={name: 1}))
    split = replace(SMALL, fixed={"decode_attention_backend": "triton"})
    assert "attention_backend" not in adopted_pins(baseline(), split)
    graphs = replace(SMALL, axes=[*SMALL.axes, Choice("disable_cuda_graph", [False, True])])
    assert "decode_graph_max_batch" not in adopted_pins(baseline(), graphs)


@pytest.mark.parametrize("value", [None, "auto", -5, 0, True])
@pytest.mark.parametrize("name", ADOPTED)
def test_what_is_no_value_for_the_command_line_is_not_adopted(name: str, value: Value) -> None:
    assert name not in adopted_pins(baseline(**{name: value}), SMALL)


def test_what_the_parser_refuses_is_not_adopted() -> None:
    found = adopted_pins(baseline(), SMALL, lambda name, value: value != "fa3")
    assert "attention_backend" not in found
    assert found["page_size"] == 1


def test_a_draft_model_keeps_the_memory_that_the_server_reserves_for_it() -> None:
    eagle = sweeping(["NGRAM", "EAGLE3"], speculative_eagle_topk=1)
    found = adopted_pins(baseline(), eagle)
    assert found == {n: v for n, v in ADOPTED.items() if n != "mem_fraction_static"}


def test_a_backend_that_the_server_chooses_by_the_draft_tree_is_not_adopted() -> None:
    trees = sweeping(["EAGLE"], IntRange("speculative_eagle_topk", 1, 4))
    assert "attention_backend" not in adopted_pins(baseline(), trees)
    unset = sweeping(["EAGLE"])
    assert "attention_backend" not in adopted_pins(baseline(), unset)
    split = baseline(prefill_attention_backend="fa3", decode_attention_backend="flashinfer")
    assert "attention_backend" not in adopted_pins(split, SMALL)


@pytest.mark.parametrize(
    ("told", "breadths", "adopted"),
    [
        ({"attention_backend": "trtllm_mha", "page_size": 64}, [1, 4], False),
        ({"attention_backend": "trtllm_mha", "page_size": 64}, [1], True),
        ({"attention_backend": "flashinfer", "page_size": 16}, [1, 4], True),
        ({"attention_backend": "trtllm_mha", "page_size": 64}, [], False),
    ],
)
def test_pages_that_cannot_hold_a_draft_tree_are_not_adopted(
    told: dict[str, Value], breadths: list[int], *, adopted: bool
) -> None:
    axes = [Choice("speculative_ngram_max_bfs_breadth", breadths, NGRAM)] if breadths else []
    found = adopted_pins(baseline(**told), sweeping(["NGRAM"], *axes))
    assert {n: v for n, v in found.items() if n in told} == (told if adopted else {})


def test_larger_pages_come_only_with_their_backend() -> None:
    narrow = sweeping(["NGRAM"], speculative_ngram_max_bfs_breadth=1)
    told = baseline(attention_backend="fancy", page_size=64)
    assert "page_size" not in adopted_pins(told, narrow, lambda name, value: value != "fancy")


def test_a_chunk_fits_the_pages_that_are_swept() -> None:
    fits = sweeping(["NGRAM"], Choice("page_size", [1, 64]))
    assert adopted_pins(baseline(), fits)["chunked_prefill_size"] == 8192
    assert "chunked_prefill_size" not in adopted_pins(baseline(chunked_prefill_size=1000), fits)
    assert adopted_pins(baseline(chunked_prefill_size=-1), SMALL)["chunked_prefill_size"] == -1


def test_each_host_has_its_own_pins_and_only_a_measured_baseline_gives_any() -> None:
    def yes(name: str, value: Value) -> bool:
        return True

    failed = replace(baseline(page_size=16), outcome=Outcome.FAILED, estimates={})
    elsewhere = replace(baseline(chunked_prefill_size=512), host="b")
    results = [failed, elsewhere, baseline(), baseline(chunked_prefill_size=4096)]
    assert pins(results, "local", SMALL, yes) == {"max_running_requests": 48, **ADOPTED}
    assert pins(results, "b", SMALL, yes)["chunked_prefill_size"] == 512
    assert pins([failed], "local", SMALL, yes) == static_pins(SMALL)


def test_settings_go_before_pins() -> None:
    settings: dict[str, Value] = {"model_path": "m", "page_size": None}
    pinned: dict[str, Value] = {"page_size": 1, "max_running_requests": 48}
    assert with_pins(settings, pinned) == {
        "model_path": "m", "page_size": None, "max_running_requests": 48,
    }  # fmt: skip


def _recommended() -> Recommendation:
    """Recommend a trial whose server was pinned, chose one value and changed another."""
    config = ngram(8, NCCL_PROTO=None)
    made = with_argv(
        result(1, config, 120.0), "python", "-m", "sglang.launch_server", "--page-size", "1",
        "--nccl-port", "31008", "--port", "31007", TMPDIR="/tmp/t", NCCL_CUMEM_ENABLE="1",
    )  # fmt: skip
    winner = replace(
        made,
        requested={**config, "model_path": "m", "page_size": 1, "context_length": None},
        effective={
            "speculative_num_draft_tokens": 16, "speculative_eagle_topk": 10, "page_size": 1,
            "kv_cache_dtype": "auto", "context_length": 4096, "NCCL_NVLS_ENABLE": "0",
            "enable_mixed_chunk": False, "SGLANG_CACHE_DIR": "/a place",
        },
        notes=("speculation is inactive\nby far",),
    )  # fmt: skip
    answer = answer_of([winner], Objective())
    assert answer is not None
    return recommend(Chosen.by(answer), [winner], "decode_tok_s", "tok/s")


def test_an_export_holds_pins_and_what_the_server_chose_and_warns() -> None:
    data = json.loads(EXPORTERS["json"].write(_recommended()))
    assert data["pins"] == {"model_path": "m", "page_size": 1}
    assert data["chosen_by_the_server"] == {
        "speculative_eagle_topk": 10, "context_length": 4096, "NCCL_NVLS_ENABLE": "0",
    }  # fmt: skip
    provisional, *others = data["warnings"]
    assert provisional.startswith("Provisional")
    assert others == [
        "speculation is inactive\nby far",
        "speculative_num_draft_tokens is 16 and not 8 as requested",
    ]
    assert data["env"] == {"NCCL_CUMEM_ENABLE": "1"}
    assert "31007" not in json.dumps(data)
    assert "31008" not in json.dumps(data)


def test_a_script_says_so_in_comments_that_the_shell_skips() -> None:
    script = EXPORTERS["sh"].write(_recommended())
    for line in (
        "# Note: speculation is inactive by far.",
        "# Note: speculative_num_draft_tokens is 16 and not 8 as requested.",
        "#   context_length=4096",
        "#   speculative_eagle_topk=10",
        "    --page-size 1 \\",
    ):
        assert line in script.splitlines()
    done = subprocess.run(["/bin/sh", "-n"], input=script, text=True, capture_output=True,
                          check=False, timeout=30)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
