"""Axis values that always fail on a host with the same signature, and so are not tried again.

A value is blamed only for what fails wherever it is and never works. Where several values fit, only
their combination is closed: the next trial that has one without the others tells them apart.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.phrases import listed
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value, show

TIMES = 3
"""Configurations that must fail with one signature before a value of theirs is closed."""

TIMES_MIXED = TIMES + 1
"""As many where their signatures differ but their place does not: a value may fail there in several
ways, and the evidence that it is one cause is weaker."""

_LOAD = "under load"

Item = tuple[str, Value]
"""An axis and a value of it."""

TOLD_BY_WORDS = frozenset({
    "ambiguous_flag", "capture_failed", "crashed", "missing_kernel", "ngram_range", "refused_flags",
    "refused_value", "settings_refused", "unsupported_backend",
})  # fmt: skip
"""Signatures of many faults: two failures with one of them are alike if their words are."""

_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d[\d.,]*")
"""Amounts and addresses, which differ between failures of one kind."""
_QUOTES = re.compile(r"; its log: .*| \((?:in|while) [^()]*\)$", re.DOTALL)
"""What a reason says beside the server's own last words."""

Fault = tuple[str, str]
"""A signature, and the words that tell one fault of it from another."""

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
    """Find what always fails, host by host."""
    baseline = next((r.config for r in results if r.purpose == "baseline"), None)
    by_host: dict[str, FaultRecord] = {}
    for result in results:
        by_host.setdefault(result.host, FaultRecord(not_blamed, times)).take(result)
    return tuple(closed for record in by_host.values() for closed in record.closed(baseline))


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


def kind_of_fault(result: TrialResult) -> Fault:
    """Return what failures of one kind have in common; words only where the signature needs them.

    Words count without their amounts, and without what the log tells beside them.
    """
    fault = fault_of(result)
    told = _QUOTES.sub("", result.reason) if fault in TOLD_BY_WORDS else ""
    return fault, _VARYING.sub("#", told)


class FaultRecord:
    """What worked on one host and what failed, taken in one by one: a look costs by the failures.

    `not_blamed` are signatures that no value is to blame for: faults of the infrastructure, and a
    lack of memory, which depends on amounts, so that it is the search that learns it. A value of
    plain decode's defaults is closed on the evidence of plain trials alone.
    """

    def __init__(self, not_blamed: AbstractSet[str] = frozenset(), times: int = TIMES) -> None:
        self._not_blamed, self._times = not_blamed, times
        self._ended: list[Config] = []
        self._worked: set[tuple[type, Item]] = set()
        self._failed: dict[Fault, list[TrialResult]] = {}

    def take(self, result: TrialResult) -> None:
        """Take one more result in."""
        if result.outcome not in (*_TAUGHT, *_SUCCEEDED):
            return
        self._ended.append(result.config)
        if result.outcome in _SUCCEEDED:
            self._worked |= set(map(_typed, result.config.items()))
        elif (fault := fault_of(result)) and fault not in self._not_blamed:
            self._failed.setdefault(kind_of_fault(result), []).append(result)

    def closed(self, baseline: Config | None) -> Iterator[Closed]:
        """Find what always fails, as far as plain decode's defaults are known."""
        found: list[Closed] = []
        for failed in self._failed.values():
            self._judge(failed, self._times, baseline, found)
        for failed in self._by_place(found):
            for value in self._candidates(failed):
                left = [r for r in failed if _has(r.config, value) and not _explained(r, found)]
                self._judge(left, self._times + TIMES_MIXED - TIMES, baseline, found)
        yield from found

    def _judge(
        self,
        failed: Sequence[TrialResult],
        times: int,
        baseline: Config | None,
        found: list[Closed],
    ) -> None:
        """Add what these failures close, if there are enough of them."""
        if len({result.config.variant for result in failed}) < times:
            return
        suspects = self._suspects(failed, baseline)
        if suspects:
            faults = " or ".join(sorted(set(map(fault_of, failed))))
            found.append(self._closed(faults, failed, suspects))

    def _by_place(self, found: Sequence[Closed]) -> list[list[TrialResult]]:
        """Return the failures that nothing explains yet, by how far they came."""
        places: dict[str, list[TrialResult]] = {}
        for failed in self._failed.values():
            for result in failed:
                if not _explained(result, found):
                    places.setdefault(result.start_phase or _LOAD, []).append(result)
        return [places[place] for place in sorted(places)]

    def _candidates(self, failed: Sequence[TrialResult]) -> list[Item]:
        """Return the values in some of these failures that never worked, the most frequent first.

        The order of the trials decides nothing.
        """
        items = {_typed(item): item for result in failed for item in result.config.items()}
        frequent = Counter(_typed(item) for result in failed for item in result.config.items())
        suspects = (typed for typed in frequent if typed not in self._worked)
        return [items[typed] for typed in sorted(suspects, key=lambda t: (-frequent[t], repr(t)))]

    def _suspects(self, failed: Sequence[TrialResult], baseline: Config | None) -> list[Item]:
        """Return what is in all failures and in no success, if it may be blamed for them."""
        shared = [
            item
            for item in failed[0].config.items()
            if _typed(item) not in self._worked and all(_has(r.config, item) for r in failed)
        ]
        ours = [item for item in shared if baseline is None or not _has(baseline, item)]
        plain_evidence = all(r.config.is_plain for r in failed)
        return ours or (shared if plain_evidence else [])

    def _closed(
        self, fault: str, failed: Sequence[TrialResult], suspects: Sequence[Item]
    ) -> Closed:
        first, *others = suspects
        tried = [c for c in self._ended if all(_has(c, item) for item in suspects)]
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


def _explained(result: TrialResult, found: Sequence[Closed]) -> bool:
    return any(closed.closes(result.config) for closed in found)


def _typed(item: Item) -> tuple[type, Item]:
    return type(item[1]), item


def _has(config: Mapping[str, Value], item: Item) -> bool:
    """Tell whether an axis has a value: 1 is not True, as in a list of choices."""
    name, value = item
    return name in config and (type(config[name]), config[name]) == (type(value), value)


def _text(item: Item) -> str:
    return f"{item[0]}={show(item[1])}"
