"""The bodies that the emulated server sends, in the shapes of SGLang 0.5.23."""

import time
from dataclasses import dataclass, field

import orjson

from infra.emulated.engine import Generation
from infra.emulated.scheduler import Emission
from infra.emulated.text import render_all

Json = dict[str, object]
DONE = b"data: [DONE]\n\n"
WEIGHT_VERSION = "default"
FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)
FLUSH_REFUSED = "Flush cache failed.\n"


def sse(body: Json) -> bytes:
    """Frame one server-sent event."""
    return b"data: " + orjson.dumps(body) + b"\n\n"


def openai_error(message: str, kind: str = "BadRequestError") -> Json:
    """Return the error body of the OpenAI routes, and of bodies that cannot be read."""
    return {"object": "error", "message": message, "type": kind, "param": None, "code": 400}


def native_error(message: str) -> Json:
    """Return the error body of `/generate`."""
    error = {"message": message, "type": "invalid_request_error", "code": 400, "retryable": False}
    return {"error": error}


def finish_reason(emission: Emission) -> Json | None:
    """Say why a request ended; None while it runs."""
    if emission.aborted:
        return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
    if emission.finished:
        return {"type": "length", "length": emission.completion_tokens}
    return None


def speculation(generation: Generation, draft_tokens: int) -> Json:
    """Return the accept figures of a finished request; empty without a verify."""
    verifies = generation.verifies
    if not verifies:
        return {}
    proposed = verifies * (draft_tokens - 1)
    return {
        "spec_accept_rate": generation.correct_drafts / proposed if proposed else 0.0,
        "spec_accept_length": len(generation.output) / verifies,
        "spec_num_correct_drafts": generation.correct_drafts,
        "spec_num_proposed_drafts": proposed,
        "spec_verify_ct": verifies,
        "spec_correct_drafts_histogram": list(generation.histogram),
    }


def meta_info(
    rid: str, generation: Generation, emission: Emission, *, e2e_s: float, draft_tokens: int
) -> Json:
    """Return `meta_info` of a chunk; the figures of the whole request only with the last."""
    cached = generation.cached_tokens
    meta: Json = {
        "id": rid,
        "finish_reason": finish_reason(emission),
        "prompt_tokens": len(generation.prompt),
        "weight_version": WEIGHT_VERSION,
        "num_retractions": 0,
        "reasoning_tokens": 0,
        "completion_tokens": emission.completion_tokens,
        "cached_tokens": cached,
    }
    if emission.finished:
        meta["weight_versions"] = _weight_versions(emission.completion_tokens)
    meta["cached_tokens_details"] = {"device": cached, "host": 0} if cached else None
    meta["dp_rank"] = None
    if emission.finished:
        meta["e2e_latency"] = e2e_s
        meta.update(speculation(generation, draft_tokens))
    return meta


@dataclass(slots=True)
class NativeStream:
    """The chunks of one `/generate` request: text and ids are cumulative."""

    rid: str
    generation: Generation
    arrived_s: float
    draft_tokens: int
    text: str = ""
    ids: list[int] = field(default_factory=list)
    sent: bool = False

    def body(self, emission: Emission) -> Json:
        """Return one reply: the state after an emission."""
        self.text += render_all(emission.tokens)
        self.ids += emission.tokens
        meta = meta_info(
            self.rid,
            self.generation,
            emission,
            e2e_s=emission.at_s - self.arrived_s,
            draft_tokens=self.draft_tokens,
        )
        if not self.sent:
            meta["response_sent_to_client_ts"] = time.time()
            self.sent = True
        return {"text": self.text, "output_ids": self.ids, "meta_info": meta}

    def chunk(self, emission: Emission) -> bytes:
        """Return one server-sent event."""
        return sse(self.body(emission))


@dataclass(slots=True)
class ChatOptions:
    """What a chat request wants to be told besides the text."""

    model: str
    include_usage: bool = False
    continuous_usage: bool = False
    spec_details: bool = False
    output_ids: bool = False
    reasoning: bool = False


