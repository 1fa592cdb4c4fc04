"""Axis values that always fail on a host with the same signature, and so are not tried again.

A value is blamed only for what fails wherever it is and never works. Where several values fit, only
their combination is closed: the next trial that has one without the others tells them apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.phrases import listed
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value, show

TIMES = 3
"""Configurations that must fail with one signature before a value of theirs is closed."""

Item = tuple[str, Value]
"""An axis and a value of it."""

_TAUGHT = (Outcome.INFEASIBLE, Outcome.HUNG)
_SUCCEEDED = (Outcome.MEASURED, Outcome.PARTIAL, Outcome.STOPPED)


@dataclass(frozen=True, slots=True)
class Closed:
    """A value that a host is not asked for again."""

    host: str
    axis: str
    value: Value
    signature: str
    count: int
    """Trials that failed like that with this value."""
    tried: int
    """All trials with this value that ended by themselves."""
    where: str
    """In words, such as `at graph capture`."""
    together: tuple[Item, ...] = ()
    """Values that cannot be told from it: it is closed only where all of these are, too."""

    @property
    def items(self) -> tuple[Item, ...]:
        """Return all that must hold for a configuration to be closed."""
        return ((self.axis, self.value), *self.together)

    def closes(self, config: Mapping[str, Value]) -> bool:
        """Tell whether a configuration is one of those that are not tried again."""
        return all(_has(config, item) for item in self.items)

    def __str__(self) -> str:
        what = " with ".join(_text(item) for item in self.items)
        text = f"{what} failed {self.count} of {self.tried} {self.where}"
        text += f" ({self.signature}): closed for host {self.host}"
        if self.together:
            text += f"; {listed([name for name, _ in self.items])} cannot be told apart yet"
        return text


def closed_values(
    results: Sequence[TrialResult],
    *,
    not_blamed: AbstractSet[str] = frozenset(),
    times: int = TIMES,
) -> tuple[Closed, ...]:
    """Find what always fails, host by host.

    `not_blamed` are signatures that no value is to blame for: faults of the infrastructure, and a
    lack of memory, which depends on amounts, so that it is the search that learns it. A value of
    plain decode's defaults is closed on the evidence of plain trials alone.
    """
    baseline = next((r.config for r in results if r.purpose == "baseline"), None)
    by_host: dict[str, list[TrialResult]] = {}
    for result in results:
        by_host.setdefault(result.host, []).append(result)
    return tuple(
        closed
        for held in by_host.values()
        for closed in closed_on(held, baseline, not_blamed=not_blamed, times=times)
    )


def is_closed(
    config: Mapping[str, Value], closed: Sequence[Closed], host: str | None = None
) -> Closed | None:
    """Return what keeps a configuration from being tried on a host; None: on any that is named."""
    return next((c for c in closed if host in (None, c.host) and c.closes(config)), None)


def fault_of(result: TrialResult) -> str:
    """Return the signature by which failures are compared; empty where nothing is learned."""
    if result.outcome not in _TAUGHT:
        return ""
    hang = f"no progress {result.where}" if result.outcome is Outcome.HUNG else ""
    return result.signature or hang


def closed_on(
    results: Sequence[TrialResult],
    baseline: Config | None,
    *,
    not_blamed: AbstractSet[str] = frozenset(),
    times: int = TIMES,
) -> Iterator[Closed]:
    """Find what always fails on the one host that all results come from."""
    good = [r.config for r in results if r.outcome in _SUCCEEDED]
    faults = dict.fromkeys(fault_of(r) for r in results)
    for fault in faults:
        failed = [r for r in results if fault_of(r) == fault]
        if not fault or fault in not_blamed or len({r.config.variant for r in failed}) < times:
            continue
        suspects = _suspects(failed, good, baseline)
        if suspects:
            yield _closed(fault, failed, results, suspects)


def _suspects(
    failed: Sequence[TrialResult], good: Sequence[Config], baseline: Config | None
) -> list[Item]:
    """Return what is in all failures and in no success, if it may be blamed for them."""
    shared = [
        item
        for item in failed[0].config.items()
        if all(_has(r.config, item) for r in failed) and not any(_has(c, item) for c in good)
    ]
    ours = [item for item in shared if baseline is None or not _has(baseline, item)]
    plain_evidence = all(r.config.is_plain for r in failed)
    return ours or (shared if plain_evidence else [])


def _closed(
    fault: str,
    failed: Sequence[TrialResult],
    results: Sequence[TrialResult],
    suspects: Sequence[Item],
) -> Closed:
    first, *others = suspects
    ended = [r for r in results if r.outcome in (*_TAUGHT, *_SUCCEEDED)]
    tried = [r for r in ended if all(_has(r.config, item) for item in suspects)]
    places = dict.fromkeys(r.where for r in failed)
    return Closed(
        host=failed[0].host,
        axis=first[0],
        value=first[1],
        signature=fault,
        count=len(failed),
        tried=len(tried),
        where=" or ".join(places),
        together=tuple(others),
    )


def _has(config: Mapping[str, Value], item: Item) -> bool:
    """Tell whether an axis has a value: 1 is not True, as in a list of choices."""
    name, value = item
    return name in config and (type(config[name]), config[name]) == (type(value), value)


def _text(item: Item) -> str:
    return f"{item[0]}={show(item[1])}"
