"""The seams filled for one host: which clock, process host, engine and client a trial gets."""

from infra.clock import ScaledClock
from infra.engines import ENGINES
from infra.local_host import LocalHost
from orchestrator.load.client import StreamingClient
from orchestrator.trial import Tools
from sweeps.hosts import HostSpec


def local_tools(host: HostSpec) -> Tools:
    """Fill the seams for a host that is this machine. Make them once for each host."""
    clock = ScaledClock(host.clock_scale)
    return Tools(LocalHost(), ENGINES[host.engine], clock, StreamingClient(clock))
