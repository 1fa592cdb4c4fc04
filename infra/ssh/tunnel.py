"""A loopback port of this machine whose connections end on the other side."""

import logging
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import paramiko
from paramiko.ssh_exception import SSHException

from infra.remote import RemoteError

_CHUNK_BYTES = 1 << 16
_LOOK_S = 0.5
_log = logging.getLogger(__name__)


@contextmanager
def forwarded(
    transport: Callable[[], paramiko.Transport], target: tuple[str, int], open_s: float
) -> Iterator[int]:
    """Lend a port; each connection to it asks for the transport of that moment."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_LOOK_S)
        accepting = threading.Thread(
            target=_accept, args=(listener, transport, target, open_s, ended), daemon=True,
            name="ssh tunnel",
        )  # fmt: skip
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            accepting.join()


def _accept(
    listener: socket.socket,
    transport: Callable[[], paramiko.Transport],
    target: tuple[str, int],
    open_s: float,
    ended: threading.Event,
) -> None:
    while not ended.is_set():
        with suppress(TimeoutError):
            near, peer = listener.accept()
            near.setblocking(True)
            threading.Thread(
                target=_carry, args=(near, peer, transport, target, open_s, ended), daemon=True,
                name="ssh tunnel connection",
            ).start()  # fmt: skip


def _carry(
    near: socket.socket,
    peer: tuple[str, int],
    transport: Callable[[], paramiko.Transport],
    target: tuple[str, int],
    open_s: float,
    ended: threading.Event,
) -> None:
    with near:
        try:
            far = transport().open_channel("direct-tcpip", target, peer, timeout=open_s)
        except (SSHException, OSError, EOFError, RemoteError) as error:
            _log.warning("%s:%d is not reached through the tunnel: %s", *target, error)
            return
        back = threading.Thread(target=_back, args=(far, near), daemon=True, name="ssh tunnel back")
        back.start()
        try:
            _forth(near, far, ended)
        finally:
            back.join(_LOOK_S if ended.is_set() else None)
            far.close()


def _forth(near: socket.socket, far: paramiko.Channel, ended: threading.Event) -> None:
    with suppress(OSError, EOFError, SSHException):
        while not ended.is_set() and not far.closed:
            if not select.select([near], [], [], _LOOK_S)[0]:
                continue
            chunk = near.recv(_CHUNK_BYTES)
            if not chunk:
                break
            far.sendall(chunk)
        far.shutdown_write()


def _back(far: paramiko.Channel, near: socket.socket) -> None:
    with suppress(OSError, EOFError, SSHException):
        while chunk := far.recv(_CHUNK_BYTES):
            near.sendall(chunk)
    with suppress(OSError):
        near.shutdown(socket.SHUT_WR)
