"""Which configurations of a space are one, by its rules and by what its trials have shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sweeps.alike import StandIn, namesakes, stand_ins, told_meaning
from sweeps.axes import conditions
from sweeps.config import Config
from sweeps.effects import same_meaning
from sweeps.results import UNCOUNTED, TrialResult
from sweeps.search.brief import Canonical
from sweeps.space import Space
from sweeps.values import Value


@dataclass(frozen=True)
class Names:
    """The names of configurations after a history. `rules` knows what acts alike before it."""

    space: Space
    history: Sequence[TrialResult]
    rules: Canonical
    _known: dict[Config, Config] = field(default_factory=dict)

    def canonical(self, config: Config) -> Config:
        """Return the configuration that stands for all that are known to make the same server.

        What never ran is named by its defaults, see `by_default`, and is what ran with just those
        settings that it asks for.
        """
        found = self._known.get(config)
        if found is None:
            ruled = self.rules(config)
            name = ruled if ruled in self._tried else self._name_of_untried(ruled)
            found = self._known[config] = self._stands_for.get(name, name)
        return found

    def by_default(self, config: Config) -> Config:
        """Return a configuration, or a part of one, with the default in the place of each value
        that this default ran as in every trial that had it.

        The start that this leads to asks for the default: it shows whether that holds there too.
        """
        changed = {
            known.axis: known.default
            for known in self._stand_ins
            if known.axis in config and same_meaning(config[known.axis], known.ran_as)
        }
        other = Config.of({**config, **changed}) if changed else config
        return config if self.space.broken_rules(other) else other

    def _name_of_untried(self, config: Config) -> Config:
        named = self.by_default(config)
        if named in self._tried:
            return named
        ran = (c for c, instead in self._overridden.items() if _asks_for(named, c, instead))
        return self.rules(next(ran, named))

    @cached_property
    def _tried(self) -> frozenset[Config]:
        return frozenset(self.rules(r.config) for r in self.history if r.outcome not in UNCOUNTED)

    @cached_property
    def _stands_for(self) -> Mapping[Config, Config]:
        groups = namesakes([self._ruled(r) for r in self.history], self.space.plain())
        return {config: group.configs[0] for group in groups for config in group.configs}

    def _ruled(self, result: TrialResult) -> TrialResult:
        config = self.rules(result.config)
        return result if config == result.config else replace(result, config=config)

    @cached_property
    def _overridden(self) -> Mapping[Config, Mapping[str, Value]]:
        """What all servers of a configuration ran with instead of what they were asked for."""
        found: dict[Config, Mapping[str, Value]] = {}
        for result in sorted(self.history, key=lambda r: r.number):
            if result.effective and result.outcome not in UNCOUNTED:
                ran_with = _instead(result)
                if found.setdefault(result.config, ran_with) != ran_with:
                    found[result.config] = {}
        return {config: instead for config, instead in found.items() if instead}

    @cached_property
    def _stand_ins(self) -> Sequence[StandIn]:
        steering = {name for axis in self.space.axes for name in conditions(axis)}
        axes = {a.name: a.default for a in self.space.axes if a.name not in steering}
        return list(stand_ins(self.history, axes))


def _instead(result: TrialResult) -> Mapping[str, Value]:
    """Return what a server says that it runs with, where it was asked for something else."""
    told = {n: v for n, v in result.effective.items() if n in result.config}
    return {n: v for n, v in told.items() if not _is_same(n, v, result.config[n])}


def _asks_for(config: Config, asked: Config, instead: Mapping[str, Value]) -> bool:
    """Tell whether a request differs from another in what was run with instead alone."""
    return asked.keys() == config.keys() and all(
        value == asked[name] or (name in instead and _is_same(name, instead[name], value))
        for name, value in config.items()
    )


def _is_same(name: str, one: Value, other: Value) -> bool:
    return same_meaning(told_meaning(name, one), told_meaning(name, other))
