"""Which waiting requests start, and which running ones lose their place when the KV cache is full.

Sources: SGLang 0.5.23, srt/managers/schedule_policy.py and schedule_batch.py (`retract_decode`).
"""

from collections import deque
from collections.abc import Sequence

from infra.emulated.serving.jobs import Job
from infra.emulated.settings import Settings

_PREFILL_TOKENS = 16384
_FIRST_RATIO = 0.7
_LEAST_RATIO = 0.098
_DECAY_STEPS = 600
_CLIPPED_NEW_TOKENS = 4096
"""A new request is not believed to write more."""
_RETRACT_STEPS = 20


class Admission:
    """Guesses how much of their limits running requests will use, and learns from a full cache."""

    def __init__(self, settings: Settings, room_tokens: int) -> None:
        self._settings = settings
        self._room_tokens = room_tokens
        self._first = min(1.0, _FIRST_RATIO * settings.conservativeness)
        self.ratio = self._first
        self._sure_steps = 0

    def reset(self) -> None:
        """Forget what was learnt, as an idle scheduler does."""
        self.ratio = self._first

    def decay(self) -> None:
        """Grow bolder by one decode step."""
        self.ratio = max(_LEAST_RATIO, self.ratio - (self._first - _LEAST_RATIO) / _DECAY_STEPS)

    def admit(self, waiting: deque[Job], running: Sequence[Job]) -> list[Job]:
        """Take waiting requests in order, as far as places, KV room and a prefill batch go."""
        admitted: list[Job] = []
        if not waiting:
            return admitted
        room = self._room_tokens - sum(map(self._expected_tokens, running))
        prompt_tokens = 0
        while waiting:
            job = waiting[0]
            generation = job.generation
            held = generation.context_tokens
            left = generation.limit_tokens - len(generation.output)
            room -= held + min(left, _CLIPPED_NEW_TOKENS)
            prompt_tokens += held
            full = len(running) + len(admitted) >= self._settings.max_running_requests
            alone = not running and not admitted
            if full or (not alone and (room < 0 or prompt_tokens > _PREFILL_TOKENS)):
                break
            admitted.append(waiting.popleft())
        self._sure_steps = 0
        return admitted

    def fits(self, running: Sequence[Job]) -> bool:
        """Tell whether the next step of these requests fits, which grow by no more than it."""
        if self._sure_steps > 0:
            self._sure_steps -= 1
            return True
        if not self._fits(running):
            return False
        held = sum(job.generation.context_tokens for job in running)
        step = len(running) * self._settings.draft_tokens
        self._sure_steps = (self._room_tokens - held) // max(1, step) - 1
        return True

    def retract(self, running: list[Job]) -> tuple[list[Job], Job | None]:
        """Take the newest requests out of `running` until the next step fits.

        The second part is a request that does not even fit alone.
        """
        gone: list[Job] = []
        while len(running) > 1 and not self._fits(running):
            gone.append(running.pop())
        if running and not self._fits(running):
            return gone, running.pop()
        if gone:
            self.ratio = self._observed_ratio(running)
        return gone, None

    def _fits(self, running: Sequence[Job]) -> bool:
        held = sum(job.generation.context_tokens for job in running)
        return held + len(running) * self._settings.draft_tokens <= self._room_tokens

    def _observed_ratio(self, running: Sequence[Job]) -> float:
        written = sum(len(job.generation.output) for job in running)
        limits = sum(job.generation.limit_tokens for job in running)
        return min(1.0, (written + _RETRACT_STEPS * len(running)) / max(1, limits))

    def _expected_tokens(self, job: Job) -> float:
        generation = job.generation
        left = generation.limit_tokens - len(generation.output)
        return generation.context_tokens + left * self.ratio
