"""Random SSH configurations, in all the ways of writing that OpenSSH takes, and its own answers."""

import os
import random
import re
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

NAMES = ("gpu1", "gpu2", "dev.lab", "edge", "bastion", "far")
"""Each jumps only over those after it, so no way is a circle."""
_USERS = ("ops", "ann", "ci_bot")


@dataclass(frozen=True, slots=True)
class Written:
    """A configuration that was made up."""

    text: str
    included: str = ""


def configuration(seed: int, ports: tuple[int, ...], included: Path) -> Written:
    """Make a configuration up; its hosts are addresses of the loopback at some ports."""
    maker = _Maker(random.Random(seed), ports)
    rng = maker.rng
    blocks = [maker.block() for _ in range(rng.randint(2, 6))]
    hosts = [maker.host(name) for name in NAMES]
    rng.shuffle(hosts)
    parts = blocks[:2] + hosts + blocks[2:]
    if rng.random() < 0.4:
        # Inside of a block, or at the top of the file.
        parts.insert(rng.choice((0, 2, len(parts))), maker.line("Include", str(included)))
    if rng.random() < 0.3:
        rng.shuffle(parts)
    inner = "\n".join([*maker.options(), maker.block(), maker.block()])
    ending = rng.choice(("\n", "\n", "\n", "\r\n"))
    return Written(ending.join("\n".join(parts).split("\n")) + ending, inner + "\n")


