"""A host as a node of a cluster: checked, joined, looked at, and taken out by its process."""

import json
import platform
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version

from infra.cluster.certificates import FILES, tls_variables
from infra.cluster.head import Head
from infra.cluster.words import RAY_FOLDER, TOKEN_VARIABLE, VARIABLES, node_words
from infra.inventory import HostEntry
from infra.ours import OursThere, interpreter_on, ours_on
from infra.own_wheel import own_version
from infra.remote import Detached, Remote, RemoteError

LEAVE_S = 20.0
"""Wall seconds for a node to end when it is asked."""

_VERSIONS = """
import json, platform, sys
from importlib.metadata import version
from infra.own_wheel import own_version
print(json.dumps({"Python": platform.python_version(), "Ray": version("ray"),
                  "ours": own_version()}))
"""
_VERSIONS_S = 60.0
_LOOK_S = 0.5


@dataclass(slots=True)
class ClusterNode:
    """One host. Used by one thread at a time."""

    entry: HostEntry
    remote: Remote
    address: str
    """As the head reaches it."""
    _process: Detached | None = field(default=None, repr=False)

    @property
    def ours(self) -> OursThere:
        """Return where ours lies there."""
        return ours_on(self.remote, self.entry)

    def differences(self) -> list[str]:
        """Say in what its versions differ from those here: Ray wants them equal.

        Raises RemoteError where it cannot be reached, or has no interpreter of ours.
        """
        python = interpreter_on(self.remote, self.entry)
        done = self.remote.run([python, "-c", _VERSIONS], deadline_s=_VERSIONS_S, repeatable=True)
        if done.code != 0:
            mend = f"run `orchestrator hosts prepare {self.entry.name}`, or name `python`"
            raise RemoteError(f"{python} on {self.entry.name}: {done.complaint}; {mend}")
        there, here = json.loads(done.text), versions_here()
        return [f"{what} {there[what]} there, {here[what]} here" for what in here
                if there[what] != here[what]]  # fmt: skip

    def join(self, head: Head, secrets: Mapping[str, str]) -> None:
        """Start its node, which outlives this connection; servers there get the `secrets`.

        Raises RemoteError.
        """
        python, root = interpreter_on(self.remote, self.entry), self.ours.root
        place = f"{root}/cluster"
        for name in FILES:
            self.remote.put(head.certificates / name, f"{place}/{name}", mode=0o600)
        words = node_words(
            python, head.address, self.address, self.entry.name, self.entry.gpus, RAY_FOLDER,
        )  # fmt: skip
        self._process = self.remote.start(
            [python, "-m", "infra.cluster.node_watch", head.address, *words],
            {**VARIABLES, **tls_variables(place), "PATH": "/usr/local/bin:/usr/bin:/bin"},
            hidden={**secrets, TOKEN_VARIABLE: head.token},
            log_path=f"{root}/ray-node.log",
        )

    def is_up(self) -> bool:
        """Tell whether the process of the node still runs. Raises RemoteError."""
        return self._process is not None and self.remote.is_running(self._process)

    def leave(self) -> None:
        """Have the node end, and wait for it; one that cannot be reached ends by itself."""
        if self._process is None:
            return
        with suppress(RemoteError):
            self.remote.signal(self._process, signal.SIGTERM)
            until_s = time.monotonic() + LEAVE_S
            while self.is_up():
                if time.monotonic() > until_s:
                    self.remote.signal(self._process, signal.SIGKILL)
                    break
                time.sleep(_LOOK_S)
        self._process = None


def versions_here() -> dict[str, str]:
    """Return what must be equal on all machines of a cluster."""
    return {"Python": platform.python_version(), "Ray": version("ray"), "ours": own_version()}
