"""What a load client promises to those who measure with it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from infra.sglang.server_keys import ServerKeys
from orchestrator.load_client.arrivals import Arrivals
from sweeps.prompts import Prompt
from sweeps.records import PassRecord

BLOCK_S = 5.0
"""Length of the blocks of a running pass, in the host's seconds of streaming."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the tokens of every request of a pass are drawn."""

    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    ignore_eos: bool = False
    top_p: float = 1.0
    top_k: int = -1
    """-1: all tokens."""
    token_ids: bool = False
    """Bring back the ids of the tokens, and of the prompt's, where the server tells them."""


@dataclass(frozen=True, slots=True)
class PassProgress:
    """A running pass as it stands. Times are in the host's seconds."""

    elapsed_s: float
    output_tokens: int
    decode_blocks_per_s: tuple[float, ...]
    """Decode tokens/s in each whole `BLOCK_S` of streaming so far; those given never change."""
    chunk_blocks_per_s: tuple[float, ...]
    """Chunks with new tokens, per second and stream, in the same blocks: at most the step rate,
    since a server may put several steps into one chunk."""
    running_streams: int
    finished_requests: int
    accept_length: float | None = None
    """Tokens per verify step over the finished requests; None while none has told its steps."""
    silent_requests: int = 0
    """Requests that were given up because nothing came."""
    broken_requests: int = 0
    """Requests that the server refused or broke off."""
    quiet_s: float = 0.0
    """How long no running stream has brought a token; 0 while none runs."""


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What came of a request for a few tokens; true where it brought them, and counted."""

    why: str = ""
    """Why none did; empty where they came."""
    answered: bool = True
    """The server answered: it was not too late, and somebody was there."""
    unspoken: bool = False
    """The server does not speak the dialect, or does not count in it: another one may do."""

    def __bool__(self) -> bool:
        return not self.why


@dataclass(frozen=True, slots=True)
class ClientHealth:
    """How far a pass may be distorted by its own client."""

    lag_p99_s: float
    """Lateness of the client's loop, in the host's seconds. Gaps near it say nothing."""
    thread_cpu_fraction: float
    process_cpu_fraction: float
    several_events_fraction: float
    """Reads that held more than one event: their times are the later one's."""
    unread_p99_bytes: int = 0
    """What had come on all streams together and was not read yet, sampled."""


class LoadClient(Protocol):
    """Sends prompts to a server and brings back what came, and when.

    One pass at a time per client; it may be called from any thread without a running event loop.
    """

    @property
    def last_health(self) -> ClientHealth | None:
        """Return how the client fared in the last pass; None before the first."""
        ...

    def bearing(self, keys: ServerKeys) -> "LoadClient":
        """Return a client that sends the keys of a server."""
        ...

    def run_pass(  # noqa: PLR0913 - each is a term of the load
        self,
        url: str,
        prompts: Iterable[Prompt],
        sampling: Sampling,
        *,
        concurrency: int,
        arrivals: Arrivals | None = None,
        dialect: str,
        deadline_s: float,
        silence_s: float,
        on_progress: Callable[[PassProgress], None],
        should_stop: Callable[[], bool],
    ) -> PassRecord:
        """Send the prompts in order, `concurrency` at a time, and block until the pass is over.

        A prompt is taken when a stream is free for it, so that `prompts` may decide by then whether
        there is another one.

        With `arrivals` the loop is open: each request is due at its scheduled time, whatever the
        server does. `concurrency` is then the most that run at once: a request that finds as many
        running waits, and its record's `scheduled_s` is still when it was due.

        It is over when the prompts are, `deadline_s` of the host's seconds after its start, or
        once `should_stop` says so; what runs then keeps its tokens. A request that gets no byte
        for `silence_s` ends alone. A failed request is a record, never an exception.

        `on_progress` and `should_stop` are called about every 0.25 wall seconds on the thread of
        the caller, and hold up all reading meanwhile. What they raise ends the pass.

        Raises: ValueError for a URL, dialect or concurrency that makes no sense.
        """
        ...

    def probe(self, url: str, dialect: str, deadline_s: float) -> ProbeAnswer:
        """Tell whether the server generates a token within `deadline_s` of the host's seconds."""
        ...
