"""How Ray's processes are started: the words, and the variables beside them."""

import json
import secrets
from collections.abc import Mapping

HOST_RESOURCE = "whole_host_"
"""With a host's name: the resource of which a trial there takes all."""
TOKEN_VARIABLE = "RAY_AUTH_TOKEN"
RAY_FOLDER = "{private folder for Ray}"
"""Stands among the words of a node for a folder that is made on its host."""
OBJECT_STORE_BYTES = 80 << 20
"""Ray's smallest: no large object is passed."""

START_S = 120
"""Wall seconds that Ray gives its parts to come up; its own 30 are too few on a busy machine."""

VARIABLES: Mapping[str, str] = {
    "RAY_raylet_start_wait_time_s": str(START_S),
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A host from which nothing comes is given up after 22 s, not after 65.
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "6000",
    "RAY_health_check_failure_threshold": "3",
}

_PROGRAM = ("-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats")
_HEAD_CPUS, _NODE_CPUS = 4, 8
"""What Ray counts; nothing of ours asks for more than one."""


def new_token() -> str:
    """Return a secret that all machines of one cluster share."""
    return secrets.token_hex(32)


def head_words(python: str, address: str, port: int, folder: str) -> tuple[str, ...]:
    """Return how the head is started; `folder` has a short path, since sockets lie in it."""
    return (
        python, *_PROGRAM, "--head", "--port", str(port), "--node-ip-address", address,
        "--num-cpus", str(_HEAD_CPUS), "--num-gpus", "0", "--include-dashboard", "false",
        "--temp-dir", folder, "--object-store-memory", str(OBJECT_STORE_BYTES),
    )  # fmt: skip


def node_words(
    python: str, head: str, address: str, name: str, gpus: int, folder: str
) -> tuple[str, ...]:
    """Return how a host joins a head; `address` is the host's own, as the head reaches it."""
    return (
        python, *_PROGRAM, "--address", head, "--node-ip-address", address,
        "--num-cpus", str(_NODE_CPUS), "--num-gpus", str(gpus),
        "--resources", json.dumps({f"{HOST_RESOURCE}{name}": 1}),
        "--temp-dir", folder, "--object-store-memory", str(OBJECT_STORE_BYTES),
    )  # fmt: skip
