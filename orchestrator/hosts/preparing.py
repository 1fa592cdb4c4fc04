"""What `hosts prepare` and `hosts remove` do: our environment on a host, one folder a version."""

import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from infra.inventory import HostEntry
from infra.ours import OursThere, ours_on
from infra.own_wheel import NAME, build_wheel, file_hash, own_version
from infra.remote import Remote, RemoteError
from infra.wheelhouse import PYTHONS, Lock, Target, WheelhouseError, download, pip_archive
from orchestrator.choices import WheelSource
from sweeps.problems import BadInputError, Problem

Tell = Callable[[str], None]

INSTALL_S = 3600.0
_REGISTRY_PATIENCE = ("--retries", "0", "--timeout", "15")
_DONE = ".complete"
_MACHINE = re.compile(r"[A-Za-z0-9_]{1,32}")
_GLIBC = re.compile(r"\d{1,2}\.\d{1,3}")
_SUPPORTED = " ".join(PYTHONS)
_CODE = (
    "import sys, platform; print('%d.%d' % sys.version_info[:2], platform.machine(),"
    " platform.libc_ver()[1] or '2.17', sys.executable)"
)
_FIND = f"""
for name in "$@"; do
  found=$(command -v "$name") || continue
  told=$("$found" -c "{_CODE}") || continue
  case " {_SUPPORTED} " in *" ${{told%% *}} "*) echo "$told"; exit 0 ;; esac
done
exit 1
"""
_LINK = 'ln -sfn "$1" "$2.new" && mv -fT "$2.new" "$2"'
# Whatever runs by an interpreter of ours has its path first in its command line.
_USERS = """
for file in /proc/[0-9]*/cmdline; do
  words=
  read -r words 2>/dev/null <"$file"
  case $words in "$1"/*) echo "${file#/proc/}" ;; esac
done 2>/dev/null; exit 0
"""


