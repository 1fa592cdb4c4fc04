"""Flags and variables of the two arms."""

from pathlib import Path

from infra.sglang_cpu.launch import COMMON_FLAGS, NGRAM_FLAGS, server_argv, server_variables
from infra.sglang_cpu.layout import EnvLayout

ENV = EnvLayout(Path("/somewhere/env"))


def test_a_server_listens_on_loopback_alone() -> None:
    argv = server_argv(ENV, Path("/m"), port=31001, flags=COMMON_FLAGS)
    assert argv[:3] == ["/somewhere/env/bin/python", "-m", "sglang.launch_server"]
    assert argv[3:9] == ["--model-path", "/m", "--host", "127.0.0.1", "--port", "31001"]
    assert argv[9:] == list(COMMON_FLAGS)


def test_the_arms_differ_by_speculation_alone() -> None:
    assert all(flag.startswith("--speculative-") for flag in NGRAM_FLAGS[::2])
    assert not any("speculative" in flag for flag in COMMON_FLAGS)


def test_what_is_compiled_stays_in_the_environment() -> None:
    variables = server_variables(ENV)
    assert variables["SGLANG_JIT_CACHE_DIR"] == "/somewhere/env/cache/jit"
    assert variables["SGLANG_USE_CPU_ENGINE"] == "1"
    assert "HOME" not in variables
