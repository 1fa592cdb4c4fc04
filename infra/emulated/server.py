"""The HTTP side of the emulated server: SGLang's routes over one scheduler."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from infra.clock import Clock
from infra.emulated import replies
from infra.emulated.logs import RANK, SERVER, die
from infra.emulated.requests import (
    Asked,
    BadRequestError,
    UnreadableBodyError,
    chat_options,
    read_body,
    read_chat,
    read_generate,
)
from infra.emulated.scheduler import Emission, Job, Scheduler
from infra.emulated.text import render_all
from sweeps.values import Value

READY_LINE = "The server is fired up and ready to roll!"
_WARM_UP_PROMPT = "The capital city of France is"
_WARM_UP_TOKENS = 8
_HEALTH_S = 1.0
"""Host seconds that SGLang waits before it looks whether its probe came back."""
_HEALTH_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What `/server_info` and `/model_info` say and no request changes."""

    args: Mapping[str, Value]
    launch_command: str
    version: str
    environment: Mapping[str, str]
    start_times_s: Mapping[str, object]
    memory_gib: Mapping[str, float]
    graph_sizes: tuple[int, ...]

    @property
    def model(self) -> str:
        """Return the name that the model is served under."""
        return str(self.args["served_model_name"])


@dataclass(slots=True)
class EmulatedServer:
    """The state behind the routes. Belongs to one event loop."""

    scheduler: Scheduler
    clock: Clock
    facts: ServerFacts
    skip_warm_up: bool = False
    ready: bool = False
    draining: bool = False
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def app(self) -> Starlette:
        """Make the application; its lifespan runs the scheduler and the warm-up."""
        both = ["GET", "POST"]
        return Starlette(
            routes=[
                Route("/health", self.health),
                Route("/health_generate", self.health),
                Route("/server_info", self.server_info),
                Route("/get_server_info", self.server_info),
                Route("/model_info", self.model_info),
                Route("/get_model_info", self.model_info),
                Route("/v1/models", self.models),
                Route("/flush_cache", self.flush_cache, methods=both),
                Route("/generate", self.generate, methods=["POST", "PUT"]),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/abort_request", self.abort_request, methods=["POST"]),
            ],
            exception_handlers={
                HTTPException: _http_error,
                UnreadableBodyError: _unreadable,
            },
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        for work in (self.scheduler.run(), self._warm_up()):
            task = asyncio.create_task(work)
            task.add_done_callback(_end_on_failure)
            self._tasks.append(task)
        yield
        for task in self._tasks:
            task.cancel()

    async def _warm_up(self) -> None:
        if not self.skip_warm_up:
            engine = self.scheduler.engine
            limit = min(_WARM_UP_TOKENS, engine.settings.context_tokens)
            job = self.scheduler.submit("warm_up", engine.open(_WARM_UP_PROMPT, limit))
            await _last(job)
        self.ready = True
        SERVER.info(READY_LINE)

    async def health(self, _: Request) -> Response:
        """Answer as SGLang does: by generating a token if nothing runs, else by any progress."""
        if not self.ready or self.draining:
            return Response(status_code=503)
        if self.scheduler.idle:
            probe = self.scheduler.engine.open([0], 1)
            self.scheduler.submit(f"HEALTH_CHECK_{time.time()}", probe)
            await asyncio.sleep(self.clock.real_s(_HEALTH_S))
            return Response(status_code=200)
        before = self.scheduler.totals.steps
        until_s = self.clock.now_s() + _HEALTH_LIMIT_S
        while self.clock.now_s() < until_s:
            await asyncio.sleep(self.clock.real_s(_HEALTH_S))
            if self.scheduler.idle or self.scheduler.totals.steps != before:
                return Response(status_code=200)
        SERVER.error("Health check failed. Server couldn't get a response from detokenizer.")
        return Response(status_code=503)

    async def server_info(self, _: Request) -> Response:
        """Return all resolved arguments and the scheduler's state."""
        facts, scheduler = self.facts, self.scheduler
        room = scheduler.engine.kv_room_tokens
        totals = scheduler.totals
        state: replies.Json = {
            **facts.args,
            "world_size": facts.args["tp_size"],
            "startup_time": dict(facts.start_times_s),
            "effective_max_running_requests_per_dp": facts.args["max_running_requests"],
            "last_gen_throughput": totals.last_gen_throughput,
            "memory_usage": {**facts.memory_gib, "token_capacity": room},
            "decode_cuda_graph_bs": list(facts.graph_sizes),
            "env_vars": dict(facts.environment),
            "emulated_lag_s": scheduler.lag_s,
        }
        if totals.verifies:
            state["avg_spec_accept_length"] = totals.verified_tokens / totals.verifies
        return _json(
            {
                **facts.args,
                "launch_command": facts.launch_command,
                "status": "ready" if self.ready else "starting",
                "max_total_num_tokens": room,
                "max_req_input_len": min(room, scheduler.engine.settings.context_tokens) - 6,
                "startup_time": dict(facts.start_times_s),
                "internal_states": [state],
                "version": facts.version,
                "frontend": "python",
                "emulated": True,
            }
        )

    async def model_info(self, _: Request) -> Response:
        """Describe the model."""
        args = self.facts.args
        return _json(
            {
                "model_path": args["model_path"],
                "served_model_name": args["served_model_name"],
                "tokenizer_path": args["tokenizer_path"],
                "is_generation": True,
                "preferred_sampling_params": None,
                "weight_version": replies.WEIGHT_VERSION,
                "load_format": args["load_format"],
                "reasoning_parser": args["reasoning_parser"],
                "tool_call_parser": args["tool_call_parser"],
                "disaggregation_mode": "null",
                "has_image_understanding": False,
                "has_audio_understanding": False,
                "model_type": "kimi_k25",
                "architectures": ["KimiK25ForConditionalGeneration"],
            }
        )

    async def models(self, _: Request) -> Response:
        """List the one model."""
        name = self.facts.model
        entry = {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": name,
            "parent": None,
            "max_model_len": self.scheduler.engine.settings.context_tokens,
        }
        return _json({"object": "list", "data": [entry]})

    async def flush_cache(self, request: Request) -> Response:
        """Empty the caches; refused while requests run, unless `timeout` host seconds suffice."""
        wait_s = float(request.query_params.get("timeout") or 0.0)
        until_s = self.clock.now_s() + wait_s
        while not self.scheduler.idle and self.clock.now_s() < until_s:
            await asyncio.sleep(min(0.05, self.clock.real_s(wait_s)))
        if not self.scheduler.flush():
            return PlainTextResponse(replies.FLUSH_REFUSED, status_code=400)
        RANK.info("Cache flushed successfully!")
        return PlainTextResponse(replies.FLUSHED)

    async def abort_request(self, request: Request) -> Response:
        """End one request by id, or all."""
        body = read_body(await request.body())
        self.scheduler.abort(str(body.get("rid") or "\0"), every=bool(body.get("abort_all")))
        return Response(status_code=200)

    async def generate(self, request: Request) -> Response:
        """Serve SGLang's own generation route."""
        body = read_body(await request.body())
        try:
            asked = read_generate(body, self.scheduler.engine)
        except BadRequestError as error:
            return _refuse_native(str(error), stream=bool(body.get("stream")))
        job = self._submit(asked)
        native = replies.NativeStream(
            asked.rid, asked.generation, job.arrived_s, self._draft_tokens
        )
        if asked.stream:
            return EventStream(self._native_events(job, native))
        emission = await self._whole(request, job)
        whole = Emission(
            tuple(asked.generation.output),
            emission.completion_tokens,
            emission.at_s,
            finished=True,
            aborted=emission.aborted,
        )
        return _json(native.body(whole))

    async def chat(self, request: Request) -> Response:
        """Serve the OpenAI chat route."""
        body = read_body(await request.body())
        try:
            asked = read_chat(body, self.scheduler.engine)
        except BadRequestError as error:
            return _json(replies.openai_error(str(error)), status=400)
        job = self._submit(asked)
        reasoning = self.facts.args["reasoning_parser"] is not None
        options = chat_options(body, self.facts.model, reasoning=reasoning)
        chat = replies.ChatStream(asked.rid, asked.generation, self._draft_tokens, options)
        if asked.stream:
            return EventStream(self._chat_events(job, chat))
        emission = await self._whole(request, job)
        return _json(chat.whole(emission, render_all(asked.generation.output)))

    @property
    def _draft_tokens(self) -> int:
        return self.scheduler.engine.settings.draft_tokens

    def _submit(self, asked: Asked) -> Job:
        return self.scheduler.submit(asked.rid, asked.generation)

    async def _native_events(self, job: Job, native: replies.NativeStream) -> AsyncIterator[bytes]:
        try:
            finished = False
            while not finished:
                taken = await job.take()
                finished = taken[-1].finished
                events = [native.chunk(emission) for emission in taken]
                yield b"".join([*events, replies.DONE] if finished else events)
        finally:
            self.scheduler.drop(job)

    async def _chat_events(self, job: Job, chat: replies.ChatStream) -> AsyncIterator[bytes]:
        try:
            opened = finished = False
            while not finished:
                taken = await job.take()
                events = [] if opened else [chat.first()]
                opened = True
                events += [chat.chunk(emission) for emission in taken if emission.tokens]
                finished = taken[-1].finished
                if finished:
                    events.append(chat.last(taken[-1]))
                yield b"".join(events)
        finally:
            self.scheduler.drop(job)

    async def _whole(self, request: Request, job: Job) -> Emission:
        """Wait for the end of a request; give it up when its client goes away."""
        gone = asyncio.create_task(_disconnected(request.receive))
        end = asyncio.create_task(_last(job))
        try:
            await asyncio.wait({gone, end}, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                raise HTTPException(499)
            return end.result()
        finally:
            gone.cancel()
            end.cancel()
            self.scheduler.drop(job)


class EventStream(Response):
    """Sends server-sent events as they come, and stops when the client goes away."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        self._events = events
        self.status_code = 200
        self.background = None
        self.init_headers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the events or the client end; Starlette's own imports more on first use."""
        pump = asyncio.create_task(self._pump(send))
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
        finally:
            pump.cancel()
            gone.cancel()

    async def _pump(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for chunk in self._events:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _last(job: Job) -> Emission:
    while True:
        emission = (await job.take())[-1]
        if emission.finished:
            return emission


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _json(body: replies.Json, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")


def _refuse_native(message: str, *, stream: bool) -> Response:
    """Refuse a request: SGLang sends the error of a stream inside a 200."""
    error = replies.native_error(message)
    if not stream:
        return _json(error, status=400)
    return Response(replies.sse(error) + replies.DONE, media_type="text/event-stream")


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"detail": error.detail}, status=error.status_code)


async def _unreadable(_: Request, error: Exception) -> Response:
    return _json(replies.openai_error(str(error), "Bad Request"), status=400)


def _end_on_failure(task: asyncio.Task[None]) -> None:
    """A loop that ends by an error takes the server with it, as a scheduler process does."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        RANK.error("Emulation failed", exc_info=error)
        die(repr(error))
