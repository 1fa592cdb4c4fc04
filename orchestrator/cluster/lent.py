"""The machines that a sweep has over Ray: lost ones are told of and, where we can, brought back."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from infra.host import HostError
from infra.probing.facts import HostFacts
from infra.reaper import works_for
from orchestrator.choices import HostChoice
from orchestrator.cluster.hands import unpack
from orchestrator.job import StopOrder, TrialJob
from orchestrator.ray_nodes import CALL_S, Lookout, Node, RemoteHands
from orchestrator.trial_thread import order_data
from sweeps.hosts import HostSpec
from sweeps.sweep import Model, Sweep

logger = logging.getLogger(__name__)

FETCH_S = 120.0
"""Wall seconds to bring the files of a trial back."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 60.0
Revive = Callable[[str], None]
"""Brings a lost host back into the cluster. Raises HostError."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A host as it is lent: what a sweep knows of it, and where ours writes there."""

    spec: HostSpec
    state_folder: str
    """It may begin with `~`, which is the home there."""


@dataclass(slots=True)
class _Loss:
    since_s: float
    pause_s: float = _FIRST_PAUSE_S
    next_try_s: float = 0.0


@dataclass(slots=True)
class Cluster:
    """Hosts that run trials elsewhere. Safe to use from several threads."""

    offers: Mapping[str, Offer]
    look: Callable[[], Mapping[str, Node]]
    revive: Revive | None = None
    _nodes: dict[str, Node] = field(default_factory=dict)
    _places: dict[str, Node] = field(default_factory=dict)
    """Where each host was seen last, lost or not."""
    _hands: dict[str, RemoteHands] = field(default_factory=dict)
    _losses: dict[str, _Loss] = field(default_factory=dict)
    _held: dict[str, tuple[Sequence[str], str]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _lookout: Lookout | None = None

    def open(self) -> None:
        """Begin to look after the hosts."""
        self._see(self.look())
        self._lookout = Lookout(self.look, self._see)

    def close(self) -> None:
        """Let go of all hosts."""
        if self._lookout is not None:
            self._lookout.end()
        for hands in self._hands.values():
            hands.end()

    def alive(self, name: str) -> bool:
        """Tell whether a host can take a trial now."""
        with self._lock:
            return name in self._nodes

    def lost(self) -> frozenset[str]:
        """Return the hosts that are lost now."""
        with self._lock:
            return frozenset(self._losses)

    def node(self, name: str) -> Node:
        """Return where a host is in the cluster. Raises HostError where it is lost."""
        with self._lock:
            if name not in self._nodes:
                raise HostError(f"host {name} is lost")
            return self._nodes[name]

    def place(self, name: str) -> Node:
        """Return where a host is, or was before it was lost."""
        with self._lock:
            return self._places[name]

    def probe_all(self, choice: HostChoice, sweep: Sweep) -> list[tuple[HostSpec, HostFacts]]:
        """Return all hosts as a sweep can use them, with what was found there. Raises HostError."""
        return [self.probe(name, choice, sweep.model) for name in self.offers]

    def occupy(
        self, facts: Mapping[str, HostFacts], owner: str, dead_sweeps: Sequence[str]
    ) -> None:
        """Keep other sweeps off the hosts, and remove what dead ones left there.

        Raises HostInUseError, HostError.
        """
        for name in self.offers:
            found = facts[name]
            gpus = () if found.emulated else tuple(gpu.uuid for gpu in found.gpus)
            self._call(name, "take", gpus, owner)
            self._held[name] = (gpus, owner)
            for what in self._call(name, "clear", list(dead_sweeps), works_for()):
                logger.warning("host=%s an earlier sweep had left %s: ended", name, what)

    def probe(
        self, name: str, choice: HostChoice, model: Model, python: str | None = None
    ) -> tuple[HostSpec, HostFacts]:
        """Return a host as it can be used, with what was found there; `python` has SGLang.

        Raises HostError.
        """
        offer = self.offers[name]
        spec = offer.spec if python is None else replace(offer.spec, python=python)
        found: tuple[HostSpec, HostFacts] = self._call(
            name, "probe", spec, choice, f"{offer.state_folder}/hosts/{name}",
            model.path if model.is_folder else None,
        )  # fmt: skip
        return found

    def folder_there(self, job: TrialJob) -> str:
        """Return where a trial writes on its host."""
        state = self.offers[job.host.name].state_folder
        return f"{state}/sweeps/{job.sweep_id}/trials/{job.folder.name}"

    def order(self, job: TrialJob, order: StopOrder) -> None:
        """Have a trial stop. Raises HostError."""
        path = f"{self.folder_there(job)}/{job.stop_path.name}"
        self._call(job.host.name, "write_order", path, order_data(order))

    def bring(self, job: TrialJob) -> bool:
        """Bring the files of a trial here; tell whether they came."""
        try:
            data = self._call(job.host.name, "pack", self.folder_there(job), deadline_s=FETCH_S)
            unpack(data, Path(job.folder))
        except (HostError, OSError) as error:
            logger.warning("trial=%s its files were not brought here: %s", job.trial, error)
            return False
        return True

    def reap(self, name: str, sweep: str, trial: str | None = None) -> None:
        """End what a sweep or a trial left on a host, if that can be reached."""
        try:
            self._call(name, "reap", sweep, trial, works_for())
        except HostError as error:
            logger.warning("host=%s was not looked at after the end: %s", name, error)

    def reap_all(self, sweep: str) -> None:
        """End what a sweep left anywhere."""
        for name in self.offers:
            self.reap(name, sweep)

    def _call(self, name: str, what: str, *args: object, deadline_s: float = CALL_S) -> Any:
        node = self.node(name)
        with self._lock:
            hands = self._hands.get(name)
            if hands is None or hands.node.node_id != node.node_id:
                hands = self._hands[name] = RemoteHands(node)
        return hands.call(what, *args, deadline_s=deadline_s)

    def _see(self, found: Mapping[str, Node]) -> None:
        """Take a look at the cluster: who is lost, and who is back."""
        with self._lock:
            now_s = time.monotonic()
            lost = [n for n in self.offers if n in self._nodes and n not in found]
            back = [n for n in self._losses if n in found]
            self._nodes = {name: found[name] for name in self.offers if name in found}
            self._places |= self._nodes
            for name in lost:
                self._losses[name] = _Loss(now_s, next_try_s=now_s)
                logger.warning("host=%s is lost; its trial is tried elsewhere", name)
            for name in back:
                away_s = now_s - self._losses.pop(name).since_s
                logger.warning("host=%s is back after %.0f s", name, away_s)
            due = [n for n, loss in self._losses.items() if loss.next_try_s <= now_s]
        for name in back:
            self._hold_again(name)
        for name in due:
            self._try_again(name)

    def _hold_again(self, name: str) -> None:
        if name not in self._held:
            return
        try:
            self._call(name, "take", *self._held[name])
        except HostError as error:
            logger.warning("host=%s is back, and not ours any more: %s", name, error)
            with self._lock:
                self._nodes.pop(name, None)

    def _try_again(self, name: str) -> None:
        loss = self._losses[name]
        loss.pause_s = min(2 * loss.pause_s, _LONGEST_PAUSE_S)
        loss.next_try_s = time.monotonic() + loss.pause_s
        if self.revive is None:
            return
        try:
            self.revive(name)
        except HostError as error:
            logger.info("host=%s cannot be brought back yet: %s", name, error)
