"""The recommendation as a file for Docker Compose."""

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sweeps.exporters.containers import (
    HEALTH,
    PROBE_EVERY_S,
    PYTHON,
    command,
    doubled,
    facts,
    remarks,
    undoubled,
)
from sweeps.exporters.launches import PORT, Reading, Unknown, UnreadableExportError, Word
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record
from sweeps.exporters.server_command import read_command, starts_a_server
from sweeps.exporters.yaml_objects import Bare, dumped, items, mapping, objects, plain, shown, texts

_PROBE = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{PORT}{HEALTH}', timeout=20)"
_ULIMITS = {"memlock": -1, "stack": 67108864}
_WRITTEN: dict[str, Any] = {"ipc": "host", "ulimits": {n: str(v) for n, v in _ULIMITS.items()}}
"""What `write` sets of the process, as it is read back."""
_NOT_OF_THE_PROCESS = frozenset({
    "annotations", "command", "configs", "container_name", "depends_on", "deploy", "environment",
    "expose", "healthcheck", "hostname", "image", "labels", "logging", "networks",
    "network_mode", "platform", "ports", "profiles",
    "pull_policy", "restart", "secrets", "stop_grace_period", "stop_signal", "tty", "volumes",
})  # fmt: skip
"""What is read elsewhere, or belongs to where a container runs and does not change its process."""


def write(what: Recommendation) -> str:
    """Write one service that listens on the loopback of its host."""
    body = dumped([{"services": {what.name: _service(what)}}])
    data = as_comments(record(what, "docker-compose"))
    return "\n".join([*comments(what), *remarks(what), body, *data]) + "\n"


def read(text: str) -> Reading:
    """Read what the service starts. Raises UnreadableExportError."""
    documents = [mapping(document, "it") for document in objects(text)]
    services = {
        name: mapping(one, f"the service {name}")
        for document in documents
        for name, one in mapping(document.get("services"), "`services`").items()
    }
    named = [name for name, one in services.items() if starts_a_server(_words(one))]
    if len(named) != 1:
        raise UnreadableExportError(f"{len(named)} services of it start a server, not one")
    others = [f"the service {name} runs beside it" for name in services if name != named[0]]
    included = [document["include"] for document in documents if "include" in document]
    others += [f"include {shown(one)} adds what this file does not tell" for one in included]
    service = services[named[0]]
    found = read_command(_words(service), _environment(service), *_beyond(service), *others)
    python = "" if found.python == PYTHON else found.python
    return replace(found, python=python, gpus=_gpus(service))


def _words(service: Mapping[str, Any]) -> list[Word]:
    """Return what it starts; a text is parted as a shell would, and no shell runs it."""
    words: list[Word] = []
    for key in ("entrypoint", "command"):
        given = service.get(key)
        parts = shell_parts(given) if isinstance(given, str) else texts(given, f"`{key}`")
        words += [interpolated(part) for part in parts]
    return words


def shell_parts(text: str) -> list[str]:
    """Part a text into words. Raises UnreadableExportError."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UnreadableExportError(f"{error}: {text[:60]}") from error


def interpolated(text: str) -> Word:
    """Return a text as Compose makes it, which replaces variables of whoever starts it."""
    if "$" in text.replace("$$", ""):
        return Unknown(text)
    return undoubled(text)


def _environment(service: Mapping[str, Any]) -> dict[str, Word]:
    given = service.get("environment")
    if isinstance(given, list):
        pairs = [text.partition("=") for text in texts(given, "`environment`")]
        return {
            name: interpolated(value) if equals else Unknown("the environment of Compose")
            for name, equals, value in pairs
        }
    variables = mapping(given, "`environment`")
    return {name: _value(name, value) for name, value in variables.items()}


def _value(name: str, given: Any) -> Word:
    if given is None:
        return Unknown("the environment of Compose")
    text = given.as_written if isinstance(given, Bare) else given
    if not isinstance(text, str):
        why = f"{name} is {shown(given)}, which not all read as one text: put it into quotes"
        raise UnreadableExportError(why)
    return interpolated(text)


def _beyond(service: Mapping[str, Any]) -> Iterator[str]:
    for key, given in service.items():
        if key == "env_file":
            yield f"env_file {shown(given)} sets what this file does not tell"
        elif key not in _NOT_OF_THE_PROCESS and plain(given) != _WRITTEN.get(key):
            yield f"`{key}` is {shown(given)}"
    for key in _WRITTEN:
        if key not in service:
            yield f"`{key}` is gone"
    deploy = mapping(service.get("deploy"), "`deploy`")
    limits = mapping(deploy.get("resources"), "`resources`").get("limits")
    if limits:
        yield f"its resources are limited to {shown(limits)}"


def _gpus(service: Mapping[str, Any]) -> int | None:
    """Return how many GPUs are asked for; None where a device is not told in a number."""
    here: Any = service
    for key in ("deploy", "resources", "reservations"):
        here = mapping(here.get(key), f"`{key}`")
    count = 0
    for device in items(here.get("devices"), "`devices`"):
        told = mapping(device, "a device")
        ids, number = told.get("device_ids"), str(plain(told.get("count")))
        if ids is None and not number.isdigit():
            return None
        count += int(number) if ids is None else len(items(ids, "`device_ids`"))
    return count


def _service(what: Recommendation) -> dict[str, Any]:
    origin = what.origin
    service: dict[str, Any] = {
        "image": what.image,
        "labels": {name: doubled(value) for name, value in facts(what).items()},
        "command": [doubled(word) for word in command(what)],
        "environment": {name: doubled(value) for name, value in sorted(what.env.items())},
        "ports": [f"127.0.0.1:{PORT}:{PORT}"],
        "ipc": "host",
        "ulimits": dict(_ULIMITS),
        "restart": "unless-stopped",
        "stop_grace_period": f"{math.ceil(origin.stop_s) + 10}s",
        "healthcheck": {
            "test": ["CMD", "python3", "-c", _PROBE],
            "interval": "30s",
            "timeout": "25s",
            "retries": 3,
            "start_period": f"{math.ceil(origin.start_s)}s",
            "start_interval": f"{PROBE_EVERY_S}s",
        },
    }
    if what.launch.folders:
        service["volumes"] = [
            {"type": "bind", "source": doubled(path), "target": doubled(path), "read_only": True}
            for path in what.launch.folders
        ]
    if origin.gpus:
        device = {"driver": "nvidia", "count": origin.gpus, "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return service
