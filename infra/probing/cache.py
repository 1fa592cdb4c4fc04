"""Keeps what a probe found in a file, and from there what is costly to ask again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.probing.facts import HostFacts, Software, facts_from_data
from infra.whole_file import write_whole

FILE_NAME = "facts.json"


@dataclass(frozen=True, slots=True)
class Validity:
    """For what the software was read, and the files that are touched when that changes."""

    key: Mapping[str, str]
    stamps: Mapping[str, int]
    """Path to the time of its last change, in nanoseconds."""

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {"key": dict(self.key), "stamps": dict(self.stamps)}


def stamps_of(files: Sequence[str]) -> dict[str, int]:
    """Return when each file was last changed; those that are gone are left out."""
    found = {}
    for file in files:
        try:
            found[file] = Path(file).stat().st_mtime_ns
        except OSError:
            continue
    return found


def read_software(folder: Path, key: Mapping[str, str]) -> tuple[Software, Validity] | None:
    """Return the software that still holds; None where nothing does, or the file is corrupt."""
    try:
        data = json.loads((folder / FILE_NAME).read_text())
        kept = Validity(data["validity"]["key"], data["validity"]["stamps"])
        if kept.key != dict(key) or not kept.stamps or stamps_of([*kept.stamps]) != kept.stamps:
            return None
        return facts_from_data(data["facts"]).software, kept
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_facts(folder: Path) -> HostFacts | None:
    """Return what the last probe found, however old; None where there was none."""
    try:
        return facts_from_data(json.loads((folder / FILE_NAME).read_text())["facts"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(folder: Path, facts: HostFacts, validity: Validity) -> None:
    """Write beside, then rename. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {"validity": validity.as_data(), "facts": facts.as_data()}
    write_whole(folder / FILE_NAME, (json.dumps(data, indent=1) + "\n").encode())
