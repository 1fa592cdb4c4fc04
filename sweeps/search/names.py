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
        ran = (c for c, trials in self._overridden.items() if _ran_with(c, trials, named))
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
    def _overridden(self) -> Mapping[Config, Sequence[TrialResult]]:
        """The trials of configurations whose servers ran with another value than was asked for."""
        found: dict[Config, list[TrialResult]] = {}
        for result in sorted(self.history, key=lambda r: r.number):
            if result.effective and result.outcome not in UNCOUNTED:
                found.setdefault(result.config, []).append(result)
        return {
            config: trials
            for config, trials in found.items()
            if not all(_runs_with(trials[0], name, value) for name, value in config.items())
        }

    @cached_property
    def _stand_ins(self) -> Sequence[StandIn]:
        steering = {name for axis in self.space.axes for name in conditions(axis)}
        axes = {a.name: a.default for a in self.space.axes if a.name not in steering}
        return list(stand_ins(self.history, axes))


def _ran_with(asked: Config, trials: Sequence[TrialResult], config: Config) -> bool:
    """Tell whether all that differs in a request is what the servers of another one ran with."""
    differ = [name for name, value in config.items() if asked.get(name, ...) != value]
    return asked.keys() == config.keys() and all(
        name in trial.effective and _runs_with(trial, name, config[name])
        for trial in trials
        for name in differ
    )


def _runs_with(result: TrialResult, name: str, value: Value) -> bool:
    """Tell whether a server ran with a value, as far as it told."""
    told = result.effective.get(name, value)
    return same_meaning(told_meaning(name, told), told_meaning(name, value))
