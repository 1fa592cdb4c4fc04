"""Runs a Ray node while its head is there: `python -m infra.cluster.node_watch HEAD WORDS...`.

A node is detached from whoever started it, so that a cut link does not end it. Ray lets it live for
more than a minute after its head is gone; this ends it sooner, by its process.
"""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

REFUSED_S = 10.0
"""Wall seconds for which the head's machine says that nobody is there."""
SILENT_S = 120.0
"""Wall seconds without any answer, as of a cut link."""
KILL_AFTER_S = 15.0
_LOOK_S = 2.0


def main(words: Sequence[str]) -> int:
    """Run the node to its end; return its exit code."""
    head, *argv = words
    address, _, port = head.rpartition(":")
    node = subprocess.Popen(argv)

    def end(number: int, frame: FrameType | None) -> None:
        node.terminate()

    signal.signal(signal.SIGTERM, end)
    heard_s = refused_s = time.monotonic()
    while node.poll() is None:
        answer = _ask(address, int(port))
        now_s = time.monotonic()
        heard_s = now_s if answer else heard_s
        refused_s = refused_s if answer is False else now_s
        if now_s - heard_s > SILENT_S or now_s - refused_s > REFUSED_S:
            return _ended(node)
        time.sleep(_LOOK_S)
    return node.returncode or 0


def _ask(address: str, port: int) -> bool | None:
    """Tell whether the head is there; None where nothing is heard at all."""
    try:
        with socket.create_connection((address, port), timeout=_LOOK_S):
            return True
    except ConnectionRefusedError:
        return False
    except OSError:
        return None


def _ended(node: "subprocess.Popen[bytes]") -> int:
    node.terminate()
    try:
        return node.wait(KILL_AFTER_S)
    except subprocess.TimeoutExpired:
        node.kill()
        return node.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
