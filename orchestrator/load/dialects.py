"""The two APIs through which SGLang streams tokens: what to send, and how to count what comes."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO

import orjson

from orchestrator.load.seam import Sampling
from sweeps.prompts import Prompt

_DONE = b"[DONE]"
_SHOWN_BYTES = 200


@dataclass(slots=True)
class Tally:
    """What one stream has brought so far. `now_s` is the time of the read that is being parsed.

    `times_s`, `tokens` and `chunks` run in parallel, one entry for each read with new tokens:
    the server's own cumulative count, and how many chunks raised it.
    """

    now_s: float = 0.0
    times_s: "array[float]" = field(default_factory=lambda: array("d"))
    tokens: "array[int]" = field(default_factory=lambda: array("q"))
    chunks: "array[int]" = field(default_factory=lambda: array("q"))
    text: StringIO = field(default_factory=StringIO)
    fault: str = ""
    done: bool = False
    finish_reason: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    verify_steps: int | None = None

    @property
    def output_tokens(self) -> int:
        """Return the server's last count."""
        return self.tokens[-1] if self.tokens else 0

    def count(self, total_tokens: int) -> None:
        """Take the server's cumulative count. A count that falls is a fault."""
        known = self.output_tokens
        if total_tokens < known:
            self.fail(f"the token count fell from {known} to {total_tokens}")
        elif total_tokens > known:
            chunks = self.chunks[-1] + 1 if self.chunks else 1
            if self.times_s and self.times_s[-1] == self.now_s:
                self.tokens[-1], self.chunks[-1] = total_tokens, chunks
            else:
                self.times_s.append(self.now_s)
                self.tokens.append(total_tokens)
                self.chunks.append(chunks)

    def fail(self, fault: str) -> None:
        """Keep the first fault."""
        self.fault = self.fault or fault

    def finish(self, reason: str, matched: object) -> None:
        """Take the finish reason."""
        self.finish_reason = reason
        if reason == "abort":
            self.fail("the server aborted the request")
        elif matched == "NaN happened":  # SGLang 0.5.23, srt/managers/schedule_batch.py
            self.fail("the server met NaN and stopped the request")

    def close(self) -> None:
        """Take the end mark of the stream."""
        if not self.finish_reason:
            self.fail("the stream ended without a finish reason")
        elif not self.tokens:
            self.fail("the stream ended without a token")
        self.done = True


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API: its path, its request body, and how an event of its stream changes the tally."""

    path: str
    body: Callable[[Prompt, Sampling], bytes]
    read: Callable[[bytes, Tally], None]


def _chat_body(prompt: Prompt, sampling: Sampling) -> bytes:
    return orjson.dumps(
        {
            "model": "default",
            "messages": [{"role": m.role, "content": m.content} for m in prompt.messages],
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "return_spec_tokens_details": True,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "max_tokens": sampling.max_tokens,
            "ignore_eos": sampling.ignore_eos,
        }
    )


def _generate_body(prompt: Prompt, sampling: Sampling) -> bytes:
    params: dict[str, float | int | bool] = {
        "temperature": sampling.temperature,
        "max_new_tokens": sampling.max_tokens,
        "ignore_eos": sampling.ignore_eos,
    }
    if sampling.temperature > 0:  # greedy needs none, and old versions refuse the name
        params["sampling_seed"] = sampling.seed
    return orjson.dumps({"text": prompt.text, "stream": True, "sampling_params": params})


def _read_chat(event: bytes, tally: Tally) -> None:
    """Take one chunk. Order in SGLang 0.5.23: role, content with usage, finish, sglext, usage."""
    chunk = orjson.loads(event)
    if _is_error(chunk, tally):
        return
    usage = chunk.get("usage")
    if usage:
        tally.count(usage["completion_tokens"])
        tally.prompt_tokens = usage["prompt_tokens"]
        details = usage.get("prompt_tokens_details")
        if details:
            tally.cached_tokens = details.get("cached_tokens")
    for choice in chunk["choices"]:
        delta = choice["delta"]
        text = (delta.get("reasoning_content") or "") + (delta.get("content") or "")
        if text and not usage:
            tally.fail("text came without a token count: no continuous usage")
        tally.text.write(text)
        if choice.get("finish_reason"):
            tally.finish(choice["finish_reason"], choice.get("matched_stop"))
    details = (chunk.get("sglext") or {}).get("spec_tokens_details")
    if details:
        tally.verify_steps = details["spec_verify_ct"]


def _read_generate(event: bytes, tally: Tally) -> None:
    """Take one chunk. Text and ids are all so far, or with `--incremental-streaming-output` new."""
    chunk = orjson.loads(event)
    if _is_error(chunk, tally):
        return
    meta = chunk["meta_info"]
    total_tokens = meta["completion_tokens"]
    if _is_whole(chunk, total_tokens, tally):
        tally.text.seek(0)
        tally.text.truncate()
    tally.text.write(chunk["text"])
    tally.count(total_tokens)
    tally.prompt_tokens = meta["prompt_tokens"]
    tally.cached_tokens = meta.get("cached_tokens")
    finish = meta.get("finish_reason")
    if finish:
        tally.verify_steps = meta.get("spec_verify_ct")
        tally.finish(finish["type"], finish.get("matched"))
        if finish["type"] == "length" and finish.get("length", total_tokens) != total_tokens:
            tally.fail(f"finished at length {finish['length']} with {total_tokens} tokens counted")


def _is_whole(chunk: dict[str, object], total_tokens: int, tally: Tally) -> bool:
    """Tell whether a chunk repeats all text so far; the ids say so, else the text itself."""
    ids = chunk.get("output_ids")
    if isinstance(ids, list):
        return len(ids) == total_tokens
    return str(chunk["text"]).startswith(tally.text.getvalue())


def _is_error(chunk: dict[str, object], tally: Tally) -> bool:
    error = chunk.get("error") or (chunk if chunk.get("object") == "error" else None)
    if error:
        message = error.get("message") if isinstance(error, dict) else None
        tally.fail(f"the server reports: {str(message or error)[:_SHOWN_BYTES]}")
    return bool(error)


DIALECTS: dict[str, Dialect] = {
    "chat": Dialect("/v1/chat/completions", _chat_body, _read_chat),
    "generate": Dialect("/generate", _generate_body, _read_generate),
}


def take_events(dialect: Dialect, now_s: float, events: list[bytes], tally: Tally) -> None:
    """Change the tally by the events of one read, up to the end mark or the first fault."""
    tally.now_s = now_s
    for event in events:
        if tally.done or tally.fault:
            return
        if event == _DONE:
            tally.close()
            return
        try:
            dialect.read(event, tally)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            shown = event[:_SHOWN_BYTES].decode("utf-8", "replace")
            tally.fail(f"event not understood ({type(error).__name__}: {error}): {shown}")
