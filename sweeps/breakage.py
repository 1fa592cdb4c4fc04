"""What the requests of a pass that did not end well say of their server, in counts."""

import re
from collections import Counter
from dataclasses import dataclass

from sweeps.phrases import counted, listed
from sweeps.records import EndReason, PassRecord, RequestRecord
from sweeps.token_accounts import MISCOUNT

MOST_BROKEN_FRACTION = 0.05
"""A server that lives on may break so many requests of a pass (assumption): the rate of the others
is as good. Where it breaks more, those that it let end are a selection."""

_BY_LOAD = re.compile(
    r"^HTTP (?:413|429)\b|\((?:413|429)\)|^HTTP 503: .*(?:busy|full|queue|overload)"
    r"|(?:queue|server)[^.]{0,40} (?:is )?(?:full|overloaded)|too many requests"
    r"|waiting timeout|retracted under decode memory pressure"
    r"|too long\b|(?:longer|exceeds?|exceeded)[^.]{0,60}(?:context|maximum)",
    re.IGNORECASE,
)
"""Refusals that more requests or longer prompts than a server takes explain, as SGLang words them
(srt/managers/scheduler.py and srt/managers/tokenizer_manager.py, 0.5.2 to 0.5.23)."""


@dataclass(frozen=True, slots=True)
class Breakage:
    """How many requests of a pass ended how, where some did not end well."""

    sent: int
    finished: int
    silent: int
    refused: int
    """Those that the load itself explains."""
    broken: int
    """The others that failed."""
    detail: str
    """How most of those failed; where none did, how most were refused."""

    @property
    def is_miscounted(self) -> bool:
        """Tell whether most broke by their own token counts."""
        return self.detail.startswith(MISCOUNT)

    @property
    def is_telling(self) -> bool:
        """Tell whether so many broke that the rest says nothing of the server."""
        unmet = self.refused + self.broken
        return self.broken > MOST_BROKEN_FRACTION * self.sent or unmet == self.sent

    def __str__(self) -> str:
        parts = {"silent": self.silent, "refused for the load": self.refused}
        told = [f"{number} {how}" for how, number in parts.items() if number]
        if self.broken:
            told.insert(0, f"{self.broken} broken")
        why = f" ({self.detail})" if self.detail else ""
        return f"of {counted(self.sent, 'request')} {listed(told)}{why}, {self.finished} finished"


def breakage_of(record: PassRecord) -> Breakage | None:
    """Return what went wrong in a pass; None where no request failed."""
    failed = record.broken
    if not failed:
        return None
    silent = [r for r in failed if r.end is EndReason.SILENT]
    refused = [r for r in failed if r.end is EndReason.BROKEN and _by_load(r)]
    broken = [r for r in failed if r.end is EndReason.BROKEN and not _by_load(r)]
    details = Counter(request.detail for request in broken or refused or silent)
    return Breakage(
        sent=len(record.requests),
        finished=sum(r.end is EndReason.FINISHED for r in record.requests),
        silent=len(silent),
        refused=len(refused),
        broken=len(broken),
        detail=details.most_common(1)[0][0],
    )


def _by_load(request: RequestRecord) -> bool:
    return _BY_LOAD.search(request.detail) is not None
