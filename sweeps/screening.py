"""Which settings of communication are worth a server: all-reduces of the sizes of a decode step.

A screening times single all-reduces, without a model: first with all defaults, then with each
change alone, then with the changes together that helped alone. It ranks settings and finds those
that hang; it does not say how much faster a server becomes, since a step is more than all-reduces.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from sweeps.config import Config
from sweeps.search.roles import Role, role_of
from sweeps.space import Space
from sweeps.values import Value

STEP_TOKENS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Tokens of a verify step whose all-reduces are timed."""

HELPS = 0.01
"""A change that is better by less than this part alone is not combined with others."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """The time of one all-reduce of one size: the median of many, and its quartiles."""

    size_bytes: int
    median_us: float
    low_us: float
    high_us: float
    count: int


@dataclass(frozen=True, slots=True)
class Screened:
    """What came of one setting: times by size, or why there are none."""

    setting: Config
    """The values of the communication axes alone."""
    reductions: tuple[Reduction, ...] = ()
    trouble: str = ""
    """Why it cannot be used, in words; empty where it was timed."""

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "setting": dict(self.setting),
            "reductions": [asdict(reduction) for reduction in self.reductions],
            "trouble": self.trouble,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> "Screened":
        """Read back what `as_data` wrote."""
        return cls(
            Config.of(data["setting"]),  # type: ignore[arg-type] # from as_data
            tuple(Reduction(**r) for r in data["reductions"]),  # type: ignore[attr-defined] # ditto
            str(data["trouble"]),
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a setting stands: its all-reduce over that of the defaults."""

    screened: Screened
    ratio: float
    """Geometric mean over the sizes; infinite where it cannot be used."""


def communication_of(config: Mapping[str, Value]) -> Config:
    """Return the settings that decide how GPUs talk."""
    return Config.of({n: v for n, v in config.items() if role_of(n) is Role.COMMUNICATION})


def is_screened(name: str, *, emulated: bool) -> bool:
    """Tell whether the program can be given an axis: alone, it has NCCL and not SGLang's kernels.

    An emulated host answers for both.
    """
    return role_of(name) is Role.COMMUNICATION and (emulated or name.startswith("NCCL_"))


def next_setting(
    space: Space, screened: Sequence[Screened], *, emulated: bool = False
) -> Config | None:
    """Return what to time next; None where nothing is left that promises anything."""
    seen = {one.setting for one in screened}
    for candidate in _candidates(space, screened, emulated=emulated):
        full = Config.of({**space.plain(), **candidate})
        if candidate not in seen and not space.broken_rules(full):
            return candidate
    return None


def known_alike(
    space: Space, screened: Sequence[Screened], setting: Config,
    canonical: Callable[[Config], Config],
) -> Screened | None:  # fmt: skip
    """Return what is known of a setting because it acts like one that was timed."""

    def acts(one: Config) -> Config:
        return communication_of(canonical(Config.of({**space.plain(), **one})))

    asked = acts(setting)
    found = next((one for one in screened if acts(one.setting) == asked), None)
    return found and replace(found, setting=setting)


def ranked(screened: Sequence[Screened]) -> list[Place]:
    """Order settings by their all-reduce, best first; what cannot be used comes last."""
    base = screened[0]
    places = [Place(one, _ratio(one, base)) for one in screened]
    return sorted(places, key=lambda place: place.ratio)


def blamed(screened: Sequence[Screened], config: Mapping[str, Value]) -> str:
    """Say why a configuration is not worth a server; empty where nothing is known against it.

    Where the defaults work and one change to them does not, that change is to blame wherever it is.
    """
    default = screened[0].setting if screened else Config.of({})
    for one in screened:
        changed = {name: v for name, v in one.setting.items() if v != default[name]}
        if one.trouble and changed and all(config.get(n) == v for n, v in changed.items()):
            return one.trouble
    return ""


def _candidates(space: Space, screened: Sequence[Screened], *, emulated: bool) -> Iterator[Config]:
    default = communication_of(space.plain())
    yield default
    if not screened or screened[0].trouble:
        return
    singles = [
        Config.of({**default, name: value})
        for name, value in _changes(space, default)
        if is_screened(name, emulated=emulated)
    ]
    yield from singles
    yield from _together(default, screened, singles)


def _changes(space: Space, default: Config) -> Iterator[tuple[str, Value]]:
    for axis in space.ordered():
        if axis.name in default:
            for value in axis.grid or ():
                if value != default[axis.name]:
                    yield axis.name, value


def _together(
    default: Config, screened: Sequence[Screened], singles: Sequence[Config]
) -> Iterator[Config]:
    """Yield the best setting so far with one more change that helped alone, best promise first."""
    places = [place for place in ranked(screened) if place.ratio < math.inf]
    alone = {place.screened.setting: place.ratio for place in places}
    helping = [c for c in singles if alone.get(c, math.inf) < 1 - HELPS]
    for change in sorted(helping, key=lambda c: alone[c]):
        moved = {name: value for name, value in change.items() if value != default[name]}
        for best in places[:2]:
            yield Config.of({**best.screened.setting, **moved})


def _ratio(one: Screened, base: Screened) -> float:
    known = {r.size_bytes: r.median_us for r in base.reductions}
    logs = [math.log(r.median_us / known[r.size_bytes]) for r in one.reductions]
    return math.exp(math.fsum(logs) / len(logs)) if logs and not one.trouble else math.inf
