"""Who may ask the emulated server what, and the endpoints that answer otherwise than they should.

Source: SGLang 0.5.23, srt/utils/auth.py; older versions know one key.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from infra.emulated.scenario import Answer
from infra.emulated.scenario_file import ScenarioSource
from infra.emulated.serving.streaming import disconnected

_OPEN_TO_ALL = ("/health", "/ready", "/metrics")
ADMIN_ROUTES = (
    "/set_internal_state",
    "/flush_cache",
    "/add_external_corpus",
    "/remove_external_corpus",
    "/list_external_corpora",
    "/abort_request",
)
_EMPTY_ANSWERS = ("/health", "/health_generate", "/ready")
LATE_S = 120.0
"""Host seconds by which a late endpoint is behind."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a server; empty where none is needed."""

    api: str = ""
    admin: str = ""

    def admit(self, method: str, path: str, authorization: str) -> bool:
        """Tell whether a request may pass."""
        if method == "OPTIONS" or path.startswith(_OPEN_TO_ALL):
            return True
        needed = self.api
        if path in ADMIN_ROUTES and self.admin:
            needed = self.admin
        return not needed or _bears(authorization, needed)


class Gate:
    """Stands before the application: keys first, then what the scenario says of a path."""

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
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
        if not self._keys.admit(scope["method"], path, authorization):
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
