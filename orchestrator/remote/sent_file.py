"""Reads on the host what was sent along with a space file."""

from pathlib import Path
from typing import Any

from orchestrator.choices import Sent
from orchestrator.remote.notes import read_object
from sweeps.hosts import EngineName, HostSpec


def read_sent(path: Path) -> Sent:
    """Read the file that `laying_out` wrote."""
    data = read_object(path)
    host: dict[str, Any] = data["host"]
    spec = HostSpec(**{**host, "engine": EngineName(host["engine"])})
    return Sent(spec, data["files"], tuple(data["typed"]), data["fetched"])
