"""The build command: done once, never half, and clear about what failed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.sglang_cpu.build import (
    build_directory,
    env_digest,
    is_built,
    main,
    model_digest,
    torch_source,
)
from infra.sglang_cpu.errors import BuildBusyError, StepError
from infra.sglang_cpu.layout import EnvLayout
from infra.sglang_cpu.stamp import (
    BuildState,
    Stamp,
    exclusive,
    is_whole,
    read_stamp,
    write_stamp,
)
from infra.sglang_cpu.steps import Command
from tests.attacks import attack

DEADLINE_S = 30


def _append(target: Path, text: str) -> Command:
    code = "import sys; open(sys.argv[1], 'a').write(sys.argv[2])"
    argv = (sys.executable, "-c", code, str(target), text)
    return Command(f"write {text}", argv, DEADLINE_S, {})


def _fail() -> Command:
    return Command("break", (sys.executable, "-c", "raise SystemExit('broken')"), DEADLINE_S, {})


def _silent(line: str) -> None:
    assert line


def _wait_until(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until_s, "waited in vain"
        time.sleep(0.02)


def test_a_second_build_runs_nothing(tmp_path: Path) -> None:
    steps = [_append(tmp_path / "record", "a"), _append(tmp_path / "record", "b")]
    lines: list[str] = []
    assert build_directory(tmp_path / "env", "d1", steps, lines.append)
    assert not build_directory(tmp_path / "env", "d1", steps, lines.append)
    assert (tmp_path / "record").read_text() == "ab"
    assert [line for line in lines if line.startswith("[")] == [
        "[1/2] write a …",
        "[2/2] write b …",
    ]


def test_other_ingredients_build_again_from_nothing(tmp_path: Path) -> None:
    env = tmp_path / "env"
    build_directory(env, "d1", [_append(env / "of_d1", "a")], _silent)
    build_directory(env, "d2", [_append(env / "of_d2", "b")], _silent)
    assert is_whole(env, "d2")
    assert not (env / "of_d1").exists()
    assert (env / "of_d2").read_text() == "b"


def test_a_failed_step_leaves_no_whole_build(tmp_path: Path) -> None:
    env = tmp_path / "env"
    with pytest.raises(StepError, match="broken"):
        build_directory(env, "d1", [_append(env / "half", "a"), _fail()], _silent)
    assert read_stamp(env) == Stamp(BuildState.BUILDING, "d1")
    assert build_directory(env, "d1", [_append(env / "half", "b")], _silent)
    assert (env / "half").read_text() == "b"


def _start_endless_build(env: Path) -> "subprocess.Popen[bytes]":
    code = (
        "import sys; from pathlib import Path\n"
        "from infra.sglang_cpu.build import build_directory\n"
        "from infra.sglang_cpu.steps import Command\n"
        "nap = 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'\n"
        "step = Command('nap', (sys.executable, '-c', nap), 60, {})\n"
        "build_directory(Path(sys.argv[1]), 'd1', [step], print)\n"
    )
    return subprocess.Popen([sys.executable, "-c", code, str(env)], stdout=subprocess.DEVNULL)


def _last_line(log: Path) -> str:
    return log.read_text().splitlines()[-1] if log.exists() and log.stat().st_size else ""


def test_a_killed_build_is_not_whole_and_can_be_repeated_once_its_step_ended(
    tmp_path: Path,
) -> None:
    env = tmp_path / "env"
    with _start_endless_build(env) as builder:
        _wait_until(lambda: _last_line(env / "build.log").isdigit())
        builder.kill()
    step_pid = int(_last_line(env / "build.log"))
    assert not is_whole(env, "d1")
    with pytest.raises(BuildBusyError), exclusive(env, deadline_s=0):
        pass
    os.kill(step_pid, signal.SIGKILL)
    assert build_directory(env, "d1", [_append(env / "part", "a")], _silent)
    assert is_whole(env, "d1")


def _pretend_whole(directory: Path, digest: str) -> None:
    directory.mkdir()
    write_stamp(directory, Stamp(BuildState.WHOLE, digest))


def test_the_command_is_done_at_once_where_all_is_built(tmp_path: Path) -> None:
    env, model = tmp_path / "env", tmp_path / "model"
    assert not is_built(EnvLayout(env), model)
    _pretend_whole(env, env_digest())
    _pretend_whole(model, model_digest(env_digest()))
    assert is_built(EnvLayout(env), model)
    argv = [sys.executable, "-m", "infra.sglang_cpu.build"]
    argv += ["--env", str(env), "--model", str(model)]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert run.stdout.splitlines() == [
        f"environment up to date: {env}",
        f"model up to date: {model}",
    ]


def test_the_command_refuses_a_directory_that_is_not_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    assert main(["--env", str(tmp_path / "home"), "--model", str(tmp_path / "model")]) == 1
    assert "name another directory" in capsys.readouterr().err
    assert (tmp_path / "home" / "letter").read_text() == "dear"


def _told(name: str, url: str, **more: object) -> dict[str, object]:
    archive = {"hashes": {"sha256": "ab12"}}
    return {
        "metadata": {"name": name, "version": "2.13.0+cpu"},
        "download_info": {"url": url, "archive_info": archive}, **more,
    }  # fmt: skip


@attack("16: the CPU build's torch from another index")
def test_the_source_of_torch_is_said_without_a_password(tmp_path: Path) -> None:
    env = EnvLayout(tmp_path)
    assert "does not tell" in torch_source(env)
    torch = _told("torch", "https://me:hunter22@index.example/torch-2.13.0.whl")
    env.torch_report.write_text(json.dumps({"install": [_told("sympy", "https://x/y"), torch]}))
    said = torch_source(env)
    assert "index.example/torch-2.13.0.whl, sha256 ab12" in said
    assert "hunter22" not in said


@pytest.mark.parametrize("text", ["", "[]", '{"install": 7}', '{"install": [{}]}', "{}"])
def test_a_report_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    env = EnvLayout(tmp_path)
    env.torch_report.write_text(text)
    assert "does not tell" in torch_source(env)
