"""What clients send to the emulated server, turned into requests that may run."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from infra.emulated.engine import EmulatedEngine, Generation
from infra.emulated.scenario import StreamWorld
from infra.emulated.serving.openai_replies import Wishes
from infra.emulated.serving.validation import (
    BadRequestError,
    check_chat,
    check_native,
    check_openai,
    check_ranges,
    check_sampling,
    count_of,
    temperature_of,
    unreadable,
)
from infra.emulated.text import EOS_ID, render

_DEFAULT_NEW_TOKENS = 128
_DEFAULT_COMPLETION_TOKENS = 16
_CHAT_TEMPLATE = "<|im_{role}|>{content}<|im_end|>"
_NO_PROMPT = "Either text, input_ids or input_embeds should be provided."

Prompt = str | list[int]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that may run."""

    rid: str
    generation: Generation
    stream: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """What one HTTP request asks for: some prompts, each answered one or more times."""

    requests: tuple[Asked, ...]
    stream: bool
    is_list: bool
    """The reply is a list, and chunks name their place."""
    copies: int = 1


@dataclass(frozen=True, slots=True)
class _Ask:
    """How one prompt is to be answered."""

    limit: int | None
    temperature: float
    seed: object
    stops: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    trims: bool = True
    copies: int = 1


def read_generate(body: Mapping[str, object], engine: EmulatedEngine) -> Asked:
    """Read a `/generate` request for one prompt. Raises as `read_batch`."""
    return read_batch(body, engine).requests[0]


def read_batch(body: Mapping[str, object], engine: EmulatedEngine) -> Batch:
    """Read a `/generate` request.

    Raises BadRequestError, UnreadableBodyError, BadSamplingError.
    """
    check_native(body)
    prompts, is_list = _native_prompts(body)
    sampled = body.get("sampling_params") or {}
    each = sampled if isinstance(sampled, list) else [sampled] * len(prompts)
    if len(each) != len(prompts):
        raise BadRequestError("The length of sampling_params should be equal to the batch size.")
    if body.get("return_logprob"):
        raise BadRequestError("return_logprob is not emulated.")
    asks = [_native_ask(sampling) for sampling in each]
    copies = max((ask.copies for ask in asks), default=1)
    rids = _rids(body, len(prompts) * copies)
    stream = bool(body.get("stream"))
    pairs = [pair for pair in zip(prompts, asks, strict=True) for _ in range(copies)]
    requests = tuple(
        Asked(rid, _open(engine, prompt, ask), stream)
        for rid, (prompt, ask) in zip(rids, pairs, strict=True)
    )
    return Batch(requests, stream, is_list or copies > 1, copies)


def read_chat(body: Mapping[str, object], engine: EmulatedEngine) -> Asked:
    """Read a chat request for one choice. Raises as `read_chat_batch`."""
    return read_chat_batch(body, engine).requests[0]


def read_chat_batch(body: Mapping[str, object], engine: EmulatedEngine) -> Batch:
    """Read a chat request. Raises BadRequestError, UnreadableBodyError."""
    check_chat(body)
    messages = body["messages"]
    assert isinstance(messages, list)
    prompt = "".join(map(_templated, messages)) + "<|im_assistant|>"
    asked = body.get("max_completion_tokens")
    limit = count_of(body.get("max_tokens") if asked is None else asked)
    context = engine.settings.context_tokens
    if limit is not None and limit > context:
        raise BadRequestError(
            f"max_completion_tokens is too large: {limit}."
            f"This model supports at most {context} completion tokens."
        )
    return _openai_batch(body, engine, [prompt], limit)


