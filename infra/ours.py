"""Where ours lies on a host, and which of its interpreters runs it."""

from dataclasses import dataclass

from infra.inventory import HostEntry
from infra.remote import Remote


@dataclass(frozen=True, slots=True)
class OursThere:
    """The folder of ours on a host, by its absolute path there."""

    root: str

    @property
    def environments(self) -> str:
        """Return where `hosts prepare` puts environments, one for each version."""
        return f"{self.root}/environments"

    @property
    def current(self) -> str:
        """Return the link to the environment that is used."""
        return f"{self.root}/current"

    @property
    def wheels(self) -> str:
        """Return where wheels that were sent lie; each is sent once."""
        return f"{self.root}/wheels"

    @property
    def probe(self) -> str:
        """Return where a probe keeps what is costly to ask again."""
        return f"{self.root}/probe"

    @property
    def state(self) -> str:
        """Return the state folder of sweeps that run there."""
        return f"{self.root}/state"

    def environment(self, version: str) -> str:
        """Return the environment of one version."""
        return f"{self.environments}/{version}"


def ours_on(remote: Remote, host: HostEntry) -> OursThere:
    """Return the folder of ours on a host. Raises RemoteError."""
    if host.folder.startswith("/"):
        return OursThere(host.folder.rstrip("/") or "/")
    return OursThere(f"{remote.home()}/{host.folder}")


def interpreter_on(remote: Remote, host: HostEntry) -> str:
    """Return the interpreter that ours runs in, there or not. Raises RemoteError."""
    return host.python or f"{ours_on(remote, host).current}/bin/python"
