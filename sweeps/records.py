"""What was seen of a trial: streams of cumulative token counts over time, pass by pass."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum


class EndReason(StrEnum):
    """Why a request ended. Only `FINISHED` ran to its own end."""

    FINISHED = "finished"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    SILENT = "silent"
    """No byte came for longer than the watchdog allows."""
    BROKEN = "broken"
    """The stream ended early, held an error or contradicted itself; `detail` says how."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One streamed request. Times are in the host's seconds, on one clock for all requests.

    `times_s[i]` is when the server's own cumulative count stood at `tokens[i]`; both never fall.
    """

    sent_s: float
    times_s: tuple[float, ...]
    tokens: tuple[int, ...]
    end: EndReason
    ended_s: float
    detail: str = ""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    verify_steps: int | None = None
    """Verify steps by the server's count; None where it gave none: plain decode, or unfinished."""
    text: str = ""
    chunks: tuple[int, ...] = ()
    """Chunks that had brought tokens by each time, as `tokens`; empty if each arrival was one."""
    queue_s: float | None = None
    """Time in the server's queue, as the server tells it."""
    scheduled_s: float | None = None
    """When a request of an open loop was due; None in a closed loop."""
    prompt_key: str = ""
    """`Prompt.key` of what was asked."""
    output_ids: tuple[int, ...] = field(default=(), repr=False)
    """The tokens, where their ids were asked for and told."""
    prompt_ids: tuple[int, ...] = field(default=(), repr=False)
    """The prompt's, likewise."""
    deviation_tokens: int = 0
    """The most by which its own token counts disagreed; negative where one was too low."""

    @property
    def due_s(self) -> float:
        """Return when latency starts to count: when the request should have been sent."""
        return self.sent_s if self.scheduled_s is None else self.scheduled_s

    @property
    def output_tokens(self) -> int:
        """Return the tokens received so far."""
        return self.tokens[-1] if self.tokens else 0

    @property
    def ttft_s(self) -> float | None:
        """Return the time from when it was due to the first token; None where none came."""
        return self.times_s[0] - self.due_s if self.times_s else None

    @property
    def decode_s(self) -> float:
        """Return the time from the first to the last arrival."""
        return self.times_s[-1] - self.times_s[0] if self.times_s else 0.0

    @property
    def decode_tokens(self) -> int:
        """Return the tokens that came in `decode_s`: without those of the first arrival."""
        return self.tokens[-1] - self.tokens[0] if self.tokens else 0

    @property
    def chunk_counts(self) -> Sequence[int]:
        """Return the chunks that had brought tokens by each of `times_s`."""
        return self.chunks or range(1, len(self.times_s) + 1)

    @property
    def decode_chunks(self) -> int:
        """Return the chunks that came in `decode_s`: without those of the first arrival."""
        counts = self.chunk_counts
        return counts[-1] - counts[0] if counts else 0


@dataclass(frozen=True, slots=True)
class PassRecord:
    """The requests of one pass over a list of prompts, at one concurrency."""

    requests: tuple[RequestRecord, ...]
    concurrency: int
    started_s: float
    ended_s: float
    client_lag_s: float | None = None
    """99th percentile of how late the client's own loop ran; None where nobody looked."""
    left_prompts: bool = False
    """The deadline came between two requests, and there were prompts left."""

    @property
    def cut_short(self) -> bool:
        """Tell whether the pass met its deadline before its prompts ran out."""
        cut = (request.end is EndReason.DEADLINE for request in self.requests)
        return self.left_prompts or any(cut)

    @property
    def broken(self) -> tuple[RequestRecord, ...]:
        """Return the requests that failed."""
        return tuple(r for r in self.requests if r.end in (EndReason.BROKEN, EndReason.SILENT))


@dataclass(frozen=True, slots=True)
class Baseline:
    """The time of one step of the best plain decode of a sweep, with its 95 % interval."""

    step_ms: float
    low_ms: float | None = None
    high_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the metrics of one trial are computed from."""

    cold: PassRecord | None
    """After a flush, before anything was generated; None where it was not run."""
    measured: PassRecord
    plain: bool | None = None
    """Whether the server decodes without speculation; None where only the counts can tell."""
    _: KW_ONLY
    probe: PassRecord | None = None
    """Long enough for the step rate alone."""
    loaded: tuple[PassRecord, ...] = ()
    """One closed loop for each concurrency."""
    open_loop: PassRecord | None = None
    baseline: Baseline | None = None
    """Plain decode at the load of `measured`; None where the sweep does not know it yet."""

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        """Return all passes."""
        known = (self.probe, self.cold, self.measured, *self.loaded, self.open_loop)
        return tuple(p for p in known if p)
