"""Follows a run on a host from here: shows its news, and says so while nothing is heard.

It keeps nothing that matters: it may be killed, and another one started, at any time.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from infra.remote import LinkLostError, LoginRefusedError, RemoteError, UntrustedHostError
from orchestrator.exit_codes import NOT_READY, of_status
from orchestrator.remote.answers import BadAnswerError
from orchestrator.remote.calling import There
from orchestrator.watching.sweep_status import DIED, SweepStatus

SILENT_S = 8.0
"""Wall seconds without a beat, of which one comes every two, until we count as cut off."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_PAUSE_GROWTH = 2.0


class OtherVersionError(RemoteError):
    """What is told there is not what is understood here; trying again helps nothing."""


class View(Protocol):
    """Shows what is heard. Called from one thread; returns at once."""

    def output(self, text: str) -> None:
        """Take what the command printed."""
        ...

    def status(self, seen: SweepStatus) -> None:
        """Take where its sweep stands."""
        ...

    def blind(self, why: str) -> None:
        """Nothing is heard any more. Told once for each time."""
        ...

    def heard(self, after_s: float) -> None:
        """The host is heard again, after so many wall seconds."""
        ...


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended. The code is negative for the signal that killed it."""

    code: int | None
    why: str = ""
    status: SweepStatus | None = None

    @property
    def exit_code(self) -> int:
        """Return the code of the run as ours; NOT_READY for one that was killed."""
        if self.code is None and self.status is not None:
            return of_status(self.status.status, has_leader=self.status.leader is not None)
        return NOT_READY if self.code is None or self.code < 0 else self.code

    def told(self, host: str) -> str:
        """Say what a user must know beyond what the run has said itself; empty if nothing."""
        if self.code is not None and self.code >= 0:
            return ""
        if self.code is None and self.status is not None and self.status.status != DIED:
            return ""  # only what would have noted the code was killed
        if self.why:
            return f"{host}: {self.why}"
        what = (
            "its driver is gone without a word: killed, or the host was started anew"
            if self.code is None
            else f"its driver was killed by signal {-self.code}"
        )
        return (
            f"{host}: {what}. What was measured is kept there; the same `sweep --host {host}` goes"
            " on with it."
        )


class _Sight:
    """Whether the host is heard, told to the view when that changes."""

    def __init__(self, view: View, clock: Callable[[], float]) -> None:
        self._view, self._clock = view, clock
        self._heard_s = clock()
        self._is_blind = False

    @property
    def silent_s(self) -> float:
        """Return for how long nothing was heard, in wall seconds."""
        return self._clock() - self._heard_s

    def hear(self) -> None:
        """Something came."""
        if self._is_blind:
            self._view.heard(self.silent_s)
        self._heard_s, self._is_blind = self._clock(), False

    def lose(self, why: str) -> None:
        """Nothing comes."""
        if not self._is_blind:
            self._is_blind = True
            self._view.blind(why)


def follow(
    there: There,
    view: View,
    run: str = "",
    *,
    patience_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> End:
    """Show a run, or the newest, to its end; go on through lost connections.

    Raises RemoteError at once where the host refuses us, or cannot be reached to show its newest
    run; and once nothing was heard for longer than the patience.
    """
    told = _Told(run, view)
    sight = _Sight(view, clock)
    pause_s = _FIRST_PAUSE_S
    while True:
        before = told.count
        try:
            end = _listen(there, told, sight)
            if end is not None:
                return end
            why = "the news ended without an end"
        except (LoginRefusedError, UntrustedHostError, OtherVersionError, BadAnswerError):
            raise
        except RemoteError as error:
            # A run that was named was started from here: the host has been reached before.
            if not told.count and not run:
                raise
            why = "the connection was lost" if isinstance(error, LinkLostError) else str(error)
        sight.lose(why)
        if patience_s is not None and sight.silent_s > patience_s:
            raise RemoteError(
                f"{there.remote.name} was not heard for {sight.silent_s:.0f} s: {why}"
            )
        went_well = told.count > before
        pause_s = _FIRST_PAUSE_S if went_well else min(_PAUSE_GROWTH * pause_s, _LONGEST_PAUSE_S)
        sleep(pause_s)


class _Told:
    """What was heard of a run: enough to ask for the rest."""

    def __init__(self, run: str, view: View) -> None:
        self.run, self.offset, self.count = run, 0, 0
        self._view = view
        self._status: SweepStatus | None = None

    def take(self, news: dict[str, Any]) -> End | None:
        """Pass a piece of news on; return the end if it is one."""
        self.count += 1
        match news["kind"]:
            case "run":
                self.run = news["run"]["run"]
            case "output":
                self.offset = news["at"]
                self._view.output(news["text"])
            case "status":
                self._status = status_from(news["status"])
                self._view.status(self._status)
            case "end":
                return End(news["code"], news.get("why", ""), self._status)
        return None


def status_from(data: Mapping[str, Any]) -> SweepStatus:
    """Read how a sweep stands. Raises OtherVersionError."""
    try:
        return SweepStatus.from_data(data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        why = f"ours there is of another version than here ({error}): `hosts prepare` renews it"
        raise OtherVersionError(why) from error


def _listen(there: There, told: _Told, sight: _Sight) -> End | None:
    """Hear news over one connection; None where they end before the run does."""
    asked = {"run": told.run, "offset": told.offset}
    for news in there.talk("follow", asked):
        if news is None:
            if sight.silent_s > SILENT_S:
                sight.lose("nothing comes over the connection")
            continue
        sight.hear()
        if (end := told.take(news)) is not None:
            return end
    return None
