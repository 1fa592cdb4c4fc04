"""The recommendation as a file for Docker Compose."""

import math
from typing import Any

from sweeps.exporters.containers import (
    HEALTH,
    PROBE_EVERY_S,
    command,
    doubled,
    facts,
    remarks,
    undoubled,
)
from sweeps.exporters.launches import PORT, Launch, UnreadableExportError, after_module
from sweeps.exporters.recommendation import Recommendation, comments
from sweeps.exporters.sealed import as_comments, record

_PROBE = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{PORT}{HEALTH}', timeout=20)"


def write(what: Recommendation) -> str:
    """Write one service that listens on the loopback of its host."""
    import yaml

    body = yaml.safe_dump({"services": {what.name: _service(what)}}, sort_keys=False, width=100)
    data = as_comments(record(what, "docker-compose"))
    return "\n".join([*comments(what), *remarks(what), body.rstrip("\n"), *data]) + "\n"


def read(text: str) -> Launch:
    """Read what the service starts. Raises UnreadableExportError."""
    import yaml

    try:
        services = yaml.safe_load(text)["services"]
        service = next(iter(services.values()))
        words = [undoubled(str(word)) for word in service["command"]]
        env = {name: undoubled(str(v)) for name, v in service.get("environment", {}).items()}
    except (yaml.YAMLError, LookupError, TypeError, AttributeError, StopIteration) as error:
        raise UnreadableExportError(f"it holds no service as exported: {error}") from error
    return Launch(after_module(words), env)


def _service(what: Recommendation) -> dict[str, Any]:
    origin = what.origin
    service: dict[str, Any] = {
        "image": what.image,
        "labels": {name: doubled(value) for name, value in facts(what).items()},
        "command": [doubled(word) for word in command(what)],
        "environment": {name: doubled(value) for name, value in sorted(what.env.items())},
        "ports": [f"127.0.0.1:{PORT}:{PORT}"],
        "ipc": "host",
        "ulimits": {"memlock": -1, "stack": 67108864},
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
