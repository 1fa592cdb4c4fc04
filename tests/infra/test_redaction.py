"""Secrets stay out of everything that is written."""

import base64
import json
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from infra.redaction import MASK, RedactingFilter, Redactor, is_secret_name
from infra.sglang.flags import FLAGS
from infra.sglang.variables import ENVIRONMENT
from orchestrator.files import Spool, write_json
from orchestrator.tracking.events import SweepStarted, TrialEnded
from orchestrator.tracking.jsonl import JsonlTracker
from orchestrator.tracking.outbox import Outbox
from sweeps.metrics import METRICS
from sweeps.results import TrialResult
from tests.attacks import attack
from tests.orchestrator.tracking import stores

CANARIES = {
    "HF_TOKEN": "hf_canary0123456789",
    "AWS_SECRET_ACCESS_KEY": 'can"ary/with+odd\\chars',
    "MLFLOW_TRACKING_PASSWORD": "canary-password-01",
    "MLFLOW_TRACKING_TOKEN": "canary-bearer-4567",
    "SOME_CREDENTIALS": "canary-credential-89",
    "OPENAI_API_KEY": "sk-canary01234567",
}
SHOWN = [*CANARIES.values(), json.dumps(CANARIES["AWS_SECRET_ACCESS_KEY"])[1:-1]]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Plant secrets in the environment; return all forms in which they must not be seen."""
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "sam")
    basic = base64.b64encode(b"sam:canary-password-01").decode()
    return [*SHOWN, basic]


def _assert_clean(folder: Path, secrets: list[str]) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        for secret in secrets:
            assert secret.encode() not in content, f"{path} holds {secret}"


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_KEY", "DB_PASSWORD", "GOOGLE_CREDENTIALS", "api_key",
     "api-key", "admin_api_key", "password", "client.secret", "hf_token", "APIKEY", "PGPASSWORD",
     "DB_PASS", "MYSQL_PWD", "GITHUB_PAT", "COOKIE", "AUTHORIZATION", "SENTRY_DSN", "RABBITMQPASS",
     "SLACK_WEBHOOK_URL", "AZURE_SAS", "DOCKER_CREDS", "X-Api-Key", "Set-Cookie", "apiKey",
     "clientSecret", "accessToken", "X-Auth-Token", "AccountKey", "wandb_token", "pgpassword"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["prompt_key", "key", "tokens", "speculative_num_draft_tokens", "SGLANG_MAX_NEW_TOKENS",
     "speculative_token_map", "NCCL_PROTO", "tokenizer_path", "MONKEY", "keyboard", "PWD", "OLDPWD",
     "BYPASS", "eos_token", "first_token", "time_per_output_token", "signature", "sort_key",
     *METRICS, *ENVIRONMENT, *(name for name in FLAGS if not name.endswith("api_key"))],
)  # fmt: skip
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_masks_by_name_by_value_and_by_form() -> None:
    redactor = Redactor.from_environment({"HF_TOKEN": "hf_0123456789", "KEY_COUNT": "3"})
    told = {
        "env": {"HF_TOKEN": "x", "A": "is hf_0123456789!"},
        "argv": ["--api-key", "k", "--api-key=k2", "--tp", "8", "hf_0123456789"],
        "tokens": [3, 1, 2], "prompt_key": "abc", "left": None, "n": 3,
        "url": "https://sam:pw@host/x?y=3", "head": "Authorization: Bearer abc.def",
    }  # fmt: skip
    assert redactor.data(told) == {
        "env": {"HF_TOKEN": MASK, "A": f"is {MASK}!"},
        "argv": ["--api-key", MASK, f"--api-key={MASK}", "--tp", "8", MASK],
        "tokens": [3, 1, 2], "prompt_key": "abc", "left": None, "n": 3,
        "url": f"https://{MASK}@host/x?y=3", "head": f"Authorization: Bearer {MASK}",
    }  # fmt: skip


@pytest.mark.parametrize("value", ["", "1", "4096", "true", "abc"])
def test_short_or_common_values_are_not_hunted(value: str) -> None:
    assert (
        Redactor.from_environment({"X_TOKEN": value}).text("abc true 4096 1") == "abc true 4096 1"
    )


FORMS = {
    "git clone https://ghp_abc@github.com/x": f"git clone https://{MASK}@github.com/x",
    "postgresql://u:p@ss:w@rd@db/x?y=1": f"postgresql://{MASK}@db/x?y=1",
    "run --api-key X9 --port 1": f"run --api-key {MASK} --port 1",
    "hub login --token=abc then": f"hub login --token={MASK} then",
    "curl -H 'X-Api-Key: abc' -H \"authorization: bearer q.w\"":
        f"curl -H 'X-Api-Key: {MASK}' -H \"authorization: bearer {MASK}\"",
    "Cookie: a=b; c=d\nHost: x": f"Cookie: {MASK}\nHost: x",
    "GET https://b.s3.amazonaws.com/k?X-Amz-Credential=AKIA%2F1&X-Amz-Signature=ab&x=1":
        f"GET https://b.s3.amazonaws.com/k?X-Amz-Credential={MASK}&X-Amz-Signature={MASK}&x=1",
    "https://storage.googleapis.com/b/o?X-Goog-Signature=aa&Expires=1":
        f"https://storage.googleapis.com/b/o?X-Goog-Signature={MASK}&Expires=1",
    "https://acc.blob.core.windows.net/c?sv=2020&sig=ab%2Bcd%3D&se=2030":
        f"https://acc.blob.core.windows.net/c?sv=2020&sig={MASK}&se=2030",
    "server_args=ServerArgs(model_path='m', api_key='sk-1', admin_api_key=None)":
        f"server_args=ServerArgs(model_path='m', api_key='{MASK}', admin_api_key=None)",
    '{"api_key": "sk-1", "x": 1}': f'{{"api_key": "{MASK}", "x": 1}}',
    "{'Authorization': 'Bearer abc', 'x': 1}": f"{{'Authorization': 'Bearer {MASK}', 'x': 1}}",
    "PGPASSWORD=123456 psql": f"PGPASSWORD={MASK} psql",
    r"api_key='it\'s one', port=1": f"api_key='{MASK}', port=1",
    r'{"api_key": "with\"quote", "x": 1}': f'{{"api_key": "{MASK}", "x": 1}}',
    r'"{\"api_key\": \"in JSON\"}"': rf'"{{\"api_key\": \"{MASK}\"}}"',
    "[(b'authorization', b'Bearer abc'), (b'host', b'x')]":
        f"[(b'authorization', b'Bearer {MASK}'), (b'host', b'x')]",
    "['--api-key', 'x9', '--tp', '8']": f"['--api-key', '{MASK}', '--tp', '8']",
    "warning: password=hunter2, url: x": f"warning: password={MASK}, url: x",
    "a line that was cut: api_key='sk-12": f"a line that was cut: api_key='{MASK}",
    "Protocol=https;AccountKey=abc==;X=1": f"Protocol=https;AccountKey={MASK};X=1",
    "the api_key=env:SGLANG_KEY of a plan": "the api_key=env:SGLANG_KEY of a plan",
    "eos_token: x, prompt_key=y, Decode batch, #token: 7": (
        "eos_token: x, prompt_key=y, Decode batch, #token: 7"
    ),
}  # fmt: skip


@attack("7: a secret in free text, under the forms in which programs print one")
@pytest.mark.parametrize("text", FORMS)
def test_masks_in_free_text_by_form(text: str) -> None:
    assert Redactor(()).text(text) == FORMS[text]


@attack("7: a text that is made to keep the masking busy")
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a:",
        "://",
        "--a ",
        "api_key='",
        "=",
        "a=a@",
        "x://@",
        "'",
        "password: ",
        "(",
        "\\",
        "\\'",
        "a,'",
    ],
)
def test_masking_takes_time_in_proportion_to_the_text(piece: str) -> None:
    def cpu_s(repeats: int) -> float:
        begun_s = time.process_time()
        Redactor(()).text(piece * repeats)
        return time.process_time() - begun_s

    few = 60_000
    assert cpu_s(8 * few) < 40 * max(cpu_s(few), 0.01)


WEAK = ["sglang", "emulated", "measured", "ngram-2", "models", "baseline", "factorised", "Simple"]


def _after(secret: str, result: TrialResult) -> TrialResult:
    masked = Redactor([secret]).data(result.as_data())
    assert isinstance(masked, dict)
    return TrialResult.from_data(masked)


@attack("8: a password that is a word of our own files")
@pytest.mark.parametrize("word", [*WEAK, "t00001", "speculative_algorithm"])
def test_what_is_read_back_survives_a_secret_of_the_same_value(word: str) -> None:
    result = replace(
        stores.result(1), trial=word, sweep=word, host=word, engine_version=word, purpose=word,
        signature=word, requested={word: word, "model_path": f"/models/{word}"}, env={"A": word},
        reason=f"the log says {word} of it",
    )  # fmt: skip
    read = _after(word, result)
    assert replace(read, reason="") == replace(result, reason="")
    assert word not in read.reason


@attack("8: a password that is the name of a sweep")
def test_names_survive_a_secret_of_the_same_value() -> None:
    name = "joint-20260101-220000-1a2b"
    result = replace(stores.result(1), trial=name, sweep=name, host=name, fingerprint=name)
    assert _after(name, result) == result


def test_the_longer_of_two_secrets_is_masked_whole() -> None:
    redactor = Redactor(["secret-one", "secret-one-and-more"])
    assert redactor.text("a secret-one-and-more b") == f"a {MASK} b"


def test_spools_and_plans_hold_no_secret(planted: list[str], tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.jsonl")
    spool.append("effective", {"settings": dict(CANARIES), "said": " ".join(CANARIES.values())})
    spool.append("stop", {"tail": [f"x={value}" for value in CANARIES.values()]})
    spool.close()
    plan = {"env": dict(CANARIES), "argv": ["--api-key", "short", *CANARIES.values()]}
    write_json(tmp_path / "plan.json", plan)
    _assert_clean(tmp_path, planted)
    assert "short" not in (tmp_path / "plan.json").read_text()


def test_outboxes_hold_no_secret(planted: list[str], tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.jsonl")
    leaky = {name.lower(): value for name, value in CANARIES.items()}
    outbox.put(SweepStarted(replace(stores.SWEEP, params=leaky, tags=leaky), 1))
    outbox.put(TrialEnded(stores.result(1, reason=" ".join(CANARIES.values())), tmp_path, 2))
    _assert_clean(tmp_path, planted)


def test_the_tracker_without_a_store_holds_no_secret(planted: list[str], tmp_path: Path) -> None:
    tracker = JsonlTracker(tmp_path / "events.jsonl")
    tracker.sweep_started(replace(stores.SWEEP, params=dict(CANARIES)))
    tracker.trial_ended(stores.result(1, reason=" ".join(CANARIES.values())), tmp_path)
    assert tracker.close(1.0)
    _assert_clean(tmp_path, planted)


def test_logs_hold_no_secret(planted: list[str], tmp_path: Path) -> None:
    handler = logging.FileHandler(tmp_path / "driver.log")
    handler.addFilter(RedactingFilter())
    logger = logging.getLogger("infra.test_redaction")
    logger.addHandler(handler)
    try:
        for value in planted:
            logger.error("said %s", value)
            try:
                raise ValueError(f"inside {value}")
            except ValueError:
                logger.exception("failed with %r", value)
    finally:
        logger.removeHandler(handler)
        handler.close()
    _assert_clean(tmp_path, planted)
    assert "Traceback" in (tmp_path / "driver.log").read_text()
