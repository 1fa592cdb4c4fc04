"""Lends the hosts of a sweep: brought into a Ray cluster over SSH, or those of another's."""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from infra.cluster.head import Head, head_here, own_address_towards
from infra.cluster.node import ClusterNode
from infra.host import HostError
from infra.inventory import HostEntry, load_inventory
from infra.local_host import LocalHost
from infra.ssh.config import route
from infra.ssh.remote import SshRemote
from orchestrator.choices import ClusterChoice
from orchestrator.hosts.reaching import in_parallel
from orchestrator.refusals import bad_option
from orchestrator.remote.starting import secrets_of
from orchestrator.state import State
from sweeps.hosts import HostSpec
from sweeps.problems import BadInputError, Problem

if TYPE_CHECKING:
    from orchestrator.cluster.lent import Cluster

logger = logging.getLogger(__name__)

JOIN_S = 180.0
"""Wall seconds for all hosts to be in the cluster."""
CALL_S = 90.0
"""Wall seconds for what is done on all hosts at once."""
_LOOK_S = 0.5
_STATE_THERE = ".orchestrator/state"


class NotLentError(HostError):
    """Hosts that were asked for cannot be had; the message says which, and why."""


@contextmanager
def lent_hosts(choice: ClusterChoice, state: State, mark: str) -> Iterator["Cluster | None"]:
    """Lend the hosts that were asked for until the end of the block; None: this machine's own.

    Raises BadInputError, and NotLentError where a host cannot be had.
    """
    if choice.ray_address:
        with _existing(choice.ray_address) as cluster:
            yield cluster
    elif choice.hosts:
        with _over_ssh(choice, state, mark) as cluster:
            yield cluster
    else:
        yield None


@contextmanager
def _over_ssh(choice: ClusterChoice, state: State, mark: str) -> Iterator["Cluster"]:
    inventory = load_inventory(choice.inventory)
    entries = inventory.chosen(choice.hosts)
    _refuse_passages(entries, inventory.source)
    with ExitStack() as stack:
        nodes = []
        for entry in entries:
            hops = route(entry, inventory)
            if len(hops) > 1:
                raise _indirect(entry, inventory.source)
            remote = stack.enter_context(closing(SshRemote(entry.name, hops)))
            nodes.append(ClusterNode(entry, remote, hops[-1].address))
        _on_all(nodes, _refuse_differences)
        own, others = own_address_towards(nodes[0].address), [node.address for node in nodes]
        log_path = state.root.absolute() / "ray-head.log"
        head = stack.enter_context(head_here(LocalHost(), own, others, mark, log_path))
        os.environ.update(head.variables)
        stack.callback(_all_leave, nodes)
        secrets = {entry.name: secrets_of(entry) for entry in entries}

        def join(node: ClusterNode) -> None:
            node.join(head, secrets[node.entry.name])

        _on_all(nodes, join)
        yield stack.enter_context(_joined(nodes, head, join))


@contextmanager
def _joined(
    nodes: Sequence[ClusterNode], head: Head, join: Callable[[ClusterNode], None]
) -> Iterator["Cluster"]:
    """Join as the driver, wait for the nodes, and look after them."""
    from orchestrator import ray_nodes
    from orchestrator.cluster.lent import Cluster, Offer

    by_name = {node.entry.name: node for node in nodes}
    ray_nodes.connect(head.address)
    try:
        _await_all(nodes, ray_nodes.nodes_by_host)
        offers = {name: Offer(node.entry.spec(), node.ours.state) for name, node in by_name.items()}

        def revive(name: str) -> None:
            node = by_name[name]
            if not node.is_up():
                join(node)

        with closing(Cluster(offers, ray_nodes.nodes_by_host, revive)) as cluster:
            cluster.open()
            yield cluster
    finally:
        ray_nodes.disconnect()


@contextmanager
def _existing(address: str) -> Iterator["Cluster"]:
    """Take the nodes with GPUs of a cluster that somebody else keeps; nothing of SSH is needed."""
    import infra
    import orchestrator
    import search_spaces
    import sweeps
    from orchestrator import ray_nodes
    from orchestrator.cluster.lent import Cluster, Offer

    try:
        ray_nodes.connect(address, [infra, orchestrator, search_spaces, sweeps])
    except HostError as error:
        mend = "Name one as Ray does, such as 10.0.0.1:6379; `auto` finds one on this machine."
        raise bad_option("--ray-address", address, str(error), mend) from error
    try:
        found = ray_nodes.nodes_with_gpus()
        if not found:
            mend = "Start its nodes with --num-gpus."
            raise bad_option("--ray-address", address, "no node there has a GPU", mend)
        offers = {
            name: Offer(HostSpec(name=name, gpus=node.gpus), str(Path("~") / _STATE_THERE))
            for name, node in found.items()
        }
        with closing(Cluster(offers, ray_nodes.nodes_with_gpus)) as cluster:
            cluster.open()
            yield cluster
    finally:
        ray_nodes.disconnect()


def _refuse_passages(entries: Sequence[HostEntry], source: str) -> None:
    problems = [
        Problem(f"hosts.{entry.name}.gpus", "0", "no trial can run there", "Leave it out.")
        for entry in entries
        if not entry.serves
    ]
    if problems:
        raise BadInputError(source, problems)


def _indirect(entry: HostEntry, source: str) -> BadInputError:
    why = "Ray's machines must reach each other, and a jump host leads to this one"
    mend = f"Start the sweep from a machine beside it, or there: `sweep --host {entry.name}`."
    return BadInputError(source, [Problem(f"hosts.{entry.name}.jump", entry.address, why, mend)])


def _refuse_differences(node: ClusterNode) -> None:
    if different := node.differences():
        raise NotLentError("; ".join(different))


def _on_all(nodes: Sequence[ClusterNode], do: Callable[[ClusterNode], None]) -> None:
    """Do it on all nodes at once. Raises NotLentError that tells the troubles of all."""

    def trouble(node: ClusterNode) -> str:
        try:
            do(node)
        except HostError as error:
            return str(error)
        return ""

    late = [f"no answer within {CALL_S:g} s" for _ in nodes]
    found = in_parallel([partial(trouble, node) for node in nodes], late, CALL_S)
    told = [f"host {n.entry.name}: {why}" for n, why in zip(nodes, found, strict=True) if why]
    if told:
        raise NotLentError("\n".join(told))


def _await_all(nodes: Sequence[ClusterNode], look: Callable[[], Iterable[str]]) -> None:
    until_s = time.monotonic() + JOIN_S
    missing = {node.entry.name for node in nodes}
    while missing and time.monotonic() < until_s:
        missing.difference_update(look())
        time.sleep(_LOOK_S if missing else 0.0)
    if missing:
        names = ", ".join(sorted(missing))
        raise NotLentError(
            f"{names} did not join the cluster within {JOIN_S:g} s: is the way from there to this "
            "machine open? See ray-node.log in the folder of ours there"
        )


def _all_leave(nodes: Sequence[ClusterNode]) -> None:
    in_parallel([partial(node.leave) for node in nodes], [None for _ in nodes], CALL_S)
