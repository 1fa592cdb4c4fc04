"""The bodies of the OpenAI routes, in the shapes of a version."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

import orjson

from infra.emulated.engine import Generation
from infra.emulated.scenario import Usage
from infra.emulated.serving.jobs import Emission, Job
from infra.emulated.serving.replies import (
    DONE,
    Json,
    Style,
    figures,
    finish_reason,
    meta_info,
    sse,
    visible_text,
    weight_versions,
)
from infra.emulated.text import render_all
from infra.emulated.versions import Figure
from infra.sglang.protocol import Feature

_MARK = "\x00"
_WRONG_FACTOR = 1.5
_FALLING_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an OpenAI request wants to be told besides the text."""

    model: str
    include_usage: bool = False
    continuous_usage: bool = False
    spec_details: bool = False
    output_ids: bool = False
    input_ids: bool = False
    reasoning: bool = False
    meta_info: bool = False
    usage: Usage | None = None
    """How the usage goes wrong; None: as asked."""
    usage_with_choice: bool = False


def openai_error(message: str, kind: str = "BadRequestError", code: int = 400) -> Json:
    """Return the error body of the OpenAI routes, and of bodies that cannot be read."""
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}


def usage_of(prompt_tokens: int, completion_tokens: int, cached_tokens: int | None = None) -> Json:
    """Return the usage block; `cached_tokens` only where a report is wanted."""
    details = None if cached_tokens is None else {"cached_tokens": cached_tokens}
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": details,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


class _Usage:
    """The usage blocks of one stream, honest or not."""

    def __init__(self, generation: Generation, wishes: Wishes, style: Style) -> None:
        self._generation = generation
        self._kind = wishes.usage
        self._style = style
        self.final = wishes.include_usage
        self.each = wishes.continuous_usage
        if self._kind is not None:
            self.final = self._kind is not Usage.NONE
            self.each = self._kind not in (Usage.NONE, Usage.FINAL)
        self.each = self.each and style.how.has(Feature.CONTINUOUS_USAGE)
        prompt = len(generation.prompt)
        self._prompt = prompt
        marked = orjson.dumps(usage_of(0, 0))
        head, rest = marked.split(b'"total_tokens":0', 1)
        middle, tail = rest.split(b'"completion_tokens":0', 1)
        head = head.replace(b'"prompt_tokens":0', b'"prompt_tokens":%d' % prompt)
        self._frame = (
            b',"usage":' + head + b'"total_tokens":',
            middle + b'"completion_tokens":',
            tail,
        )

    def told(self, completion_tokens: int) -> int:
        """Return what the block claims."""
        if self._kind is Usage.WRONG:
            return int(completion_tokens * _WRONG_FACTOR)
        limit = self._generation.limit_tokens
        if self._kind is Usage.FALLING and completion_tokens * 2 > limit:
            return max(0, completion_tokens - int(limit * _FALLING_SHARE))
        return completion_tokens

    def fragment(self, completion_tokens: int) -> bytes:
        """Return the block as it goes into a chunk."""
        told = self.told(completion_tokens)
        before, between, after = self._frame
        return b"%b%d%b%d%b" % (before, self._prompt + told, between, told, after)

    def block(self, completion_tokens: int) -> Json:
        """Return the block that closes a stream."""
        cached = self._generation.cached_tokens if self._style.cache_report else None
        return usage_of(self._prompt, self.told(completion_tokens), cached)


class OpenAiStream:
    """The chunks of one choice of a chat or completion request: text comes piece by piece."""

    kind = "chat.completion.chunk"

    def __init__(self, job: Job, style: Style, wishes: Wishes, index: int = 0) -> None:
        self.job = job
        self.style = style
        self.wishes = wishes
        self.index = index
        self.usage = _Usage(job.generation, wishes, style)
        self.head: Json = {
            "id": job.rid,
            "object": self.kind,
            "created": int(time.time()),
            "model": wishes.model,
        }
        self._before, self._after = self._content_frame()

    @property
    def tells_failure(self) -> bool:
        """Tell whether the version says why the server gave a request up."""
        return self.style.how.has(Feature.ABORT_IN_CHAT)

    def first(self) -> bytes:
        """Return what opens the stream."""
        return b""

    def chunk(self, emission: Emission) -> bytes:
        """Return the chunk of one step; nothing for a step without tokens."""
        if not emission.tokens:
            return b""
        text = visible_text(self.job.generation, render_all(emission.tokens), emission)
        body = self._before + orjson.dumps(text) + self._after
        if not self.usage.each:
            return body + b"}\n\n"
        return body + self.usage.fragment(emission.completion_tokens) + b"}\n\n"

    def last(self, emission: Emission) -> bytes:
        """Return the chunk that says why the choice ended."""
        if emission.failure:
            return self.broken(emission.failure)
        return sse({**self.head, "choices": [self.closing_choice(emission)]})

    def broken(self, message: str) -> bytes:
        """Return the event by which a stream that has begun tells of its failure."""
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        return sse({"error": openai_error(message, status.name, status.value)})

    def closing_choice(self, emission: Emission) -> Json:
        """Return the choice of the last chunk."""
        delta: Json = {"reasoning_content": None}
        return self.framed({"delta": delta}, finish_reason(self.job.generation, emission))

    def framed(self, content: Json, reason: Json | None = None) -> Json:
        """Put content into a choice."""
        return {
            "index": self.index,
            **content,
            "logprobs": None,
            "finish_reason": reason["type"] if reason else None,
            "matched_stop": reason.get("matched") if reason else None,
        }

    def content(self, text: str) -> Json:
        """Return the part of a choice that carries text."""
        delta: Json = {"reasoning_content": None, "content": text}
        return {"delta": {"reasoning_content": text} if self.wishes.reasoning else delta}

    def message(self, text: str) -> Json:
        """Return the part of a whole reply's choice that carries text."""
        shown: Json = {"role": "assistant", "content": text, "reasoning_content": None}
        if self.wishes.reasoning:
            shown = {"role": "assistant", "content": None, "reasoning_content": text}
        return {"message": shown}

    def whole_choice(self, emission: Emission) -> Json:
        """Return the choice of a request that does not stream."""
        generation = self.job.generation
        ids = generation.output[: emission.completion_tokens]
        text = visible_text(generation, render_all(ids), emission)
        choice = self.framed(self.message(text), finish_reason(generation, emission))
        if self.wishes.meta_info and self.style.how.has(Feature.META_IN_CHAT):
            meta = meta_info(self.job, emission, self.style)
            choice["meta_info"] = {**meta, "response_sent_to_client_ts": time.time()}
        return choice

    def _content_frame(self) -> tuple[bytes, bytes]:
        """Split a content chunk around its text, so that a stream renders it once."""
        whole = sse({**self.head, "choices": [self.framed(self.content(_MARK))]})
        before, after = whole.removesuffix(b"}\n\n").split(orjson.dumps(_MARK))
        return before, after


