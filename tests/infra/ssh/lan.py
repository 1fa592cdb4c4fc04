"""A network of real sshd processes, each in a network namespace with an address of its own.

Three GPU hosts and a bastion on one bridge, and a host that only the bastion reaches. They share
the file system; each has a home, a runtime folder and an `nvidia-smi` of its own, which answers for
an emulated machine. Needs root, Linux, sshd and iproute2.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.file_lock import FileLock
from infra.inventory import HostEntry, Inventory, Limits
from sweeps.hosts import EngineName
from tests.infra.trees import wait_until

PORT = 2022
GPU_HOSTS = ("gpu1", "gpu2", "gpu3")
BASTION, INNER = "bastion", "inner"
QUICK = Limits(connect_s=15, command_s=30, keepalive_s=1, lost_after_s=4, retry_s=60)
"""For tests that lose a connection; a busy machine still has time to answer."""

_SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/sbin"
_SUBNETS = 200

CONFIG = """
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/pid
PasswordAuthentication no
PubkeyAuthentication yes
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
UseDNS no
MaxStartups 100
Subsystem sftp internal-sftp
SetEnv {variables}
"""

_SMI = """#!/bin/sh
EMULATED_HOST_FOLDER={folder}/emulated EMULATED_TRUTH={truth} EMULATED_GPUS=8 \
EMULATED_TIME_SCALE=50 exec {python} -m infra.emulated.smi "$@"
"""


def run(*argv: str) -> str:
    """Run a tool of the machine; return what it printed."""
    program = shutil.which(argv[0], path=_SBIN)
    assert program is not None, f"install {argv[0]}"
    done = subprocess.run([program, *argv[1:]], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def sshd_program() -> str:
    """Return the SSH server of this machine, and make what it needs to run outside of a service."""
    program = shutil.which("sshd", path=_SBIN)
    assert program is not None, "install openssh-server"
    if os.getuid() == 0:
        # Where it separates its privileges.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    return program


def make_key(path: Path, *options: str) -> Path:
    """Make a key pair; ed25519 without a passphrase unless the options say otherwise."""
    run("ssh-keygen", "-q", *(options or ("-t", "ed25519", "-N", "")), "-f", str(path))
    return path


@dataclass(slots=True)
class Node:
    """One host of the network. Its link can be cut and its bandwidth limited."""

    name: str
    address: str
    namespace: str
    link: str
    """This machine's end of its cable, or the bastion's for the inner host."""
    folder: Path
    key: Path
    truth: str = "M"
    jump: str | None = None
    link_namespace: str | None = None
    _sshd: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def known_hosts(self) -> Path:
        """Return a file that trusts this host's key, and no other."""
        return self.folder / "known_hosts"

    @property
    def home(self) -> Path:
        """Return the home of its user."""
        return self.folder / "home"

    @property
    def runtime(self) -> Path:
        """Return its runtime folder, where its sweeps meet."""
        return Path(f"/tmp/orl{self.namespace.removeprefix('orch')}")

    def entry(self, **changes: object) -> HostEntry:
        """Return it as an entry of an inventory, with an interpreter in which ours is installed."""
        entry = HostEntry(
            name=self.name,
            address=self.address,
            user="root",
            port=PORT,
            key=str(self.key),
            jump=self.jump,
            known_hosts=str(self.known_hosts),
            python=sys.executable,
            engine=EngineName.EMULATED,
            gpus=0 if self.name == BASTION else 8,
            folder=str(self.folder / "ours"),
            limits=QUICK,
            truth=self.truth,
        )
        return replace(entry, **changes)  # type: ignore[arg-type]

    def table(self, **changes: object) -> str:
        """Return its table of a hosts.toml."""
        entry = self.entry()
        values: dict[str, object] = {
            "address": entry.address, "user": "root", "port": PORT, "key": entry.key,
            "known_hosts": entry.known_hosts, "python": entry.python, "engine": entry.engine.value,
            "gpus": entry.gpus, "folder": entry.folder, "truth": entry.truth,
        }  # fmt: skip
        values |= {"jump": self.jump} if self.jump else {}
        values |= changes
        lines = [f"{name} = {_toml(value)}" for name, value in values.items() if value is not None]
        return "\n".join([f"[hosts.{self.name}]", *lines, ""])

    def cut(self) -> None:
        """Lose the cable: packets vanish, and nobody is told."""
        self._ip("link", "set", self.link, "down")

    def mend(self) -> None:
        """Plug the cable in again."""
        self._ip("link", "set", self.link, "up")

    @contextmanager
    def slow(self, kbit_per_s: int) -> Iterator[None]:
        """Limit what this machine sends to it for a while."""
        qdisc = ("root", "tbf", "rate", f"{kbit_per_s}kbit", "burst", "16kb", "latency", "2s")
        run("tc", "qdisc", "add", "dev", self.link, *qdisc)
        try:
            yield
        finally:
            run("tc", "qdisc", "del", "dev", self.link, "root")

    def start(self) -> None:
        """Run its sshd; soon `is_answering`."""
        argv = ["ip", "netns", "exec", self.namespace, sshd_program(), "-D", "-e", "-f"]
        with (self.folder / "log").open("ab") as log:
            self._sshd = subprocess.Popen(
                [shutil.which("ip", path=_SBIN) or "ip", *argv[1:], str(self.folder / "config")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """End its sshd and everything else that runs there."""
        for _ in range(50):
            pids = self.pids()
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                break
        if self._sshd is not None:
            self._sshd.kill()
            self._sshd.wait(30)
            self._sshd = None

    def pids(self) -> list[int]:
        """Return all processes that run there."""
        return [int(pid) for pid in run("ip", "netns", "pids", self.namespace).split()]

    def authorize(self, *public_keys: Path) -> None:
        """Let these keys in, beside the one that is always let in."""
        texts = [path.read_text() for path in (Path(f"{self.key}.pub"), *public_keys)]
        (self.folder / "authorized_keys").write_text("".join(texts))

    def change_host_key(self) -> None:
        """Give it another key, as a host that was set up anew has; its sshd is restarted."""
        self.stop()
        for name in ("host_key", "host_key.pub"):
            (self.folder / name).unlink()
        make_key(self.folder / "host_key")
        self.start()

    def is_answering(self) -> bool:
        """Tell whether its sshd says its name, asked from inside of it."""
        code = (
            f"import socket; s = socket.create_connection(('127.0.0.1', {PORT}), 5);"
            " print(s.recv(4).decode())"
        )
        argv = ["ip", "netns", "exec", self.namespace, sys.executable, "-I", "-S", "-c", code]
        argv[0] = shutil.which("ip", path=_SBIN) or "ip"
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        return done.stdout.strip() == "SSH-"

    def _ip(self, *words: str) -> None:
        inside = ("-n", self.link_namespace) if self.link_namespace else ()
        run("ip", *inside, *words)


@dataclass(slots=True)
class Lan:
    """The network with its hosts."""

    number: int
    folder: Path
    gateway: str
    """This machine's address there, which the hosts reach."""
    nodes: dict[str, Node]

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    @property
    def gpu_hosts(self) -> list[Node]:
        """Return the three hosts on the bridge."""
        return [self.nodes[name] for name in GPU_HOSTS]

    def inventory(self, changes: Mapping[str, Mapping[str, object]] | None = None) -> Inventory:
        """Return all hosts, some of them changed."""
        changes = changes or {}
        hosts = (n.entry(**changes.get(n.name, {})) for n in self.nodes.values())
        return Inventory("hosts.toml", tuple(hosts))

    def write_inventory(self, path: Path, *names: str, **changes: object) -> Path:
        """Write a hosts.toml of all hosts, or of some."""
        chosen = [self.nodes[name] for name in names or self.nodes]
        path.write_text("\n".join(node.table(**changes) for node in chosen))
        return path


@contextmanager
def lan() -> Iterator[Lan]:
    """Bring the network up; take all of it down in the end, with what still runs on its hosts."""
    folder = Path(tempfile.mkdtemp(prefix="lan-"))
    with _number() as number, ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        _tear_down(number)
        stack.callback(_tear_down, number)
        made = _wire(number, folder)
        for node in made.nodes.values():
            stack.callback(shutil.rmtree, node.runtime, ignore_errors=True)
            stack.callback(node.stop)
            node.start()
        for node in made.nodes.values():
            wait_until(node.is_answering, f"the sshd of {node.name}")
        yield made


@contextmanager
def _number() -> Iterator[int]:
    """Take a subnet that no other test of this machine has; it ends with this process."""
    place = Path("/tmp/orch-test-lans")  # whatever TMPDIR says: the network is one
    place.mkdir(exist_ok=True)
    for number in range(1, _SUBNETS):
        if lock := FileLock.take(place / f"{number}.lock"):
            try:
                yield number
            finally:
                lock.release()
            return
    raise AssertionError("no subnet is left")


def _tear_down(number: int) -> None:
    """Remove what this or a killed run with the same number has made."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0]
        if name.startswith(f"orch{number}-"):
            for pid in run("ip", "netns", "pids", name).split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            run("ip", "netns", "del", name)
    if f"198.19.{number}.0/24" in run("ip", "route"):
        run("ip", "route", "del", "unreachable", f"198.19.{number}.0/24")
    if f"orchbr{number}:" in run("ip", "-o", "link"):
        run("ip", "link", "del", f"orchbr{number}")


def _wire(number: int, folder: Path) -> Lan:
    bridge, gateway = f"orchbr{number}", f"198.18.{number}.1"
    run("ip", "link", "add", bridge, "type", "bridge")
    run("ip", "addr", "add", f"{gateway}/24", "dev", bridge)
    run("ip", "link", "set", bridge, "up")
    key = make_key(folder / "user_key")
    nodes = {}
    for place, name in enumerate((*GPU_HOSTS, BASTION), 11):
        namespace, link = f"orch{number}-{name}", f"orch{number}v{place}"
        address = f"198.18.{number}.{place}"
        _namespace(namespace)
        run("ip", "link", "add", link, "type", "veth", "peer", "eth0", "netns", namespace)
        run("ip", "link", "set", link, "master", bridge, "up")
        _address(namespace, "eth0", f"{address}/24")
        run("ip", "-n", namespace, "route", "add", "default", "via", gateway)
        nodes[name] = Node(name, address, namespace, link, folder / name, key)
    nodes[INNER] = _inner(number, nodes[BASTION], folder, key)
    for node in nodes.values():
        _furnish(node)
    return Lan(number, folder, gateway, nodes)


def _inner(number: int, bastion: Node, folder: Path, key: Path) -> Node:
    """Wire the host that only the bastion reaches."""
    namespace, address = f"orch{number}-{INNER}", f"198.19.{number}.11"
    # Not by a way out of this machine either.
    run("ip", "route", "add", "unreachable", f"198.19.{number}.0/24")
    _namespace(namespace)
    peer = ("type", "veth", "peer", "eth0", "netns", namespace)
    run("ip", "-n", bastion.namespace, "link", "add", "eth1", *peer)
    _address(bastion.namespace, "eth1", f"198.19.{number}.1/24")
    _address(namespace, "eth0", f"{address}/24")
    return Node(
        INNER, address, namespace, "eth1", folder / INNER, key,
        jump=BASTION, link_namespace=bastion.namespace,
    )  # fmt: skip


def _namespace(name: str) -> None:
    run("ip", "netns", "add", name)
    run("ip", "-n", name, "link", "set", "lo", "up")


def _address(namespace: str, device: str, address: str) -> None:
    run("ip", "-n", namespace, "addr", "add", address, "dev", device)
    run("ip", "-n", namespace, "link", "set", device, "up")


def _furnish(node: Node) -> None:
    """Give a host its keys, its configuration and its programs."""
    folder = node.folder
    shutil.rmtree(node.runtime, ignore_errors=True)
    for part in (folder, node.home, folder / "bin", folder / "run", folder / "emulated"):
        part.mkdir(mode=0o700, exist_ok=True)
    make_key(folder / "host_key")
    public = (folder / "host_key.pub").read_text()
    node.known_hosts.write_text(f"[{node.address}]:{PORT} {public}")
    node.authorize()
    smi = folder / "bin/nvidia-smi"
    smi.write_text(_SMI.format(folder=folder, truth=node.truth, python=sys.executable))
    smi.chmod(0o755)
    variables = {
        "HOME": node.home,
        "ORCH_RUNTIME_DIR": node.runtime,
        "PATH": f"{folder}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    }
    text = " ".join(f"{name}={value}" for name, value in variables.items())
    (folder / "config").write_text(CONFIG.format(port=PORT, folder=folder, variables=text))


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(held)}" for key, held in value.items()) + "}"
    return str(value) if isinstance(value, int | float) else f'"{value}"'
