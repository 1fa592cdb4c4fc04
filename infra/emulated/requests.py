"""What clients send to the emulated server, read and checked once."""

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from infra.emulated.engine import EmulatedEngine, Generation
from infra.emulated.replies import ChatOptions

_DEFAULT_NEW_TOKENS = 128
_CHAT_TEMPLATE = "<|im_{role}|>{content}<|im_end|>"


class BadRequestError(Exception):
    """The client asked for what the server refuses; the text is the message to send."""


class UnreadableBodyError(Exception):
    """The body is no JSON object or lacks a field; the text is the validation message."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that may run."""

    rid: str
    generation: Generation
    stream: bool


def read_body(raw: bytes) -> dict[str, object]:
    """Parse a body. Raises UnreadableBodyError."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        detail = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "JSON decode error"}
        raise UnreadableBodyError(_validation(detail)) from error
    if not isinstance(body, dict):
        detail = {"type": "dict_type", "loc": ("body",), "msg": "Input should be an object"}
        raise UnreadableBodyError(_validation(detail))
    return body


def read_generate(body: Mapping[str, object], engine: EmulatedEngine) -> Asked:
    """Read a `/generate` request. Raises BadRequestError, UnreadableBodyError."""
    sampling = body.get("sampling_params") or {}
    if not isinstance(sampling, dict):
        raise BadRequestError("sampling_params must be an object")
    prompt = body.get("text")
    if prompt is None:
        prompt = body.get("input_ids")
    if not isinstance(prompt, str) and not _is_ids(prompt):
        raise BadRequestError(
            "Either text or input_ids should be provided: one prompt per request."
        )
    temperature = _temperature(sampling.get("temperature"))
    limit = _count(sampling.get("max_new_tokens"), "max_new_tokens", _DEFAULT_NEW_TOKENS)
    assert isinstance(prompt, str | list)
    generation = _open(engine, prompt, limit, temperature, sampling.get("sampling_seed"))
    return Asked(_rid(body), generation, bool(body.get("stream", False)))


def read_chat(body: Mapping[str, object], engine: EmulatedEngine) -> Asked:
    """Read a chat request. Raises BadRequestError, UnreadableBodyError."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        detail = {"type": "missing", "loc": ("body", "messages"), "msg": "Field required"}
        raise UnreadableBodyError(_validation(detail))
    prompt = "".join(map(_templated, messages)) + "<|im_assistant|>"
    asked = body.get("max_completion_tokens") or body.get("max_tokens")
    limit = None if asked is None else _count(asked, "max_tokens", 0)
    temperature = _temperature(body.get("temperature"))
    generation = _open(engine, prompt, limit, temperature, body.get("seed"))
    return Asked(_rid(body), generation, bool(body.get("stream", False)))


def chat_options(body: Mapping[str, object], default_model: str, *, reasoning: bool) -> ChatOptions:
    """Read what a chat request wants to be told."""
    stream_options = body.get("stream_options")
    wanted = stream_options if isinstance(stream_options, dict) else {}
    return ChatOptions(
        model=str(body.get("model") or default_model),
        include_usage=bool(wanted.get("include_usage")),
        continuous_usage=bool(wanted.get("continuous_usage_stats")),
        spec_details=bool(body.get("return_spec_tokens_details")),
        output_ids=bool(body.get("return_output_ids")),
        reasoning=reasoning,
    )


def _open(
    engine: EmulatedEngine,
    prompt: str | list[int],
    limit: int | None,
    temperature: float,
    sampling_seed: object,
) -> Generation:
    context = engine.settings.context_tokens
    seed = (sampling_seed if isinstance(sampling_seed, int) else 0) if temperature > 0 else None
    generation = engine.open(prompt, 0, sampling_seed=seed)
    given = len(generation.prompt)
    if given >= context:
        raise BadRequestError(
            f"The input ({given} tokens) is longer than the model's context length "
            f"({context} tokens)."
        )
    if limit is not None and given + limit > context:
        raise BadRequestError(
            f"Requested token count exceeds the model's maximum context length of {context} "
            f"tokens. You requested a total of {given + limit} tokens: {given} tokens from the "
            f"input messages and {limit} tokens for the completion. Please reduce the number of "
            "tokens in the input messages or the completion to fit within the limit."
        )
    room = min(context, engine.kv_room_tokens) - given - 1
    if room < 1:
        raise BadRequestError(
            f"Input length ({given} tokens) exceeds the maximum allowed length "
            f"({engine.kv_room_tokens} tokens)."
        )
    generation.limit_tokens = room if limit is None else min(limit, room)
    return generation


def _templated(message: object) -> str:
    if not isinstance(message, dict):
        raise BadRequestError("a message must be an object")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return _CHAT_TEMPLATE.format(role=message.get("role", "user"), content=content or "")


def _temperature(value: object) -> float:
    if value is None:
        return 1.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequestError(f"temperature must be a number, got {value!r}.")
    if value < 0 or not math.isfinite(value):
        raise BadRequestError(f"temperature must be a non-negative finite number, got {value}.")
    return float(value)


def _count(value: object, name: str, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRequestError(f"{name} must be at least 0, got {value!r}.")
    return value


def _is_ids(prompt: object) -> bool:
    return isinstance(prompt, list) and bool(prompt) and all(isinstance(t, int) for t in prompt)


def _rid(body: Mapping[str, object]) -> str:
    rid = body.get("rid")
    return rid if isinstance(rid, str) and rid else uuid.uuid4().hex


def _validation(detail: Mapping[str, object]) -> str:
    return f"1 validation error:\n  {dict(detail)}"
