"""The configurations that the model looks at: drafts, and servings: settings of all the rest."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweeps.axes import Axis
from sweeps.config import Config
from sweeps.search.encoding import is_ordered, values_of
from sweeps.search.roles import (
    DRAFT_STEPS,
    DRAFT_TOKENS,
    Role,
    drafting_of,
    role_of,
    serving_of,
    trait_of,
)
from sweeps.space import Space, exists
from sweeps.values import Value

MOST_DRAFTS, MOST_SERVINGS = 400, 120
WIDTHS, SHAPES = 14, 3
"""Values of an ordered axis that are looked at: of draft tokens and steps, and of the others."""
FEW_VALUES = 5
"""So many are all looked at: leaving one of them out saves little."""
DRAWS = 20


@dataclass(frozen=True)
class Pool:
    """Every draft with every serving; both in canonical form, so that no two act alike."""

    drafts: tuple[Config, ...]
    servings: tuple[Config, ...]


class PoolMaker:
    """Makes pools of one space. What does not depend on the history is made once."""

    def __init__(
        self,
        space: Space,
        canonical: Callable[[Config], Config],
        refusal: Callable[[Config], str],
        seed: int,
    ) -> None:
        self._space, self._canonical, self._refusal = space, canonical, refusal
        self._plain = space.plain()
        self._serving_axes = [a for a in space.axes if role_of(a.name) is not Role.DRAFTING]
        self._drafting_axes = [a for a in space.ordered() if role_of(a.name) is Role.DRAFTING]
        self._drafts = self._coarse_drafts(random.Random(seed))
        self._servings = self._near_plain()

    def pool(self, tried: Iterable[Config], leader: Config | None) -> Pool:
        """Return what may come next: what is near the leader, what was tried, a coarse grid."""
        drafts, servings = [], []
        if leader is not None:
            drafts += [self.draft(leader), *self._neighbouring_drafts(leader)]
            servings += [self.serving(leader), *self._one_changed(serving_of(leader))]
        for config in tried:
            drafts.append(self.draft(config))
            servings.append(self.serving(config))
        drafts += self._drafts
        servings += self._servings
        return Pool(tuple(dict.fromkeys(drafts)), tuple(dict.fromkeys(servings)))

    def join(self, draft: Config, serving: Config) -> Config | None:
        """Put a draft and a serving together; None where the space does not allow it."""
        values = {**draft, **serving}
        names = [axis.name for axis in self._space.axes if axis.name in values]
        config = Config.of({name: values[name] for name in names})
        return config if self.allows(config) else None

    def allows(self, config: Config) -> bool:
        """Tell whether a configuration is in the space, obeys its rules and may be started."""
        if self._space.broken_rules(config) or self._space.strays(config):
            return False
        return not self._refusal(config)

    def draft(self, config: Mapping[str, Value]) -> Config:
        """Return the canonical draft of a configuration, at the default of everything else."""
        return drafting_of(self._canonical(Config.of({**self._plain, **drafting_of(config)})))

    def serving(self, config: Mapping[str, Value]) -> Config:
        """Return the canonical serving of a configuration, as plain decode has it."""
        return serving_of(self._canonical(Config.of({**self._plain, **serving_of(config)})))

    def _coarse_drafts(self, rng: random.Random) -> tuple[Config, ...]:
        drafts = dict.fromkeys(
            self.draft(values) for values in _walk(self._space, self._drafting_axes)
        )
        if len(drafts) <= MOST_DRAFTS:
            return tuple(drafts)
        by_algorithm: dict[str | None, list[Config]] = {}
        for draft in drafts:
            by_algorithm.setdefault(draft.algorithm, []).append(draft)
        share = MOST_DRAFTS // len(by_algorithm)
        return tuple(
            draft
            for group in by_algorithm.values()
            for draft in (group if len(group) <= share else rng.sample(group, share))
        )

    def _near_plain(self) -> tuple[Config, ...]:
        """Return servings with one change from plain, and with a bold one and another."""
        plain = self.serving(self._plain)
        single = list(self._one_changed(plain))
        bold = [s for s in single if _changes_boldly(s, plain)]
        pairs = [two for one in bold for two in self._one_changed(one)]
        return tuple(dict.fromkeys([plain, *single, *pairs]))[:MOST_SERVINGS]

    def _one_changed(self, serving: Mapping[str, Value]) -> Iterator[Config]:
        for axis in self._serving_axes:
            for value in values_of(axis):
                if value != serving.get(axis.name):
                    changed = Config.of({**serving, axis.name: value})
                    if not self._space.broken_rules(changed):
                        yield self.serving(changed)

    def _neighbouring_drafts(self, config: Config) -> Iterator[Config]:
        """Return drafts that differ from one by a step along one axis."""
        draft = drafting_of(config)
        for axis in self._drafting_axes:
            if axis.name in draft:
                yield from self._moved(draft, axis)

    def narrower_and_wider(self, config: Config) -> Iterator[Config]:
        """Return the draft of a configuration with the next lengths below and above."""
        draft = drafting_of(config)
        for axis in self._drafting_axes:
            if axis.name in draft and axis.name in (DRAFT_TOKENS, DRAFT_STEPS):
                yield from self._moved(draft, axis)

    def _moved(self, draft: Config, axis: Axis) -> Iterator[Config]:
        for value in _beside(axis, draft[axis.name]):
            moved = Config.of({**draft, axis.name: value})
            if self.allows(Config.of({**self._plain, **moved})):
                yield self.draft(moved)


def _walk(space: Space, axes: Sequence[Axis]) -> Iterator[Config]:
    """Yield combinations of a coarse choice of values, as far as rules and conditions allow."""
    partial: list[dict[str, Value]] = [{}]
    for axis in axes:
        grown = []
        for values in partial:
            if not exists(axis, values):
                grown.append(values)
                continue
            grown += [{**values, axis.name: value} for value in _coarse(axis)]
        partial = [values for values in grown if not space.broken_rules(values)]
    return map(Config.of, partial)


def _coarse(axis: Axis) -> tuple[Value, ...]:
    values = values_of(axis)
    most = WIDTHS if axis.name in (DRAFT_TOKENS, DRAFT_STEPS) else SHAPES
    if not is_ordered(axis) or len(values) <= max(most, FEW_VALUES):
        return values
    low, high = 1.0, float(len(values))
    places = {round(low * (high / low) ** (k / (most - 1))) for k in range(most)}
    if most == WIDTHS:
        places |= set(range(1, most // 2 + 1))
    return tuple(values[place - 1] for place in sorted(places))


def _beside(axis: Axis, value: Value) -> Iterator[Value]:
    values = list(values_of(axis))
    if not is_ordered(axis):
        yield from (other for other in values if other != value)
    elif value in values:
        at = values.index(value)
        yield from values[max(0, at - 1) : at] + values[at + 1 : at + 2]


def _changes_boldly(serving: Mapping[str, Value], plain: Mapping[str, Value]) -> bool:
    return any(trait_of(n).bold and serving[n] != plain.get(n) for n in serving)
