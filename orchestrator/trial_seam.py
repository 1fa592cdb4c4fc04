"""What a trial works with and who follows it: the seams of one host, as its driver fills them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from infra.clock import Clock
from infra.engines import Engine
from infra.gpus import GpuView
from infra.host import Host, Premises
from infra.sglang.server_keys import NO_KEYS, ServerKeys
from orchestrator.job import StopOrder, TrialProgress
from orchestrator.load_client.seam import LoadClient


class Watch(Protocol):
    """Who follows a trial. Called from the trial's own thread; returns at once."""

    def report(self, progress: TrialProgress) -> None:
        """Take a sign of life."""
        ...

    def order(self) -> StopOrder | None:
        """Return the order to stop, once there is one."""
        ...


class Control(Protocol):
    """The small requests of one server's life. `info` and `flush` raise ControlError."""

    def is_healthy(self) -> bool:
        """Tell whether the server generates; an answer of no kind is a no."""
        ...

    def info(self) -> Mapping[str, object]:
        """Return the server's own account of its settings."""
        ...

    def counters(self) -> Mapping[str, float]:
        """Return the counters that the server exports, by name; none where it exports none."""
        ...

    def flush(self) -> str:
        """Empty the prefix cache and the n-gram trie; return why that is not proved, if so."""
        ...

    def abort_all(self) -> None:
        """End all running requests; a server that cannot is left alone."""
        ...


@dataclass(frozen=True, slots=True)
class Tools:
    """The seams, filled for one host."""

    host: Host
    engine: Engine
    clock: Clock
    client: LoadClient
    control_of: Callable[[str, float, ServerKeys], Control]
    """Makes the control of the server at a URL; the wall seconds that an answer may take."""
    premises: Premises
    gpus: GpuView
    keys: ServerKeys = NO_KEYS
    """Of the server that is asked now."""

    def bearing(self, keys: ServerKeys) -> "Tools":
        """Return the tools for a server with keys."""
        return replace(self, client=self.client.bearing(keys), keys=keys)

    def control(self, url: str, answer_s: float) -> Control:
        """Make the control of the server at a URL; `answer_s` are wall seconds."""
        return self.control_of(url, answer_s, self.keys)