@dataclass(slots=True)
class _Maker:
    rng: random.Random
    ports: tuple[int, ...]
    _addresses: Iterator[int] = field(default_factory=lambda: iter(range(2, 250)))

    def line(self, keyword: str, *values: str, raw: bool = False) -> str:
        """Write one option in some manner."""
        rng = self.rng
        shown = rng.choice((keyword, keyword.lower(), keyword.upper()))
        gap = rng.choice((" ", " ", "\t", "  ", "=", " = ", "\t=\t"))
        words = values if raw else [self._quoted(value) for value in values]
        end = "" if raw else rng.choice(("", "", "", "  ", " # why", "\t#no"))
        return rng.choice(("", "  ", "\t")) + shown + gap + " ".join(words) + end

    def _quoted(self, value: str) -> str:
        if value == "":
            return '""'
        if " " in value:
            return self.rng.choice((f'"{value}"', f"'{value}'", value.replace(" ", "\\ ")))
        return f'"{value}"' if self.rng.random() < 0.2 else value

    def host(self, name: str) -> str:
        """Write the block of one host."""
        lines = [self.line("Host", name)]
        address = f"127.0.0.{next(self._addresses)}"
        lines.append(self.line("HostName", address))
        lines.append(self.line("Port", str(self.rng.choice(self.ports))))
        if self.rng.random() < 0.5:
            lines += self.options()
        after = NAMES[NAMES.index(name) + 1 :]
        if after and self.rng.random() < 0.5:
            chosen = self.rng.sample(after, min(len(after), self.rng.choice((1, 1, 2, 3))))
            lines.append(self.line("ProxyJump", ",".join(map(self._jump, chosen)), raw=True))
        return "\n".join(lines)

    def _jump(self, name: str) -> str:
        user = self.rng.choice(("", "", f"{self.rng.choice(_USERS)}@"))
        port = self.rng.choice(("", "", f":{self.rng.choice(self.ports)}"))
        return self.rng.choice(("", "", "ssh://")) + user + name + port

    def block(self) -> str:
        """Write a block for several hosts, or a comment."""
        rng = self.rng
        if rng.random() < 0.1:
            return "\n# a remark = none\n"
        name, user = rng.choice(NAMES), rng.choice(_USERS)
        heads = (
            ("Host", ("*",)), ("Host", ("gpu?", "!gpu2")), ("Host", ("*.lab", name)),
            ("Match", ("all",)), ("Match", ("host", "127.0.0.*,!127.0.0.3")),
            ("Match", ("originalhost", f"{name},e*")), ("Match", ("user", user)),
            ("Match", (f"host={name}",)), ("Match", ("!originalhost", name, "user", "*")),
            ("Match", ("host", "127.*", "exec", rng.choice(("true", "false")))),
            ("Match", ("originalhost", name, "exec", "true")), ("Match", ("localuser", "nobody")),
            ("Match", ("!exec", "false")), ("Match", ("originalhost", name, "final")),
        )  # fmt: skip
        keyword, words = rng.choice(heads)
        # Older versions of OpenSSH take these words without quotes only.
        head = f"{keyword} {' '.join(words)}"
        return "\n".join([head, *self.options()])

    def options(self) -> list[str]:
        """Write some options that any host may have."""
        rng = self.rng
        known = ("~/.ssh/known_%k", "/tmp/known hosts", "~/.ssh/known_hosts", "/dev/null")
        choices = (
            ("User", (rng.choice(_USERS),)), ("Port", (str(rng.choice(self.ports)),)),
            ("IdentityFile", (rng.choice(("~/.ssh/id_%r", "/k/%h_%p", "~/.ssh/lab key", "/a#b")),)),
            ("IdentityFile", ("none",)), ("IdentitiesOnly", (rng.choice(("yes", "no")),)),
            ("UserKnownHostsFile", tuple(rng.sample(known, rng.choice((1, 1, 2))))),
            ("UserKnownHostsFile", ("none",)), ("HostKeyAlias", (f"alias{rng.randint(1, 9)}",)),
            ("ServerAliveInterval", ("30",)), ("StrictHostKeyChecking", ("no",)),
            ("ForwardAgent", ("yes",)), ("ConnectTimeout", ("20",)), ("LogLevel", ("ERROR",)),
        )  # fmt: skip
        chosen = rng.sample(choices, rng.randint(1, 4))
        # A level of logging would silence what `ssh -v` is asked for.
        return [self.line(key, *values) for key, values in chosen if key != "LogLevel"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What `ssh -v` did."""

    places: tuple[tuple[str, int], ...]
    """Address and port of each hop, the target last."""
    first_user: str
    identities: tuple[str, ...]
    """Of all logins on the way that began."""


_WAY = re.compile(r"Executing proxy command: exec .* -W '\[(.+)\]:(\d+)' ")
_CONNECTING = re.compile(r"Connecting to \S+ \[(.+)\] port (\d+)\.")
_USER = re.compile(r"Authenticating to \S+ as '(.+)'")
_IDENTITY = re.compile(r"identity file (.+) type -?\d+")


def seen_way(program: str, file: Path, *words: str) -> Seen:
    """Let the real client go the way to a host, and tell what it says of it."""
    argv = [program, "-v", "-F", str(file), "-o", "ConnectTimeout=30", *words, "true"]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90
    )
    log = done.stderr.replace("\r", "")
    inner = [(match[1], int(match[2])) for match in _WAY.finditer(log)]
    first = _CONNECTING.search(log)
    assert first is not None, log
    user = _USER.search(log)
    identities = [match[1] for match in _IDENTITY.finditer(log)]
    return Seen(
        ((first[1], int(first[2])), *reversed(inner)),
        user[1] if user else "",
        tuple(name for name in identities if not name.endswith("-cert")),
    )


class _Banner(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            self.request.sendall(b"SSH-2.0-nobody\r\n")
            self.request.recv(4096)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64


@contextmanager
def banner_servers(count: int) -> Iterator[tuple[int, ...]]:
    """Serve the first line of SSH and no more, at all addresses of the loopback."""
    with ExitStack() as stack:
        ports = []
        for _ in range(count):
            server = stack.enter_context(_Server(("127.0.0.1", 0), _Banner, False))
            server.server_address = ("0.0.0.0", 0)
            server.server_bind()
            server.server_activate()
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            ports.append(int(server.socket.getsockname()[1]))
        yield tuple(ports)


def without_openssh(folder: Path) -> str:
    """Return a PATH on which no `ssh` is found."""
    folder.mkdir(exist_ok=True)
    return os.fspath(folder)
