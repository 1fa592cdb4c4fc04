"""What an argument parser of SGLang says of its options, as values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeps.values import Value

KINDS: Mapping[str, type] = {
    "int": int,
    "float": float,
    "str": str,
    "human_readable_int": int,  # an int, or a number with a unit such as 64k
    "nullable_str": str,
    "loads": str,
    "json_list_type": str,
    "parse_cuda_graph_backend_arg": str,
    "parse_cuda_graph_config_arg": str,
}
"""The name of what converts a value to the type that a setting of ours has."""

_SWITCHES = frozenset({
    "StoreTrueAction", "StoreConstAction", "BooleanOptionalAction", "DeprecatedStoreTrueAction",
    "DeprecatedAction", "DeprecatedStoreConstAction",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a parser."""

    names: tuple[str, ...]
    dest: str
    action: str
    kind: str | None
    choices: tuple[str, ...]
    default: Value
    """Text for what is no plain value."""
    many: bool

    @property
    def type(self) -> type:
        """The type that a setting needs; bool for an option without a value.

        Raises KeyError for a converter that stands in no table here.
        """
        if self.action in _SWITCHES:
            return bool
        return KINDS[self.kind or "str"]


Dump = Mapping[str, Option]
"""Every spelling to its option."""


def read_dump(path: Path) -> Dump:
    """Read what `read_parser.py` wrote."""
    found = {}
    for fields in json.loads(path.read_text()):
        option = Option(
            names=tuple(fields["names"]),
            dest=fields["dest"],
            action=fields["action"],
            kind=fields["kind"],
            choices=tuple(fields["choices"] or ()),
            default=fields["default"],
            many=fields["many"],
        )
        found.update(dict.fromkeys(option.names, option))
    return found


def option_of(dump: Dump, name: str) -> Option | None:
    """Find the option of one of our names."""
    return dump.get(f"--{name.replace('_', '-')}")
