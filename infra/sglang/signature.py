"""What a row of the table of signatures says, and when in a server's life it counts."""

import re
from dataclasses import dataclass
from enum import StrEnum

from sweeps.results import Outcome


class Moment(StrEnum):
    """When in a server's life a fault counts."""

    START = "start"
    CAPTURE = "graph capture"
    LOAD = "under load"


@dataclass(frozen=True, slots=True)
class Signature:
    """A text in the log and what it means for the trial."""

    name: str
    pattern: re.Pattern[str]
    outcome: Outcome
    reason: str
    hint: str = ""
    retry: bool = False
    """Nothing is wrong with the configuration: the trial may be started once more."""
    of_host: bool = False
    """The host itself is at fault: one that keeps failing so is set aside."""
    amount: bool = False
    """A lack of memory: it depends on amounts, and no single value is to blame."""
    raised: bool = False
    """It is looked for in the exception that ended the server, not in all lines."""
    moments: tuple[Moment, ...] = ()
    """When it counts; empty: always."""
    codes: tuple[int, ...] = ()
    """Exit codes that mean the same where no text of the table is found."""

    def counts_in(self, moment: Moment) -> bool:
        """Tell whether the text means anything at a moment."""
        return not self.moments or moment in self.moments
