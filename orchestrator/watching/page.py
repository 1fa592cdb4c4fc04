"""A page on the loopback that shows a running sweep in a browser, and renews itself."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import TYPE_CHECKING

from orchestrator.signals import ends_setting
from orchestrator.watching.sweep_status import SweepStatus
from orchestrator.watching.watcher import what_counts

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOOPBACK = "127.0.0.1"
PERIOD_S = 1.0
"""Between looks; several browsers share one."""

KEEP_ALIVE_S = 15.0
"""A stream says at least this often that it lives, also where nothing has changed."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_FILES = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}


class Board:
    """The newest look at a sweep, shared by all who ask within a period."""

    def __init__(self, look: Callable[[], SweepStatus], period_s: float = PERIOD_S) -> None:
        self._look, self._period_s = look, period_s
        self._lock = threading.Lock()
        self._seen: SweepStatus | None = None
        self._at_s = 0.0

    def seen(self) -> SweepStatus:
        """Return a look that is at most a period old."""
        with self._lock:
            if self._seen is None or time.monotonic() - self._at_s >= self._period_s:
                self._seen = self._look()
                self._at_s = time.monotonic()
            return self._seen


def page_app(board: Board, over: threading.Event, period_s: float = PERIOD_S) -> "Starlette":
    """Build the page; its streams end when `over` is set.

    Names that are not of this machine are refused: another page must not read this one by a name
    that it points here.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    async def status(request: "Request") -> "Response":
        seen = await asyncio.to_thread(board.seen)
        return JSONResponse(seen.as_data(), headers=_HEADERS)

    async def events(request: "Request") -> "Response":
        headers = {**_HEADERS, "X-Accel-Buffering": "no"}
        stream = _events(board, over, period_s)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    def file_route(path: str, name: str, media_type: str) -> Route:
        content = (files("orchestrator.watching") / name).read_bytes()

        async def answer(request: "Request") -> "Response":
            return Response(content, media_type=media_type, headers=_HEADERS)

        return Route(path, answer)

    return Starlette(
        routes=[
            *(file_route(path, *kind) for path, kind in _FILES.items()),
            Route("/status.json", status),
            Route("/events", events),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"])],
    )


async def _events(board: Board, over: threading.Event, period_s: float) -> AsyncIterator[str]:
    """Yield each change as an event of a stream."""
    told: object = None
    said_s = time.monotonic()
    while not over.is_set():
        seen = await asyncio.to_thread(board.seen)
        if what_counts(seen) != told:
            told, said_s = what_counts(seen), time.monotonic()
            yield f"data: {json.dumps(seen.as_data())}\n\n"
        elif time.monotonic() - said_s > KEEP_ALIVE_S:
            said_s = time.monotonic()
            yield ": alive\n\n"
        await asyncio.sleep(period_s)


def serve_page(
    board: Board,
    port: int,
    on_ready: Callable[[str], None],
    stop: threading.Event | None = None,
) -> None:
    """Serve the page until interrupted, or until `stop` is set.

    `on_ready` gets its address. Port 0 is any free one.

    Raises OSError where the port cannot be used.
    """
    import socket

    import uvicorn

    over = threading.Event()
    ended = stop or threading.Event()

    class Server(uvicorn.Server):
        """Ends the streams with itself: they would hold up its end."""

        async def on_tick(self, counter: int) -> bool:
            return await super().on_tick(counter) or ended.is_set()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            over.set()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        page_app(board, over), log_level="warning", timeout_graceful_shutdown=3, lifespan="off"
    )
    with ends_setting(ended), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen()  # who is told of it now may come before the server does
        on_ready(f"http://{LOOPBACK}:{listening.getsockname()[1]}")
        Server(config).run(sockets=[listening])
