"""The environments of the other clients: made once, kept under bench/out; or why there is none."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "bench" / "out" / "peers"
SGLANG = ROOT / ".sglang-cpu" / "env"
MODEL = ROOT / ".sglang-cpu" / "model"
TORCH = "torch==2.13.0"
_HERE = Path(__file__).parent
_DONE = "installed"
_OWN = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
_INSTALL_S = 1_800.0


class AbsentError(RuntimeError):
    """An environment is not there and cannot be made; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with the packages of `requirements-NAME.txt`."""

    name: str
    torch: bool = False
    """It imports torch, of which any build will do."""
    on_sglang: bool = False
    """It only adds to the environment of SGLang on a CPU."""

    @property
    def root(self) -> Path:
        """Return its folder."""
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        """Return the interpreter that runs the client."""
        return (SGLANG if self.on_sglang else self.root) / "bin" / "python"

    @property
    def variables(self) -> Mapping[str, str]:
        """Return what the client's process sees; it may cache its bytecode."""
        known = {name: value for name, value in os.environ.items() if name not in _OWN}
        if self.on_sglang:
            (packages,) = self.root.glob("lib/python*/site-packages")
            own = next(SGLANG.glob("lib/python*/site-packages"))
            known["PYTHONPATH"] = f"{own}{os.pathsep}{packages}"
        return known

    def make(self) -> None:
        """Make it if it is not there. Raises AbsentError with the installer's last words.

        All of them need the tokenizer of the tiny model, which is built with SGLang's environment.
        """
        if not (SGLANG.is_dir() and MODEL.is_dir()):
            builder = ("-m", "infra.sglang_cpu.build", "--env", str(SGLANG), "--model", str(MODEL))
            _run(sys.executable, *builder)
        if (self.root / _DONE).exists():
            return
        uv = (sys.executable, "-m", "uv")
        _run(*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(self.root))
        pip = (*uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(self.root))
        _run(*pip, "--no-deps", "-r", str(_HERE / f"requirements-{self.name}.txt"))
        if self.torch:
            links = os.environ.get("PIP_FIND_LINKS", "").split()
            _run(*pip, *(word for link in links for word in ("--find-links", link)), TORCH)
        (self.root / _DONE).touch()


def _run(*argv: str) -> None:
    try:
        done = subprocess.run(
            argv, cwd=ROOT, capture_output=True, text=True, timeout=_INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise AbsentError(f"{' '.join(argv)} did not end in {_INSTALL_S:g} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise AbsentError(f"{' '.join(argv)} failed: {' / '.join(lines[-3:])}")
