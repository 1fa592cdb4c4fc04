"""What is asked of a machine by another one, and what it answers, as JSON both ways."""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from infra.gpus import count_gpus
from infra.host_lock import held_locks
from infra.own_wheel import own_version
from infra.probing.facts import HostFacts, facts_from_data
from infra.probing.probe import probe_host
from infra.probing.system import folder_bytes
from infra.process_id import boot_id
from sweeps.hosts import EngineName, HostSpec

FORMAT = 1


@dataclass(frozen=True, slots=True)
class ModelOnDisk:
    """A folder of weights that the inventory names."""

    path: str
    size_bytes: int | None
    """None where there is no such folder."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the host as its inventory has it, the folder of ours, and the models."""

    spec: HostSpec
    folder: str
    models: tuple[str, ...] = ()

    def line(self) -> bytes:
        """Write it as JSON."""
        data = {"spec": self.spec.as_data(), "folder": self.folder, "models": list(self.models)}
        return json.dumps(data).encode()

    @classmethod
    def read(cls, line: bytes) -> "Question":
        """Read what `line` wrote. Raises ValueError."""
        try:
            data = json.loads(line)
            spec = {**data["spec"], "engine": EngineName(data["spec"]["engine"])}
            return cls(HostSpec(**spec), data["folder"], tuple(data["models"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"no question: {error}") from error


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found, by which version of ours."""

    facts: HostFacts
    version: str
    boot_id: str
    models: tuple[ModelOnDisk, ...] = ()
    locks: tuple[str, ...] = ()
    """Who has its GPUs, in words."""
    notes: tuple[str, ...] = ()

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {**asdict(self), "facts": self.facts.as_data(), "format": FORMAT}

    @classmethod
    def from_data(cls, data: Any) -> "Answer":
        """Read what `as_data` gave. Raises ValueError."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError("the answer has another format")
        from pydantic import TypeAdapter  # slow to import

        facts = facts_from_data(data.get("facts"))
        plain = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        return TypeAdapter(cls).validate_python({**plain, "facts": facts})


def answer(question: Question) -> Answer:
    """Probe this machine."""
    spec = _settled(question.spec)
    models = tuple(ModelOnDisk(path, folder_bytes(Path(path))) for path in question.models)
    there = [model for model in models if model.size_bytes is not None]
    largest = max(there, key=lambda model: model.size_bytes or 0, default=None)
    facts = probe_host(spec, Path(question.folder), model=Path(largest.path) if largest else None)
    locks, notes = _locks()
    return Answer(facts, own_version(), boot_id(), models, locks, notes)


def _settled(spec: HostSpec) -> HostSpec:
    """Choose the engine as a sweep would do here."""
    if spec.engine is not EngineName.AUTO:
        return spec
    return replace(spec, engine=EngineName.SGLANG if count_gpus() else EngineName.EMULATED)


def _locks() -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        return tuple(f"{lock.name}: {lock}" for lock in held_locks()), ()
    except OSError as error:
        return (), (f"the locks of its GPUs could not be read: {error}",)
