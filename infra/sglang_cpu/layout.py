"""Where the parts of a built environment lie."""

import sys
from dataclasses import dataclass
from pathlib import Path

DEFAULT_ENV = Path(".sglang-cpu/env")
DEFAULT_MODEL = Path(".sglang-cpu/model")

PACKAGE = Path(__file__).resolve().parent
REQUIREMENTS = PACKAGE / "requirements.txt"
STAND_INS = PACKAGE / "stand_ins"
TINY_MODEL_SCRIPT = PACKAGE / "tiny_model.py"
WARM_UP_SCRIPT = PACKAGE / "warm_up.py"


@dataclass(frozen=True, slots=True)
class EnvLayout:
    """The paths of one environment; its Python is of the running interpreter's version."""

    root: Path

    @property
    def python(self) -> Path:
        """The interpreter that runs SGLang."""
        return self.root / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """The directory of installed packages."""
        return self.root / "lib" / f"python{python_version()}" / "site-packages"

    @property
    def stand_ins(self) -> Path:
        """The environment's own copy of the stand-ins, so that no checkout is needed to run it."""
        return self.site_packages / "sglang_cpu_stand_ins"

    @property
    def path_file(self) -> Path:
        """The `.pth` file that puts the stand-ins last on the path: a real package goes first."""
        return self.site_packages / "sglang_cpu_stand_ins.pth"

    @property
    def torch_report(self) -> Path:
        """The file in which pip tells where torch came from."""
        return self.root / "torch-report.json"

    @property
    def caches(self) -> Path:
        """The directory of what SGLang compiles."""
        return self.root / "cache"


def python_version() -> str:
    """Return the running interpreter's version as `major.minor`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
