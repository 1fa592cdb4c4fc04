"""What SGLang's and NCCL's own rules say of a sweep's configurations, on the hosts that it has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from infra.machine import Machine
from infra.sglang.inert import collapse, partly_inert
from infra.sglang.joint_rules import broken_rules
from sweeps.axes import Axis
from sweeps.config import Config
from sweeps.search.brief import Foresight
from sweeps.sweep import Sweep
from sweeps.values import Value

OF_DECODING = (
    "decode_tok_s", "stream_tok_s", "steps_per_s", "cycle_ms", "tpot_ms", "accept_length",
    "break_even", "speed_up",
)  # fmt: skip
"""Metrics that prefill has no part in: settings that bind prefill alone do not matter to them."""


@dataclass(frozen=True, slots=True)
class KnownHost:
    """What of a host decides which settings can matter there."""

    name: str
    version: str
    machine: Machine | None = None


@dataclass(slots=True)
class KnownRules:
    """The guide of a search. A setting is inert where it is so on every host of the sweep."""

    sweep: Sweep
    hosts: Sequence[KnownHost]
    closed: Callable[[Config], str] = lambda config: ""
    """Says why a configuration is not tried again; empty where it may be."""
    foresight: Foresight = field(default_factory=Foresight)
    _canonical: dict[Config, Config] = field(default_factory=dict)
    _refusals: dict[Config, str] = field(default_factory=dict)

    def canonical(self, config: Config) -> Config:
        """Return the configuration that makes the same servers, its inert settings at a default."""
        if self.sweep.keep_inert:
            return config
        found = self._canonical.get(config)
        if found is None:
            found = self._canonical[config] = self._collapsed(config)
        return found

    def refusal(self, config: Config) -> str:
        """Say which rule a configuration breaks on some host, or that it always fails."""
        found = self._refusals.get(config)
        if found is None:
            settings = self.sweep.settings(config)
            broken = [
                rule.message
                for host in self.hosts
                for rule in broken_rules(settings, host.version, host.machine)
            ]
            found = self._refusals[config] = broken[0] if broken else ""
        return found or self.closed(config)

    def _collapsed(self, config: Config) -> Config:
        axes = {axis.name: axis for axis in self.sweep.axes}
        chosen = self._without_prefill(config, axes)
        servers = self._servers(chosen)
        for name in config:
            if all(server[name] == chosen[name] for server in servers):
                continue
            for value in _candidates(axes[name], servers, name):
                other = Config.of({**chosen, name: value})
                if self._servers(other) == servers and not self.sweep.space.broken_rules(other):
                    chosen = other
                    break
        return chosen

    def _without_prefill(self, config: Config, axes: Mapping[str, Axis]) -> Config:
        """Put settings that bind prefill alone at their defaults, if it is no part of the goal."""
        goal = self.sweep.objective
        names = (goal.metric, *goal.also, *(limit.metric for limit in goal.limits))
        if not all(name.startswith(OF_DECODING) for name in names):
            return config
        settings = self.sweep.settings(config)
        partly = [
            {inert.axis for inert in partly_inert(settings, host.version, host.machine)}
            for host in self.hosts
        ]
        idle = set.intersection(*partly) if partly else set()
        defaults = {name: axes[name].default for name in config if name in idle}
        other = Config.of({**config, **defaults})
        return config if self.sweep.space.broken_rules(other) else other

    def _servers(self, config: Config) -> list[Mapping[str, Value]]:
        """Return the settings that matter, on each host."""
        settings = self.sweep.settings(config)
        return [collapse(settings, host.version, host.machine) for host in self.hosts]


def _candidates(axis: Axis, servers: Sequence[Mapping[str, Value]], name: str) -> list[Value]:
    """Return the values of an axis that may stand for one that is inert: its default first."""
    becomes = [server[name] for server in servers]
    legal = [value for value in becomes if axis.grid is None or value in axis.grid]
    return [axis.default, *legal]
