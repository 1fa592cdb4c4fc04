"""How a connection is made: hop by hop, each host's key checked, each of our keys tried by name."""

import logging
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import paramiko
from paramiko.ssh_exception import AuthenticationException, BadAuthenticationType, SSHException

from infra.remote import LoginRefusedError, UnreachableError
from infra.ssh.config import Hop
from infra.ssh.keys import KeyFileError, agent_keys, load_key
from infra.ssh.known_hosts import HostKey, KnownHosts, shown

_ASK = "keepalive@openssh.com"
_ALGORITHMS = {
    "ciphers": "ciphers", "macs": "digests", "kexalgorithms": "kex",
    "hostkeyalgorithms": "key_types",
}  # fmt: skip
"""OpenSSH's names of lists, and the library's."""


@dataclass(slots=True)
class Connection:
    """A chain of logins; the last is the host's. Whoever makes it must close it."""

    transports: list[paramiko.Transport] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def last(self) -> paramiko.Transport:
        """Return the transport to the host itself."""
        return self.transports[-1]

    @property
    def alive(self) -> bool:
        """Tell whether all of the chain still stands, as far as is known."""
        return all(transport.is_active() for transport in self.transports)

    def close(self) -> None:
        """Close the chain, the farthest first. Safe to call twice."""
        self._ended.set()
        for transport in reversed(self.transports):
            # Its way may have been lost before it.
            with suppress(SSHException, OSError, EOFError):
                transport.close()

    def keep_alive(self, period_s: float, lost_after_s: float) -> None:
        """Ask for signs of life from now on, and close the chain where none comes.

        A request that must be answered: a network that drops all packets is seen by nothing else.
        """
        threading.Thread(
            target=self._ask, args=(period_s, lost_after_s), name="ssh keep-alive", daemon=True
        ).start()

    def _ask(self, period_s: float, lost_after_s: float) -> None:
        while not self._ended.wait(period_s) and self.alive:
            lost = threading.Timer(lost_after_s, self.close)
            lost.daemon = True
            lost.start()
            with suppress(SSHException, OSError, EOFError):
                self.last.global_request(_ASK, wait=True)
            lost.cancel()
        # Also where the far side closed it: what waits on a nearer hop is told.
        self.close()


def connect(hops: Sequence[Hop]) -> Connection:
    """Log in to each hop in turn. Raises a RemoteError that names the hop."""
    connection = Connection()
    try:
        for hop in hops:
            transport = _open(hop, connection)
            connection.transports.append(transport)
            key = _handshake(hop, transport)
            _trust(hop, key)
            _log_in(hop, transport)
    except BaseException:
        connection.close()
        raise
    limits = hops[-1].limits
    connection.keep_alive(limits.keepalive_s, limits.lost_after_s)
    return connection


def host_key(hops: Sequence[Hop]) -> HostKey:
    """Return what the last hop shows of itself, trusted or not; the way to it must be trusted.

    Raises RemoteError.
    """
    connection = connect(hops[:-1]) if len(hops) > 1 else Connection()
    try:
        hop = hops[-1]
        transport = _open(hop, connection)
        connection.transports.append(transport)
        return shown(hop.known_as, _handshake(hop, transport))
    finally:
        connection.close()


def _open(hop: Hop, before: Connection) -> paramiko.Transport:
    """Reach an address, over the hops before it, and prefer the kinds of key that are known."""
    limit_s = hop.limits.connect_s
    # It logs a traceback of each failure that we raise in words.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    try:
        link: Any
        if before.transports:
            here = ("127.0.0.1", 0)
            target = (hop.address, hop.port)
            link = before.last.open_channel("direct-tcpip", target, here, timeout=limit_s)
        else:
            link = socket.create_connection((hop.address, hop.port), timeout=limit_s)
        transport = paramiko.Transport(link)
    except (OSError, SSHException) as error:
        reason = str(error) or type(error).__name__
        raise UnreachableError(f"{hop.name} ({hop}) cannot be reached: {reason}") from error
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = limit_s
    transport.channel_timeout = limit_s
    try:
        _allow(hop, transport)
    except UnreachableError:
        link.close()  # one that was not begun does not close it
        raise
    options = transport.get_security_options()
    known = {_family(key.get_name()) for key in KnownHosts(hop.known_hosts).keys(hop.known_as)}
    options.key_types = tuple(
        sorted(options.key_types, key=lambda kind: _family(kind) not in known)
    )
    return transport


