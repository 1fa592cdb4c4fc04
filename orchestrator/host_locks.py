"""Keeps two programs of ours off the same GPUs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from infra.file_lock import LockFileError
from infra.host_lock import HostInUseError, host_lock
from infra.probing.facts import HostFacts
from infra.runtime_folder import VARIABLE, RuntimeFolderError
from orchestrator.refusals import bad_option
from sweeps.sweep import Sweep


@contextmanager
def hosts_locked(sweep: Sweep, facts: Mapping[str, HostFacts], owner: str) -> Iterator[None]:
    """Keep other sweeps off the same GPUs. An emulated host has none that another could take."""
    names = [
        name
        for host in sweep.hosts
        if not host.emulated and not host.elsewhere
        for name in ([gpu.uuid for gpu in facts[host.name].gpus] or [f"machine of {host.name}"])
    ]
    try:
        with host_lock(names, owner):
            yield
    except HostInUseError as error:
        mend = "Wait for that sweep, or stop it."
        raise bad_option("hosts", error.name, f"in use by {error.owner}", mend) from error
    except (LockFileError, RuntimeFolderError) as error:
        mend = f"Have its owner or root remove it, or set {VARIABLE} for all sweeps here."
        raise bad_option("hosts", ", ".join(names), str(error), mend) from error
