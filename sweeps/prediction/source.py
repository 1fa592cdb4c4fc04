"""Who knows accept lengths without a server: the seam to the replay of recorded output."""

from collections.abc import Sequence
from typing import Protocol

from sweeps.config import Config
from sweeps.results import Estimate


class AcceptSource(Protocol):
    """Gives the accept length of drafts that can be replayed."""

    def accept(self, config: Config) -> Estimate | None:
        """Return it with its 95 % interval; None where nothing is known, as of a draft model.

        Settings of communication are of no account. Asked for thousands of configurations at a
        time: what is costly is kept. Plain decode accepts 1.
        """
        ...

    def prepare(self, configs: Sequence[Config]) -> None:
        """Be told what will be asked next, so that all of it is computed at once."""
        ...


class NoSource:
    """Knows plain decode alone."""

    def accept(self, config: Config) -> Estimate | None:
        """Return 1 for plain decode."""
        return PLAIN if config.is_plain else None

    def prepare(self, configs: Sequence[Config]) -> None:
        """Do nothing."""


NOTHING_KNOWN = NoSource()
PLAIN = Estimate(1.0, 1.0, 1.0, 0.0, "plain decode accepts its one token", provisional=False)
