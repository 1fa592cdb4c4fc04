"""The HTTP application of the emulated server: which route exists in which version, over one state.

The scheduler runs as long as the application does.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from infra.clock import Clock
from infra.emulated.logs import RANK, SERVER, die
from infra.emulated.serving.access import Gate
from infra.emulated.serving.control_routes import ControlRoutes
from infra.emulated.serving.corpora import CorpusError
from infra.emulated.serving.generation_routes import GenerationRoutes, last_of
from infra.emulated.serving.health import HealthRoutes
from infra.emulated.serving.openai_replies import openai_error
from infra.emulated.serving.scheduler import Scheduler
from infra.emulated.serving.state import ServerFacts, ServerState, make_state
from infra.emulated.serving.validation import UnreadableBodyError
from infra.sglang.server_keys import ServerKeys

READY_LINE = "The server is fired up and ready to roll!"
_WARM_UP_PROMPT = "The capital city of France is"
_WARM_UP_TOKENS = 8

Endpoint = Callable[[Request], Awaitable[Response]]


class EmulatedServer:
    """One server. Belongs to one event loop."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        facts: ServerFacts,
        *,
        skip_warm_up: bool = False,
    ) -> None:
        self.scheduler = scheduler
        try:
            self.state = make_state(scheduler, clock, facts)
        except CorpusError as error:
            die(f"ValueError: {error}")
        self._skip_warm_up = skip_warm_up
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def ready(self) -> bool:
        """Tell whether the warm-up is over."""
        return self.state.ready

    @property
    def draining(self) -> bool:
        """Tell whether the server has been told to end."""
        return self.state.draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self.state.draining = draining

    def app(self) -> ASGIApp:
        """Make the application; its lifespan runs the scheduler and the warm-up."""
        facts = self.state.facts
        handlers = {HTTPException: _http_error, UnreadableBodyError: _unreadable}
        routes = [
            _route(path, methods, endpoint)
            for path, methods, endpoint in _routes(self.state)
            if facts.how.has_route(path)
        ]
        if facts.args["enable_metrics"]:
            routes.append(_route("/metrics", "GET", _metrics_route(self.state)))
        application = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._live)
        api, admin = (str(facts.args.get(name) or "") for name in ("api_key", "admin_api_key"))
        keys = ServerKeys(api, admin)
        return Gate(application, keys, self.state.scenario, self.state.ready_for_s)

    @contextlib.asynccontextmanager
    async def _live(self, _: Starlette) -> AsyncIterator[None]:
        for work in (self.scheduler.run(), self._warm_up()):
            task = asyncio.create_task(work)
            task.add_done_callback(_end_on_failure)
            self._tasks.append(task)
        yield
        for task in self._tasks:
            task.cancel()

    async def _warm_up(self) -> None:
        if not self._skip_warm_up:
            engine = self.scheduler.engine
            limit = min(_WARM_UP_TOKENS, engine.settings.context_tokens)
            await last_of(self.scheduler.submit("warm_up", engine.open(_WARM_UP_PROMPT, limit)))
        self.state.ready_since_s = self.state.clock.now_s()
        SERVER.info(READY_LINE)


def _route(path: str, methods: str, endpoint: Endpoint) -> Route:
    """Make a route that refuses HEAD, as SGLang's do."""
    route = Route(path, endpoint, methods=methods.split())
    if route.methods is not None:
        route.methods.discard("HEAD")
    return route


def _routes(state: ServerState) -> list[tuple[str, str, Endpoint]]:
    health, control, generation = HealthRoutes(state), ControlRoutes(state), GenerationRoutes(state)
    return [
        ("/health", "GET", health.health),
        ("/health_generate", "GET", health.health),
        ("/ready", "GET", health.ready),
        ("/ping", "GET", health.ping),
        ("/server_info", "GET", control.server_info),
        ("/get_server_info", "GET", control.server_info),
        ("/model_info", "GET", control.model_info),
        ("/get_model_info", "GET", control.model_info),
        ("/v1/models", "GET", control.models),
        ("/v1/models/{model:path}", "GET", control.model),
        ("/flush_cache", "GET POST", control.flush_cache),
        ("/abort_request", "POST", control.abort_request),
        ("/set_internal_state", "POST PUT", control.set_internal_state),
        ("/get_load", "GET", control.get_load),
        ("/v1/loads", "GET", control.loads),
        ("/add_external_corpus", "POST", control.add_corpus),
        ("/remove_external_corpus", "POST", control.remove_corpus),
        ("/list_external_corpora", "GET", control.list_corpora),
        ("/generate", "POST PUT", generation.generate),
        ("/v1/completions", "POST", generation.complete),
        ("/v1/chat/completions", "POST", generation.chat),
    ]


def _metrics_route(state: ServerState) -> Endpoint:
    """Start to collect metrics; only a server that exports them pays for the import."""
    from infra.emulated.serving.metrics import CONTENT_TYPE, Metrics

    graphs = state.facts.start_times_s.get("cuda_graph")
    graph_s = dict(graphs) if isinstance(graphs, dict) else {}
    metrics = Metrics(state.facts.how, state.facts.model, state.scheduler, graph_s)
    state.scheduler.watcher = metrics

    async def show(_: Request) -> Response:
        return Response(metrics.exposition(), media_type=CONTENT_TYPE)

    return show


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    body = orjson.dumps({"detail": error.detail})
    return Response(body, error.status_code, error.headers, media_type="application/json")


async def _unreadable(_: Request, error: Exception) -> Response:
    body = orjson.dumps(openai_error(str(error), "Bad Request"))
    return Response(body, 400, media_type="application/json")


def _end_on_failure(task: asyncio.Task[None]) -> None:
    """A loop that ends by an error takes the server with it, as a scheduler process does."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        RANK.error("Emulation failed", exc_info=error)
        die(repr(error))