class ChatStream(OpenAiStream):
    """A choice of a chat request."""

    def first(self) -> bytes:
        """Return the chunk that names the role."""
        delta: Json = {"reasoning_content": None, "role": "assistant", "content": ""}
        return sse({**self.head, "choices": [self.framed({"delta": delta})]})


class CompletionStream(OpenAiStream):
    """A choice of a completion request."""

    kind = "text_completion"

    def content(self, text: str) -> Json:
        """Return the part of a choice that carries text."""
        return {"text": text}

    def message(self, text: str) -> Json:
        """Return the same: whole replies have no other form."""
        return {"text": text}

    def closing_choice(self, emission: Emission) -> Json:
        """Return a choice without text."""
        return self.framed({"text": ""}, finish_reason(self.job.generation, emission))


def closing(streams: Sequence[OpenAiStream], ends: Sequence[Emission], copies: int = 1) -> bytes:
    """Return what comes after the last choice: the figures asked for, and the end mark."""
    lead = streams[0]
    parts = []
    if extra := extension(streams):
        parts.append(sse({**lead.head, "choices": [], "usage": None, "sglext": extra}))
    if lead.usage.final:
        choices = [lead.framed(lead.content(""))] if lead.wishes.usage_with_choice else []
        if len(streams) == 1:
            usage = lead.usage.block(ends[0].completion_tokens)
        else:
            usage = total_usage(streams, ends, copies)
        parts.append(sse({**lead.head, "choices": choices, "usage": usage}))
    return b"".join([*parts, DONE])


def total_usage(streams: Sequence[OpenAiStream], ends: Sequence[Emission], copies: int) -> Json:
    """Return the usage of all choices together; each prompt counts once."""
    prompts = [stream.job.generation for stream in streams[::copies]]
    cached = sum(prompt.cached_tokens for prompt in prompts)
    written = sum(end.completion_tokens for end in ends)
    report = streams[0].style.cache_report
    return usage_of(sum(len(p.prompt) for p in prompts), written, cached if report else None)


def extension(streams: Sequence[OpenAiStream]) -> Json:
    """Return SGLang's own additions, as far as they were asked for and the version has them."""
    lead = streams[0]
    extra: Json = {}
    how, speculates = lead.style.how, lead.style.speculates and lead.job.generation.verifies
    if lead.wishes.spec_details and speculates and how.has(Feature.CHAT_VERIFY_COUNT):
        extra["spec_tokens_details"] = _details(lead.job.generation, lead.style)
    if not how.has(Feature.CHAT_IDS):
        return extra
    if lead.wishes.output_ids:
        extra["output_ids"] = [list(stream.job.generation.output) for stream in streams]
    if lead.wishes.input_ids:
        extra["input_ids"] = list(lead.job.generation.prompt)
    return extra


def whole(streams: Sequence[OpenAiStream], ends: Sequence[Emission], copies: int = 1) -> Json:
    """Return the reply of a request that does not stream."""
    lead = streams[0]
    pairs = zip(streams, ends, strict=True)
    body: Json = {
        **lead.head,
        "object": lead.kind.removesuffix(".chunk"),
        "choices": [stream.whole_choice(end) for stream, end in pairs],
        "usage": total_usage(streams, ends, copies),
        "metadata": {
            "weight_version": lead.style.weight_version,
            "weight_versions": weight_versions(lead.style, ends[0].completion_tokens),
        },
    }
    extra = extension(streams)
    return {**body, "sglext": extra} if extra else body


def _details(generation: Generation, style: Style) -> Json:
    """Return the accept figures; the fields that only capped verification fills stay empty."""
    values = figures(generation, style)
    return {
        "spec_accept_rate": values[Figure.RATE],
        "spec_accept_length": values[Figure.LENGTH],
        "spec_cap_length": 0.0,
        "spec_block_accept_length": 0.0,
        "spec_num_correct_drafts": values[Figure.CORRECT],
        "spec_num_proposed_drafts": values[Figure.PROPOSED],
        "spec_verify_ct": values[Figure.VERIFIES],
        "spec_correct_drafts_histogram": values[Figure.HISTOGRAM],
        "spec_cap_lens_histogram": [],
    }
