"""What is inherited from whoever starts the tests does not reach what they start, and modules of
slow tests are not even imported where the fast ones are asked for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.busy import ROOT
from tests.conftest import pytest_ignore_collect

_SHOW = """
import json, os, signal
numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
deaf = [number.name for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
print(json.dumps([deaf, os.environ.get("MLFLOW_TRACKING_URI")]))
"""
_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_SHOW!r}], check=True)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (_CHILD, [["SIGINT", "SIGQUIT", "SIGHUP"], "http://far"]),
        (f"import tests.conftest; {_CHILD}", [[], None]),
    ],
    ids=["without", "with"],
)
def test_a_child_hears_signals_and_knows_no_tracking_server(code: str, shown: object) -> None:
    starts = 'trap "" INT QUIT HUP; MLFLOW_TRACKING_URI=http://far exec "$@"'
    done = subprocess.run(
        ["sh", "-c", starts, "sh", sys.executable, "-c", code], cwd=ROOT, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == shown


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("import pytest\n\npytestmark = pytest.mark.slow\n", True),
        ("pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]\n", True),
        ("pytestmark = [\n    pytest.mark.slow,\n]\n", True),
        ("pytestmark = pytest.mark.timeout(600)\n", False),
        ("@pytest.mark.slow\ndef test_one() -> None: ...\n", False),
        ("TEXT = 'pytestmark = pytest.mark.slow'\n", False),
    ],
)
def test_modules_of_slow_tests_alone_are_left_out_where_the_fast_ones_are_asked_for(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, text: str,
    *, left_out: bool,
) -> None:  # fmt: skip
    path = tmp_path / "test_it.py"
    path.write_text(text)
    monkeypatch.setattr(pytestconfig.option, "markexpr", "not slow")
    assert bool(pytest_ignore_collect(path, pytestconfig)) is left_out
    for asked in ("", "slow"):
        monkeypatch.setattr(pytestconfig.option, "markexpr", asked)
        assert not pytest_ignore_collect(path, pytestconfig)
