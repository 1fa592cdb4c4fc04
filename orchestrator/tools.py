"""The seams filled for one host: which clock, process host, engine and client a trial gets."""

from pathlib import Path
from tempfile import mkdtemp

from infra.clean_proof import LocalPremises
from infra.clock import ScaledClock
from infra.emulated.life.gpu_view import EmulatedGpuView
from infra.emulated.life.host_folder import HostFolder
from infra.emulated.truth import TRUTHS
from infra.engines import ENGINES
from infra.gpu_floor import own_gpus
from infra.gpus import GpuView, NvmlView
from infra.local_host import LocalHost
from infra.sglang.control import ServerControl
from infra.sglang.server_keys import ServerKeys
from orchestrator.load_client.client import StreamingClient
from orchestrator.trial_seam import Tools
from sweeps.hosts import HostSpec
from sweeps.intervals import student_quantile

_MACHINE = LocalHost()
"""One for the process: it hands out no port twice, however many hosts are emulated on it."""


def local_tools(host: HostSpec) -> Tools:
    """Fill the seams for a host that is this machine. Make them once for each host."""
    student_quantile(0.975, 9)  # its slow import must not come in the middle of a measurement
    clock = ScaledClock(host.clock_scale)
    gpus = gpu_view(host)
    indices = {gpu.index for gpu in own_gpus(gpus, host.env, host.gpus)} if host.gpus else set()
    premises = LocalPremises(_MACHINE, gpus, clock, name=host.name, gpu_indices=indices)
    engine = ENGINES[host.engine]
    return Tools(_MACHINE, engine, clock, StreamingClient(clock), control_of, premises, gpus)


def gpu_view(host: HostSpec) -> GpuView:
    """Return the GPUs of a host: the machine's own, or those that it is said to have."""
    if not host.emulated:
        return NvmlView()
    folder = HostFolder(Path(host.folder or mkdtemp(prefix="emulated-host-")))
    return EmulatedGpuView(folder, TRUTHS[host.truth].gpu, host.gpus)


def control_of(url: str, answer_s: float, keys: ServerKeys) -> ServerControl:
    """Return the control of a server that speaks HTTP."""
    return ServerControl(url, answer_s=answer_s, keys=keys)
