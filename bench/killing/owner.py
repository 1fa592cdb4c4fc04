"""A driver that connects to Ray, has an actor own some servers, and stops them when it is told to.

`python owner.py FOLDER SWEEP RAY_ADDRESS TREE...` prints one JSON line once all servers generate.
A line on its input, SIGINT or SIGTERM end it in good order, as they end a sweep.
"""

import json
import os
import select
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray

from infra.clean_proof import prove_clean
from infra.clock import ScaledClock
from infra.gpus import NvmlView
from infra.host import Reservation
from infra.local_host import GuardedProcess, LocalHost
from infra.sglang.control import ServerControl
from killing.trees import Place, Tree, command

READY_WAIT_S = 240.0
_LOOK_S = 0.1
_PROOF_S = 20.0


class Owner:
    """Holds servers as a trial does: reserved, started under guards, looked at, proved clean."""

    def __init__(self, folder: str, sweep: str, trees: list[str]) -> None:
        self._held = ExitStack()
        self._host = LocalHost()
        self._servers: list[tuple[GuardedProcess, Reservation]] = []
        for tree in trees:
            place = Place(Path(folder), sweep, Tree(tree))
            reserved = self._held.enter_context(self._host.reserve(sweep, tree))
            self._servers.append((self._host.start(command(place, reserved)), reserved))

    def wait_ready(self) -> dict[str, Any]:
        """Return who the owner is and what it holds, once every server answers."""
        until_s = time.monotonic() + READY_WAIT_S
        for server, reserved in self._servers:
            control = ServerControl(f"http://127.0.0.1:{reserved.port}", answer_s=20.0)
            while not control.is_healthy():
                if server.poll() is not None or time.monotonic() > until_s:
                    raise RuntimeError("\n".join(server.log_tail(20)))
                time.sleep(_LOOK_S)
        return {
            "owner": os.getpid(),
            "roots": [server.pid for server, _ in self._servers],
            "ports": [reserved.ports for _, reserved in self._servers],
        }

    def look(self) -> list[int | None]:
        """Look at the servers, as a trial does about twice a second."""
        return [server.poll() for server, _ in self._servers]

    def stop(self) -> list[str]:
        """Stop all servers and prove it; return what was left."""
        with ThreadPoolExecutor(len(self._servers)) as pool:
            left = list(pool.map(self._stop, *zip(*self._servers, strict=True)))
        self._held.close()
        return [what for one in left for what in one]

    def _stop(self, server: GuardedProcess, reserved: Reservation) -> tuple[str, ...]:
        if server.poll() is None:
            ServerControl(f"http://127.0.0.1:{reserved.port}", answer_s=2.0).abort_all()
        server.stop()
        return prove_clean(reserved, self._host, NvmlView(), ScaledClock(), _PROOF_S).left


def main() -> None:
    """Own servers until told to end."""
    folder, sweep, address, *trees = sys.argv[1:]
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", namespace=sweep)
    # A shell starts its background jobs deaf to SIGINT, and that is inherited.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    owner = ray.remote(num_cpus=0.1)(Owner).remote(folder, sweep, trees)
    told = ray.get(owner.wait_ready.remote(), timeout=READY_WAIT_S)
    print(json.dumps(told), flush=True)
    try:
        _look_until_told(owner)
    finally:
        left = ray.get(owner.stop.remote(), timeout=READY_WAIT_S)
        print(json.dumps(left), flush=True)


def _look_until_told(owner: Any) -> None:
    while not select.select([sys.stdin], [], [], 0.25)[0]:
        ray.get(owner.look.remote(), timeout=READY_WAIT_S)


if __name__ == "__main__":
    main()
