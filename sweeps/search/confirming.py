"""The confirm stage: fresh starts that settle the choice, then fresh starts that prove its gain.

Two parts, so that the gain is of starts made after the choice alone: first the leader and what may
be better go forth and back (A-B-B-A), then the choice and what its gain is stated over. The first
confirming start of the latter parts the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.config import Config
from sweeps.search.beliefs import expected_gain
from sweeps.search.brief import Canonical
from sweeps.search.standings import Standings, changes
from sweeps.search.steps import Taste

RIVAL_GAIN = 0.002
"""What choosing between the choice and a rival, once both are known, must gain in the mean beyond
the indifference for the rival to be confirmed too."""
SURE = 0.9
MOST_SETTLING_ROUNDS = 3
"""Starts of each contender before the choice is made by what is known."""


@dataclass(frozen=True, slots=True)
class Field:
    """Who is confirmed: the leader, what may be better, and what the gain is stated over."""

    leader: Config
    rivals: tuple[Config, ...]
    beside: Config | None
    """None where plain decode with nothing changed leads: there is no gain to state, and it has no
    rivals but what may be faster."""

    @property
    def contenders(self) -> tuple[Config, ...]:
        """Those of which one is recommended."""
        return (self.leader, *self.rivals)

    def named(self, canonical: Canonical, plain: Config) -> "Field":
        """Return the same under the names of a later look, for which some of them may be one."""
        leader, beside = canonical(self.leader), self.beside and canonical(self.beside)
        if beside == leader:
            beside = None if leader == plain else plain
        rivals = dict.fromkeys(map(canonical, self.rivals))
        return Field(leader, tuple(c for c in rivals if c not in (leader, beside)), beside)


def field_of(standings: Standings, plain: Config, taste: Taste) -> Field:
    """Choose by what is known before the first confirming start."""
    lead = standings.leader
    leader = standings.configs[lead]
    beside = _beside(standings, leader, plain, 2 * taste.indifference_fraction)
    rivals = []
    if beside is None:
        return Field(leader, (), None)
    for place, config in enumerate(standings.configs):
        if config not in (leader, beside):
            ahead, spread = standings.ahead(place, lead)
            ahead -= taste.indifference_fraction
            gain = float(expected_gain(np.array(ahead), np.array(spread)))
            if gain > RIVAL_GAIN:
                rivals.append((gain, config))
    rivals.sort(key=lambda r: -r[0])
    return Field(leader, tuple(config for _, config in rivals[: taste.rivals]), beside)


def chosen_of(field: Field, standings: Standings, plain: Config, taste: Taste) -> Config:
    """Return the contender to recommend: of those that tie with the best, the least changed."""
    places = [p for c in field.contenders if (p := standings.place(c)) is not None]
    best = max(places, key=lambda p: standings.mean[p])
    ties = [p for p in places if standings.ahead(best, p)[0] <= taste.indifference_fraction]
    least = min(ties, key=lambda p: (changes(standings.configs[p], plain), -standings.mean[p]))
    return standings.configs[least]


def settling(
    field: Field, counts: Mapping[Config, int], standings: Standings, taste: Taste
) -> Config | None:
    """Return which contender starts next; None where the choice is settled."""
    if not field.rivals:
        return None
    open_ = unsettled(field.contenders, standings, taste)
    for number in range(MOST_SETTLING_ROUNDS):
        asked = field.contenders
        if number >= taste.confirm_rounds:
            asked = tuple(member for member in asked if member in open_)
        if found := next_of(asked, counts, number):
            return found
    return None


def next_of(members: Sequence[Config], counts: Mapping[Config, int], number: int) -> Config | None:
    """Return who starts next in a round; None where all have started so often. Rounds go forth and
    back (A-B-B-A), so that a slow drift of the host hits all alike."""
    for config in members if number % 2 == 0 else members[::-1]:
        if counts.get(config, 0) <= number:
            return config
    return None


def unsettled(members: Sequence[Config], standings: Standings, taste: Taste) -> Sequence[Config]:
    """List the best of some and those that are neither surely behind it nor surely a tie."""
    places = [p for c in members if (p := standings.place(c)) is not None]
    if not places:
        return ()
    best = max(places, key=lambda p: standings.mean[p])
    zone = 2 * taste.indifference_fraction
    found = []
    for place in places:
        if place == best:
            continue
        apart = standings.chance_ahead(best, place, zone) + standings.chance_ahead(
            place, best, zone
        )
        if standings.chance_ahead(best, place) < SURE and apart > 1 - SURE:
            found.append(standings.configs[place])
    return [standings.configs[best], *found] if found else ()


def _beside(standings: Standings, leader: Config, plain: Config, zone: float) -> Config | None:
    """Return the best plain decode, among equals the least changed; where the leader is plain
    decode itself, that with nothing changed."""
    if leader == plain:
        return None
    if leader.is_plain:
        return plain
    plains = [(float(standings.mean[i]), c) for i, c in enumerate(standings.configs) if c.is_plain]
    if not plains:
        return None
    top = max(mean for mean, _ in plains)
    return min(
        (p for p in plains if p[0] >= top - zone), key=lambda p: (changes(p[1], plain), -p[0])
    )[1]
