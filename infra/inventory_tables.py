"""How the tables of `hosts.toml` become hosts, with all that is wrong said at once."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from infra.emulated.truth import TRUTHS
from infra.inventory import DEFAULT_FOLDER, HostEntry, Limits
from infra.redaction import MASK, is_secret_name
from infra.secret_refs import FORMS, is_reference
from sweeps.hosts import EngineName
from sweeps.problems import Problem, nearest

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LITERAL_SECRETS = ("password", "passwd", "passphrase", "token", "secret")
_TOP = ("defaults", "hosts")
_Seconds = Annotated[float, Field(gt=0, le=86400)]
_Text = Annotated[str, Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Limits(_Table):
    connect_s: _Seconds = Limits().connect_s
    command_s: _Seconds = Limits().command_s
    keepalive_s: _Seconds = Limits().keepalive_s
    lost_after_s: _Seconds = Limits().lost_after_s
    retry_s: Annotated[float, Field(ge=0, le=86400)] = Limits().retry_s


class _Host(_Table):
    address: _Text
    user: _Text | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    key: _Text | None = None
    agent: bool = False
    passphrase: _Text | None = None
    jump: _Text | None = None
    known_hosts: _Text | None = None
    python: _Text | None = None
    base_python: _Text | None = None
    sglang_python: _Text | None = None
    engine: Annotated[EngineName, Field(strict=False)] = EngineName.AUTO
    gpus: Annotated[int, Field(ge=0, le=64)] = 8
    folder: _Text = DEFAULT_FOLDER
    models: list[_Text] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict)
    limits: _Limits = Field(default_factory=_Limits)
    labels: list[_Text] = Field(default_factory=list)
    equals: str = "default"
    truth: str = "M"
    time_scale: Annotated[float, Field(gt=0)] = 50.0


def read_hosts(data: Mapping[str, Any]) -> tuple[list[HostEntry], list[Problem]]:
    """Return the hosts of a file that was parsed, and all its problems."""
    problems = [_unknown(key, data[key], key, _TOP) for key in data if key not in _TOP]
    defaults, tables = data.get("defaults", {}), data.get("hosts", {})
    for field, table in (("defaults", defaults), ("hosts", tables)):
        if not isinstance(table, dict):
            problems.append(Problem(field, repr(table), "it is no table", f"Write [{field}]."))
            return [], problems
    if not tables:
        mend = 'Add one: [hosts.NAME] with address = "…".'
        problems.append(Problem("hosts", "none", "the file names no host", mend))
    hosts = []
    for name, table in tables.items():
        host, found = _read_host(name, defaults, table)
        problems += found
        hosts += [host] if host else []
    problems += _loops(hosts)
    # What is wrong in the defaults is wrong once, not once for each host.
    return hosts, list({str(problem): problem for problem in problems}.values())


def _read_host(
    name: str, defaults: Mapping[str, Any], table: Any
) -> tuple[HostEntry | None, list[Problem]]:
    field = f"hosts.{name}"
    if not isinstance(table, dict):
        return None, [Problem(field, repr(table), "it is no table", f"Write [{field}].")]
    problems = []
    if not _NAME.fullmatch(name):
        mend = "Use letters, digits, `.`, `_` and `-`, a letter or digit first."
        problems.append(Problem(field, name, "it names a folder and a Ray resource", mend))
    merged, places = _merged(field, defaults, table)
    problems += [
        problem for key, value in merged.items() for problem in _secret_at(places[key], key, value)
    ]
    try:
        parsed = _Host.model_validate(merged)
    except ValidationError as error:
        problems += [p for detail in error.errors() if (p := _problem(detail, places, field))]
        return None, problems
    problems += _value_problems(parsed, places)
    return (None if problems else _entry(name, parsed)), problems


def _merged(
    field: str, defaults: Mapping[str, Any], table: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Lay a host's table over the defaults, tables key by key; say where each key came from."""
    merged = {**defaults, **table}
    for key, default in defaults.items():
        if isinstance(default, dict) and isinstance(table.get(key), dict):
            merged[key] = {**default, **table[key]}
    places = {key: f"{field if key in table else 'defaults'}.{key}" for key in merged}
    return merged, places


