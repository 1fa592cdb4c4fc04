"""The emulated server parses, resolves and refuses as its version of SGLang does."""

from pathlib import Path

import pytest

from infra.emulated.arguments import EmulationError, parse, read_emulation
from infra.emulated.life.loading import plan_start
from infra.emulated.resolution import effective_environment, resolve
from infra.emulated.rules import communicator_fault, load_fault, resolution_fault
from infra.emulated.settings import make_settings
from infra.emulated.truth import TRUTHS
from sweeps.values import Value

BASE: dict[str, Value] = {"model_path": "m", "tp_size": 8}
NGRAM: dict[str, Value] = {**BASE, "speculative_algorithm": "NGRAM"}


def refuse(capsys: pytest.CaptureFixture[str], line: str, version: str = "0.5.23") -> str:
    with pytest.raises(SystemExit) as caught:
        parse(line.split(), version)
    assert caught.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_unknown_flag(capsys: pytest.CaptureFixture[str]) -> None:
    told = refuse(capsys, "--model-path m --no-such-flag 1")
    assert told == "sglang serve: error: unrecognized arguments: --no-such-flag 1"


def test_bad_choice(capsys: pytest.CaptureFixture[str]) -> None:
    told = refuse(capsys, "--model-path m --speculative-ngram-match-type NOPE")
    assert told.startswith("sglang serve: error: argument --speculative-ngram-match-type: invalid")


def test_flags_belong_to_versions(capsys: pytest.CaptureFixture[str]) -> None:
    window = "--model-path m --speculative-ngram-max-match-window-size 4"
    depth = "--model-path m --speculative-ngram-max-trie-depth 8"
    assert parse(window.split(), "0.5.9")["speculative_ngram_max_match_window_size"] == 4
    assert parse(depth.split(), "0.5.23")["speculative_ngram_max_trie_depth"] == 8
    assert "unrecognized" in refuse(capsys, window)
    assert "unrecognized" in refuse(capsys, depth, "0.5.9")


def test_abbreviations_pass_and_may_be_ambiguous(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["--model-path", "m", "--tp", "8"], "0.5.23")["tp_size"] == 8
    assert "ambiguous" in refuse(capsys, "--model-path m --cuda-graph-max-bs 4")


def test_silent_rewrites() -> None:
    args = resolve(NGRAM, "0.5.23")
    assert args["speculative_num_draft_tokens"] == 12
    assert args["speculative_eagle_topk"] == 10
    assert args["max_running_requests"] == 48
    assert args["disable_overlap_schedule"] is False
    assert resolve(NGRAM, "0.5.9")["disable_overlap_schedule"] is True
    assert resolve(BASE, "0.5.23")["max_running_requests"] != 48


@pytest.mark.parametrize("version", ["0.5.2", "0.5.9", "0.5.15", "0.5.23"])
def test_plain_resolves_in_every_version(version: str) -> None:
    assert make_settings(BASE, {}, version).draft_tokens == 1


def test_match_type_has_no_effect_in_old_versions() -> None:
    given: dict[str, Value] = {**NGRAM, "speculative_ngram_match_type": "PROB"}
    assert make_settings(given, {}, "0.5.9").match_type == "BFS"
    assert make_settings(given, {}, "0.5.23").match_type == "PROB"


USER = {
    "NCCL_PROTO": "LL",
    "NCCL_CUMEM_ENABLE": "1",
    "NCCL_NVLS_ENABLE": "2",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "PATH": "x",
}


@pytest.mark.parametrize(
    ("version", "change", "cumem", "nvls", "connections"),
    [
        ("0.5.4", {}, "0", "0", "4"),
        ("0.5.4", {"enable_symm_mem": True}, "1", "1", "4"),
        ("0.5.4", {"enable_nccl_nvls": True}, "0", "1", "4"),
        ("0.5.9", {}, "1", "2", "8"),
        ("0.5.9", {"enable_nccl_nvls": True}, "1", "1", "8"),
        ("0.5.23", {"enable_symm_mem": True}, "1", "1", "8"),
    ],
)
def test_sglang_overwrites_variables(
    version: str, change: dict[str, Value], cumem: str, nvls: str, connections: str
) -> None:
    shown = effective_environment(USER, resolve({**BASE, **change}, version), version)
    assert shown["NCCL_CUMEM_ENABLE"] == cumem
    assert shown["NCCL_NVLS_ENABLE"] == nvls
    assert shown["CUDA_DEVICE_MAX_CONNECTIONS"] == connections
    assert shown["NCCL_PROTO"] == "LL"
    assert "PATH" not in shown
    assert ("CUDA_MODULE_LOADING" in shown) is (version != "0.5.23")


