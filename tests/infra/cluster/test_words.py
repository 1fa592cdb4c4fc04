"""How Ray is started: whole hosts as resources, and no secret among the words."""

import json

from infra.cluster.head import own_address_towards
from infra.cluster.words import (
    HOST_RESOURCE,
    TOKEN_VARIABLE,
    VARIABLES,
    head_words,
    new_token,
    node_words,
)


def test_a_host_offers_itself_once_and_all_its_gpus() -> None:
    words = node_words("/opt/python", "10.0.0.1:6379", "10.0.0.2", "gpu1", 8, "/tmp/orr")
    at = words.index("--address")
    options = dict(zip(words[at::2], words[at + 1 :: 2], strict=True))
    assert json.loads(options["--resources"]) == {f"{HOST_RESOURCE}gpu1": 1}
    assert options["--num-gpus"] == "8"
    assert options["--address"] == "10.0.0.1:6379"


def test_tokens_are_secret_and_new_each_time() -> None:
    token = new_token()
    assert token != new_token()
    assert len(token) >= 32
    words = [*head_words("python", "10.0.0.1", 6379, "/tmp/orr"), *VARIABLES.values()]
    assert not any(TOKEN_VARIABLE in word for word in words)
    assert VARIABLES["RAY_AUTH_MODE"] == "token"


def test_the_address_towards_oneself_is_the_loopback() -> None:
    assert own_address_towards("127.0.0.1") == "127.0.0.1"
