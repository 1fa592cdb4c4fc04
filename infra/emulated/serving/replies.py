"""The bodies of SGLang's own routes, in the shapes of a version."""

import time
from dataclasses import dataclass, field

import orjson

from infra.emulated.engine import Generation
from infra.emulated.serving.jobs import Emission, Job
from infra.emulated.text import render_all
from infra.emulated.versions import Figure, Manners, MetaField, StreamForm
from infra.sglang.protocol import Feature

Json = dict[str, object]
DONE = b"data: [DONE]\n\n"
FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)
FLUSH_REFUSED = "Flush cache failed.\n"
FLUSH_TIMED_OUT = "Timed out waiting for idle state."
ABORTED_WAITING = "Abort in waiting queue"


@dataclass(frozen=True, slots=True)
class Style:
    """What the replies of one server have in common."""

    how: Manners
    draft_tokens: int
    draft_steps: int = 0
    speculates: bool = False
    timings: bool = False
    """`--enable-metrics`: replies tell when what happened."""
    cache_report: bool = False
    form: StreamForm = StreamForm.CUMULATIVE
    weight_version: str = "default"


def sse(body: Json) -> bytes:
    """Frame one server-sent event."""
    return b"data: " + orjson.dumps(body) + b"\n\n"


def native_error(message: str, *, stream: bool) -> Json:
    """Return the error body of `/generate`; inside a stream it says more."""
    if not stream:
        return {"error": {"message": message}}
    error = {"message": message, "type": "invalid_request_error", "code": 400, "retryable": False}
    return {"error": error}


def finish_reason(generation: Generation, emission: Emission) -> Json | None:
    """Say why a request ended; None while it runs."""
    if emission.failure:
        return {
            "type": "abort",
            "message": emission.failure,
            "status_code": 500,
            "err_type": "InternalServerError",
        }
    if emission.aborted:
        return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
    if emission.finished and generation.matched is not None:
        return {"type": "stop", "matched": generation.matched}
    if emission.finished:
        return {"type": "length", "length": emission.completion_tokens}
    return None


def visible_text(generation: Generation, text: str, emission: Emission) -> str:
    """Cut from the end of a text what its stop does not show."""
    if emission.finished and not emission.aborted and generation.hidden_chars:
        return text[: max(0, len(text) - generation.hidden_chars)]
    return text


def speculation(generation: Generation, style: Style) -> Json:
    """Return the accept figures of a finished request under the keys of the version."""
    verifies = generation.verifies
    if not style.speculates or not (verifies or style.how.figures_without_verify):
        return {}
    values = figures(generation, style)
    return {key: values[figure] for key, figure in style.how.speculation_keys}


def figures(generation: Generation, style: Style) -> dict[Figure, object]:
    """Return all accept figures of a request."""
    verifies, matched = generation.verifies, generation.correct_drafts
    proposed = verifies * (style.draft_tokens - 1)
    draftable = verifies * style.draft_steps
    length = len(generation.output) / verifies if verifies else 0.0
    return {
        Figure.RATE: matched / proposed if proposed else 0.0,
        Figure.LENGTH: length,
        Figure.STEP_RATE: matched / draftable if draftable else 0.0,
        Figure.STEP_LENGTH: length if draftable else 0,
        Figure.CORRECT: matched,
        Figure.PROPOSED: proposed,
        Figure.VERIFIES: verifies,
        Figure.HISTOGRAM: list(generation.histogram),
    }


def meta_info(job: Job, emission: Emission, style: Style) -> Json:
    """Return `meta_info` of a chunk; the figures of the whole request only with the last."""
    if emission.aborted and job.started_s is None:
        return _meta_of_never_started(job, emission, style)
    values = _meta_values(job, emission, style)
    meta: Json = {}
    for name in style.how.meta_fields:
        if name is MetaField.WEIGHT_VERSIONS and not emission.finished:
            continue
        meta[name.value] = values[name]
        if name in (MetaField.NUM_RETRACTIONS, MetaField.TOTAL_RETRACTIONS) and style.timings:
            meta.update(_early_timings(job, style))
    if emission.finished:
        latency: Json = {"e2e_latency": emission.at_s - job.arrived_s}
        accepted = speculation(job.generation, style)
        parts = (latency, accepted) if style.how.latency_first else (accepted, latency)
        for part in parts:
            meta.update(part)
        if style.timings:
            meta.update(_late_timings(job, emission, style))
    return meta


