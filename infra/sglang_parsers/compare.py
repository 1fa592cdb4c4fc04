"""Where the flag table and the parsers differ, and which differences are meant."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from infra.sglang.flag import Flag, within
from infra.sglang.flags import FLAGS
from infra.sglang_parsers.dumps import KINDS, Dump, Option, option_of


class Aspect(StrEnum):
    """What of a flag is compared."""

    EXISTS = "exists"
    TYPE = "type"
    CHOICES = "choices"
    DEFAULT = "default"
    MANY = "takes many"
    SETS = "sets"
    """The flag of the table that an option writes to, where it is another than itself."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that the table and a parser do not say alike."""

    version: str
    flag: str
    aspect: Aspect
    ours: str
    theirs: str


@dataclass(frozen=True, slots=True)
class Meant:
    """A difference that is meant: in these versions, for this reason."""

    flags: tuple[str, ...]
    aspect: Aspect
    first: str
    last: str | None
    reason: str

    def covers(self, difference: Difference) -> bool:
        """Tell whether this is the one."""
        return (
            difference.flag in self.flags
            and difference.aspect is self.aspect
            and within(difference.version, self.first, self.last)
        )


MEANT = (
    Meant(
        ("speculative_algorithm",), Aspect.CHOICES, "0.5.12", None,
        "any text parses, since plugins bring names; the table holds the built-in ones",
    ),
    Meant(
        (
            "disable_piecewise_cuda_graph", "enforce_piecewise_cuda_graph",
            "enable_breakable_cuda_graph",
        ), Aspect.SETS, "0.5.14", "0.5.19",
        "deprecated switches that set one value of the named flag",
    ),
)  # fmt: skip


def differences(version: str, dump: Dump, flags: Mapping[str, Flag] = FLAGS) -> list[Difference]:
    """List every difference, those that are meant too."""
    found = []
    for name, flag in flags.items():
        option = option_of(dump, name)
        for aspect, ours, theirs in _aspects(name, flag, option, version, flags):
            if ours != theirs:
                found.append(Difference(version, name, aspect, ours, theirs))
    return found


def unexpected(found: list[Difference]) -> list[Difference]:
    """Leave out what is meant."""
    return [d for d in found if not any(meant.covers(d) for meant in MEANT)]


def _aspects(
    name: str, flag: Flag, option: Option | None, version: str, flags: Mapping[str, Flag]
) -> Iterator[tuple[Aspect, str, str]]:
    yield Aspect.EXISTS, str(flag.exists_in(version)), str(option is not None)
    if option is None or not flag.exists_in(version):
        return
    yield Aspect.TYPE, flag.kind.__name__, _type_name(option)
    yield Aspect.CHOICES, _listed(flag.choices_in(version)), _listed(option.choices)
    yield Aspect.DEFAULT, repr(_given(flag.default_in(version))), repr(_given(option.default))
    yield Aspect.MANY, str(flag.many), str(option.many)
    other = option.dest if option.dest != name and option.dest in flags else ""
    yield Aspect.SETS, flag.stands_for(version), other


def _type_name(option: Option) -> str:
    known = option.kind is None or option.kind in KINDS
    return option.type.__name__ if known else str(option.kind)


def _listed(choices: tuple[str, ...]) -> str:
    return ", ".join(sorted(choices))


def _given(default: object) -> object:
    """Take a switch that is off for one that is not given: neither is on the command line."""
    return None if default is False else default
