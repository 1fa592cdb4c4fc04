"""What a build runs, as values that can be printed, compared and run."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from infra.sglang_cpu import layout
from infra.sglang_cpu.errors import StepError
from infra.sglang_cpu.launch import server_variables
from infra.sglang_cpu.layout import EnvLayout

TORCH = "torch==2.13.0"
_TAIL_LINES = 20
_PIP_FLAGS = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off")


class Step(Protocol):
    """One part of a build; it may be run again after a failure."""

    @property
    def title(self) -> str:
        """What it does, to be read behind a number."""
        ...

    def run(self, log: Path) -> None:
        """Do it, appending any output to `log`. Raises StepError."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """A subprocess with a deadline; `variables` is its whole environment."""

    title: str
    argv: tuple[str, ...]
    deadline_s: float
    variables: Mapping[str, str]

    def run(self, log: Path) -> None:
        """Run it to its end. Raises StepError with the last lines of its output."""
        with log.open("ab") as output:
            output.write(f"$ {' '.join(self.argv)}\n".encode())
            output.flush()
            process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self.variables),
                start_new_session=True,
                close_fds=False,  # the build's lock is inherited, nothing else is inheritable
            )
            try:
                code = process.wait(self.deadline_s)
            except subprocess.TimeoutExpired:
                raise self._failed(f"was stopped after {self.deadline_s:.0f} s", log) from None
            finally:
                if process.returncode is None:  # while it is not reaped, its id cannot pass on
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if code != 0:
            raise self._failed(f"failed with exit code {code}", log)

    def _failed(self, how: str, log: Path) -> StepError:
        lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        return StepError("\n".join([f"{self.title}: {how}; the end of {log}:", *lines]))


@dataclass(frozen=True, slots=True)
class CopyStandIns:
    """Copies the stand-ins into the environment, so that it outlives a moved checkout.

    The path file names them relative to itself; Python reads it so (the `site` module).
    """

    env: EnvLayout
    source: Path = layout.STAND_INS
    title: str = "install the stand-ins"

    def run(self, log: Path) -> None:
        """Copy the files, then put them on the path."""
        shutil.rmtree(self.env.stand_ins, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(self.source, self.env.stand_ins, ignore=ignored)
        self.env.path_file.write_text(f"{self.env.stand_ins.name}\n")


def installer_variables() -> dict[str, str]:
    """Return this process's variables, which say where pip looks, without Python's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def engine_variables(env: EnvLayout) -> dict[str, str]:
    """Return the variables of a server: what it compiles is found again only under the same."""
    return {"PATH": os.environ.get("PATH", os.defpath), **server_variables(env)}


def env_steps(env: EnvLayout) -> tuple[Step, ...]:
    """Return the steps that make an environment.

    torch comes last of the packages and with dependencies: on an index with CPU builds all of
    them are there already, by their pins. Each index has another file of it, so no hash fits all;
    pip reports which one it took, and the build says so.
    """
    return (
        Command(
            "make a virtual environment",
            (sys.executable, "-m", "venv", str(env.root)),
            deadline_s=180,
            variables=installer_variables(),
        ),
        CopyStandIns(env),
        _install(
            pinned_installer(env),
            "install the pinned packages",
            ("--no-deps", "--require-hashes", "-r", str(layout.REQUIREMENTS)),
        ),
        _with(_install(pip(env), f"install {TORCH}", (TORCH,)), PIP_REPORT=str(env.torch_report)),
        Command(
            "import SGLang and compile the n-gram corpus",
            (str(env.python), str(layout.WARM_UP_SCRIPT)),
            deadline_s=600,
            variables=engine_variables(env),
        ),
    )


def pip(env: EnvLayout) -> tuple[str, ...]:
    """Return the environment's own pip, which looks wherever the machine's settings say."""
    return (str(env.python), "-m", "pip", "install", *_PIP_FLAGS)


def pinned_installer(env: EnvLayout) -> tuple[str, ...]:
    """Return what installs the pinned packages: uv where it is, ten times as fast, or pip."""
    if importlib.util.find_spec("uv") is None:
        return pip(env)
    return (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(env.python))


def _install(installer: tuple[str, ...], title: str, arguments: tuple[str, ...]) -> Command:
    argv = (*installer, "--only-binary", ":all:", *arguments)
    return Command(title, argv, deadline_s=1800, variables=installer_variables())


def _with(command: Command, **variables: str) -> Command:
    return replace(command, variables={**command.variables, **variables})


def model_steps(env: EnvLayout, model: Path) -> tuple[Step, ...]:
    """Return the steps that make the tiny model."""
    return (
        Command(
            "train a tokenizer and draw the weights of a tiny model",
            (str(env.python), str(layout.TINY_MODEL_SCRIPT), str(model)),
            deadline_s=300,
            variables=engine_variables(env) | {"TOKENIZERS_PARALLELISM": "false"},
        ),
    )