@dataclass(frozen=True, slots=True)
class Base:
    """The interpreter there that our environment is made of."""

    path: str
    target: Target


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is on a host now."""

    version: str
    interpreter: str
    was_there: bool


def prepare(
    remote: Remote,
    host: HostEntry,
    tell: Tell,
    *,
    source: WheelSource = WheelSource.AUTO,
    locks: Path | None = None,
    cache: Path | None = None,
) -> Prepared:
    """Put our environment on a host, unless this very version is there already.

    Raises BadInputError, RemoteError.
    """
    if host.python is not None:
        why = "that interpreter is yours to keep, and what is put there would not be used"
        mend = "Remove `python` from the inventory, or install ours into that environment."
        raise BadInputError(
            "the inventory", [Problem(f"hosts.{host.name}.python", host.python, why, mend)]
        )
    base = find_base(remote, host)
    try:
        lock = Lock.of(base.target.python, locks) if locks else Lock.of(base.target.python)
        return _Preparation(remote, ours_on(remote, host), base, lock, tell, cache).make(source)
    except WheelhouseError as error:
        raise RemoteError(f"{host.name}: {error}") from error


def find_base(remote: Remote, host: HostEntry) -> Base:
    """Return an interpreter there that there is a lock for. Raises RemoteError."""
    names = (
        [host.base_python] if host.base_python else [*(f"python{p}" for p in PYTHONS), "python3"]
    )
    done = remote.run(["sh", "-c", _FIND, "sh", *names], repeatable=True)
    words = done.text.split(maxsplit=3)
    if done.code != 0 or len(words) != 4:
        wanted, tried = " or ".join(reversed(PYTHONS)), ", ".join(names)
        raise RemoteError(
            f"{host.name}: no Python {wanted} is found there (tried {tried})."
            " No login shell runs there, so what .bashrc, conda or pyenv put on the PATH is not"
            " seen: name an absolute path by `base_python`"
        )
    python, machine, glibc, path = words
    path = path.strip()
    # They become words of pip, and the name of a folder here.
    sound = (python in PYTHONS, _MACHINE.fullmatch(machine), _GLIBC.fullmatch(glibc))
    if not all(sound) or not path.startswith("/") or not path.isprintable():
        raise RemoteError(f"{host.name}: its Python tells {done.text[:80]!r} of itself")
    return Base(path, Target(python, machine, glibc))


@dataclass(frozen=True, slots=True)
class _Preparation:
    """One environment on one host."""

    remote: Remote
    ours: OursThere
    base: Base
    lock: Lock
    tell: Tell
    cache: Path | None

    def make(self, source: WheelSource) -> Prepared:
        version = self.lock.version
        folder = self.ours.environment(version)
        python = f"{folder}/bin/python"
        if self._runs(["test", "-e", f"{folder}/{_DONE}"]):
            self._use(folder)
            return Prepared(version, python, was_there=True)
        with tempfile.TemporaryDirectory() as scratch:
            pip = self._send(pip_archive(Path(scratch)))
            wheel = build_wheel(Path(scratch))
            self._send(wheel)
            listed = Path(scratch) / f"{version}.txt"
            listed.write_text(self._requirements(wheel))
            requirements = self._send(listed)
        self.tell(f"making {folder} of {self.base.path}")
        # What an interrupted call left is not trusted.
        self._must(["rm", "-rf", "--", folder])
        self._must([self.base.path, "-m", "venv", "--without-pip", folder])
        # Its Python may come without: some systems leave pip out.
        self._must([python, "-m", "zipfile", "-e", pip, f"{folder}/{self._packages}"])
        # A source distribution would run a program of its own there, and need compilers.
        install = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps",
                   "--only-binary", ":all:"]  # fmt: skip
        self._install([python, *install, "--require-hashes", "-r", requirements], source)
        self._prove(python)
        self.remote.write(f"{folder}/{_DONE}", f"{version}\n".encode())
        self._use(folder)
        self._remove_others(folder)
        return Prepared(version, python, was_there=False)

    def _requirements(self, wheel: Path) -> str:
        """Add our own wheel to the lock, by its hash as all others."""
        digest = file_hash(wheel)
        ours = (
            f"{NAME} @ file://{quote(self.ours.wheels)}/{quote(wheel.name)} --hash=sha256:{digest}"
        )
        return f"{self.lock.path.read_text()}\n{ours}\n"

    @property
    def _packages(self) -> str:
        return f"lib/python{self.base.target.python}/site-packages"

    def _install(self, words: list[str], source: WheelSource) -> None:
        if source is not WheelSource.SEND:
            self.tell("installing the locked requirements from the host's registry")
            done = self.remote.run([*words, *_REGISTRY_PATIENCE], cwd="/", deadline_s=INSTALL_S)
            if done.code == 0:
                return
            if source is WheelSource.HOST:
                raise RemoteError(f"{self.remote.name}: {words[0]}: {done.complaint}")
            self.tell(f"the host cannot do that ({done.complaint}); the wheels are sent")
        self.tell("fetching the locked wheels here; the first time, that takes minutes")
        wheels = download(self.lock, self.base.target, self._cache())
        for number, wheel in enumerate(wheels, 1):
            self.tell(f"wheel {number} of {len(wheels)}: {wheel.name}")
            self._send(wheel)
        self._must([*words, "--no-index", "--find-links", self.ours.wheels], INSTALL_S)

    def _prove(self, python: str) -> None:
        """See that it is ours that runs, by exactly the path that will be used."""
        code = "from infra.own_wheel import own_version; print(own_version())"
        found = self._must([python, "-c", code]).strip()
        if found != own_version():
            raise RemoteError(f"{self.remote.name}: {found} runs there instead of {own_version()}")

    def _use(self, folder: str) -> None:
        self._must(["sh", "-c", _LINK, "sh", folder, self.ours.current])

    def _remove_others(self, kept: str) -> None:
        """Remove environments of other versions that nothing runs in."""
        listed = self._must(["ls", "-1", self.ours.environments]).split()
        for name in listed:
            folder = self.ours.environment(name)
            if folder != kept and not _users(self.remote, folder):
                self.tell(f"removing {folder}")
                self._must(["rm", "-rf", "--", folder], INSTALL_S)

    def _send(self, file: Path) -> str:
        path = f"{self.ours.wheels}/{file.name}"
        self.remote.put(file, path)
        return path

    def _cache(self) -> Path:
        root = self.cache or Path("~/.cache/orchestrator/wheels").expanduser()
        target = self.base.target
        name = f"{self.lock.version.rpartition('-')[2]}-{target.machine}-{target.glibc}"
        return root / name

    def _runs(self, words: Sequence[str]) -> bool:
        return self.remote.run(words, repeatable=True).code == 0

    def _must(self, words: Sequence[str], deadline_s: float = 300.0) -> str:
        done = self.remote.run(words, cwd="/", deadline_s=deadline_s, repeatable=True)
        if done.code != 0:
            program = PurePosixPath(words[0]).name
            raise RemoteError(f"{self.remote.name}: {program} {words[1]}: {done.complaint}")
        return done.text


def remove(remote: Remote, host: HostEntry, *, with_state: bool = False) -> bool:
    """Remove what `prepare` put on a host; False if there was nothing. Raises RemoteError.

    What sweeps wrote there stays, unless it is asked for as well.
    """
    ours = ours_on(remote, host)
    if remote.run(["test", "-e", ours.root], repeatable=True).code != 0:
        return False
    if users := _users(remote, ours.environments):
        pids = ", ".join(users)
        raise RemoteError(f"{host.name}: processes {pids} run by ours there: stop them first")
    parts = [ours.current, ours.environments, ours.wheels, ours.probe]
    parts += [ours.state] if with_state else []
    done = remote.run(["rm", "-rf", "--", *parts], deadline_s=INSTALL_S, repeatable=True)
    if done.code != 0:
        raise RemoteError(f"{host.name}: {done.complaint}")
    # Only if nothing is left in it.
    remote.run(["rmdir", "--", ours.root], repeatable=True)
    return True


def _users(remote: Remote, folder: str) -> list[str]:
    """Return the pids of what runs by an interpreter below a folder."""
    found = remote.run(["sh", "-c", _USERS, "sh", folder], repeatable=True).text.split()
    return [name.partition("/")[0] for name in found]
