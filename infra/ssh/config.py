"""The way to a host: its entry in the inventory, completed by the user's SSH configuration."""

import getpass
import glob
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.ssh_exception import ConfigParseError, SSHException

from infra.inventory import HostEntry, Inventory, Limits
from sweeps.problems import BadInputError, Problem

USER_CONFIG = Path("~/.ssh/config")
_USER_KNOWN = "~/.ssh/known_hosts"
_SYSTEM_KNOWN = Path("/etc/ssh/ssh_known_hosts")
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_USED = {
    "hostname", "user", "port", "identityfile", "proxyjump", "userknownhostsfile", "identitiesonly",
    "hostkeyalias", "connecttimeout", "serveraliveinterval", "serveralivecountmax",
}  # fmt: skip
_WITHOUT_EFFECT = {
    # About terminals, forwarding and comfort of interactive sessions, none of which we have.
    "addkeystoagent", "batchmode", "canonicaldomains", "canonicalizehostname", "checkhostip",
    "compression", "compressionlevel", "connectionattempts", "controlmaster", "controlpath",
    "controlpersist", "dynamicforward", "enableescapecommandline", "escapechar",
    "exitonforwardfailure", "forkafterauthentication", "forwardagent", "forwardx11",
    "forwardx11trusted", "forwardx11timeout", "gatewayports", "gssapiauthentication",
    "gssapidelegatecredentials", "hashknownhosts", "hostbasedauthentication", "ignoreunknown",
    "ipqos", "kbdinteractiveauthentication", "localcommand", "localforward", "loglevel",
    "nohostauthenticationforlocalhost", "numberofpasswordprompts", "passwordauthentication",
    "permitlocalcommand", "preferredauthentications", "pubkeyauthentication", "remoteforward",
    "requesttty", "sendenv", "sessiontype", "setenv", "stdinnull", "streamlocalbindmask",
    "streamlocalbindunlink", "stricthostkeychecking", "tcpkeepalive", "updatehostkeys",
    "usekeychain", "verifyhostkeydns", "visualhostkey", "xauthlocation", "rekeylimit",
}  # fmt: skip
_MENDS = {
    "proxycommand": "Use ProxyJump there, or `jump` in the inventory.",
    "identityagent": "Set SSH_AUTH_SOCK to that agent, and `agent = true`.",
    "include": "Include at the top of the file, not inside of a block.",
    "certificatefile": "A certificate beside its key (KEY-cert.pub) is found by itself.",
}
_DEEPEST_INCLUDE = 16


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

    def __str__(self) -> str:
        return f"{self.user}@{self.address}:{self.port}"


def route(host: HostEntry, inventory: Inventory, config: Path | None = None) -> tuple[Hop, ...]:
    """Return the logins that lead to a host, itself last. Raises BadInputError."""
    file = (config or USER_CONFIG).expanduser()
    reader = _Config.read(file)
    by_name = {entry.name: entry for entry in inventory.hosts}
    hops: list[Hop] = []
    problems: list[Problem] = []
    _collect(host, by_name, reader, hops, problems, (host.name,))
    if problems:
        raise BadInputError(inventory.source, problems)
    return tuple(hops)


def _collect(
    host: HostEntry,
    by_name: Mapping[str, HostEntry],
    reader: "_Config",
    hops: list[Hop],
    problems: list[Problem],
    seen: tuple[str, ...],
) -> None:
    """Add the hops before a host, then its own."""
    settings = reader.lookup(host.address)
    field = f"hosts.{host.name}"
    given = {option for option, value in settings.items() if value is not None}
    for option in sorted(given - _USED - _WITHOUT_EFFECT):
        mend = _MENDS.get(option, "Remove it for this host, or give the host's real address.")
        why = f"{reader.path} sets it for {host.address}, and it is not supported"
        problems.append(Problem(f"{field}.address", f"{option} {settings[option]}", why, mend))
    jump = host.jump or _text(settings, "proxyjump") or "none"
    for part in [] if jump.lower() == "none" else jump.split(","):
        before = by_name.get(part.strip()) or _jump_host(part.strip(), host.limits)
        if before.name in seen or len(seen) > _DEEPEST_INCLUDE:
            way = " → ".join([*seen, before.name])
            why = "the way to it leads in a circle"
            problems.append(Problem(f"{field}.jump", way, why, "Break it."))
            continue
        _collect(before, by_name, reader, hops, problems, (*seen, before.name))
    hops.append(_hop(host, settings))


