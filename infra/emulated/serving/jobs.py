"""Requests on their way through the emulated scheduler, and what is counted of them."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from infra.emulated.engine import Generation, Spell, Step
from infra.emulated.logs import DecodeWindow


@dataclass(frozen=True, slots=True)
class Emission:
    """What one step gave one request, and when it was due, in host seconds."""

    tokens: tuple[int, ...]
    completion_tokens: int
    at_s: float
    finished: bool = False
    aborted: bool = False
    failure: str = ""
    """Why the server itself ended the request."""
    spell: Spell | None = None
    """The steps that it stands for, where the request ran alone; `tokens` is empty then."""


@dataclass(eq=False, slots=True)
class Job:
    """A request on its way through the scheduler. Times are host seconds."""

    rid: str
    generation: Generation
    arrived_s: float
    number: int = 0
    """Counted from 1 over the server's life; 0 for probes and the warm-up."""
    streams: bool = False
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is something to take; the requests of a batch share one."""
    arrived_at: float = field(default_factory=time.time)
    """The same moment as `arrived_s`, as Unix time."""
    started_s: float | None = None
    prefilled_s: float | None = None
    ended_s: float | None = None
    retractions: int = 0
    emissions: list[Emission] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    """Tokens that wait for the stream interval."""

    async def take(self) -> list[Emission]:
        """Wait until there is something, and take all of it."""
        await self.ready.wait()
        self.ready.clear()
        return self.take_now()

    def take_now(self) -> list[Emission]:
        """Take what is there."""
        taken, self.emissions = self.emissions, []
        return taken

    def unix(self, at_s: float) -> float:
        """Return a moment of the host's time as Unix time."""
        return self.arrived_at + at_s - self.arrived_s


@dataclass(slots=True)
class Totals:
    """Counters since the start or the last flush, as `/server_info` shows them."""

    verifies: int = 0
    verified_tokens: int = 0
    last_gen_throughput: float = 0.0
    steps: int = 0


class Watcher(Protocol):
    """Is told what the scheduler does. Called in its thread; must not block."""

    def prefilled(self, jobs: Sequence[Job], new_tokens: int, cached_tokens: int) -> None:
        """Hear of a prefill."""
        ...

    def emitted(self, job: Job, tokens: int, at_s: float) -> None:
        """Hear of tokens for one request."""
        ...

    def decoded(self, window: DecodeWindow, *, graph: bool) -> None:
        """Hear of a whole decode interval."""
        ...

    def retracted(self, jobs: Sequence[Job]) -> None:
        """Hear of requests that lost their place."""
        ...

    def ended(self, job: Job, *, aborted: bool) -> None:
        """Hear of the end of a request."""
        ...


class Window:
    """Counts decode steps until the next decode line."""

    def __init__(self, since_s: float) -> None:
        self._since_s = since_s
        self.steps = 0
        self._tokens = 0
        self._correct = 0
        self._proposed = 0
        self._verifies = 0

    def add_spell(self, spell: Spell, drafts: int) -> None:
        """Count the steps of a request that ran alone."""
        self.steps += len(spell.times_s)
        self._tokens += spell.new_tokens
        self._correct += spell.correct_drafts
        self._proposed += drafts * spell.verifies
        self._verifies += spell.verifies

    def add(self, steps: Sequence[Step], drafts: int) -> None:
        """Count one step of a batch."""
        self.steps += 1
        for step in steps:
            self._tokens += len(step.tokens)
            if step.verifies:
                self._correct += step.correct_drafts
                self._proposed += drafts
                self._verifies += 1

    def close(self, now_s: float) -> DecodeWindow:
        """Return what was counted."""
        return DecodeWindow(
            self.steps,
            self._tokens,
            self._correct,
            self._proposed,
            self._verifies,
            self._correct + self._verifies,
            now_s - self._since_s,
        )
