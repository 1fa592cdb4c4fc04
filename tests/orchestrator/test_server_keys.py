"""A sweep of servers that ask for keys: the client sends them, and nothing shows them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from infra.clock import ScaledClock
from infra.secret_refs import SecretError, resolve
from infra.sglang.control import ControlError, ServerControl
from infra.sglang.server_keys import KEYS, ServerKeys, given_secrets, key_problems, unresolved
from orchestrator.job import StopOrder, TrialJob, TrialProgress
from orchestrator.load_client.client import StreamingClient
from orchestrator.tools import local_tools
from orchestrator.trial import run_trial
from sweeps.hosts import EngineName, HostSpec
from sweeps.results import Outcome, Phase
from sweeps.values import digest
from tests.attacks import attack
from tests.infra.emulated.serving import serve
from tests.sweeps.makers import SMALL, ngram, patient

API, ADMIN, VARIABLE = "user-key:\"with'#odd", "k", "hf_ofTheHost0123456789"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Lay the keys down, and return the references that lead to them."""
    path = tmp_path / "key"
    path.write_text(f"{API}\n")
    path.chmod(0o600)
    monkeypatch.setenv("KEY_OF_ADMIN", ADMIN)
    monkeypatch.setenv("HUB", VARIABLE)
    return {"api_key": f"file:{path}", "admin_api_key": "env:KEY_OF_ADMIN"}


class _Watch:
    """Looks at all processes of the trial while it is measured."""

    def __init__(self) -> None:
        self.seen = ""

    def report(self, progress: TrialProgress) -> None:
        if progress.phase is Phase.MEASURING and not self.seen:
            self.seen = "".join(
                path.read_bytes().decode("utf-8", "replace")
                for path in Path("/proc").glob("[0-9]*/cmdline")
                if path.exists()
            )

    def order(self) -> StopOrder | None:
        return None


@attack("7: the server's keys, in command lines, logs, plans, results and exports")
@pytest.mark.slow
def test_a_trial_of_a_server_with_keys_shows_none_of_them(
    tmp_path: Path, secrets: dict[str, str]
) -> None:
    folder = tmp_path / "trial"
    folder.mkdir()
    world, echo = tmp_path / "world.toml", tmp_path / "echo.json"
    world.write_text(f'[processes]\necho_path = "{echo}"\n')
    sweep = replace(
        SMALL, fixed={"tp_size": 8, **secrets}, budget=patient(1),
        workload=replace(SMALL.workload, max_tokens=256, measure_s=1e6),
    )  # fmt: skip
    host = HostSpec(
        engine=EngineName.EMULATED, time_scale=200.0, scenario=str(world),
        env={"HF_TOKEN": "env:HUB"},
    )  # fmt: skip
    sweep_id = f"keys-{digest(str(folder))}"
    job = TrialJob(f"{sweep_id}-0000", sweep_id, 0, sweep, ngram(4), host, folder)
    watch = _Watch()
    result = run_trial(job, local_tools(host), watch)
    assert result.outcome is Outcome.MEASURED, result.reason
    assert not [note for note in result.notes if "flush" in note]
    given = json.loads(echo.read_text())
    assert given["env"]["HF_TOKEN"] == VARIABLE
    assert "--config" in given["argv"]
    assert "some/model" in watch.seen or str(result.argv[0]) in watch.seen
    assert "api_key='[redacted]'" in (folder / "server.log").read_text()
    plan = json.loads(job.plan_path.read_text())
    assert plan["secrets"] == {**secrets, "HF_TOKEN": "env:HUB"}
    assert {name: result.requested[name] for name in KEYS} == secrets
    shown = [watch.seen, " ".join(given["argv"]), str(result)]
    shown += [path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]
    for text in shown:
        for secret in (API, json.dumps(API)[1:-1], VARIABLE, f"'{ADMIN}'"):
            assert secret not in text


@attack("7: a request without the server's key, or with another one")
@pytest.mark.slow
def test_the_gate_lets_only_the_keys_in(tmp_path: Path, secrets: dict[str, str]) -> None:
    given = given_secrets(secrets, tmp_path)
    with serve(*given.words, scale=200.0) as served:
        served.wait_ready()
        url = f"http://127.0.0.1:{served.port}"
        for wrong in (ServerKeys(), ServerKeys("other", "other"), ServerKeys(ADMIN, API)):
            with pytest.raises(ControlError, match="answered 401"):
                ServerControl(url, keys=wrong).flush()
            client = StreamingClient(ScaledClock(200.0)).bearing(wrong)
            assert "HTTP 401" in client.probe(url, "chat", 1000.0).why
        control = ServerControl(url, keys=given.keys)
        assert control.is_healthy()
        assert control.flush() == ""
        assert control.info()["api_key"] == API
        for dialect in ("chat", "generate"):
            assert (
                StreamingClient(ScaledClock(200.0)).bearing(given.keys).probe(url, dialect, 1000.0)
            )


def test_keys_lie_in_a_file_that_nobody_else_reads(tmp_path: Path, secrets: dict[str, str]) -> None:
    given = given_secrets(secrets, tmp_path)
    assert (tmp_path / "keys.yaml").stat().st_mode & 0o777 == 0o600
    assert given.words == ("--config", str(tmp_path / "keys.yaml"))
    assert API not in repr(given) + repr(given.keys)


@pytest.mark.parametrize("key", ["-begins", "has blank", "ünicode", "tab\there"])
def test_what_no_header_takes_is_no_key(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_API", key)
    with pytest.raises(SecretError, match="printable ASCII"):
        given_secrets({"api_key": "env:KEY_OF_API"}, tmp_path)
    (problem,) = unresolved({"api_key": "env:KEY_OF_API"})
    assert "printable ASCII" in problem.why
    assert key not in str(problem)


def test_a_key_is_given_by_reference_once_and_to_a_version_that_hides_it() -> None:
    def why(values: tuple[str, ...], version: str = "0.5.23") -> list[str]:
        return [p.why for p in key_problems({"api_key": values}, version)]

    assert why(("env:A",)) == []
    assert why(("sk-1234567",)) == ["a secret does not belong in a space file"]
    assert "no axis" in why(("env:A", "env:B"))[0]
    assert "all users can read" in why(("env:A",), "0.5.2")[0]
    assert "sk-1234567" not in str(list(key_problems({"api_key": ("sk-1234567",)}, "0.5.23")))
    (problem,) = unresolved({"api_key": "env:NOT_SET_ANYWHERE"})
    assert "NOT_SET_ANYWHERE is not set" in problem.why


@attack("Low: a secret file of several lines, or none, or open to others")
@pytest.mark.parametrize("text", ["a\nb\n", "\n", "", "a\n\nb", "a\rb", "a\x85b"])
def test_a_secret_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(text.encode())
    path.chmod(0o600)
    with pytest.raises(SecretError, match="one line"):
        resolve(f"file:{path}")
    path.chmod(0o644)
    with pytest.raises(SecretError, match="chmod 600"):
        resolve(f"file:{path}")
