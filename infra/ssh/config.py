"""The way to a host: its entry in the inventory, completed by the user's SSH configuration.

OpenSSH itself is asked what that configuration says. Where it is not installed, a reader of our own
takes what it surely understands, and refuses the host at hand where more is needed.
"""

import getpass
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.inventory import HostEntry, Inventory, Limits
from infra.ssh import config_reader, openssh
from infra.ssh.jumps import Jump, is_name, jumps
from infra.ssh.known_hosts import place_of
from infra.ssh.options import (
    ALGORITHMS,
    EVERYTHING,
    MENDS,
    USED,
    WITHOUT_EFFECT,
    Settings,
    missing,
    settled,
)
from infra.ssh.tokens import (
    TokenError,
    account_home,
    in_our_home,
    local_tokens,
    path_of,
    replaced,
)
from sweeps.problems import BadInputError, Problem

USER_CONFIG = Path("~/.ssh/config")
_USER_KNOWN = "~/.ssh/known_hosts"
_SYSTEM_KNOWN = "/etc/ssh/ssh_known_hosts"
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_DEFAULT_PORT = 22
_MOST_HOPS = 16
_KEEPS_NOTHING = Path("/dev/null")


@dataclass(frozen=True, slots=True)
class Hop:
    """One login on the way."""

    name: str
    address: str
    port: int
    user: str
    keys: tuple[Path, ...]
    """Exactly those that are tried."""
    agent: bool
    passphrase: str | None
    known_hosts: tuple[Path, ...]
    known_as: str
    """What the host's key is looked up by."""
    limits: Limits
    keeps_keys: bool = True
    """Whether the first file of known hosts is the user's, for keys that are trusted anew."""
    listed: bool = True
    """Whether the inventory names it."""
    agent_socket: Path | None = None
    """Of the agent that is asked, if it is not that of SSH_AUTH_SOCK."""
    algorithms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By option of OpenSSH: the only ones that the user allows, the best first."""

    def __str__(self) -> str:
        return f"{self.user}@{self.address}:{self.port}"


def route(host: HostEntry, inventory: Inventory, config: Path | None = None) -> tuple[Hop, ...]:
    """Return the logins that lead to a host, itself last. Raises BadInputError.

    `config` replaces ~/.ssh/config and the system's own.
    """
    finder = _Finder(
        {entry.name: entry for entry in inventory.hosts},
        shutil.which("ssh"),
        config.expanduser() if config else None,
        f"hosts.{host.name}",
    )
    hops = finder.hops(host, (host.name,))
    if finder.problems:
        raise BadInputError(inventory.source, finder.problems)
    return tuple(hops)


@dataclass(slots=True)
class _Finder:
    """Finds the way to one host, and all that stands against it."""

    by_name: Mapping[str, HostEntry]
    program: str | None
    """OpenSSH's client; None where it is not installed."""
    config: Path | None
    place: str
    """Of the host in the inventory, for problems."""
    problems: list[Problem] = field(default_factory=list)

    def hops(self, host: HostEntry, seen: tuple[str, ...]) -> list[Hop]:
        """Return the hops before a host, then its own; none where there is a problem."""
        if not is_name(host.address):
            why, mend = "no host can be called so", "Give a name or an address, and `user` apart."
            self._tell("address", host.address, why, mend)
            return []
        settings = self._settings(host)
        count = len(self.problems)
        self.problems += self._unsupported(host, settings)
        if len(self.problems) > count:
            return []
        try:
            hop = _hop(host, settings, listed=host.name in self.by_name)
            before = self._jumps(host, settings, hop)
        except (TokenError, ValueError) as error:
            self._tell("address", host.address, str(error), _whole(host))
            return []
        hops = self._first(before[0], seen) if before else []
        for other in before[1:]:
            # It is reached by the hop before it, whatever way of its own it has.
            hops += self.hops(replace(other, jump="none"), (*seen, other.name))
        return [*hops, hop]

    def _first(self, host: HostEntry, seen: tuple[str, ...]) -> list[Hop]:
        if host.name in seen or len(seen) > _MOST_HOPS:
            way = " → ".join([*seen, host.name])
            self._tell("jump", way, "the way to it leads in a circle", "Break it.")
            return []
        return self.hops(host, (*seen, host.name))

    def _jumps(self, host: HostEntry, settings: Settings, hop: Hop) -> list[HostEntry]:
        found = jumps(host.jump or settings.one("proxyjump") or "none")
        if host.jump is None:
            tokens = {"h": hop.address, "n": host.address, "p": str(hop.port), "r": hop.user}
            found = tuple(_replaced(jump, tokens | {"%": "%"}) for jump in found)
        entries = [_entry(jump, host) for jump in found]
        return [self.by_name.get(entry.name, entry) for entry in entries]

    def _settings(self, host: HostEntry) -> Settings:
        """Return what the user's configuration says of a host; nothing where none is needed."""
        try:
            return self._ask(host)
        except openssh.AskError as error:
            if missing(host):
                file = self.config or USER_CONFIG
                self._tell("address", host.address, f"{file}: {error}", _whole(host))
            return Settings()

    def _ask(self, host: HostEntry) -> Settings:
        file, system = self.config, None
        if file is None and Path.home() == account_home():
            system = config_reader.SYSTEM_CONFIG
        elif file is None:
            # OpenSSH looks into the home of the account only, whatever HOME says.
            file = USER_CONFIG.expanduser()
            file = file if file.exists() else _KEEPS_NOTHING
        if self.program is not None:
            try:
                return openssh.ask(self.program, host.address, host.user, host.port, file)
            except openssh.NoAnswerError:
                pass
        own = file or USER_CONFIG.expanduser()
        return config_reader.read(host.address, host.user, host.port, own, system)

    def _unsupported(self, host: HostEntry, settings: Settings) -> Iterator[Problem]:
        """Yield what the configuration says of a host and we cannot do, or cannot read."""
        if not missing(host):
            return
        place, moot = f"{self.place}.address", settled(host)
        for option, why in settings.unclear.items():
            if option not in moot:
                told = "all of it" if option == EVERYTHING else option
                yield Problem(place, f"{host.address}: {told}", why, _whole(host))
        for option in sorted(settings.given.keys() - USED - WITHOUT_EFFECT - moot):
            if (value := settings.one(option)) is not None:
                why = f"the SSH configuration sets it for {host.address}, and it is not supported"
                yield Problem(place, f"{option} {value}", why, MENDS.get(option, _removed(host)))

    def _tell(self, name: str, value: str, why: str, mend: str) -> None:
        self.problems.append(Problem(f"{self.place}.{name}", value, why, mend))


