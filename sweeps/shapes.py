"""Whether the fields of a sweep hold what their annotations say: Python itself checks none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from sweeps.expressions import Expr
from sweeps.problems import Problem, shown

_WORDS = {
    str: ("text", "Write it in quotes."),
    int: ("whole number", "Give one, without quotes."),
    float: ("number", "Give one, without quotes."),
    bool: ("truth value", "Write True or False."),
    Sequence: ("list", "Write [...]."),
    Mapping: ("mapping", "Write {...}."),
    Expr: ("expression", 'Write such as ref("page_size") <= 8.'),
}


def shape_problems(made: Any, field: str = "") -> Iterator[Problem]:
    """List the fields of a dataclass, and of those in it, whose values are of another type."""
    hints = get_type_hints(type(made))
    for each in fields(made):
        place = f"{field}.{each.name}" if field else each.name
        yield from _problems(place, getattr(made, each.name), hints[each.name])


def _problems(field: str, value: Any, hint: Any) -> Iterator[Problem]:
    kinds = _kinds(hint)
    kind = next((kind for kind in kinds if _is_a(value, kind)), None)
    if kind is None:
        yield _problem(field, value, kinds)
    elif is_dataclass(kind):
        yield from shape_problems(value, field)
    elif get_origin(kind) is Sequence:
        for item in value:
            yield from _problems(_place(field, item), item, get_args(kind)[0])
    elif get_origin(kind) is Mapping:
        for name, item in value.items():
            yield from _problems(field, name, str)
            place = f"{field}.{name}" if isinstance(name, str) and name.isprintable() else field
            yield from _problems(place, item, get_args(kind)[1])


def _kinds(hint: Any) -> tuple[Any, ...]:
    """Return the types of which a value must have one."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_a(value: Any, kind: Any) -> bool:
    origin = get_origin(kind) or kind
    if origin is Sequence and isinstance(value, str | bytes):
        return False
    if origin in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if origin is float else origin)


def _place(field: str, item: Any) -> str:
    """Return the place of an item of a list: by its name, if it has one."""
    name = getattr(item, "name", getattr(item, "metric", None))
    return f"{field}.{shown(name)[1:-1]}" if isinstance(name, str) and name else field


def _problem(field: str, value: Any, kinds: Sequence[Any]) -> Problem:
    told = [_told(get_origin(kind) or kind) for kind in kinds if kind is not NoneType]
    mends = dict.fromkeys(mend for _, mend in told)
    mend = next(iter(mends)) if len(mends) == 1 else "Give one of these."
    return Problem(field, shown(value), f"it is no {' or '.join(word for word, _ in told)}", mend)


def _told(kind: Any) -> tuple[str, str]:
    if kind in _WORDS:
        return _WORDS[kind]
    if issubclass(kind, Enum):
        return kind.__name__, f"There are {', '.join(str(one.value) for one in kind)}."
    return kind.__name__, f"Write {kind.__name__}(...)."
