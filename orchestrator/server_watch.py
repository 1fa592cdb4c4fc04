"""Watches a server while it is measured: does it go on, and when it broke off, is it ending?

Health is asked only while no token comes: a health request makes the server generate.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from infra.clock import host_s
from orchestrator.load_client.seam import PassProgress
from orchestrator.trial_seam import Tools

LEAST_SILENCE_WALL_S = 5.0
"""Where a host is emulated faster than life, a busy machine must not look like a silent server."""

HEALTH_S = 20.0
"""For one answer, in the host's seconds; SGLang itself gives a health request 20 s."""

ENDING_S = 60.0
"""What a root gets to end after it broke off connections, in the host's seconds: it waits as long
for its killed children (SGLang 0.5.23, srt/utils/common.py)."""

_LEAST_ENDING_WALL_S = 5.0
_LOOK_WALL_S = 0.05


class ServerWatch:
    """What is known of one server's going on. The thread of its trial uses it."""

    def __init__(self, url: str, tools: Tools, silence_s: float) -> None:
        self.verdict = ""
        """Why the server is taken for hung; empty while it is not."""
        self.silence_s = max(silence_s, host_s(tools.clock, LEAST_SILENCE_WALL_S))
        """How long a stream may bring nothing, in the host's seconds."""
        self._clock = tools.clock
        self._health = _Health(url, tools)
        self._stalled = False

    @property
    def ends_pass(self) -> bool:
        """Tell whether a running pass can only go on to the same verdict."""
        return self._stalled or bool(self.verdict)

    def take(self, seen: PassProgress, *, warming: bool = False) -> None:
        """Judge the progress of a pass. Returns at once.

        A request that fell silent ends its pass. Where no stream has brought a token for a quarter
        of the time allowed, the server is asked for its health; if that is bad and half of the time
        has passed without a token, it hangs. Bad health alone says nothing while tokens come, nor
        while a server is `warming`, since it may compile.
        """
        if not self._clock.real_s(1.0):
            return  # a simulated server never falls silent, and is asked by its own thread alone
        self._stalled = seen.silent_requests > 0
        if warming or seen.quiet_s < self._part_s(0.25):
            self._health.forget()
            return
        answer = self._health.answer(self._part_s(0.25))
        if answer and seen.quiet_s >= self._part_s(0.5):
            self.verdict = f"no token for {seen.quiet_s:.3g} s, and {answer}"

    def serves(self, should_stop: Callable[[], bool]) -> bool:
        """Wait until the process is gone, its health is good, or its time to end is over.

        Returns whether its health is good. Gives way at once when `should_stop` says so.
        """
        if not self._clock.real_s(1.0):
            return True
        limit_s = max(_LEAST_ENDING_WALL_S, self._clock.real_s(ENDING_S))
        until_s = time.monotonic() + limit_s
        self._health.forget()
        while not should_stop() and time.monotonic() < until_s:
            answer = self._health.answer(HEALTH_S)
            if answer == "":
                return True
            if answer is not None:
                self._health.forget()
            time.sleep(_LOOK_WALL_S)
        return False

    def _part_s(self, share: float) -> float:
        """Return a share of the silence allowed, and no less than a busy machine may take."""
        return max(share * self.silence_s, host_s(self._clock, LEAST_SILENCE_WALL_S))


class _Health:
    """One question at a time, asked in a thread that nobody waits for: an answer may never come."""

    def __init__(self, url: str, tools: Tools) -> None:
        self._url, self._tools = url, tools
        self._asked: Future[bool] | None = None

    def forget(self) -> None:
        """Drop the question that is open, and what was answered."""
        self._asked = None

    def answer(self, limit_s: float) -> str | None:
        """Return how its health is bad, empty where it is good, None while no answer is there."""
        if self._asked is None:
            self._asked = self._ask(limit_s)
        if not self._asked.done():
            return None
        return "" if self._asked.result() else "its health is bad or not answered"

    def _ask(self, limit_s: float) -> Future[bool]:
        asked: Future[bool] = Future()
        wall_s = max(1.0, self._tools.clock.real_s(limit_s))
        control = self._tools.control(self._url, wall_s)
        threading.Thread(
            target=lambda: asked.set_result(control.is_healthy()), name="health", daemon=True
        ).start()
        return asked