def _removed(host: HostEntry) -> str:
    return _whole(host).replace("Mend it there", "Remove it for this host", 1)


def _whole(host: HostEntry) -> str:
    """Say how a host becomes independent of the SSH configuration."""
    fields = ", ".join(missing(host))
    return (
        f'Mend it there, or give {fields} for this host in hosts.toml ("none" as `jump` is a'
        " direct way): that file is then not needed."
    )


def _entry(jump: Jump, host: HostEntry) -> HostEntry:
    """Return a jump host that the inventory does not name."""
    name = f"{jump.user}@{jump.host}" if jump.user else jump.host
    name = f"{name}:{jump.port}" if jump.port else name
    return HostEntry(name, jump.host, jump.user, jump.port, limits=host.limits, gpus=0)


def _replaced(jump: Jump, tokens: Mapping[str, str]) -> Jump:
    user = None if jump.user is None else replaced(jump.user, tokens)
    return Jump(replaced(jump.host, tokens), user, jump.port)


def _hop(host: HostEntry, settings: Settings, *, listed: bool) -> Hop:
    address = settings.one("hostname") or host.address
    if not settings.expanded:
        address = replaced(address, {"h": host.address, "%": "%"})
    port = host.port or int(settings.one("port") or _DEFAULT_PORT)
    user = host.user or settings.one("user") or getpass.getuser()
    alias = settings.one("hostkeyalias")
    tokens = local_tokens() | {
        "h": address, "n": host.address, "p": str(port), "r": user, "k": alias or host.address,
    }  # fmt: skip
    keys, agent = _identities(host, settings, tokens)
    user_files, system_files = _known_hosts(host, settings, tokens)
    return Hop(
        name=host.name,
        address=address,
        port=port,
        user=user,
        keys=keys,
        agent=agent,
        passphrase=host.passphrase,
        known_hosts=(*user_files, *system_files),
        known_as=alias or place_of(address, port),
        limits=host.limits,
        keeps_keys=bool(user_files),
        listed=listed,
        agent_socket=_agent_socket(settings, tokens) if agent else None,
        algorithms={
            option: tuple(settings.given[option][0].split(","))
            for option in ALGORITHMS
            if option in settings.given
        },
    )


def _known_hosts(
    host: HostEntry, settings: Settings, tokens: Mapping[str, str]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the user's files of trusted keys, and the system's."""
    if host.known_hosts:
        return _keeping(Path(word).expanduser() for word in host.known_hosts.split()), ()
    found = []
    for option, default in (
        ("userknownhostsfile", _USER_KNOWN), ("globalknownhostsfile", _SYSTEM_KNOWN)
    ):  # fmt: skip
        names = settings.given.get(option)
        if names is None:
            files = [Path(default).expanduser()]
        elif settings.expanded:
            files = [in_our_home(Path(name)) for name in names if name.lower() != "none"]
        else:
            files = [path_of(name, tokens) for name in names if name.lower() != "none"]
        found.append(_keeping(files))
    return found[0], found[1]


def _keeping(files: Iterable[Path]) -> tuple[Path, ...]:
    """Leave out what keeps no keys, as /dev/null."""
    return tuple(file for file in files if file.is_file() or not file.exists())


def _identities(
    host: HostEntry, settings: Settings, tokens: Mapping[str, str]
) -> tuple[tuple[Path, ...], bool]:
    """Return the keys to try: the named one alone; the user's usual ones where none is named."""
    if host.key:
        return (Path(host.key).expanduser(),), host.agent
    has_agent = (settings.given.get("identityagent") or ("",))[0].lower() != "none"
    named = settings.given.get("identityfile")
    if named is not None:
        files = tuple(path_of(name, tokens) for name in named if name.lower() != "none")
        return files, host.agent or (has_agent and not settings.yes("identitiesonly"))
    if host.agent:
        return (), True
    usual = (Path("~/.ssh").expanduser() / name for name in _DEFAULT_KEYS)
    # One, as a tour through all would end with the error of the last.
    return tuple(path for path in usual if path.exists())[:1], has_agent


def _agent_socket(settings: Settings, tokens: Mapping[str, str]) -> Path | None:
    """Return the socket of the agent that is named. Raises TokenError."""
    name = settings.one("identityagent")
    if name is None or name == "SSH_AUTH_SOCK":
        return None
    if name.startswith("$") and not name.startswith("${"):
        name = f"${{{name[1:]}}}"
    return path_of(name, tokens)
