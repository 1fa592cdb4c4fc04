"""The seams filled for one host: which clock, process host, engine and client a trial gets."""

from infra.clock import ScaledClock
from infra.engines import ENGINES
from infra.local_host import LocalHost
from infra.sglang.control import ServerControl
from orchestrator.load.client import StreamingClient
from orchestrator.trial_seam import Tools
from sweeps.hosts import HostSpec
from sweeps.intervals import student_quantile

_MACHINE = LocalHost()
"""One for the process: it hands out no port twice, however many hosts are emulated on it."""


def local_tools(host: HostSpec) -> Tools:
    """Fill the seams for a host that is this machine. Make them once for each host."""
    student_quantile(0.975, 9)  # its slow import must not come in the middle of a measurement
    clock = ScaledClock(host.clock_scale)
    return Tools(_MACHINE, ENGINES[host.engine], clock, StreamingClient(clock), control_of)


def control_of(url: str, answer_s: float) -> ServerControl:
    """Return the control of a server that speaks HTTP."""
    return ServerControl(url, answer_s=answer_s)