class ChatStream:
    """The chunks of one chat request: text comes piece by piece."""

    def __init__(
        self, rid: str, generation: Generation, draft_tokens: int, options: ChatOptions
    ) -> None:
        self._generation = generation
        self._draft_tokens = draft_tokens
        self._options = options
        self._head: Json = {
            "id": rid,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": options.model,
        }
        self._pieces = _content_frame(self._head, reasoning=options.reasoning)

    def first(self) -> bytes:
        """Return the chunk that opens the stream."""
        delta: Json = {"reasoning_content": None, "role": "assistant", "content": ""}
        return sse({**self._head, "choices": [_choice(delta)]})

    def chunk(self, emission: Emission) -> bytes:
        """Return the chunk of one step."""
        before, after = self._pieces
        head = before + orjson.dumps(render_all(emission.tokens)) + after
        if not self._options.continuous_usage:
            return head + b"}\n\n"
        usage = orjson.dumps(usage_of(self._generation, emission.completion_tokens))
        return head + b',"usage":' + usage + b"}\n\n"

    def last(self, emission: Emission) -> bytes:
        """Return what closes the stream: the reason, the figures asked for, and the end mark."""
        reason = finish_reason(emission) or {}
        delta: Json = {"reasoning_content": None}
        choice = _choice(delta, finish=reason.get("type"))
        parts = [sse({**self._head, "choices": [choice]})]
        extra = self.extension()
        if extra:
            parts.append(sse({**self._head, "choices": [], "usage": None, "sglext": extra}))
        if self._options.include_usage:
            usage = usage_of(self._generation, emission.completion_tokens)
            parts.append(sse({**self._head, "choices": [], "usage": usage}))
        return b"".join([*parts, DONE])

    def extension(self) -> Json:
        """Return SGLang's own additions, as far as they were asked for."""
        extra: Json = {}
        figures = speculation(self._generation, self._draft_tokens)
        if self._options.spec_details and figures:
            extra["spec_tokens_details"] = _with_caps(figures)
        if self._options.output_ids:
            extra["output_ids"] = [list(self._generation.output)]
        return extra

    def whole(self, emission: Emission, text: str) -> Json:
        """Return the reply of a request that does not stream."""
        reason = finish_reason(emission) or {}
        shown: Json = {"role": "assistant", "content": text, "reasoning_content": None}
        if self._options.reasoning:
            shown = {"role": "assistant", "content": None, "reasoning_content": text}
        body: Json = {
            **self._head,
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": shown,
                    "logprobs": None,
                    "finish_reason": reason.get("type"),
                    "matched_stop": None,
                }
            ],
            "usage": usage_of(self._generation, emission.completion_tokens),
            "metadata": {
                "weight_version": WEIGHT_VERSION,
                "weight_versions": _weight_versions(emission.completion_tokens),
            },
        }
        extra = self.extension()
        return {**body, "sglext": extra} if extra else body


def usage_of(generation: Generation, completion_tokens: int) -> Json:
    """Return the usage block for a number of tokens written so far."""
    prompt = len(generation.prompt)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


def _choice(delta: Json, finish: object = None) -> Json:
    return {
        "index": 0,
        "delta": delta,
        "logprobs": None,
        "finish_reason": finish,
        "matched_stop": None,
    }


def _content_frame(head: Json, *, reasoning: bool) -> tuple[bytes, bytes]:
    """Split a content chunk around its text, so that a stream renders it once."""
    mark = "\x00"
    delta: Json = {"reasoning_content": None, "content": mark}
    if reasoning:
        delta = {"reasoning_content": mark}
    whole = sse({**head, "choices": [_choice(delta)]}).removesuffix(b"}\n\n")
    before, after = whole.split(orjson.dumps(mark))
    return before, after


def _weight_versions(tokens: int) -> list[Json]:
    return [{"version": WEIGHT_VERSION, "start": 0, "end": tokens}]


def _with_caps(figures: Json) -> Json:
    """Add the fields that only capped verification fills."""
    return {
        "spec_accept_rate": figures["spec_accept_rate"],
        "spec_accept_length": figures["spec_accept_length"],
        "spec_cap_length": 0.0,
        "spec_block_accept_length": 0.0,
        "spec_num_correct_drafts": figures["spec_num_correct_drafts"],
        "spec_num_proposed_drafts": figures["spec_num_proposed_drafts"],
        "spec_verify_ct": figures["spec_verify_ct"],
        "spec_correct_drafts_histogram": figures["spec_correct_drafts_histogram"],
        "spec_cap_lens_histogram": [],
    }
