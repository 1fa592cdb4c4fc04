"""Secrets are planted wherever a sweep may meet one, and nothing that it leaves holds any."""

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet
import pytest

from infra.redaction import MASK
from sweeps.exporters import EXPORTERS
from tests.attacks import attack
from tests.orchestrator.tracking import stores
from tests.orchestrator.tracking.servers import serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

VARIABLES = {
    "HF_TOKEN": "hf_canaryHubToken0123456789abcd",
    "AWS_SECRET_ACCESS_KEY": "canary/Cloud+Key0123456789",
    "OPENAI_API_KEY": "sk-canaryOtherService01234567",
    "GATEWAY_PASSWORD": 'canary"quoted\\pass word',
    "MLFLOW_TRACKING_USERNAME": "sweeper",
    "MLFLOW_TRACKING_PASSWORD": "canaryTrackerPassword01234",
    "PGPASSWORD": "canaryDatabase0123456789",
    "SENTRY_DSN": "https://canarySentry0123456@sentry.example/1",
    "GATE": "canaryGateOfTheServers0123",
}
IN_ADDRESS = "canaryAddressPassword:012345"
ON_HOST = "canaryHostToken0123456789"
OWN = {"HOST_TOKEN": ON_HOST, "NCCL_DEBUG": "WARN"}

SPACE = f"""
from sweeps import *

sweep = Sweep(
    name="canaries",
    model=Model("some/model"),
    axes=[Choice("NCCL_PROTO", [None, "LL"])],
    fixed={{"tp_size": 2, "api_key": "env:GATE"}},
    workload=Workload(max_tokens=128, measured_prompts=2, most_measured_prompts=2,
                      cold_prompts=1, measure_s=1e6,
                      ignore_eos=True),
    budget=Budget(trials=2, trial_s=1e6, start_s=1e6, phase_s=1e6),
    hosts=[HostSpec(time_scale=1000.0, gpus=2, env={OWN!r})],
    early_stopping=False,
)
"""

COMMANDS = {
    "check.json": ("check", "canaries.py", "--json"),
    "plan": ("plan", "canaries.py"),
    "plan.json": ("plan", "canaries.py", "--json"),
    "sweep": ("sweep", "canaries.py", "--driver", "serial"),
    "status": ("status",),
    "status.json": ("status", "--json"),
    "trials": ("trials", "--json"),
    "trials.csv": ("trials", "--csv"),
    "trials.parquet": ("trials", "--parquet", "out/trials.parquet"),
    "explain": ("explain", "best"),
    "html": ("report", "--output", "out/report.html"),
    "markdown": ("report", "--format", "markdown", "--output", "-"),
    "rebuild": ("rebuild",),
    **{
        form: (
            "export",
            "--format",
            form,
            "--allow-emulated",
            "--output",
            f"out/export-{form}.yaml",
        )
        for form in EXPORTERS
    },
}


def _secrets() -> list[bytes]:
    """Return each canary in the forms in which it may be written."""
    values = [v for n, v in VARIABLES.items() if n != "MLFLOW_TRACKING_USERNAME"]
    pair = f"{VARIABLES['MLFLOW_TRACKING_USERNAME']}:{VARIABLES['MLFLOW_TRACKING_PASSWORD']}"
    values += [IN_ADDRESS, ON_HOST, base64.b64encode(pair.encode()).decode()]
    escaped = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    quoted = [quote(value, safe="") for value in values]
    return [form.encode() for form in {*values, *escaped, *quoted}]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run everything that writes something, and give the folder of all that was left."""
    folder = tmp_path_factory.mktemp("canaries")
    (folder / "out").mkdir()
    served = folder / "served"
    served.mkdir()
    space = folder / "canaries.py"
    space.write_text(SPACE)
    with serving(stores.new_store(served), served) as server:
        address = server.uri.removeprefix("http://")
        uri = f"http://sweeper:{quote(IN_ADDRESS, safe='')}@{address}"
        env = {**os.environ, **VARIABLES, "MLFLOW_TRACKING_URI": uri}
        for name, words in COMMANDS.items():
            done = subprocess.run(
                [sys.executable, "-m", "orchestrator", *words], cwd=folder, env=env, timeout=600,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
            (folder / "out" / f"{name}.printed").write_bytes(done.stdout)
            assert done.returncode == 0, f"{name}: {done.stdout.decode()}"
        space.unlink()  # the only place where a person wrote one down
        yield folder


def _contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, str(path).encode() + path.read_bytes()
            if path.suffix == ".parquet":
                yield path, str(pyarrow.parquet.read_table(path).to_pylist()).encode()


@attack("7: secrets in variables, addresses, hosts and server keys, through all commands")
def test_no_secret_is_in_anything_that_was_written(left: Path) -> None:
    secrets = _secrets()
    found = [
        (path.relative_to(left), secret)
        for path, content in _contents(left)
        for secret in secrets
        if secret in content
    ]
    assert found == []


def test_they_were_there_to_be_found(left: Path) -> None:
    """The host's own variable was set for the servers, and stands masked where it is told of."""
    results = list(left.glob(".sweeps/sweeps/*/trials/*/result.json"))
    assert results
    assert all(f'"HOST_TOKEN": "{MASK}"' in path.read_text() for path in results)
    assert (left / "served" / "mlflow.db").stat().st_size > 0
    assert len(list((left / "out").glob("export-*"))) >= len(EXPORTERS)
