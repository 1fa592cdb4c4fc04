"""Names of configurations that made the same server, by the servers' own accounts.

A server may override what it was asked for, or be asked for what it takes by itself. Two names
whose servers ran with the same settings on a host are one configuration.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.effects import LEFT_TO_THE_SERVER, meaning, same_meaning
from sweeps.naming import short
from sweeps.phrases import counted, listed
from sweeps.results import TrialResult
from sweeps.values import Value, show

UNSET_IS: Mapping[str, Value] = {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "0"}
"""Variables that mean this where nobody sets them, as SGLang 0.5.21 to 0.5.23 read them."""
_DIGITS = 5
"""A float travels through a command line with six digits."""

ToldSettings = frozenset[tuple[str, bool, int | float | str | None]]
"""Each setting by its name, whether the server told it, and what its value means."""


def account_of(result: TrialResult) -> ToldSettings | None:
    """Return what a server ran with; None where it told nothing.

    A setting that the server did not tell stands as it was requested, and is never the same as one
    that was told: requests differ without a trace, so only told values make two of them one.
    """
    if not result.effective:
        return None
    told = {(name, True, told_meaning(name, v)) for name, v in result.effective.items()}
    asked = {
        (name, False, told_meaning(name, value))
        for name, value in {**result.config, **result.requested}.items()
        if name not in result.effective and value is not None
    }
    where = {("engine_version", True, result.engine_version), ("host", True, result.host),
             ("fingerprint", True, result.fingerprint)}  # fmt: skip
    return frozenset(told | asked | where)


def told_meaning(name: str, value: Value) -> int | float | str | None:
    """Return what a told value of a setting stands for; equal ones make the same server."""
    found = meaning(UNSET_IS.get(name) if value is None else value)
    return float(f"{found:.{_DIGITS}g}") if isinstance(found, float) else found


@dataclass(frozen=True, slots=True)
class Namesakes:
    """Names of one configuration. The first stands for all."""

    configs: tuple[Config, ...]
    hosts: tuple[str, ...]
    numbers: tuple[int, ...]
    """Of all trials whose servers had one of these names, ascending."""

    def __str__(self) -> str:
        first, *others = (short(config) for config in self.configs)
        trials = f"trials {listed([str(number) for number in self.numbers])}"
        return (
            f"{listed(others)} ran as {first} did on {listed([*self.hosts])}, by the servers' own "
            f"accounts: one configuration ({trials})"
        )


def namesakes(results: Sequence[TrialResult], plain: Config | None = None) -> list[Namesakes]:
    """List the configurations that have several names, in the order of their first trials.

    `plain` is plain decode with nothing changed, by default the first baseline. Names are one where
    they ran on the same hosts, with one account each, and the accounts are the same. Plain decode
    stands for its group, before all with nothing changed; else what was started first.
    """
    by_name: dict[Config, list[TrialResult]] = {}
    for result in sorted(results, key=lambda r: r.number):
        by_name.setdefault(result.config, []).append(result)
    if plain is None:
        plain = next((c for c, own in by_name.items() if own[0].purpose == "baseline"), None)
    groups: dict[frozenset[ToldSettings], list[Config]] = {}
    for config, own in by_name.items():
        accounts = frozenset(account for r in own if (account := account_of(r)) is not None)
        if accounts and len({r.host for r in own if r.effective}) == len(accounts):
            groups.setdefault(accounts, []).append(config)
    found = []
    for configs in groups.values():
        if len(configs) > 1:
            trials = [r for config in configs for r in by_name[config] if r.effective]
            found.append(
                Namesakes(
                    tuple(sorted(configs, key=lambda c: (c != plain, not c.is_plain))),
                    tuple(sorted({r.host for r in trials})),
                    tuple(sorted(r.number for r in trials)),
                )
            )
    return found


@dataclass(frozen=True, slots=True)
class StandIn:
    """A default that every server ran as one other value, and so stands for that value."""

    axis: str
    default: Value
    ran_as: Value
    trials: int

    def __str__(self) -> str:
        return (
            f"{self.axis}: {show(self.default)} ran as {show(self.ran_as)} in "
            f"{counted(self.trials, 'trial')}; no server was asked for {show(self.ran_as)}"
        )


def stand_ins(results: Sequence[TrialResult], defaults: Mapping[str, Value]) -> Iterator[StandIn]:
    """Yield the defaults that stand for another value; one trial that shows else is enough to
    take that back."""
    for axis, default in defaults.items():
        ran_as = [
            result.effective.get(axis, default)
            for result in results
            if result.effective and result.config.get(axis, ...) == default
        ]
        first = ran_as[0] if ran_as else default
        if not same_meaning(first, default) and all(same_meaning(v, first) for v in ran_as):
            yield StandIn(axis, default, first, len(ran_as))


def said_alike(results: Sequence[TrialResult]) -> tuple[str, ...]:
    """Say which names ran alike, and which were not started since their default ran so."""
    plain = next((r.config for r in results if r.purpose == "baseline"), Config.of({}))
    asked = {(name, value) for result in results for name, value in result.config.items()}
    unasked = (
        stand_in
        for stand_in in stand_ins(results, plain)
        if stand_in.default not in LEFT_TO_THE_SERVER
        and (stand_in.axis, stand_in.ran_as) not in asked
    )
    return (*map(str, namesakes(results)), *map(str, unasked))