def test_deterministic_inference_takes_the_algorithm_away() -> None:
    given = {**BASE, "enable_deterministic_inference": True}
    settings = make_settings(given, {"NCCL_ALGO": "Ring"}, "0.5.23")
    assert (settings.nccl_algo, settings.max_channels) == ("tree", 8)
    assert make_settings(given, {}, "0.5.9").max_channels is None
    assert communicator_fault(settings) == ""


def test_pcie_ipc_needs_its_version() -> None:
    env = {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}
    assert make_settings(BASE, env, "0.5.21").pcie_ipc
    assert not make_settings(BASE, env, "0.5.20").pcie_ipc


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"page_size": 64}, "page_size"),
        ({"page_size": 64, "attention_backend": "flashinfer"}, ""),
        ({"page_size": 64, "speculative_ngram_max_bfs_breadth": 1}, ""),
        ({"tp_size": 16}, "tp_size"),
        ({"speculative_algorithm": "NONSENSE"}, "NONSENSE"),
        ({"speculative_ngram_external_corpus_path": "c"}, "SAM budget"),
        ({}, ""),
    ],
)
def test_what_resolution_refuses(change: dict[str, Value], told: str) -> None:
    fault = resolution_fault(resolve({**NGRAM, **change}, "0.5.23"), gpus=8)
    assert (told in fault) if told else (fault == "")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"speculative_ngram_max_trie_depth": 1}, "max_trie_depth"),
        ({"speculative_ngram_min_bfs_breadth": 11}, "min_bfs_breadth"),
        ({"speculative_num_draft_tokens": 0}, "draft_token_num"),
        ({"speculative_algorithm": "EAGLE3"}, "NoneType"),
        ({"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "d"}, ""),
        ({"mem_fraction_static": 0.7}, "Not enough memory"),
        ({}, ""),
    ],
)
def test_what_fails_only_after_loading(change: dict[str, Value], told: str) -> None:
    given = {**NGRAM, **change}
    fault = load_fault(resolve(given, "0.5.23"), make_settings(given, {}, "0.5.23"), TRUTHS["M"])
    assert (told in fault) if told else (fault == "")


def test_old_window_rules() -> None:
    given: dict[str, Value] = {**NGRAM, "speculative_ngram_min_match_window_size": 13}
    args, settings = resolve(given, "0.5.9"), make_settings(given, {}, "0.5.9")
    assert "min_match_window_size" in load_fault(args, settings, TRUTHS["M"])


@pytest.mark.parametrize(
    ("env", "fails"),
    [
        ({"NCCL_PROTO": "LL,Simple"}, False),
        ({"NCCL_PROTO": "^LL128"}, False),
        ({"NCCL_PROTO": "LX"}, True),
        ({"NCCL_ALGO": "tree"}, False),
        ({"NCCL_ALGO": "NVLS"}, True),
        ({"NCCL_ALGO": "Rong"}, True),
    ],
)
def test_nccl_refuses_unknown_names(env: dict[str, str], *, fails: bool) -> None:
    assert bool(communicator_fault(make_settings(BASE, env, "0.5.23"))) is fails


def test_emulation_is_told_by_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "world.toml"
    path.write_text("[stream]\nstall_after_tokens = 5\n")
    emulation = read_emulation(
        {"EMULATED_TIME_SCALE": "20", "EMULATED_TRUTH": "G", "EMULATED_SCENARIO": str(path)}
    )
    assert (emulation.time_scale, emulation.truth.name) == (20.0, "G")
    assert emulation.scenario.now.stream.stall_after_tokens == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EMULATED_TIME_SCALE", "fast"),
        ("EMULATED_TIME_SCALE", "0"),
        ("EMULATED_TRUTH", "X"),
        ("EMULATED_SCENARIO", "no-such-file.toml"),
    ],
)
def test_emulation_names_what_it_cannot_read(name: str, value: str) -> None:
    with pytest.raises(EmulationError, match=name):
        read_emulation({name: value})


def test_starts_take_minutes_and_wider_verifies_longer() -> None:
    def total_s(given: dict[str, Value]) -> float:
        times = plan_start(TRUTHS["M"], make_settings(given, {}, "0.5.23"), seed=1)
        return times.spawn_s + times.weights_s + times.graphs_s + times.warm_up_s

    assert 100 < total_s(BASE) < 200
    eagle: dict[str, Value] = {**BASE, "speculative_algorithm": "EAGLE3"}
    assert total_s(eagle) > total_s(BASE)
