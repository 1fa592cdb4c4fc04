"""Secrets stay out of everything that is written."""

import base64
import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from infra.redaction import MASK, RedactingFilter, Redactor, is_secret_name
from orchestrator.files import Spool, write_json
from orchestrator.tracking.events import SweepStarted, TrialEnded
from orchestrator.tracking.jsonl import JsonlTracker
from orchestrator.tracking.outbox import Outbox
from tests.orchestrator.tracking import stores

CANARIES = {
    "HF_TOKEN": "hf_canary0123456789",
    "AWS_SECRET_ACCESS_KEY": 'can"ary/with+odd\\chars',
    "MLFLOW_TRACKING_PASSWORD": "canary-password",
    "MLFLOW_TRACKING_TOKEN": "canary-bearer",
    "SOME_CREDENTIALS": "canary-credential",
    "OPENAI_API_KEY": "sk-canary",
}
SHOWN = [*CANARIES.values(), json.dumps(CANARIES["AWS_SECRET_ACCESS_KEY"])[1:-1]]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Plant secrets in the environment; return all forms in which they must not be seen."""
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "sam")
    basic = base64.b64encode(b"sam:canary-password").decode()
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
     "api-key", "admin_api_key", "password", "client.secret", "hf_token", "APIKEY"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["prompt_key", "key", "tokens", "speculative_num_draft_tokens", "SGLANG_MAX_NEW_TOKENS",
     "speculative_token_map", "NCCL_PROTO", "tokenizer_path", "MONKEY", "keyboard"],
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