def _secret_at(place: str, key: str, value: Any) -> Iterator[Problem]:
    """Refuse what looks like a secret that is written out."""
    if key in _LITERAL_SECRETS and isinstance(value, str) and not is_reference(value):
        mend = f"Give `passphrase` as {FORMS}, or use the agent."
        yield Problem(place, MASK, "a secret does not belong in this file", mend)
    tables = value.items() if isinstance(value, dict) else ()
    for name, held in tables:
        if not isinstance(held, str):
            continue
        if key == "secrets" and not is_reference(held):
            why = "a secret does not belong in this file"
            yield Problem(f"{place}.{name}", MASK, why, f"Give it as {FORMS}.")
        if key == "env" and is_secret_name(name):
            mend = f"Give it under `secrets`, as {FORMS}."
            yield Problem(f"{place}.{name}", MASK, "its name says that it is secret", mend)


def _problem(detail: ErrorDetails, places: Mapping[str, str], field: str) -> Problem | None:
    path = [str(part) for part in detail["loc"]]
    place = ".".join([places.get(path[0], f"{field}.{path[0]}"), *path[1:]])
    if detail["type"] == "extra_forbidden":
        if path[-1] in _LITERAL_SECRETS:
            return None  # refused already, without its value
        known = _Limits.model_fields if path[0] == "limits" else _Host.model_fields
        return _unknown(path[-1], detail["input"], place, [*known])
    if detail["type"] == "missing":
        mend = "Say under which name or address it is reached."
        return Problem(place, "missing", "every host needs one", mend)
    given = MASK if "secrets" in path or "passphrase" in path else repr(detail["input"])[:80]
    if path[0] == "engine":
        mend = f"Use one of {', '.join(EngineName)}."
        return Problem(place, given, "there is no such engine", mend)
    return Problem(place, given, detail["msg"].lower(), "Correct the value.")


def _unknown(key: str, value: Any, place: str, known: list[str] | tuple[str, ...]) -> Problem:
    shown = MASK if is_secret_name(key) or is_secret_name(key.upper()) else repr(value)[:80]
    mend = nearest(key, known) or f"Known are {', '.join(known)}."
    return Problem(place, shown, "no such field", mend)


def _value_problems(host: _Host, places: Mapping[str, str]) -> Iterator[Problem]:
    """Yield what only a reader of the whole entry can see."""
    yield from _path_problems(host, places)
    if host.truth not in TRUTHS:
        mend = nearest(host.truth, TRUTHS) or f"Use one of {', '.join(TRUTHS)}."
        yield Problem(places["truth"], host.truth, "no such emulated machine", mend)
    for key, names in (("env", host.env), ("secrets", host.secrets)):
        for name in names:
            if not _VARIABLE.fullmatch(name):
                yield Problem(places[key], name, "that cannot name a variable", "Correct it.")
    if host.passphrase and not host.key:
        yield Problem(places["passphrase"], host.passphrase, "no key is named", "Name `key`.")
    if host.limits.lost_after_s <= host.limits.keepalive_s:
        mend = "Make `lost_after_s` two or three times `keepalive_s`."
        value = f"{host.limits.lost_after_s:g}"
        yield Problem(places["limits"], value, "no sign of life can come in that time", mend)


def _path_problems(host: _Host, places: Mapping[str, str]) -> Iterator[Problem]:
    for key in ("python", "base_python", "sglang_python"):
        value = getattr(host, key)
        if value and not value.startswith("/"):
            why = "no login shell runs there, so PATH, conda and pyenv say nothing"
            yield Problem(places[key], value, why, "Give the absolute path of the interpreter.")
    for model in host.models:
        if not model.startswith("/"):
            yield Problem(places["models"], model, "it is not absolute", "Give the whole path.")
    if not host.folder.startswith("/") and {"..", "~"} & {*host.folder.split("/")}:
        mend = "Give an absolute path, or one below the home."
        yield Problem(places["folder"], host.folder, "it leads out of the home there", mend)


def _entry(name: str, host: _Host) -> HostEntry:
    given = {key: getattr(host, key) for key in _Host.model_fields}
    given |= {"models": tuple(host.models), "labels": tuple(host.labels)}
    given["limits"] = Limits(**host.limits.model_dump())
    return HostEntry(name=name, **given)


def _loops(hosts: list[HostEntry]) -> Iterator[Problem]:
    jumps = {host.name: host.jump for host in hosts}
    for name in jumps:
        seen, at = [name], jumps[name]
        while at in jumps and at not in seen:
            seen.append(at)
            at = jumps[at]
        if at == name:
            way = " → ".join([*seen, name])
            yield Problem(f"hosts.{name}.jump", way, "the way never ends", "Break the circle.")