def _allow(hop: Hop, transport: paramiko.Transport) -> None:
    """Narrow the algorithms to those that the user allows. Raises UnreachableError."""
    options = transport.get_security_options()
    for option, ours in _ALGORITHMS.items():
        allowed = hop.algorithms.get(option)
        if allowed is None:
            continue
        chosen = tuple(name for name in allowed if name in getattr(options, ours))
        if not chosen:
            why = f"no algorithm that `{option}` of the SSH configuration allows is known here"
            raise UnreachableError(f"{hop.name} ({hop}) cannot be reached: {why}")
        setattr(options, ours, chosen)


def _family(kind: str) -> str:
    """RSA keys are of one kind in files, and of three on the wire."""
    return "rsa" if "rsa" in kind or kind.startswith("rsa-") else kind


def _handshake(hop: Hop, transport: paramiko.Transport) -> paramiko.PKey:
    try:
        transport.start_client(timeout=hop.limits.connect_s)
        return transport.get_remote_server_key()
    except (SSHException, OSError, EOFError) as error:
        reason = str(error) or type(error).__name__
        raise UnreachableError(f"{hop.name} ({hop}) does not speak SSH: {reason}") from error


def _trust(hop: Hop, key: paramiko.PKey) -> None:
    KnownHosts(hop.known_hosts).check(hop.known_as, key, _how_to_trust(hop))


def _how_to_trust(hop: Hop) -> str:
    if not hop.listed:
        return f"name it in hosts.toml, or let `ssh {hop.name}` add it"
    if not hop.keeps_keys:
        return (
            f'write `known_hosts = "~/.ssh/known_hosts"` under [hosts.{hop.name}], as no file'
            f" keeps keys for it, and `orchestrator hosts trust {hop.name}` adds it there"
        )
    return f"`orchestrator hosts trust {hop.name}` adds it"


def _log_in(hop: Hop, transport: paramiko.Transport) -> None:
    tried: list[str] = []
    for title, load in _candidates(hop):
        try:
            key = load()
        except KeyFileError as error:
            tried.append(str(error))
            continue
        label = f"{title} ({key.get_name()} {key.fingerprint})"
        try:
            if not transport.auth_publickey(hop.user, key):
                return
            tried.append(f"{label}: accepted, and more is asked for, which we cannot give")
        except BadAuthenticationType as error:
            allowed = ", ".join(error.allowed_types)
            tried.append(f"{label}: keys are not accepted there, only {allowed}")
            break
        except AuthenticationException as error:
            tried.append(f"{label}: not authorised there{_more(error)}")
        except (SSHException, OSError, EOFError) as error:
            tried.append(f"{label}: the host ended it: {error or type(error).__name__}")
            break
    if not tried:
        tried.append("no key: name one by `key`, or start an agent")
    raise LoginRefusedError(f"{hop.name} ({hop}) does not let us in. Tried: {'; '.join(tried)}")


def _more(error: Exception) -> str:
    """Keep what the server or the library says beyond the plain refusal."""
    return "" if str(error).startswith("Authentication failed") else f" ({error})"


def _candidates(hop: Hop) -> list[tuple[str, Callable[[], paramiko.PKey]]]:
    keys = enumerate(agent_keys(hop.agent_socket) if hop.agent else (), 1)
    files = [(f"key {path}", lambda path=path: load_key(path, hop.passphrase)) for path in hop.keys]
    return [*files, *((f"agent key {number}", lambda key=key: key) for number, key in keys)]
