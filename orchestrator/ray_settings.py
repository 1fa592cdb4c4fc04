"""What Ray must find in the environment before it is imported, unless the user says otherwise."""

from collections.abc import Collection, Mapping

from infra.cluster.words import START_S
from infra.engines import INHERITED, KERNELS
from infra.probing.interpreter import CHOSEN_NCCL
from infra.runtime_folder import VARIABLE as RUNTIME_FOLDER
from infra.secret_refs import variable_of
from sweeps.sweep import Sweep

_NAMES = (
    *INHERITED, "PYTHONPATH", KERNELS, RUNTIME_FOLDER, CHOSEN_NCCL, "TMPDIR", "SHELL", "LOGNAME",
    "VIRTUAL_ENV", "TERM", "COLUMNS", "NO_COLOR",
)  # fmt: skip
_PREFIXES = ("RAY_", "TUNE_", "PYTHON", "LC_", "XDG_", "CUDA_", "NVIDIA_", "LD_", "OPENBLAS_")


def lent(environ: Mapping[str, str], referred: Collection[str] = ()) -> dict[str, str]:
    """Return what Ray's processes may take from the environment of the driver.

    That is what a server may take, what its secrets are `referred` to, and what Python and Ray need
    themselves. All else, such as the credentials of a tracker, stays with the driver.
    """
    names = {*_NAMES, *referred}
    return {n: text for n, text in environ.items() if n in names or n.startswith(_PREFIXES)}


def referred(sweep: Sweep) -> frozenset[str]:
    """Return the variables that hold what a sweep's servers get by reference."""
    values = [*sweep.fixed.values(), *(v for host in sweep.hosts for v in host.env.values())]
    return frozenset(variable_of(value) for value in values if isinstance(value, str)) - {""}


SETTINGS: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    # A busy machine takes longer than the 30 s that Ray waits for its parts.
    "RAY_raylet_start_wait_time_s": str(START_S),
    # What Ray has to say of a lost node stays in its logs: we tell it in a line of our own.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
}