def _jump_host(text: str, limits: Limits) -> HostEntry:
    """Read `[user@]host[:port]`."""
    user, _, place = text.rpartition("@")
    match = re.fullmatch(r"\[?(?P<host>[^\]]+?)\]?(?::(?P<port>\d+))?", place)
    address, port = (match["host"], match["port"]) if match else (place, None)
    return HostEntry(
        text, address, user or None, int(port) if port else None, limits=limits, gpus=0, agent=True
    )


def _hop(host: HostEntry, settings: Mapping[str, object]) -> Hop:
    address = _text(settings, "hostname") or host.address
    port = host.port or int(_text(settings, "port") or 22)
    keys, agent = _identities(host, settings)
    known = host.known_hosts or _text(settings, "userknownhostsfile") or _USER_KNOWN
    files = tuple(Path(word).expanduser() for word in known.split())
    alias = _text(settings, "hostkeyalias")
    return Hop(
        name=host.name,
        address=address,
        port=port,
        user=host.user or _text(settings, "user") or getpass.getuser(),
        keys=keys,
        agent=agent,
        passphrase=host.passphrase,
        known_hosts=files if host.known_hosts else (*files, _SYSTEM_KNOWN),
        known_as=alias or (address if port == 22 else f"[{address}]:{port}"),
        limits=host.limits,
    )


def _identities(host: HostEntry, settings: Mapping[str, object]) -> tuple[tuple[Path, ...], bool]:
    """Return the keys to try: the named one alone; the user's usual ones where none is named."""
    if host.key:
        return (Path(host.key).expanduser(),), host.agent
    named = settings.get("identityfile")
    if isinstance(named, list) and named:
        only = _text(settings, "identitiesonly") == "yes"
        return tuple(Path(name).expanduser() for name in named), host.agent or not only
    if host.agent:
        return (), True
    usual = (Path("~/.ssh").expanduser() / name for name in _DEFAULT_KEYS)
    # One, as a tour through all would end with the error of the last.
    return tuple(path for path in usual if path.exists())[:1], True


def _text(settings: Mapping[str, object], option: str) -> str | None:
    value = settings.get(option)
    return value if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class _Config:
    path: Path
    config: paramiko.SSHConfig

    @classmethod
    def read(cls, path: Path) -> "_Config":
        try:
            text = "\n".join(_included(path, 0)) if path.exists() else ""
            return cls(path, paramiko.SSHConfig.from_text(text))
        except (ConfigParseError, SSHException, OSError, UnicodeDecodeError) as error:
            raise _bad(path, str(error)) from error

    def lookup(self, name: str) -> dict[str, object]:
        try:
            return dict(self.config.lookup(name))
        except (SSHException, ValueError, ImportError) as error:
            raise _bad(self.path, f"for {name}: {error}") from error


def _bad(path: Path, why: str) -> BadInputError:
    mend = "Mend it there, or give all of the way in the inventory."
    return BadInputError(str(path), [Problem("file", str(path), why, mend)])


def _included(path: Path, depth: int) -> Iterator[str]:
    """Yield the lines of a configuration with its inclusions in place."""
    in_block = False
    for line in path.read_text().splitlines():
        word, _, rest = line.strip().partition(" ")
        in_block = in_block or word.lower() in ("host", "match")
        if word.lower() != "include" or in_block or depth >= _DEEPEST_INCLUDE:
            yield line
            continue
        for pattern in rest.split():
            whole = Path(pattern).expanduser()
            base = whole if whole.is_absolute() else Path("~/.ssh").expanduser() / pattern
            for file in sorted(glob.glob(str(base))):  # noqa: PTH207 - the pattern is absolute
                yield from _included(Path(file), depth + 1)
            yield "Host *"
