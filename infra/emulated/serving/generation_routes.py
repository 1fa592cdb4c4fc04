"""The routes of the emulated server that generate text."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from infra.emulated.scenario import StreamWorld
from infra.emulated.serving import openai_replies as openai
from infra.emulated.serving import replies
from infra.emulated.serving.jobs import Emission, Job
from infra.emulated.serving.requests import (
    Batch,
    read_batch,
    read_chat_batch,
    read_completion,
    read_wishes,
)
from infra.emulated.serving.state import ServerState
from infra.emulated.serving.streaming import (
    FAILURE,
    EventStream,
    Flow,
    Frames,
    Mishap,
    Shape,
    disconnected,
    only,
)
from infra.emulated.serving.validation import BadRequestError, BadSamplingError, read_body
from infra.emulated.versions import StreamForm

_HEALTHY_STREAM = StreamWorld()
_GONE_LOOK_S = 4.0
"""Host seconds between the looks whether the client of a whole reply is still there."""
_CLIENT_CLOSED_REQUEST = 499
_NEVER_S = 3600.0


class GenerationRoutes:
    """Generation on one server."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def generate(self, request: Request) -> Response:
        """Serve SGLang's own generation route."""
        body = read_body(await request.body())
        try:
            batch = read_batch(body, self._state.scheduler.engine)
            self._refuse_twins(batch)
        except BadSamplingError as error:
            return _json({"error": str(error)}, status=400)
        except BadRequestError as error:
            return _refuse_native(str(error), stream=bool(body.get("stream")))
        number = next(self._state.numbers)
        world = self._world(number)
        style = self._state.style
        if world.form is not None:
            style = replace(style, form=StreamForm(world.form.value))
        jobs = await self._submit(batch, number)
        answers = [
            replies.NativeStream(job, style, place if batch.is_list else None)
            for place, job in enumerate(jobs)
        ]
        if batch.stream:
            return self._stream(answers, lambda _: replies.DONE, world, number)
        ends = await self._whole(request, jobs, world)
        bodies = [answer.whole(end) for answer, end in zip(answers, ends, strict=True)]
        return _json(bodies if batch.is_list else bodies[0])

    async def chat(self, request: Request) -> Response:
        """Serve the OpenAI chat route."""
        return await self._openai(request, read_chat_batch, openai.ChatStream)

    async def complete(self, request: Request) -> Response:
        """Serve the OpenAI completion route."""
        return await self._openai(request, read_completion, openai.CompletionStream)

    async def _openai(
        self,
        request: Request,
        read: Callable[..., Batch],
        make: type[openai.OpenAiStream],
    ) -> Response:
        body = read_body(await request.body())
        state = self._state
        try:
            batch = read(body, state.scheduler.engine)
            self._refuse_twins(batch)
        except BadRequestError as error:
            return _json(openai.openai_error(str(error), error.kind), status=400)
        number = next(state.numbers)
        world = self._world(number)
        reasoning = state.facts.args["reasoning_parser"] is not None
        wants_ids = request.headers.get("x-sglext-return-output-ids") == "1"
        wishes = read_wishes(
            body, state.facts.model, world, reasoning=reasoning, wants_ids=wants_ids
        )
        jobs = await self._submit(batch, number)
        answers = [make(job, state.style, wishes, place) for place, job in enumerate(jobs)]
        if batch.stream:
            return self._stream(
                answers, lambda ends: openai.closing(answers, ends, batch.copies), world, number
            )
        ends = await self._whole(request, jobs, world)
        return _json(openai.whole(answers, ends, batch.copies))

    def _world(self, number: int) -> StreamWorld:
        """Return what befalls the stream of a request."""
        world = self._state.scenario.now.stream
        return world if world.request in (0, number) else _HEALTHY_STREAM

    def _refuse_twins(self, batch: Batch) -> None:
        """Refuse an id that a running request has. Raises BadRequestError."""
        running = set(self._state.scheduler.remaining)
        for asked in batch.requests:
            if asked.rid in running:
                raise BadRequestError(f"Duplicate request ID detected: {asked.rid}")

    async def _submit(self, batch: Batch, number: int) -> list[Job]:
        """Queue all parts of a request; the copies of a prompt find it in the cache."""
        scheduler = self._state.scheduler
        if batch.copies > 1:
            lead = batch.requests[0]
            prompt = scheduler.engine.open(lead.generation.prompt, 0)
            await last_of(scheduler.submit(f"{lead.rid}_prefix", prompt))
        ready = asyncio.Event()
        return [
            scheduler.submit(
                asked.rid, asked.generation, number=number, streams=batch.stream, ready=ready
            )
            for asked in batch.requests
        ]

    def _stream(
        self,
        answers: Sequence[Frames],
        close: Callable[[Sequence[Emission]], bytes],
        world: StreamWorld,
        number: int,
    ) -> Response:
        jobs = [answer.job for answer in answers]
        if world is _HEALTHY_STREAM:
            flow = Flow(answers, close)
        else:
            seed = str(self._state.facts.args["random_seed"])
            flow = Flow(answers, close, Shape(world, f"{seed}:{number}"), Mishap(world))
        events = only() if world.empty_body else flow.events()
        return EventStream(events, lambda: self._drop(jobs))

    def _drop(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._state.scheduler.drop(job)

    async def _whole(
        self, request: Request, jobs: Sequence[Job], world: StreamWorld
    ) -> list[Emission]:
        """Wait for the end of a request; give it up some time after its client has left."""
        clock = self._state.clock
        gone = asyncio.create_task(disconnected(request.receive))
        end = asyncio.create_task(_ends(jobs))
        started_s = clock.now_s()
        try:
            await asyncio.wait({gone, end}, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                waited_s = clock.now_s() - started_s
                rest_s = _GONE_LOOK_S - waited_s % _GONE_LOOK_S
                await asyncio.wait({end}, timeout=clock.real_s(rest_s))
                raise HTTPException(_CLIENT_CLOSED_REQUEST)
            await _misreply(world)
            return end.result()
        finally:
            gone.cancel()
            end.cancel()
            self._drop(jobs)


async def last_of(job: Job) -> Emission:
    """Wait for the end of a request."""
    return (await _ends([job]))[0]


async def _ends(jobs: Sequence[Job]) -> list[Emission]:
    ends: dict[Job, Emission] = {}
    while len(ends) < len(jobs):
        await jobs[0].ready.wait()
        jobs[0].ready.clear()
        for job in jobs:
            taken = job.take_now()
            if taken and taken[-1].finished:
                ends[job] = taken[-1]
    return [ends[job] for job in jobs]


async def _misreply(world: StreamWorld) -> None:
    """Let a whole reply fail as its stream would. Raises HTTPException."""
    if world.stall_after_tokens:
        await asyncio.sleep(_NEVER_S)
    if world.error_after_tokens:
        raise HTTPException(500, FAILURE)


def _json(body: object, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")


def _refuse_native(message: str, *, stream: bool) -> Response:
    """Refuse a request: SGLang sends the error of a stream inside a 200."""
    error = replies.native_error(message, stream=stream)
    if not stream:
        return _json(error, status=400)
    return EventStream(only(replies.sse(error) + replies.DONE), lambda: None)
