"""The hosts that a user has, as `hosts.toml` names them; secrets stand there by reference only."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sweeps.hosts import EngineName, HostSpec
from sweeps.problems import BadInputError, Problem, nearest

DEFAULT_FOLDER = ".orchestrator"
"""Below the home of the user there: what `hosts prepare` puts, and what sweeps write."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How patient we are with one host, in wall seconds."""

    connect_s: float = 15.0
    """For each hop: address, handshake and login."""
    command_s: float = 60.0
    keepalive_s: float = 15.0
    """Between two signs of life of a silent connection."""
    lost_after_s: float = 45.0
    """Without an answer to one: the connection is given up, and made again when it is needed."""
    retry_s: float = 60.0
    """For how long a host that does not answer is tried again, with growing pauses."""


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One machine of the inventory. What is None is as the user's SSH configuration says."""

    name: str
    address: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    """Path of the private key here; the only one that is tried."""
    agent: bool = False
    """Whether the keys of the agent are tried as well."""
    passphrase: str | None = None
    """Reference to the key's passphrase."""
    jump: str | None = None
    """Another host of the inventory or of the SSH configuration that the way leads through."""
    known_hosts: str | None = None
    """The file of trusted host keys, if it is not the user's own."""
    python: str | None = None
    """Our interpreter there; None: the one that `hosts prepare` puts."""
    base_python: str | None = None
    """What `hosts prepare` makes our environment of; None: the first good one on the PATH."""
    sglang_python: str | None = None
    """SGLang's interpreter there; None: it lives in ours."""
    engine: EngineName = EngineName.AUTO
    gpus: int = 8
    """0 for a machine that only passes connections on."""
    folder: str = DEFAULT_FOLDER
    """Where ours lies there: absolute, or below the user's home."""
    models: tuple[str, ...] = ()
    """Folders of model weights there."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Set for every server there."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Variables for our programs there, each a reference that is resolved here."""
    limits: Limits = field(default_factory=Limits)
    labels: tuple[str, ...] = ()
    equals: str = "default"
    """Hosts that name the same are expected to be equal; `hosts check` tells where they are not."""
    truth: str = "M"
    time_scale: float = 50.0

    @property
    def serves(self) -> bool:
        """Tell whether trials can run there."""
        return self.gpus > 0

    def spec(self) -> HostSpec:
        """Return the host as a sweep knows it."""
        return HostSpec(
            name=self.name,
            engine=self.engine,
            python=self.sglang_python,
            gpus=self.gpus,
            env=self.env,
            time_scale=self.time_scale,
            truth=self.truth,
        )


@dataclass(frozen=True, slots=True)
class Inventory:
    """All hosts of a file, in its order."""

    source: str
    hosts: tuple[HostEntry, ...]

    def names(self) -> list[str]:
        """Return the names of all hosts."""
        return [host.name for host in self.hosts]

    def host(self, name: str) -> HostEntry:
        """Return one host. Raises BadInputError, with the nearest name."""
        return self.chosen([name])[0]

    def chosen(self, names: Sequence[str]) -> list[HostEntry]:
        """Return some hosts, or all that serve where none is named. Raises BadInputError."""
        if not names:
            return [host for host in self.hosts if host.serves]
        by_name = {host.name: host for host in self.hosts}
        unknown = [name for name in names if name not in by_name]
        if unknown:
            there = f"There are {', '.join(by_name)}." if by_name else "It names none."
            why = "the inventory names no such host"
            problems = [Problem("host", n, why, nearest(n, by_name) or there) for n in unknown]
            raise BadInputError(self.source, problems)
        return [by_name[name] for name in dict.fromkeys(names)]

    def jumps(self, host: HostEntry) -> list[HostEntry]:
        """Return the hosts of this file that lead to one, the first hop first."""
        by_name = {entry.name: entry for entry in self.hosts}
        found: list[HostEntry] = []
        while host.jump in by_name and by_name[host.jump] not in found:
            host = by_name[host.jump]
            found.insert(0, host)
        return found


def load_inventory(path: Path) -> Inventory:
    """Read a file of hosts. Raises BadInputError with all that is wrong with it."""
    from infra.inventory_tables import read_hosts  # brings pydantic, which is slow to import

    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        mend = "Write one, as README says under hosts.toml, or name another by --inventory."
        raise _unreadable(path, "there is no such file", mend) from error
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, str(error), "Make it a text file that you can read.") from error
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(path, f"it is no TOML: {error}", "Mend the syntax there.") from error
    hosts, problems = read_hosts(data)
    if problems:
        raise BadInputError(str(path), problems)
    return Inventory(str(path), tuple(hosts))


def _unreadable(path: Path, why: str, mend: str) -> BadInputError:
    return BadInputError(str(path), [Problem("file", str(path), why, mend)])