def read_completion(body: Mapping[str, object], engine: EmulatedEngine) -> Batch:
    """Read a completion request. Raises BadRequestError, UnreadableBodyError."""
    check_openai(body)
    if "prompt" not in body:
        raise unreadable("missing", "prompt", told="Field required", given=dict(body))
    prompts, _ = _prompts(body["prompt"])
    if not prompts or "" in prompts:
        raise BadRequestError("Prompt cannot be empty")
    limit = count_of(body.get("max_tokens"))
    return _openai_batch(
        body, engine, prompts, _DEFAULT_COMPLETION_TOKENS if limit is None else limit
    )


def read_wishes(
    body: Mapping[str, object],
    default_model: str,
    world: StreamWorld,
    *,
    reasoning: bool = False,
    wants_ids: bool = False,
) -> Wishes:
    """Read what an OpenAI request wants to be told."""
    stream_options = body.get("stream_options")
    wanted = stream_options if isinstance(stream_options, dict) else {}
    return Wishes(
        model=str(body.get("model") or default_model),
        include_usage=bool(wanted.get("include_usage")),
        continuous_usage=bool(wanted.get("continuous_usage_stats")),
        spec_details=bool(body.get("return_spec_tokens_details")),
        output_ids=wants_ids or bool(body.get("return_output_ids_in_sglext")),
        input_ids=bool(body.get("return_input_ids_in_sglext")),
        reasoning=reasoning,
        meta_info=bool(body.get("return_meta_info")),
        usage=world.usage,
        usage_with_choice=world.usage_with_choice,
    )


def _openai_batch(
    body: Mapping[str, object],
    engine: EmulatedEngine,
    prompts: Sequence[Prompt],
    limit: int | None,
) -> Batch:
    check_ranges(body)
    ask = _Ask(
        limit,
        temperature_of(body),
        body.get("seed"),
        *_stops(body),
        ignore_eos=bool(body.get("ignore_eos")),
        trims=not body.get("no_stop_trim"),
    )
    copies = _copies(body)
    rids = _rids(body, len(prompts) * copies)
    stream = bool(body.get("stream"))
    every = [prompt for prompt in prompts for _ in range(copies)]
    requests = tuple(
        Asked(rid, _open(engine, prompt, ask), stream)
        for rid, prompt in zip(rids, every, strict=True)
    )
    return Batch(requests, stream, is_list=False, copies=copies)


def _native_prompts(body: Mapping[str, object]) -> tuple[list[Prompt], bool]:
    given = body.get("text")
    return _prompts(body.get("input_ids") if given is None else given)


def _prompts(given: object) -> tuple[list[Prompt], bool]:
    """Return prompts, and whether they came as a list. Raises BadRequestError."""
    if isinstance(given, str):
        return [given], False
    if not isinstance(given, list):
        raise BadRequestError(_NO_PROMPT)
    if given and all(isinstance(token, int) for token in given):
        return [given], False
    for prompt in given:
        ids = isinstance(prompt, list) and all(isinstance(token, int) for token in prompt)
        if not ids and not isinstance(prompt, str):
            raise BadRequestError(_NO_PROMPT)
    return list(given), True


def _native_ask(sampling: object) -> _Ask:
    if not isinstance(sampling, dict):
        raise BadRequestError("sampling_params must be an object")
    check_sampling(sampling)
    check_ranges(sampling)
    limit = sampling.get("max_new_tokens", _DEFAULT_NEW_TOKENS)
    return _Ask(
        count_of(limit),
        temperature_of(sampling),
        sampling.get("sampling_seed"),
        *_stops(sampling),
        ignore_eos=bool(sampling.get("ignore_eos")),
        trims=not sampling.get("no_stop_trim"),
        copies=_copies(sampling),
    )


