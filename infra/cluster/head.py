"""Ray's head on this machine, under a guard: it ends with whoever started it."""

import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from infra.cluster.certificates import Certificates, tls_variables
from infra.cluster.words import TOKEN_VARIABLE, VARIABLES, head_words, new_token
from infra.host import Command, Host, HostError, Process

READY_S = 120.0
"""Wall seconds for the head to answer."""
_STOP_S = 10.0
_LOOK_S = 0.2
_CLOSED = {"AUTOSCALER_METRIC_PORT": "-1"}
"""Ray's autoscaler, which has nothing to do here, would tell its metrics to all without a token."""


@dataclass(frozen=True, slots=True)
class Head:
    """A head that answers."""

    address: str
    """`IP:PORT`, as every host reaches it."""
    token: str = field(repr=False)
    certificates: Path
    """The folder of what whoever joins must have."""

    @property
    def variables(self) -> dict[str, str]:
        """Return what a driver here needs to join."""
        return {
            **VARIABLES, **tls_variables(str(self.certificates)), TOKEN_VARIABLE: self.token,
        }  # fmt: skip


@contextmanager
def head_here(
    host: Host, own_address: str, others: Iterable[str], sweep: str, log_path: Path
) -> Iterator[Head]:
    """Run a head until the end of the block; `others` are the addresses of those who may join.

    Raises HostError.
    """
    port, token = _free_port(own_address), new_token()
    with tempfile.TemporaryDirectory(prefix="orr", dir="/tmp", ignore_cleanup_errors=True) as place:
        try:
            Certificates.made_for([own_address, *others]).write(Path(place))
        except OSError as error:
            raise HostError(f"no certificates can be written to {place}: {error}") from error
        process = host.start(
            Command(
                # Ray opens its folder to all; the one around it stays closed.
                argv=head_words(sys.executable, own_address, port, f"{place}/r"),
                env={**VARIABLES, **_CLOSED, **tls_variables(place)},
                hidden={TOKEN_VARIABLE: token},
                inherit=("PATH", "HOME", "LANG", "LD_LIBRARY_PATH"),
                log_path=log_path,
                sweep=sweep,
                trial="ray-head",
                grace_s=_STOP_S,
            )
        )
        try:
            _await(process, own_address, port)
            yield Head(f"{own_address}:{port}", token, Path(place))
        finally:
            process.stop()


def own_address_towards(address: str) -> str:
    """Return the address by which this machine reaches another. Raises HostError."""
    try:
        family, _, _, _, there = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(there)  # nothing is sent
            return str(probe.getsockname()[0])
    except OSError as error:
        raise HostError(f"no way to {address} is known here: {error}") from error


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _await(process: Process, address: str, port: int) -> None:
    until_s = time.monotonic() + READY_S
    while time.monotonic() < until_s:
        if process.poll() is not None:
            break
        try:
            with socket.create_connection((address, port), timeout=2.0):
                return
        except OSError:
            time.sleep(_LOOK_S)
    told = " / ".join(process.log_tail(3))
    raise HostError(f"Ray's head did not come up at {address}:{port}: {told}")
