"""Trials that are made whatever they promise: contrasts, seeds, what differs from the leader once.

The model is often wrong at first where two axes act together, or where it never looked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from sweeps.axes import Axis
from sweeps.config import Config
from sweeps.memory_borders import with_least
from sweeps.prediction.all_reduces import NOT_TIMED, AllReduces, changes_of
from sweeps.search.encoding import values_of
from sweeps.search.favourites import Drafts, Favourites
from sweeps.search.pool import PoolMaker
from sweeps.search.roles import ALGORITHM, WANTED, Role, drafting_of, role_of, serving_of, trait_of
from sweeps.search.steps import Purpose
from sweeps.space import Space, exists
from sweeps.values import Value, show


@dataclass(frozen=True, slots=True)
class Idea:
    """A configuration that is to be tried, and why."""

    config: Config
    purpose: Purpose
    why: str
    forced: bool = False
    """To be tried whatever the model says of it."""


class Designs:
    """The designs of one space."""

    def __init__(self, space: Space, pool: PoolMaker, all_reduces: AllReduces = NOT_TIMED) -> None:
        self._space, self._pool, self._all_reduces = space, pool, all_reduces
        self.plain = space.plain()
        self.algorithms = tuple(self._algorithms())
        self.bold = tuple(self._bold_servings())

    def opening(
        self, inert: frozenset[str], tried: Drafts, favourites: Favourites
    ) -> Iterator[Idea]:
        """Yield plain decode at each setting that replaces the transport, then the favourite draft
        of each algorithm that was not tried, where such a setting works; else at another bold one.

        Where all-reduces were timed without a server, the model knows where drafts are fastest.
        `tried` is the first draft started of each algorithm. Before anything is known, drafts are
        as a person would set them.
        """
        for name, serving in self.bold:
            if trait_of(name).replaces and not self._is_timed(serving):
                why = f"plain decode with {name}: is it the transport that costs?"
                yield from self._idea(self.plain, serving, Purpose.CONTRAST, why)
        default = serving_of(self.plain)
        if self._all_reduces.were_timed:
            serving = favourites.serving or default
            yield from self._firsts("what was timed", serving, tried, favourites)
            return
        places = [(name, serving) for name, serving in self.bold if name not in inert]
        name, serving = places[0] if places else ("the default", default)
        yield from self._firsts(name, serving, tried, favourites)
        if places and not trait_of(name).replaces:
            yield from self.contrasts(inert, tried)

    def _firsts(
        self, name: str, serving: Config, tried: Drafts, favourites: Favourites
    ) -> Iterator[Idea]:
        if tried.keys() >= set(self.algorithms):
            return
        drafts = favourites.drafts(self._pool.serving(serving))
        for algorithm in dict.fromkeys([*drafts, *self.algorithms]):
            draft = drafts.get(algorithm) or self.seed_draft(algorithm)
            if draft is not None and algorithm not in tried:
                why = f"{algorithm} for the first time, with {name}"
                yield from self._idea(draft, serving, Purpose.SEED, why)

    def fitting(self, failed: Config, fault: str) -> Iterator[Idea]:
        """Yield a draft that found no memory once more where it asks for least: first with the
        amounts of the server, then with its own as well."""
        grids = {axis.name: values_of(axis) for axis in self._space.axes}
        for least in (
            {**failed, **with_least(serving_of(failed), grids, fault)},
            with_least(failed, grids, fault),
        ):
            why = (
                f"{failed.algorithm} found no memory ({fault}): does it run where it asks for less?"
            )
            yield from self._idea(least, least, Purpose.SEED, why)

    def contrasts(self, inert: frozenset[str], tried: Drafts) -> Iterator[Idea]:
        """Yield one draft at the default and at each bold setting, but for what was timed: the
        two costs of a verify, its width and its transport, are told apart by them."""
        known = chain(tried.values(), map(self.seed_draft, self.algorithms))
        draft = next((d for d in known if d is not None), self.plain)
        for name, serving in [("default", serving_of(self.plain)), *self.bold]:
            if name not in inert and not self._is_timed(serving):
                why = f"the same draft with {name}: is it the width or the transport that costs?"
                yield from self._idea(draft, serving, Purpose.CONTRAST, why)

    def _is_timed(self, serving: Config) -> bool:
        return self._all_reduces.knows(changes_of(serving, self.plain))

    def neighbours(self, leader: Config, drafts: Drafts) -> Iterator[Idea]:
        """Yield plain decode at the leader's communication, the leader with another algorithm, with
        each bold setting switched, and a little narrower and wider.

        `drafts` is what the model likes best of each algorithm.
        """
        serving = serving_of(leader)
        if leader.algorithm is not None:
            why = "plain decode at the communication of the leader"
            bold = {n: v for n, v in serving.items() if trait_of(n).bold}
            plain = Config.of({**self.plain, **bold})
            yield from self._idea(self.plain, plain, Purpose.NEIGHBOUR, why, forced=True)
        for algorithm, draft in drafts.items():
            if algorithm != leader.algorithm:
                why = f"{algorithm} at the communication of the leader"
                yield from self._idea(draft, serving, Purpose.NEIGHBOUR, why)
        for axis in self._serving_axes():
            if trait_of(axis.name).bold:
                value = self._switched(axis, leader)
                why = f"the leader with {axis.name}={show(value)}"
                changed = Config.of({**serving, axis.name: value})
                forced = leader.is_plain
                yield from self._idea(leader, changed, Purpose.NEIGHBOUR, why, forced=forced)
        for draft in self._pool.narrower_and_wider(leader):
            why = "the leader with one step of its draft length more or less"
            yield from self._idea(draft, serving, Purpose.NEIGHBOUR, why)

    def ablations(self, leader: Config) -> Iterator[Idea]:
        """Yield the leader with one change of what is not drafting undone."""
        serving = serving_of(leader)
        for name, value in serving.items():
            if value != self.plain.get(name):
                back = Config.of({**serving, name: self.plain.get(name)})
                why = f"the leader without {name}={show(value)}"
                yield from self._idea(leader, back, Purpose.ABLATION, why)

    def seed_draft(self, algorithm: str) -> Config | None:
        """Return a draft of an algorithm near what people choose; None where rules forbid all."""
        for rank in range(4):
            values: dict[str, Value] = {}
            for axis in self._space.ordered():
                if role_of(axis.name) is not Role.DRAFTING or not exists(axis, values):
                    continue
                wanted = _wanted(axis, rank)
                values[axis.name] = algorithm if axis.name == ALGORITHM else wanted
            if self._pool.allows(Config.of({**self.plain, **values})):
                return self._pool.draft(values)
        return None

    def _idea(
        self, draft: Mapping[str, Value], serving: Mapping[str, Value], purpose: Purpose, why: str,
        *, forced: bool = False,
    ) -> Iterator[Idea]:  # fmt: skip
        config = self._pool.join(drafting_of(draft), serving_of(serving))
        if config is not None:
            yield Idea(config, purpose, why, forced)

    def _algorithms(self) -> Iterator[str]:
        for axis in self._space.axes:
            if axis.name == ALGORITHM:
                yield from (str(value) for value in values_of(axis) if value is not None)

    def _serving_axes(self) -> list[Axis]:
        return [axis for axis in self._space.axes if role_of(axis.name) is not Role.DRAFTING]

    def _bold_servings(self) -> Iterator[tuple[str, Config]]:
        for axis in self._serving_axes():
            if trait_of(axis.name).bold:
                value = self._switched(axis, self.plain)
                changed = Config.of({**serving_of(self.plain), axis.name: value})
                if changed != serving_of(self.plain):
                    yield axis.name, changed

    def _switched(self, axis: Axis, config: Mapping[str, Value]) -> Value:
        """Return the other value of a bold axis: what a person would try, or the default."""
        if config.get(axis.name) != self.plain.get(axis.name):
            return self.plain.get(axis.name)
        values = values_of(axis)
        wanted = [value for value in WANTED.get(axis.name, ()) if value in values]
        others = [value for value in values if value != self.plain.get(axis.name)]
        return (wanted or others or [self.plain.get(axis.name)])[0]


def _wanted(axis: Axis, rank: int) -> Value:
    """Return the value of an axis that people try first, or a later one of those."""
    values = values_of(axis)
    wanted = [value for value in WANTED.get(axis.name, ()) if value in values]
    if not wanted:
        return axis.default
    return wanted[min(rank, len(wanted) - 1)]
