"""Runs a Ray node while its head is there: `python -m infra.cluster.node_watch HEAD WORDS...`.

A node is detached from whoever started it, so that a cut link does not end it. Ray lets it live for
more than a minute after its head is gone; this ends it sooner, by its processes.
"""

import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

from infra.cluster.words import RAY_FOLDER
from infra.runtime_folder import RuntimeFolder

REFUSED_S = 6.0
"""Wall seconds for which the head's machine says that nobody is there."""
SILENT_S = 120.0
"""Wall seconds without any answer, as of a cut link."""
LEAVE_S, ORPHAN_S = 15.0, 2.0
"""Wall seconds to end when asked: with a head to take leave of; and without, which Ray would wait
for, as for processes whose root has ended."""
_LOOK_S = 2.0
_KILLED_S = 5.0


def main(words: Sequence[str]) -> int:
    """Run the node to its end; return its exit code."""
    head, *rest = words
    argv = [str(RuntimeFolder.of_user().for_ray()) if w == RAY_FOLDER else w for w in rest]
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    node = psutil.Popen(argv)
    lost = _is_lost(head, node, told)
    return _ended(node, ORPHAN_S if lost else LEAVE_S)


def _is_lost(head: str, node: psutil.Popen, told: threading.Event) -> bool:
    """Wait until the node ends, or is told to, or its head is gone; tell whether it was that."""
    address, _, port = head.rpartition(":")
    heard_s = refused_s = time.monotonic()
    while node.poll() is None and not told.is_set():
        answer = _ask(address, int(port))
        now_s = time.monotonic()
        heard_s = now_s if answer else heard_s
        refused_s = refused_s if answer is False else now_s
        if now_s - heard_s > SILENT_S or now_s - refused_s > REFUSED_S:
            return True
        told.wait(_LOOK_S)
    return False


def _ask(address: str, port: int) -> bool | None:
    """Tell whether the head is there; None where nothing is heard at all."""
    try:
        with socket.create_connection((address, port), timeout=_LOOK_S):
            return True
    except ConnectionRefusedError:
        return False
    except OSError:
        return None


def _ended(node: psutil.Popen, patience_s: float) -> int:
    """End all processes of the node; the guards of servers have left it, and end by themselves."""
    tree: list[psutil.Process] = [node]
    with suppress(psutil.NoSuchProcess):
        tree += node.children(recursive=True)
        node.terminate()
    psutil.wait_procs([node], patience_s)
    _, left = psutil.wait_procs(tree, ORPHAN_S)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, _KILLED_S)
    return int(node.returncode or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
