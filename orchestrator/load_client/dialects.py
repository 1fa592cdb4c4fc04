"""The two APIs through which SGLang streams tokens: what to send, and how to count what comes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from orchestrator.load_client.http_stream import Read
from orchestrator.load_client.seam import Sampling
from orchestrator.load_client.tally import Tally
from sweeps.prompts import Prompt

DONE = b"[DONE]"
_SHOWN_BYTES = 200
_MOST_TOLD = 500

Chunk = Mapping[str, Any]
"""The JSON of one event, as it came: whatever reads it must be ready for any of `_MISREADINGS`."""
_MISREADINGS = (AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API: its path, its request body, and how an event of its stream changes the tally."""

    path: str
    body: Callable[[Prompt, Sampling], bytes]
    take: Callable[[Chunk, Tally], None]


def _chat_body(prompt: Prompt, sampling: Sampling) -> bytes:
    told = {"return_output_ids_in_sglext": True, "return_input_ids_in_sglext": True}
    return orjson.dumps(
        {
            **(told if sampling.token_ids else {}),
            "model": "default",
            "messages": [{"role": m.role, "content": m.content} for m in prompt.messages],
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "return_spec_tokens_details": True,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "max_tokens": sampling.max_tokens,
            "ignore_eos": sampling.ignore_eos,
        }
    )


def _generate_body(prompt: Prompt, sampling: Sampling) -> bytes:
    params: dict[str, float | int | bool] = {
        "temperature": sampling.temperature,
        "max_new_tokens": sampling.max_tokens,
        "ignore_eos": sampling.ignore_eos,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
    }
    if sampling.temperature > 0:  # greedy needs none, and old versions refuse the name
        params["sampling_seed"] = sampling.seed
    return orjson.dumps({"text": prompt.text, "stream": True, "sampling_params": params})


def _take_chat(chunk: Chunk, tally: Tally) -> None:
    """Take one chunk. Order in SGLang 0.5.23: role, content with usage, finish, sglext, usage."""
    if _is_error(chunk, tally):
        return
    usage, choices = chunk.get("usage"), chunk["choices"]
    text = "".join(map(_text_of, choices))
    if text:
        tally.text.write(text)
        tally.text_chunks += 1
        tally.uncounted_chunks += not usage
        tally.heard_s = tally.now_s
    if usage:
        tally.count(usage["completion_tokens"], textless=not text)
        tally.prompt_tokens = usage["prompt_tokens"]
        if details := usage.get("prompt_tokens_details"):
            tally.cached_tokens = details.get("cached_tokens")
    for choice in choices:
        if finish_reason := choice.get("finish_reason"):
            tally.finish(finish_reason, choice.get("matched_stop"))
    if extension := chunk.get("sglext"):
        _take_extension(extension, tally)


def _text_of(choice: Chunk) -> str:
    delta = choice["delta"]
    return (delta.get("reasoning_content") or "") + (delta.get("content") or "")


def _take_extension(extension: Chunk, tally: Tally) -> None:
    """Take what SGLang adds at the end: figures of drafts, and ids where they were asked for."""
    if details := extension.get("spec_tokens_details"):
        tally.verify_steps = details["spec_verify_ct"]
    if output := extension.get("output_ids"):
        tally.output_ids = list(output[0])
    if prompt := extension.get("input_ids"):
        tally.prompt_ids = list(prompt[0] if isinstance(prompt[0], list) else prompt)


def _take_generate(chunk: Chunk, tally: Tally) -> None:
    """Take one chunk. Text and ids are all so far, or with `--incremental-streaming-output` new."""
    if _is_error(chunk, tally):
        return
    meta = chunk["meta_info"]
    total_tokens = meta["completion_tokens"]
    whole = _is_whole(chunk, total_tokens, tally)
    if whole:
        tally.text.seek(0)
        tally.text.truncate()
    if tally.keeps_ids:
        ids = chunk.get("output_ids") or []
        tally.output_ids = ids if whole else tally.output_ids + ids
    tally.text.write(chunk["text"])
    tally.count(total_tokens)
    tally.prompt_tokens = meta["prompt_tokens"]
    tally.cached_tokens = meta.get("cached_tokens")
    finish = meta.get("finish_reason")
    if finish:
        tally.verify_steps = meta.get("spec_verify_ct")
        tally.queue_s = meta.get("queue_time")  # with --enable-metrics
        message, status = finish.get("message"), finish.get("status_code")
        tally.finish(finish["type"], finish.get("matched"), message, status)
        if finish["type"] == "length":
            tally.compare(finish.get("length", total_tokens), "finished at length")


def _is_whole(chunk: Chunk, total_tokens: int, tally: Tally) -> bool:
    """Tell whether a chunk repeats all text so far; the ids say so, else the text itself."""
    ids = chunk.get("output_ids")
    if isinstance(ids, list):
        return len(ids) == total_tokens
    return str(chunk["text"]).startswith(tally.text.getvalue())


def _is_error(chunk: Chunk, tally: Tally) -> bool:
    error = chunk.get("error")
    if not error:
        if chunk.get("object") != "error":
            return False
        error = chunk
    told = error if isinstance(error, dict) else {"message": error}
    status = next((told[name] for name in ("code", "status_code") if told.get(name)), None)
    words = " ".join(str(told.get("message") or error).split())[:_MOST_TOLD]
    tally.fail(f"the server reports{f' ({status})' if status else ''}: {words}")
    return True


DIALECTS: dict[str, Dialect] = {
    "chat": Dialect("/v1/chat/completions", _chat_body, _take_chat),
    "generate": Dialect("/generate", _generate_body, _take_generate),
}


def take_reads(dialect: Dialect, reads: Sequence[Read], tally: Tally) -> None:
    """Change the tally by the events of some reads, up to the end mark or the first fault."""
    chunks = _parse(list(chain.from_iterable(events for _, events in reads)))
    for now_s, events in reads:
        tally.now_s = now_s
        for event in events:
            if tally.done or tally.fault:
                return
            if event == DONE:
                tally.close()
                return
            try:
                dialect.take(next(chunks), tally)
            except _MISREADINGS as error:
                shown = event[:_SHOWN_BYTES].decode("utf-8", "replace")
                tally.fail(f"event not understood ({type(error).__name__}: {error}): {shown}")


def _parse(events: list[bytes]) -> Iterator[Chunk]:
    """Yield the JSON of each event before the end mark; one call for all of them is the cheapest.

    Raises: ValueError, from where an event that is no JSON is asked for.
    """
    if DONE in events:
        events = events[: events.index(DONE)]
    try:
        chunks = orjson.loads(b"[%b]" % b",".join(events))
    except ValueError:
        return map(orjson.loads, events)
    return iter(chunks) if len(chunks) == len(events) else map(orjson.loads, events)
