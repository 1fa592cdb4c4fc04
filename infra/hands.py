"""The command `python -m infra.hands`: what a host on another machine does for its servers here."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from infra import reaper
from infra.host import HostError
from infra.local_host import LocalHands, LocalHost


def _free_port(first: str, last: str, start: str) -> int:
    return LocalHost((int(first), int(last)), first_port=int(start)).free_port()


def _is_port_free(port: str) -> bool:
    return LocalHost((int(port), int(port))).is_port_free(int(port))


def _reap_sweep(sweep: str) -> int:
    return reaper.reap(sweep)


def _tail(path: str, lines: str) -> list[str]:
    return LocalHands().tail(Path(path), int(lines))


def _note(path: str, text: str) -> None:
    LocalHands().note(Path(path), text)


def _listens(pid: str, port: str) -> bool:
    return LocalHands().listens(int(pid), int(port))


VERBS: Mapping[str, Callable[..., object]] = {
    "reap": LocalHands().reap,
    "reap-sweep": _reap_sweep,
    "strike": LocalHands().strike,
    "survivors": LocalHands().survivors,
    "tail": _tail,
    "note": _note,
    "listens": _listens,
    "free-port": _free_port,
    "is-port-free": _is_port_free,
}
"""What can be asked for, by words."""


def main() -> None:
    """Answer line by line, until the input ends: `[verb, word, ...]`, then a result or an error."""
    for line in sys.stdin:
        verb, *words = json.loads(line)
        try:
            answer = {"result": VERBS[verb](*words)}
        except (HostError, OSError, ValueError) as error:
            answer = {"error": str(error) or type(error).__name__}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
