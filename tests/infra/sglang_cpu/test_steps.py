"""The steps of a build as values, and how they run."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from infra.sglang_cpu import layout
from infra.sglang_cpu.errors import StepError
from infra.sglang_cpu.layout import EnvLayout
from infra.sglang_cpu.steps import (
    Command,
    CopyStandIns,
    Step,
    engine_variables,
    env_steps,
    installer_variables,
    model_steps,
    pinned_installer,
)

ENV = EnvLayout(Path("/somewhere/env"))
PIP = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off")


def _python(code: str, *, deadline_s: float = 30, **variables: str) -> Command:
    return Command("try it", (sys.executable, "-c", code), deadline_s, variables)


def _argv(step: Step) -> tuple[str, ...]:
    assert isinstance(step, Command)
    return step.argv


def test_an_environment_is_made_by_these_commands() -> None:
    venv, stand_ins, packages, torch, warm_up = env_steps(ENV)
    python = "/somewhere/env/bin/python"
    assert _argv(venv) == (sys.executable, "-m", "venv", "/somewhere/env")
    assert stand_ins == CopyStandIns(ENV)
    assert _argv(packages) == (
        *(*pinned_installer(ENV), "--only-binary", ":all:", "--no-deps", "--require-hashes"),
        *("-r", str(layout.REQUIREMENTS)),
    )
    assert _argv(torch) == (python, *PIP, "--only-binary", ":all:", "torch==2.13.0")
    assert _argv(warm_up) == (python, str(layout.WARM_UP_SCRIPT))


def test_pins_are_installed_by_uv_or_else_by_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    python = "/somewhere/env/bin/python"
    found = {"uv": True}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found.get(name))
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python)
    assert pinned_installer(ENV) == uv
    found.clear()
    assert pinned_installer(ENV) == (python, *PIP)


def test_a_model_is_made_by_the_environment() -> None:
    (train,) = model_steps(ENV, Path("/somewhere/model"))
    script = str(layout.TINY_MODEL_SCRIPT)
    assert _argv(train) == ("/somewhere/env/bin/python", script, "/somewhere/model")


def test_installers_do_not_inherit_a_python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PIP_CERT", "/certificate")
    assert "PYTHONPATH" not in installer_variables()
    assert installer_variables()["PIP_CERT"] == "/certificate"


def test_the_engine_inherits_the_path_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "other-compiler")
    monkeypatch.setenv("PATH", "/compilers")
    assert engine_variables(ENV)["PATH"] == "/compilers"
    assert "CXX" not in engine_variables(ENV)


def test_a_command_writes_to_the_log_and_sees_only_its_variables(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _python("import os; print('one', os.environ.get('HOME'), os.environ['A'])", A="1").run(log)
    _python("print('two')").run(log)
    said = [line for line in log.read_text().splitlines() if not line.startswith("$")]
    assert said == ["one None 1", "two"]


def test_a_failed_command_says_its_code_and_its_last_lines(tmp_path: Path) -> None:
    step = _python("for n in range(99): print('line', n)\nraise SystemExit(3)")
    with pytest.raises(StepError, match=r"try it: failed with exit code 3") as caught:
        step.run(tmp_path / "log")
    assert str(caught.value).splitlines()[1:] == [f"line {n}" for n in range(79, 99)]


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_command_past_its_deadline_ends_with_its_children(tmp_path: Path) -> None:
    argv = ("/bin/sh", "-c", "sleep 600 & echo $!; wait")
    with pytest.raises(StepError, match="was stopped after 1 s"):
        Command("wait", argv, 1, {}).run(tmp_path / "log")
    child_pid = int((tmp_path / "log").read_text().splitlines()[-1])
    until_s = time.monotonic() + 30  # a kill is sent at once and takes effect a little later
    while _is_alive(child_pid):
        assert time.monotonic() < until_s, "the child of a stopped command lives on"
        time.sleep(0.01)


def test_stand_ins_survive_a_moved_environment_and_yield_to_real_packages(tmp_path: Path) -> None:
    source = tmp_path / "checkout"
    for name in ("only_stand_in", "both"):
        (source / name).mkdir(parents=True)
        (source / name / "__init__.py").write_text("origin = 'stand-in'\n")
    env = EnvLayout(tmp_path / "env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env.root)], check=True)
    (env.site_packages / "both.py").write_text("origin = 'real'\n")
    CopyStandIns(env, source).run(tmp_path / "log")
    moved = EnvLayout(env.root.rename(tmp_path / "moved"))
    source.rename(tmp_path / "gone")
    code = "import only_stand_in, both; print(only_stand_in.origin, both.origin)"
    said = subprocess.run([moved.python, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout.split() == ["stand-in", "real"]


def test_pip_tells_where_torch_is_from() -> None:
    torch = env_steps(ENV)[3]
    assert isinstance(torch, Command)
    assert torch.variables["PIP_REPORT"] == str(ENV.torch_report)
    others = [step for step in env_steps(ENV) if isinstance(step, Command) and step != torch]
    assert not any("PIP_REPORT" in step.variables for step in others)
