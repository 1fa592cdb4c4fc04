"""What a screening says of step times: how long the all-reduces of a step take, in proportion.

How many a step has, and how much of it they are, is left to the fit: a step is more than that.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sweeps.screening import Screened
from sweeps.search.gaussian import Floats
from sweeps.search.roles import Role, role_of, trait_of
from sweeps.values import Value

Changes = frozenset[tuple[str, object]]
"""Settings of communication that are not at their defaults."""

ALONE_SPREAD = 0.03
"""Of a setting, as a fraction: an all-reduce alone is not quite one in a step."""
NOTHING = 0.03
"""A change that moves no time by more than this part does nothing."""
SURPRISE = 2.5
"""Standard deviations beyond which a change is believed as it was timed."""


@dataclass(frozen=True)
class AllReduces:
    """The settings of one host that were timed, the defaults first; empty: it was not screened."""

    screened: Sequence[Screened] = ()

    @property
    def were_timed(self) -> bool:
        """Tell whether anything is known."""
        return bool(self._log_us)

    def knows(self, changes: Changes) -> bool:
        """Tell whether settings were timed with each other, but for what does nothing alone."""
        if not self._log_us:
            return False
        rest = changes - self._timed_most(changes)
        return all(self._does_nothing(frozenset([change])) for change in rest)

    def knows_each(self, changes: Changes) -> bool:
        """Tell whether each of them was timed, alone at least."""
        return all(frozenset([change]) in self._log_us for change in changes)

    def units(self, changes: Changes, tokens: float) -> float:
        """Return the time of an all-reduce of so many tokens, in those of one token with all
        defaults; 0 where nothing was timed.

        Settings that were not timed with each other are taken to multiply; those that were not
        timed at all, to do nothing.
        """
        if not self._log_us:
            return 0.0
        most = self._timed_most(changes)
        rest = [frozenset([change]) for change in changes - most]
        log = self._at(most, tokens) - self._at(frozenset(), 1.0)
        for single in rest:
            if single in self._log_us:
                log += self._at(single, tokens) - self._at(frozenset(), tokens)
        return math.exp(log)

    def _timed_most(self, changes: Changes) -> Changes:
        return max((timed for timed in self._log_us if timed <= changes), key=len)

    def _does_nothing(self, single: Changes) -> bool:
        if single not in self._log_us:
            return False
        off = self._log_us[single] - self._log_us[frozenset()]
        return bool(np.abs(off).max() < NOTHING)

    def _at(self, changes: Changes, tokens: float) -> float:
        """Interpolate between the sizes that were timed; beyond them, time grows as the size."""
        logs, sizes = self._log_us[changes], self._log_tokens
        asked = math.log(max(tokens, 1.0))
        beyond = max(0.0, asked - float(sizes[-1]))
        return float(np.interp(asked, sizes, logs)) + beyond

    @cached_property
    def _log_tokens(self) -> Floats:
        sizes = [float(r.size_bytes) for r in self.screened[0].reductions]
        return np.log(np.array(sizes) / sizes[0])

    @cached_property
    def _log_us(self) -> Mapping[Changes, Floats]:
        """Logarithms of the times by what differs from the defaults; unusable settings left out."""
        if not self.screened or self.screened[0].trouble:
            return {}
        default, sizes = self.screened[0].setting, len(self.screened[0].reductions)
        found = {
            changes_of(one.setting, default): np.log([r.median_us for r in one.reductions])
            for one in self.screened
            if not one.trouble and len(one.reductions) == sizes
        }
        base = found[frozenset()]
        return {changes: base + _believed(changes, log - base) for changes, log in found.items()}


NOT_TIMED = AllReduces()


def _believed(changes: Changes, off: Floats) -> Floats:
    """Return how far times are off the defaults', shrunk where most of it may be chance: several
    changes that do nothing would otherwise add up to something."""
    if len(changes) != 1:
        return off
    [(name, _)] = changes
    usual, chance = trait_of(name).spread, math.sqrt(2) * ALONE_SPREAD
    if abs(float(off.mean())) > SURPRISE * math.hypot(usual, chance):
        return off
    return off * usual**2 / (usual**2 + chance**2)


def changes_of(
    settings: Mapping[str, Value], default: Mapping[str, Value], but: frozenset[str] = frozenset()
) -> Changes:
    """Return the settings of communication that differ from a default, but for some names."""
    return frozenset(
        (name, value)
        for name, value in settings.items()
        if role_of(name) is Role.COMMUNICATION and name not in but and default.get(name) != value
    )
