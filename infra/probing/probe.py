"""Probes a host: everything that may decide about a sweep, and nothing but probes is started."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from infra.engines import ENGINES, INHERITED, emulated_environment
from infra.local_host import PORTS
from infra.probing.cache import Validity, keep, read_software, stamps_of
from infra.probing.facts import HostFacts, NcclFile, Note, Room, Software, System
from infra.probing.links import Links
from infra.probing.nccl_files import read_nccl_files
from infra.probing.neighbours import listeners, sweep_of, unpassed
from infra.probing.reading import Readings
from infra.probing.smi import (
    GPU_USERS,
    GPUS,
    PROGRAM,
    SMI_S,
    Devices,
    Smi,
    Users,
    emulated_argv,
    gpu_users,
    told_besides,
)
from infra.probing.system import read_room, read_system
from infra.sglang.flags import NEWEST
from infra.sglang.probe import HELP_S, PROBE_S, read_flags, read_interpreter
from sweeps.hosts import HostSpec
from sweeps.values import digest

FILES_S = 20.0
"""For what is read from files; a network that hangs is not waited for."""

_MORE_S = 5.0
"""So that a program's own deadline comes first, with its better reason."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a probe looks, apart from the host's own settings."""

    shell: Mapping[str, str]
    root: Path = Path("/")
    ports: tuple[int, int] = PORTS


def probe_host(
    spec: HostSpec,
    folder: Path,
    *,
    model: Path | None = None,
    around: Surroundings | None = None,
) -> HostFacts:
    """Read all facts of a host whose engine is chosen; no failure is raised, each is a note.

    `folder` is the host's in the state folder: it keeps what is costly to ask again, and all that
    changes by the minute is read anew. `model` is the model's folder, if it has one.
    """
    around = around or Surroundings(os.environ)
    spec = replace(spec, folder=spec.folder or str(folder))
    probe = _Probe(spec, folder, around, _server_environment(spec, around.shell))
    return probe.read(model)


@dataclass(frozen=True, slots=True)
class _Probe:
    """One look at one host, under the environment that its servers would get."""

    spec: HostSpec
    folder: Path
    around: Surroundings
    env: Mapping[str, str]

    def read(self, model: Path | None) -> HostFacts:
        readings = Readings()
        root, notes = self.around.root, readings.notes
        notes += self._make_folder()
        software = self._start_software(readings)
        devices = self._start_devices(readings)
        system = readings.start("the machine", lambda: read_system(root), System(), FILES_S)
        room = readings.start(
            "free memory and disk", lambda: read_room(root, self.folder, model), Room(), FILES_S
        )
        files = readings.start_many("NCCL's files", self._nccl_files, FILES_S)
        users = readings.start_many("ports", lambda: listeners(self.around.ports), FILES_S)
        facts = replace(
            devices(),
            system=system(),
            room=room(),
            nccl_files=files(),
            listeners=users(),
            unpassed=unpassed(self.around.shell, self.env),
            read_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        found, validity = software()
        facts = replace(facts, software=found, notes=tuple(notes))
        return facts if validity is None else self._kept(facts, validity)

    def _start_software(self, readings: Readings) -> Callable[[], tuple[Software, Validity | None]]:
        """Start to ask the interpreter and SGLang, unless a former probe holds."""
        key = self._key()
        if cached := read_software(self.folder, key):
            return lambda: cached
        python, cwd = key["python"], self._cwd
        module = ENGINES[self.spec.engine].module
        flags = readings.start_many(
            "the flags of SGLang",
            lambda: read_flags(python, module, self.env, cwd),
            HELP_S + _MORE_S,
        )
        asked = readings.start(
            "the interpreter", lambda: self._interpreter(python), None, PROBE_S + _MORE_S
        )

        def collect() -> tuple[Software, Validity | None]:
            found, accepted = asked(), flags()
            if found is None:
                return Software(interpreter=python), None
            software = replace(found[0], accepted_flags=accepted)
            complete = software.sglang_version and accepted
            return software, Validity(key, stamps_of(found[1])) if complete else None

        return collect

    def _interpreter(self, python: str) -> tuple[Software, tuple[str, ...]]:
        if not self.spec.emulated:
            software, files = read_interpreter(python, self.env, self._cwd)
            return software, (*files, str(Path(python).resolve()))
        version = ".".join(map(str, sys.version_info[:3]))
        software = Software(python, version, self.spec.version or NEWEST)
        return software, tuple(map(str, _flag_sources()))

    def _start_devices(self, readings: Readings) -> Callable[[], HostFacts]:
        spec, smi = self.spec, self._smi()
        within_s = SMI_S + _MORE_S
        bare = HostFacts(
            host=spec.name,
            emulated=spec.emulated,
            truth=spec.truth if spec.emulated else "",
            gpus_wanted=spec.gpus,
        )
        if smi is None:
            if spec.gpus:
                readings.notes.append(Note(GPUS, f"{PROGRAM} is not on the path"))
            return lambda: bare
        gpus = readings.start(GPUS, smi.gpus, Devices(), within_s)
        links = readings.start("links", smi.links, Links(), within_s)
        apps = readings.start(GPU_USERS, smi.users, Users(), within_s)
        cuda: Callable[[], str] = str
        if not spec.emulated:
            cuda = readings.start("the CUDA version", smi.cuda_version, "", within_s)

        def collect() -> HostFacts:
            found, users = gpus(), apps()
            readings.notes += told_besides(found, users)
            rows = users.rows
            return replace(
                bare,
                gpus=found.gpus,
                links=links(),
                driver_version=found.driver,
                cuda_version=cuda(),
                gpu_users=gpu_users(rows, found.gpus, {row[0]: sweep_of(row[0]) for row in rows}),
            )

        return collect

    def _smi(self) -> Smi | None:
        """Return who is asked about devices; None where nobody is there."""
        if self.spec.emulated:
            return Smi(emulated_argv(), self.env, self._cwd)
        program = shutil.which(PROGRAM, path=self.env.get("PATH"))
        return Smi((program,), self.env, self._cwd) if program else None

    def _nccl_files(self) -> tuple[NcclFile, ...]:
        """No NCCL runs on an emulated host, and so none reads this machine's files."""
        return () if self.spec.emulated else read_nccl_files(self.env, self.around.root)

    def _key(self) -> dict[str, str]:
        """Name for what the software is read: another of these is other software."""
        spec = self.spec
        python = sys.executable if spec.emulated else spec.python or sys.executable
        path = Path(shutil.which(python) or python).absolute()
        return {
            "engine": spec.engine.value,
            "python": str(path),
            "version": (spec.version or NEWEST) if spec.emulated else "",
            "truth": spec.truth if spec.emulated else "",
            "env": digest(dict(spec.env)),
        }

    @property
    def _cwd(self) -> Path:
        """A server starts in a folder of its own as well: no checkout there shadows a package."""
        return self.folder if self.folder.is_dir() else Path("/")

    def _make_folder(self) -> list[Note]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return [Note("the host's folder", f"{self.folder} cannot be made: {error.strerror}")]
        return []

    def _kept(self, facts: HostFacts, validity: Validity) -> HostFacts:
        try:
            keep(self.folder, facts, validity)
        except OSError as error:
            note = Note("the next probe's cache", f"it cannot be written: {error.strerror}")
            return replace(facts, notes=(*facts.notes, note))
        return facts


def _server_environment(spec: HostSpec, shell: Mapping[str, str]) -> dict[str, str]:
    """Return what a server of this host gets before any setting is swept."""
    env = {name: shell[name] for name in INHERITED if name in shell}
    env |= {**ENGINES[spec.engine].unbuffered, **spec.env}
    return env | emulated_environment(spec) if spec.emulated else env


def _flag_sources() -> list[Path]:
    """Return the modules that an emulated server's flags come from."""
    infra = Path(__file__).parents[1]
    return [*sorted(infra.glob("sglang/flag*.py")), infra / "emulated/arguments.py"]
