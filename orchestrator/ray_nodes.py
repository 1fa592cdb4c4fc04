"""The machines of a Ray cluster: who is alive, and our hands on each. Imports Ray."""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orchestrator.ray_settings import SETTINGS

os.environ.update({**SETTINGS, **os.environ})

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from infra.cluster.words import HOST_RESOURCE
from infra.host import HostError
from orchestrator.cluster.hands import Hands

logger = logging.getLogger(__name__)

CALL_S = 120.0
"""Wall seconds for what a hand does; a probe of a busy host is the longest."""
_NODE_GPUS = "GPU"


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster that is alive."""

    node_id: str
    address: str
    gpus: int
    resource: str
    """What of it a trial takes a share of, so that it runs there and nowhere else."""
    share: float
    hostname: str


def connect(address: str, packages: list[Any] | None = None) -> None:
    """Join a cluster as its driver; `packages` are sent to nodes that have not got ours.

    Raises HostError.
    """
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"py_modules": packages} if packages else None,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise HostError(f"Ray at {address} cannot be joined: {error}") from error


def disconnect() -> None:
    """Leave the cluster; it goes on without us."""
    ray.shutdown()


def nodes_by_host() -> dict[str, Node]:
    """Return the living hosts that we brought into the cluster, by their names."""
    found = {}
    for data in _alive():
        for resource in data["Resources"]:
            if resource.startswith(HOST_RESOURCE):
                found[resource.removeprefix(HOST_RESOURCE)] = _node(data, resource, 1.0)
    return found


def nodes_with_gpus() -> dict[str, Node]:
    """Return the living nodes of any cluster that have GPUs, by their host names."""
    nodes = [_node(data, f"node:{data['NodeManagerAddress']}", 0.001) for data in _alive()]
    return {node.hostname: node for node in nodes if node.gpus}


def _alive() -> list[dict[str, Any]]:
    return [data for data in ray.nodes() if data["Alive"]]


def _node(data: Mapping[str, Any], resource: str, share: float) -> Node:
    return Node(
        data["NodeID"],
        data["NodeManagerAddress"],
        int(data["Resources"].get(_NODE_GPUS, 0)),
        resource,
        share,
        data.get("NodeManagerHostname") or data["NodeManagerAddress"],
    )


class RemoteHands:
    """Our hands on one node. Every call has a deadline. Raises HostError where the node is gone."""

    def __init__(self, node: Node) -> None:
        self.node = node
        strategy = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        remote = ray.remote(num_cpus=0, max_concurrency=4)(Hands)
        self._actor = remote.options(scheduling_strategy=strategy).remote()

    def call(self, name: str, *args: object, deadline_s: float = CALL_S) -> Any:
        """Have something done there; an error of what was done comes out as itself."""
        try:
            return ray.get(getattr(self._actor, name).remote(*args), timeout=deadline_s)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise HostError(f"{self.node.hostname} is gone: {type(error).__name__}") from error

    def end(self) -> None:
        """Let go of what it holds."""
        with suppress(ray.exceptions.RayError):
            ray.kill(self._actor)


class Lookout:
    """Looks every few seconds at who is alive, in a thread of its own, and tells of changes."""

    def __init__(
        self,
        look: Callable[[], Mapping[str, Node]],
        changed: Callable[[Mapping[str, Node]], None],
        every_s: float = 2.0,
    ) -> None:
        self._look, self._changed, self._every_s = look, changed, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cluster lookout", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self._thread.join(10.0)

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                self._changed(self._look())
            except Exception:  # the one guard of this thread: a look that fails is made again
                logger.exception("a look at the cluster failed")
