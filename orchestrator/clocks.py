"""How fast the hosts of a sweep live, by its card."""

from collections.abc import Mapping

from orchestrator.choices import Driver
from sweeps.idling import ClockScales


def clock_scales(card: Mapping[str, object]) -> ClockScales:
    """Return how fast the clock of each host ran against that of the stamps."""
    hosts = card.get("hosts")
    if not isinstance(hosts, list):
        return {}
    simulated = card.get("driver") == Driver.SIMULATED.value
    return {
        str(host["name"]): None if simulated else _scale(host)
        for host in hosts
        if isinstance(host, dict)
    }


def _scale(host: Mapping[str, object]) -> float:
    scale = host.get("time_scale", 1.0)
    emulated = host.get("engine") == "emulated"
    return float(scale) if emulated and isinstance(scale, int | float) else 1.0
