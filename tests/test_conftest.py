"""What is inherited from whoever starts the tests does not reach what they start."""

import json
import subprocess
import sys

import pytest

from tests.busy import ROOT

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