def _meta_values(job: Job, emission: Emission, style: Style) -> dict[MetaField, object]:
    generation = job.generation
    cached = generation.cached_tokens
    return {
        MetaField.ID: job.rid,
        MetaField.FINISH_REASON: finish_reason(generation, emission),
        MetaField.PROMPT_TOKENS: len(generation.prompt),
        MetaField.WEIGHT_VERSION: style.weight_version,
        MetaField.TOTAL_RETRACTIONS: job.retractions,
        MetaField.NUM_RETRACTIONS: job.retractions,
        MetaField.REASONING_TOKENS: 0,
        MetaField.COMPLETION_TOKENS: emission.completion_tokens,
        MetaField.CACHED_TOKENS: cached,
        MetaField.WEIGHT_VERSIONS: weight_versions(style, emission.completion_tokens),
        MetaField.CACHED_TOKENS_DETAILS: {"device": cached, "host": 0} if cached else None,
        MetaField.DP_RANK: None,
    }


def _meta_of_never_started(job: Job, emission: Emission, style: Style) -> Json:
    """A request that was given up in the queue has no figures of its own."""
    meta: Json = {
        "id": job.rid,
        "finish_reason": {"type": "abort", "message": ABORTED_WAITING},
        "weight_version": style.weight_version,
        "e2e_latency": emission.at_s - job.arrived_s,
    }
    if MetaField.WEIGHT_VERSIONS in style.how.meta_fields:
        meta["weight_versions"] = weight_versions(style, 0)
    return {**meta, "completion_tokens": emission.completion_tokens}


def _early_timings(job: Job, style: Style) -> Json:
    started_s = job.arrived_s if job.started_s is None else job.started_s
    prefilled_s = started_s if job.prefilled_s is None else job.prefilled_s
    queued_s = started_s - job.arrived_s
    if not style.how.since("0.5.12"):
        return {"queue_time": queued_s}
    timings: Json = {}
    if style.how.since("0.5.20"):
        timings |= {"storage_prefetch_wait": 0.0, "storage_staging_wait": 0.0}
    return {
        **timings,
        "forward_entry_time": job.unix(started_s),
        "prefill_finished_time": job.unix(prefilled_s),
        "queue_time": queued_s,
    }


def _late_timings(job: Job, emission: Emission, style: Style) -> Json:
    first_s = emission.at_s if job.prefilled_s is None else job.prefilled_s
    timings: Json = {"request_received_ts": job.arrived_at}
    if style.how.since("0.5.12"):
        timings |= {
            "first_token_latency": first_s - job.arrived_s,
            "api_server_dispatch_finish_ts": job.arrived_at,
        }
    timings["request_finished_ts"] = job.unix(emission.at_s)
    decode_s = emission.at_s - first_s
    if emission.completion_tokens > 1 and decode_s > 0:
        timings["decode_throughput"] = (emission.completion_tokens - 1) / decode_s
    return timings


def weight_versions(style: Style, tokens: int) -> list[Json]:
    """Say which weights wrote which tokens."""
    return [{"version": style.weight_version, "start": 0, "end": tokens}]


@dataclass(slots=True)
class NativeStream:
    """The replies to one prompt of a `/generate` request."""

    job: Job
    style: Style
    index: int | None = None
    """Its place in a batch."""
    _text: str = ""
    _ids: list[int] = field(default_factory=list)
    _sent: bool = False

    @property
    def tells_failure(self) -> bool:
        """Tell whether the version says why the server gave a request up."""
        return self.style.how.has(Feature.ABORT_IN_GENERATE)

    def first(self) -> bytes:
        """Return nothing: the first token opens the stream."""
        return b""

    def chunk(self, emission: Emission) -> bytes:
        """Return one server-sent event."""
        before = len(self._text)
        text, ids = self._grow(emission)
        if self.style.form is StreamForm.DELTA:
            text = text[before:]
        if self.style.form is not StreamForm.CUMULATIVE:
            ids = list(emission.tokens)
        return sse(self._body(emission, text, ids))

    def last(self, emission: Emission) -> bytes:
        """Return nothing: the last token says all."""
        return b""

    def broken(self, message: str) -> bytes:
        """Return the event by which a stream that has begun tells of its failure."""
        return sse({"error": {"message": message}})

    def whole(self, emission: Emission) -> Json:
        """Return the reply of a request that does not stream."""
        generation = self.job.generation
        ids = list(generation.output[: emission.completion_tokens])
        text = visible_text(generation, render_all(ids), emission)
        body = self._body(emission, text, ids)
        body.pop("index", None)
        return body

    def _grow(self, emission: Emission) -> tuple[str, list[int]]:
        self._text += render_all(emission.tokens)
        self._ids += emission.tokens
        return visible_text(self.job.generation, self._text, emission), self._ids

    def _body(self, emission: Emission, text: str, ids: list[int]) -> Json:
        meta = meta_info(self.job, emission, self.style)
        again = emission.finished and self.style.timings
        if self.style.how.sent_at and (again or not self._sent):
            meta["response_sent_to_client_ts"] = time.time()
            self._sent = True
        body: Json = {"text": text, "output_ids": ids, "meta_info": meta}
        if self.index is not None:
            body["index"] = self.index
        return body
