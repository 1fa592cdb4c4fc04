"""What `hosts trust` does: a key is added when a person or an expected fingerprint agrees."""

import sys
from collections.abc import Callable
from pathlib import Path

from infra.inventory import load_inventory
from infra.remote import UntrustedHostError
from infra.ssh.config import route
from infra.ssh.known_hosts import KnownHosts
from infra.ssh.login import host_key
from sweeps.problems import BadInputError, Problem


def trust_host(
    name: str,
    inventory: Path,
    expect: str | None,
    confirm: Callable[[str], bool],
    ssh_config: Path | None = None,
) -> str:
    """Add the key that a host shows; return what was done. Raises BadInputError, RemoteError."""
    listed = load_inventory(inventory)
    hops = route(listed.host(name), listed, ssh_config)
    if not hops[-1].keeps_keys:
        raise _keeps_nothing(name, listed.source)
    shown = host_key(hops)
    known = KnownHosts(hops[-1].known_hosts)
    if known.has(shown):
        return f"{shown.place} is known already: {shown.kind} {shown.fingerprint}"
    known.refuse_changed(shown)
    if expect is not None and expect != shown.fingerprint:
        raise UntrustedHostError(
            f"{shown.place} shows {shown.kind} {shown.fingerprint}, and {expect} was expected"
        )
    if expect is None:
        _ask(f"{shown.place} shows {shown.kind} {shown.fingerprint}.", confirm)
    path = known.add(shown)
    return f"{shown.place} is trusted from now on: {shown.kind} {shown.fingerprint}, in {path}"


def _keeps_nothing(name: str, source: str) -> BadInputError:
    why = "no file keeps the keys of this host, and host keys are strict here"
    mend = f'Write `known_hosts = "~/.ssh/known_hosts"` under [hosts.{name}].'
    return BadInputError(source, [Problem(f"hosts.{name}.known_hosts", "none", why, mend)])


def _ask(question: str, confirm: Callable[[str], bool]) -> None:
    if not sys.stdin.isatty():
        mend = "Give its fingerprint, as the host itself tells it, by --yes"
        raise UntrustedHostError(f"{question} Nobody is here to confirm that. {mend}")
    if not confirm(f"{question} Add it?"):
        raise UntrustedHostError("It was not added")