def _stops(given: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    stop = given.get("stop")
    texts = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    ids = given.get("stop_token_ids")
    return (
        tuple(text for text in texts if isinstance(text, str) and text),
        tuple(token for token in ids if isinstance(token, int)) if isinstance(ids, list) else (),
    )


def _copies(given: Mapping[str, object]) -> int:
    number = given.get("n")
    if number is None:
        return 1
    if not isinstance(number, int) or number < 1:
        raise BadRequestError(f"n must be at least 1, got {number}.")
    return number


def _open(engine: EmulatedEngine, prompt: Prompt, ask: _Ask) -> Generation:
    context = engine.settings.context_tokens
    seed = (ask.seed if isinstance(ask.seed, int) else 0) if ask.temperature > 0 else None
    generation = engine.open(prompt, 0, sampling_seed=seed)
    given = len(generation.prompt)
    if given >= context:
        raise BadRequestError(
            f"The input ({given} tokens) is longer than the model's context length "
            f"({context} tokens)."
        )
    if ask.limit is not None and given + ask.limit > context:
        raise BadRequestError(
            f"Requested token count exceeds the model's maximum context length of {context} "
            f"tokens. You requested a total of {given + ask.limit} tokens: {given} tokens from "
            f"the input messages and {ask.limit} tokens for the completion. Please reduce the "
            "number of tokens in the input messages or the completion to fit within the limit."
        )
    room = min(context, engine.kv_room_tokens) - given - 1
    if room < 1:
        raise BadRequestError(
            f"Input length ({given} tokens) exceeds the maximum allowed length "
            f"({engine.kv_room_tokens} tokens). Use a shorter input or enable "
            "--allow-auto-truncate."
        )
    generation.limit_tokens = room if ask.limit is None else min(ask.limit, room)
    _end_naturally(generation, ask)
    _stop_early(generation, ask)
    return generation


def _end_naturally(generation: Generation, ask: _Ask) -> None:
    """Let the model end where its text does."""
    if ask.ignore_eos:
        return
    natural = generation.stream.natural_tokens + 1
    if natural <= generation.limit_tokens:
        generation.limit_tokens, generation.matched = natural, EOS_ID


def _stop_early(generation: Generation, ask: _Ask) -> None:
    """Find where the text meets a stop, which ends it for good."""
    stop_ids = () if ask.ignore_eos else ask.stop_ids
    if not (ask.stops or stop_ids) or not generation.limit_tokens:
        return
    tokens = generation.stream.window(0, generation.limit_tokens)
    pieces = [render(token) for token in tokens]
    best = _first_id(tokens, pieces, stop_ids)
    if text_stop := _first_text(pieces, ask.stops):
        best = text_stop if best is None else min(best, text_stop, key=lambda stop: stop[0])
    if best is None:
        return
    generation.limit_tokens, generation.matched, hidden = best
    generation.hidden_chars = hidden if ask.trims else 0


_Stop = tuple[int, int | str, int]
"""Tokens up to and with it, what it is, and the characters that it hides."""


def _first_id(tokens: Sequence[int], pieces: Sequence[str], ids: Sequence[int]) -> _Stop | None:
    places = [(tokens.index(token), token) for token in ids if token in tokens]
    if not places:
        return None
    place, token = min(places)
    return place + 1, token, len(pieces[place])


def _first_text(pieces: Sequence[str], stops: Sequence[str]) -> _Stop | None:
    text = "".join(pieces)
    found = [(at + len(stop), at, stop) for stop in stops if (at := text.find(stop)) >= 0]
    if not found:
        return None
    complete_at, starts_at, stop = min(found)
    ends = accumulate(map(len, pieces))
    tokens, shown = next((n, end) for n, end in enumerate(ends, 1) if end >= complete_at)
    return tokens, stop, shown - starts_at


def _templated(message: object) -> str:
    assert isinstance(message, dict)
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return _CHAT_TEMPLATE.format(role=message["role"], content=content or "")


def _rids(body: Mapping[str, object], number: int) -> list[str]:
    rid = body.get("rid")
    if isinstance(rid, list) and len(rid) == number:
        return [str(one) for one in rid]
    if isinstance(rid, str) and rid:
        return [rid] if number == 1 else [f"{rid}_{place}" for place in range(number)]
    return [uuid.uuid4().hex for _ in range(number)]
