"""The routes by which the emulated server proves that it lives."""

import asyncio
import time

from starlette.requests import Request
from starlette.responses import Response

from infra.emulated.logs import SERVER
from infra.emulated.serving.state import ServerState

_LOOK_S = 1.0
"""Host seconds between the looks whether a probe came back."""
_LIMIT_S = 20.0


class HealthRoutes:
    """Health and readiness of one server."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def ready(self, _: Request) -> Response:
        """Tell whether new requests are taken."""
        state = self._state
        return Response(status_code=200 if state.ready and not state.draining else 503)

    async def ping(self, _: Request) -> Response:
        """Answer."""
        return Response(status_code=200)

    async def health(self, request: Request) -> Response:
        """Answer as SGLang does: by generating a token if nothing runs, else by any progress."""
        state = self._state
        if not state.ready or state.draining:
            return Response(status_code=503)
        facts = state.facts
        generates = facts.is_set("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", default=True)
        if request.url.path == "/health" and not generates and facts.how.since("0.5.6"):
            return Response(status_code=200)
        if await self._progresses():
            return Response(status_code=200)
        SERVER.error("Health check failed. Server couldn't get a response from detokenizer.")
        return Response(status_code=503)

    async def _progresses(self) -> bool:
        """Look once in a host second whether something was computed since the probe came."""
        scheduler, clock = self._state.scheduler, self._state.clock
        before, probe = scheduler.passes, None
        if scheduler.idle:
            name = f"HEALTH_CHECK_{time.time()}"
            probe = scheduler.submit(name, scheduler.engine.open_probe())
        until_s = clock.now_s() + self._limit_s()
        try:
            while clock.now_s() < until_s:
                await asyncio.sleep(clock.real_s(_LOOK_S))
                if probe is None:
                    alive = scheduler.passes != before or scheduler.idle
                else:
                    alive = probe.ended_s is not None
                if alive:
                    return True
            return False
        finally:
            if probe:
                scheduler.drop(probe)

    def _limit_s(self) -> float:
        text = self._state.facts.environment.get("SGLANG_HEALTH_CHECK_TIMEOUT", "")
        return float(text) if text.isdigit() else _LIMIT_S
