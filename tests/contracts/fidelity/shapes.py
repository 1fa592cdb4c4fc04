"""What replies are compared by: their shape, free of numbers and of wording that varies."""

import json
import re
from collections.abc import Iterable
from itertools import groupby

from tests.contracts.fidelity.peer import Reply

Facts = dict[str, str]
"""What was seen, by place: a path within the reply, such as `body.meta_info.id`."""

LITERAL = frozenset(
    {
        "object", "type", "role", "finish_reason", "code", "status", "owned_by", "err_type",
        "status_code", "message", "param", "detail", "error", "frontend", "version",
    }
)  # fmt: skip
"""Names of fields whose values are part of the protocol, as those of booleans are."""
_TYPES = {int: "int", float: "float", str: "str", type(None): "null"}
_NUMBER = re.compile(r"\d+(\.\d+)?(e-?\d+)?")
_IDENTITY = re.compile(r"\b[0-9a-f]{32}\b")
_FAULT = re.compile(r"\{'type': '(\w+)', 'loc': \('(\w+)'(?:, '?(\w+))?")
_LONGEST_TEXT = 300


def facts_of(reply: Reply, *, stream: bool = False) -> Facts:
    """Describe a reply. A stream is described by its stages: runs of chunks of one shape."""
    facts = {"status": str(reply.status)}
    facts |= {f"headers.{name}": value for name, value in reply.headers.items()}
    kind = reply.headers.get("content-type", "")
    if stream and kind.startswith("text/event-stream"):
        return facts | _stages(reply.events)
    if kind.startswith("text/plain; version=0.0.4"):
        return facts | metric_families(reply.body.decode())
    return facts | _body_shape(reply.body)


def shape_of(value: object, path: str = "", *, literal: bool = True) -> Facts:
    """Map each place in a JSON value to its type, or to its value where that is protocol."""
    if isinstance(value, dict):
        shape = {path: "object"}
        for key, inner in value.items():
            shape |= shape_of(inner, f"{path}.{_IDENTITY.sub('ID', key)}", literal=literal)
        return shape
    if isinstance(value, list):
        return {path: "list" if value else "empty list", **_elements(value, path, literal=literal)}
    if isinstance(value, bool):
        return {path: json.dumps(value) if literal else "bool"}
    name = path.rpartition(".")[2]
    if literal and name in LITERAL and isinstance(value, str | int):
        return {path: plain(value) if isinstance(value, str) else str(value)}
    return {path: _TYPES[type(value)]}


def plain(text: str) -> str:
    """Take numbers and identities out of a text, and all but the essence out of a validation's."""
    if fault := _FAULT.search(text):
        return "refused: " + " ".join(filter(None, fault.groups()))
    essence = text.partition(", expected one of")[0]
    return _NUMBER.sub("N", _IDENTITY.sub("ID", essence))[:_LONGEST_TEXT]


def metric_families(text: str) -> Facts:
    """Describe a page of Prometheus metrics: each family's type, and the labels of its samples."""
    facts: Facts = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split()
            facts[family] = kind
        elif line and not line.startswith("#"):
            name, _, labels = line.partition("{")
            found = sorted(re.findall(r'(\w+)="', labels.rpartition("}")[0]))
            facts[f"{name.split()[0]} labels"] = " ".join(found)
    return facts


def _elements(values: Iterable[object], path: str, *, literal: bool) -> Facts:
    """Describe the elements of a list together: a place has every kind that one of them has."""
    shape: Facts = {}
    for value in values:
        for place, kind in shape_of(value, f"{path}[]", literal=literal).items():
            known = shape.get(place, kind).split(" or ")
            shape[place] = " or ".join(sorted({*known, kind}))
    return shape


def _stages(events: list[str]) -> Facts:
    """Describe the runs of chunks of one shape; those of a batch by request, as they interleave."""
    lanes: dict[object, list[Facts]] = {}
    for event in events:
        lanes.setdefault(_lane(event), []).append(_event_shape(event))
    if len(lanes) < 3:
        lanes = {"": [shape for event in events for shape in [_event_shape(event)]]}
    facts: Facts = {}
    for lane, shapes in lanes.items():
        stages = [shape for shape, _ in groupby(shapes)]
        facts[f"stages{lane}"] = str(len(stages))
        for number, stage in enumerate(stages):
            facts |= {f"stage{lane} {number}{path}": kind for path, kind in stage.items()}
    return facts


def _lane(event: str) -> object:
    """Tell which request of several a chunk is of; empty for what is of none or all."""
    body = {} if event == "[DONE]" else json.loads(event)
    choices = body.get("choices") or [{}]
    index = body.get("index", choices[0].get("index"))
    return "" if index is None else f" of {index}"


def _event_shape(event: str) -> Facts:
    return {"": event} if event == "[DONE]" else shape_of(json.loads(event))


def _body_shape(body: bytes) -> Facts:
    try:
        return shape_of(json.loads(body), "body") if body else {"body": "nothing"}
    except ValueError:
        return {"body": plain(body.decode())}
