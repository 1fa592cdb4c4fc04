"""Who may ask the emulated server what, and which endpoints answer otherwise than they should."""

import hmac
from collections.abc import Callable

import orjson
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from infra.emulated.scenario import Answer
from infra.emulated.scenario_file import ScenarioSource
from infra.emulated.serving.streaming import disconnected
from infra.sglang.server_keys import ServerKeys

_EMPTY_ANSWERS = ("/health", "/health_generate", "/ready")
LATE_S = 120.0
"""Host seconds by which a late endpoint is behind."""


class Gate:
    """Stands before the application: keys first, then what the scenario says of a path."""

    def __init__(
        self,
        app: ASGIApp,
        keys: ServerKeys,
        scenario: ScenarioSource,
        ready_for_s: Callable[[], float],
    ) -> None:
        self._app = app
        self._keys = keys
        self._scenario = scenario
        self._ready_for_s = ready_for_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = str(scope["path"])
        authorization = Headers(scope=scope).get("authorization", "")
        needed = "" if scope["method"] == "OPTIONS" else self._keys.needed(path)
        if needed and not _bears(authorization, needed):
            await _json(401, {"error": "Unauthorized"})(scope, receive, send)
            return
        answer = self._scenario.now.health.get(path, Answer.HONEST)
        if answer is Answer.HANGING:
            await disconnected(receive)
        elif response := self._dishonest(answer, path):
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _dishonest(self, answer: Answer, path: str) -> Response | None:
        match answer:
            case Answer.MISSING:
                return _json(404, {"detail": "Not Found"})
            case Answer.UNHEALTHY:
                return Response(status_code=503)
            case Answer.LATE if self._ready_for_s() < LATE_S:
                return Response(status_code=503)
            case Answer.EARLY if path in _EMPTY_ANSWERS:
                return Response(status_code=200)
            case _:
                return None


def _bears(authorization: str, key: str) -> bool:
    scheme, _, given = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), key.encode())


def _json(status: int, body: dict[str, str]) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")
