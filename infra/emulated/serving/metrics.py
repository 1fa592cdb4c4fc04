"""The `/metrics` of the emulated server: SGLang's Prometheus metrics by version.

The client library is imported only where a server exports metrics. Source of names, types and
labels: SGLang 0.5.23, srt/observability/metrics_collector.py.
"""

from collections.abc import Mapping, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from infra.emulated.logs import DecodeWindow, accept_rate
from infra.emulated.serving.jobs import Job
from infra.emulated.serving.scheduler import Scheduler
from infra.emulated.versions import Manners

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_RANK = {"engine_type": "unified", "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}
_REQUEST = {"engine_type": "unified"}
_GAUGES = (
    "gen_throughput",
    "num_running_reqs",
    "num_queue_reqs",
    "num_used_tokens",
    "token_usage",
    "cache_hit_rate",
    "utilization",
    "is_cuda_graph",
    "max_total_num_tokens",
    "spec_accept_length",
    "spec_accept_rate",
    "spec_num_steps",
    "spec_num_draft_tokens",
    "spec_cap_length",
    "spec_block_accept_length",
)
_FIRST_TOKEN_S = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_TOKEN_S = (
    0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025, 0.030, 0.035, 0.040, 0.060, 0.080,
    0.100, 0.200, 0.400, 0.600, 0.800, 1.000, 2.000, 4.000, 6.000, 8.000,
)  # fmt: skip
_REQUEST_S = (
    0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800,
    2400,
)  # fmt: skip
_QUEUE_S = (0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 600)
_HISTOGRAMS: Mapping[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    "time_to_first_token_seconds": (("is_streaming",), _FIRST_TOKEN_S),
    "inter_token_latency_seconds": ((), _TOKEN_S),
    "e2e_request_latency_seconds": (("is_streaming",), _REQUEST_S),
    "request_time_per_output_token_seconds": (("is_streaming",), _TOKEN_S),
}
_LABELS_SINCE: Mapping[str, str] = {"is_streaming": "0.5.17", "cache_source": "0.5.9"}
"""Older versions do not split by these."""


class Metrics:
    """Collects what one server exports. Belongs to its event loop."""

    def __init__(
        self, how: Manners, model: str, scheduler: Scheduler, graph_s: Mapping[str, float]
    ) -> None:
        self._how = how
        self._scheduler = scheduler
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client's own gap
        self._registry = CollectorRegistry()
        self._rank = {**_RANK, "model_name": model}
        self._request = {**_REQUEST, "model_name": model}
        self._gauges = {name: self._gauge(name) for name in _GAUGES if how.has_metric(name)}
        self._counters: dict[str, Counter] = {}
        self._histograms = {
            name: self._histogram(name, self._request, self._kept(more), buckets)
            for name, (more, buckets) in _HISTOGRAMS.items()
            if how.has_metric(name)
        }
        self._queue = self._histogram("queue_time_seconds", self._rank, (), _QUEUE_S)
        self._start_graphs(graph_s)
        self._last_s: dict[Job, float] = {}
        self._verifies: dict[Job, int] = {}
        self._set_settings()

    def exposition(self) -> bytes:
        """Return the page."""
        return generate_latest(self._registry)

    def prefilled(self, jobs: Sequence[Job], new_tokens: int, cached_tokens: int) -> None:
        """Hear of a prefill."""
        all_tokens = new_tokens + cached_tokens
        self._set("cache_hit_rate", cached_tokens / all_tokens if all_tokens else 0.0)
        self._add("realtime_tokens_total", self._rank, new_tokens, mode="prefill_compute")
        self._add("realtime_tokens_total", self._rank, cached_tokens, mode="prefill_cache")
        self._add("cuda_graph_passes_total", self._rank, 1, mode="prefill_none")
        for job in jobs:
            if job.started_s is not None:
                queued_s = max(0.0, job.started_s - job.arrived_s)
                self._queue.labels(**self._rank).observe(queued_s)
        self._set_load()

    def emitted(self, job: Job, tokens: int, at_s: float) -> None:
        """Hear of tokens for one request."""
        before_s = self._last_s.get(job)
        self._last_s[job] = at_s
        if before_s is None:
            took_s = at_s - job.arrived_s
            self._observe("time_to_first_token_seconds", took_s, self._streaming(job))
        elif tokens:
            gaps = self._histograms["inter_token_latency_seconds"].labels(**self._request)
            for _ in range(tokens):
                gaps.observe((at_s - before_s) / tokens)

    def decoded(self, window: DecodeWindow, *, graph: bool) -> None:
        """Hear of a whole decode interval."""
        self._set("gen_throughput", window.tokens / max(1e-9, window.duration_s))
        self._set("is_cuda_graph", float(graph))
        settings = self._scheduler.engine.settings
        self._set("spec_accept_length", window.verified_tokens / max(1, window.verifies))
        self._set("spec_accept_rate", accept_rate(self._how, window, settings))
        mode = "decode_full" if graph else "decode_none"
        self._add("cuda_graph_passes_total", self._rank, window.steps, mode=mode)
        self._add("realtime_tokens_total", self._rank, window.tokens, mode="decode")
        self._set_load()

    def retracted(self, jobs: Sequence[Job]) -> None:
        """Hear of requests that lost their place."""
        self._add("num_retracted_requests_total", self._rank, len(jobs))

    def ended(self, job: Job, *, aborted: bool) -> None:
        """Hear of the end of a request."""
        self._last_s.pop(job, None)
        if aborted:
            self._add("num_aborted_requests_total", self._request, 1)
            return
        generation, streaming = job.generation, self._streaming(job)
        written = len(generation.output)
        self._add("num_requests_total", self._request, 1, **streaming)
        self._add("prompt_tokens_total", self._request, len(generation.prompt), **streaming)
        self._add("generation_tokens_total", self._request, written, **streaming)
        cached = generation.cached_tokens
        self._add("cached_tokens_total", self._request, cached, **self._source())
        self._add("spec_verify_calls_total", self._request, generation.verifies)
        if job.ended_s is None:
            return
        self._observe("e2e_request_latency_seconds", job.ended_s - job.arrived_s, streaming)
        if job.prefilled_s is not None and written > 1:
            each_s = (job.ended_s - job.prefilled_s) / (written - 1)
            self._observe("request_time_per_output_token_seconds", each_s, streaming)

    def _set_settings(self) -> None:
        scheduler = self._scheduler
        settings = scheduler.engine.settings
        self._set("max_total_num_tokens", scheduler.engine.kv_room_tokens)
        self._set("spec_num_steps", settings.draft_steps)
        self._set("spec_num_draft_tokens", settings.draft_tokens if settings.speculates else 0)

    def _set_load(self) -> None:
        scheduler = self._scheduler
        held, room = scheduler.held_tokens, scheduler.engine.kv_room_tokens
        self._set("num_running_reqs", scheduler.running)
        self._set("num_queue_reqs", scheduler.waiting)
        self._set("num_used_tokens", held)
        self._set("token_usage", held / room)

    def _start_graphs(self, graph_s: Mapping[str, float]) -> None:
        if not self._how.has_metric("startup_cuda_graph_time_seconds"):
            return
        name = "sglang:startup_cuda_graph_time_seconds"
        labels = [*self._request, "phase"]
        gauge = Gauge(name, name, labels, registry=self._registry)
        for phase, took_s in graph_s.items():
            gauge.labels(**self._request, phase=phase).set(took_s)

    def _kept(self, more: Sequence[str]) -> list[str]:
        """Leave out the labels that came later."""
        return [name for name in more if self._how.since(_LABELS_SINCE.get(name, "0"))]

    def _streaming(self, job: Job) -> dict[str, str]:
        if not self._how.since(_LABELS_SINCE["is_streaming"]):
            return {}
        return {"is_streaming": str(job.streams).lower()}

    def _source(self) -> dict[str, str]:
        return {"cache_source": "device"} if self._how.since(_LABELS_SINCE["cache_source"]) else {}

    def _gauge(self, name: str) -> Gauge:
        return Gauge(f"sglang:{name}", name, list(self._rank), registry=self._registry)

    def _counter(self, name: str, labels: Sequence[str]) -> Counter:
        return Counter(f"sglang:{name}", name, labels, registry=self._registry)

    def _histogram(
        self,
        name: str,
        labels: Mapping[str, str],
        more: Sequence[str],
        buckets: Sequence[float],
    ) -> Histogram:
        return Histogram(
            f"sglang:{name}", name, [*labels, *more], buckets=buckets, registry=self._registry
        )

    def _set(self, name: str, value: float) -> None:
        if gauge := self._gauges.get(name):
            gauge.labels(**self._rank).set(value)

    def _add(self, name: str, labels: Mapping[str, str], value: float, **more: str) -> None:
        if not self._how.has_metric(name):
            return
        counter = self._counters.get(name)
        if counter is None:
            # Only now: SGLang does not export what has not happened.
            counter = self._counters[name] = self._counter(name, [*labels, *more])
        counter.labels(**labels, **more).inc(value)

    def _observe(self, name: str, value_s: float, more: Mapping[str, str]) -> None:
        if histogram := self._histograms.get(name):
            histogram.labels(**self._request, **more).observe(value_s)
