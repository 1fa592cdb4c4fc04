"""What all tests share."""

import gc
import os
import re
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.infra.ssh.fixtures import lan_of_session

__all__ = ["lan_of_session"]

# As the command line does, before NumPy is loaded by what is tested.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Machines are shared: how long an example takes says nothing about the code.
settings.register_profile("shared", deadline=None, max_examples=50)
settings.load_profile("shared")

# What is inherited from whoever starts the tests would reach each process of them, and they would
# hold in one terminal and not in another. A shell that runs a script starts what stands behind `&`
# deaf to Ctrl-C; a variable may name a tracking server, which must not hear of tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)
_OF_A_USER = ("EMULATED_", "MLFLOW_", "NCCL_", "RAY_", "SGLANG_", "SGL_", "TORCH_NCCL_")
for _name in [name for name in os.environ if name.startswith(_OF_A_USER)]:
    del os.environ[_name]

_SLOW_MODULE = re.compile(r"^pytestmark = (?:\[\s*)?pytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules alone whose tests are all slow, where the others alone are asked for: each
    worker would import MLflow, Ray and Numba for nothing."""
    if config.option.markexpr != "not slow" or not collection_path.name.startswith("test_"):
        return None
    return True if _SLOW_MODULE.search(collection_path.read_text("utf-8")) else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Keep what an attack tries with its report, for `bench/attacks.py`."""
    item.user_properties += [("attack", mark.args[0]) for mark in item.iter_markers("attack")]


def pytest_collection_finish() -> None:
    """Spare the garbage collector the modules and tests that stay until the end."""
    gc.freeze()
