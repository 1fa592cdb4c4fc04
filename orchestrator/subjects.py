"""What `verify` and `compare` measure: a file that was exported, or a trial; and its settings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.engines import ENGINES
from infra.redaction import Redactor, is_secret_name
from infra.sglang.neutral import spelled
from infra.sglang.server_keys import KEYS
from orchestrator.exporting import companion, recommendation, without_secrets
from orchestrator.lookup import known_trial
from orchestrator.refusals import bad_option
from orchestrator.state import State
from sweeps.axes import is_environment
from sweeps.exporters import EXPORTERS, Launch, Reading
from sweeps.exporters.env_file import read_variables
from sweeps.exporters.launches import UnreadableExportError, differences, edits
from sweeps.exporters.sealed import changed_fields, launch_of, read_record, record
from sweeps.exporters.sglang_yaml import typed
from sweeps.hosts import HostSpec
from sweeps.launch import Deadlines
from sweeps.problems import BadInputError, Problem
from sweeps.values import Value
from sweeps.workloads import FILE, Workload

_EXPORT = "Give a file of `orchestrator export`."
_MOST_BYTES = 1 << 22
_MOST_CHARS = 300
_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Subject:
    """A plan to start, and what was measured of it."""

    label: str
    record: Mapping[str, Any]
    launch: Launch
    folder: Path
    """Where files that it names may lie."""
    edits: tuple[str, ...] = ()
    """In what it is not as it was exported."""
    notes: tuple[str, ...] = ()
    """What of the file is not started here, and is no edit."""

    @property
    def host(self) -> HostSpec:
        """Return the host that it was measured on, with the variables that all servers got."""
        return HostSpec.from_data(self.record["host"])

    @property
    def settings(self) -> dict[str, Value]:
        """Return what the server is asked for, by our names where an edit left them.

        Variables of the host are in it too. Raises BadInputError.
        """
        version = str(self.record["engine_version"])
        given: dict[str, Value] = {}
        flags = {group[0]: _value(self.label, group) for group in self.launch.grouped}
        for name, value in self.record["settings"].items():
            if not is_environment(name):
                option = "--" + spelled(name, version).replace("_", "-")
                given[name] = _kept(value, flags.pop(option, None))
                if name in KEYS:  # no file holds it, but where it is
                    given[name] = value
        others = {o[2:].replace("-", "_"): _kept(None, value) for o, value in flags.items()}
        return {**given, **others, **self.launch.env}

    def workload(self, prompts: Path | None) -> Workload:
        """Return what was asked of the servers; `prompts` is where a file of prompts lies now.

        Raises BadInputError.
        """
        data = dict(self.record["workload"])
        data["concurrencies"] = tuple(data["concurrencies"])
        work = Workload(**data)
        if work.file is None:
            return work
        places = [prompts] if prompts else [self.folder / work.file.name, Path(work.file.name)]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            why = "the prompts of the sweep are not here"
            raise bad_option("--prompts", str(places[0]), why, "Say where the file lies.")
        return replace(work, prompts=f"{FILE}{found.absolute()}")


def subject_of(named: str, state: State, *, edited: bool) -> Subject:
    """Return a file that was exported, or a trial. Raises BadInputError."""
    path = Path(named)
    if path.is_file():
        return _of_file(path, edited=edited)
    if "." in path.name:  # names of trials have none
        raise bad_option("FILE", named, "there is no such file", _EXPORT)
    result = known_trial(state, named, None)
    what = None if result is None else recommendation(state, result.sweep, result)
    if result is None or what is None:
        raise bad_option("FILE", named, "there is no such file, and no such trial", _EXPORT)
    what, _ = without_secrets(what)
    data = record(what, "json")
    return _usable(Subject(result.trial, data, what.launch, Path.cwd()))


def _of_file(path: Path, *, edited: bool) -> Subject:
    try:
        text = _text(path)
        data = read_record(text)
        found = _reading(path, text, str(data["format"]))
    except (UnreadableExportError, OSError, UnicodeDecodeError, LookupError) as error:
        raise _unreadable(path, str(error)) from error
    sealed = launch_of(data)
    found, notes = _without_given_secrets(found, sealed)
    gpus = data.get("host", {}).get("gpus")
    changed = (
        *edits(sealed, str(data["argv"][0]), gpus if type(gpus) is int else None, found),
        *(f"its data on `{name}` were changed" for name in changed_fields(data)),
    )
    redactor = Redactor.from_environment()
    said = tuple(_printable(redactor.text(edit)) for edit in changed)
    if said and not edited:
        mend = "Export it again, or add --edited to measure it as it stands."
        problems = [Problem(str(path), edit, "it is not as it was exported", mend) for edit in said]
        raise BadInputError(str(path), problems)
    if found.unknown or found.beyond:
        notes = (*notes, "the starts here leave out what is no option and no variable of it")
    return _usable(Subject(path.name, data, found.launch, path.parent.absolute(), said, notes))


def _text(path: Path) -> str:
    """Return the text of a file with its line ends. Raises UnreadableExportError, OSError."""
    if (size_bytes := path.stat().st_size) > _MOST_BYTES:
        raise UnreadableExportError(f"it has {size_bytes} bytes, too many for an export")
    text = path.read_bytes().decode()
    if text.startswith(_MARK) and "\n" in text and not text.startswith(f"{_MARK}#!"):
        return text.removeprefix(_MARK)
    return text


def _reading(path: Path, text: str, form: str) -> Reading:
    row = EXPORTERS[form]
    found = row.read(text)
    beside = companion(path)
    if row.write_beside is None or not beside.is_file():
        return found
    rest = read_variables(_text(beside))
    return replace(
        rest,
        launch=Launch((*found.launch.options, *rest.launch.options), rest.launch.env),
        unknown={**found.unknown, **rest.unknown},
        beyond=(*found.beyond, *rest.beyond),
    )


def _without_given_secrets(found: Reading, sealed: Launch) -> tuple[Reading, tuple[str, ...]]:
    """Leave out the secrets that an export leaves out and that whoever used it gave.

    They are no edits: the export asks for them. Of variables, a start here has those of its host.
    """
    options = [group for group in found.launch.grouped if is_secret_name(group[0])]
    mine = {group[0] for group in sealed.grouped} | set(sealed.env)
    given = [n for n in (*found.launch.env, *found.unknown) if is_secret_name(n)]
    given = [name for name in (*given, *(group[0] for group in options)) if name not in mine]
    kept = [w for g in found.launch.grouped if g[0] not in given for w in g]
    env = {n: v for n, v in found.launch.env.items() if n not in given}
    unknown = {n: how for n, how in found.unknown.items() if n not in given}
    notes = tuple(f"{name} is secret, and is not taken from the file" for name in given)
    return replace(found, launch=Launch(tuple(kept), env), unknown=unknown), notes


def _printable(text: str) -> str:
    """Return a text of a file without what a terminal would obey, and not at length."""
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return shown if len(shown) <= _MOST_CHARS else f"{shown[:_MOST_CHARS]}..."


def _usable(subject: Subject) -> Subject:
    if not subject.record.get("host") or not subject.record.get("workload"):
        why = "its sweep did not keep its host and load: an older version ran it"
        raise bad_option("FILE", subject.label, why, "Run the sweep again, and export that.")
    return subject


def _unreadable(path: Path, why: str) -> BadInputError:
    shown = _printable(Redactor.from_environment().text(why))
    return bad_option("FILE", str(path), f"it cannot be read back: {shown}", _EXPORT)


def _value(label: str, group: tuple[str, ...]) -> Value:
    if len(group) == 1:
        return True
    if len(group) > 2 or not group[0].startswith("--"):
        why = "several values of one option cannot be told apart"
        raise bad_option("FILE", label, f"{' '.join(group)}: {why}", "Give one value.")
    return group[1]


def _kept(sealed: Value, found: Value) -> Value:
    """Return the value of an option, with its type where it is the one that was sealed."""
    if found is None:
        return False if sealed is False else None
    text = f"{sealed:g}" if isinstance(sealed, float) else str(sealed)
    if sealed is found or text == found:
        return sealed
    return typed(found) if isinstance(found, str) else found


def check_plan(subject: Subject, settings: Mapping[str, Value]) -> None:
    """See that the settings start just what the file starts. Raises BadInputError."""
    host = replace(subject.host, version=str(subject.record["engine_version"]), env={})
    engine = ENGINES[host.engine]
    made = engine.plan(settings, host, 0, Deadlines())
    options = tuple(made.argv[3 : made.argv.index("--host")])
    env = {n: v for n, v in made.env if n in subject.launch.env}
    if wrong := differences(subject.launch, Launch(options, env)):
        raise bad_option("FILE", subject.label, f"it cannot be started: {wrong[0]}", _EXPORT)
