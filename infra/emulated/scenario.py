"""The world of an emulated host: how it starts, what it answers and what goes wrong, as data.

Everything defaults to a healthy host. `scenario_file` reads it from TOML; a section here is a table
there, a field a key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sweeps.values import Value


class StartPhase(StrEnum):
    """What a start goes through, in this order."""

    SPAWN = "spawn"
    DISTRIBUTED_INIT = "distributed_init"
    WEIGHTS = "weights"
    MEMORY_POOL = "memory_pool"
    GRAPHS = "graphs"
    WARM_UP = "warm_up"


class PageCache(StrEnum):
    """Whether the weights are read from memory or from disk."""

    WARM = "warm"
    COLD = "cold"


class Answer(StrEnum):
    """How an endpoint answers."""

    HONEST = "honest"
    EARLY = "early"
    """200 from the moment that the port is open."""
    LATE = "late"
    """503 long after the server is ready."""
    UNHEALTHY = "unhealthy"
    MISSING = "missing"
    HANGING = "hanging"


class Usage(StrEnum):
    """Where the usage block of a chat stream comes."""

    NONE = "none"
    FINAL = "final"
    EVERY = "every"
    WRONG = "wrong"
    """In every chunk, and too high by half."""
    FALLING = "falling"
    """In every chunk, and lower in the second half than before."""


class Form(StrEnum):
    """Whether a native stream repeats what it has sent."""

    CUMULATIVE = "cumulative"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class StartWorld:
    """How a start goes."""

    page_cache: PageCache | None = None
    """None: warm if this host has loaded the model before."""
    durations_s: Mapping[StartPhase, float] = field(default_factory=dict)
    """Host seconds of a phase, instead of what the truth says."""
    slow_factor: float = 1.0
    hang_in: StartPhase | None = None
    hang_rank: int | None = None
    """The only rank that hangs: the others come to the end of that phase, and wait there for it."""
    die_in: StartPhase | None = None
    only_with: str = ""
    """`NAME=VALUE` of a variable: the start hangs or dies only where its environment has it."""
    exit_code: int | None = None
    """None: the server kills itself, as SGLang does after a failed scheduler."""
    last_line: str = ""
    """What the dying scheduler writes; empty: a broken weight file."""

    def concerns(self, environment: Mapping[str, str]) -> bool:
        """Tell whether a start under these variables is the one that goes wrong."""
        name, _, value = self.only_with.partition("=")
        return not name or environment.get(name) == value


@dataclass(frozen=True, slots=True)
class ProcessWorld:
    """How the process tree behaves."""

    ignore_sigterm: bool = False
    """The root goes on serving."""
    workers_ignore_sigterm: bool = False
    detached: int = 0
    """Children that leave the session and the tree, under a name of their own."""
    detached_keep_port: bool = False
    """A detached child keeps the server's listening socket after its death."""
    release_memory_s: float = 0.0
    """Host seconds that GPU memory stays in use after its process is gone."""
    echo_path: str = ""
    """File that the server writes its own argv and environment to, as JSON."""


@dataclass(frozen=True, slots=True)
class StreamWorld:
    """How streams look. A position of 0 means never, one below 0 before the first token."""

    form: Form | None = None
    """None: as the version and its flags say."""
    chunk_tokens: tuple[int, int] | None = None
    """Fewest and most tokens of a chunk; None: one chunk a step."""
    usage: Usage | None = None
    """None: as the request asks."""
    usage_with_choice: bool = False
    """The final usage comes beside a choice instead of `choices: []`."""
    error_after_tokens: int = 0
    """An error event inside a 200."""
    stall_after_tokens: int = 0
    close_after_tokens: int = 0
    """The connection closes in the middle of the stream."""
    empty_body: bool = False
    request: int = 0
    """Number of the only request that this befalls, counted from 1; 0: all of them."""


@dataclass(frozen=True, slots=True)
class SpeedWorld:
    """What the truth does not say about speed."""

    slow_requests: int = 1
    """The first so many requests after a start compile kernels."""
    spin_ms: float = 0.0
    """Added to every forward."""
    corrupt_verify: bool = False
    """Verification reads wrong data: accept length collapses and the text is another."""


@dataclass(frozen=True, slots=True)
class FaultWorld:
    """What goes wrong while serving. 0 means never; requests are counted from 1, probes not."""

    die_at_request: int = 0
    die_after_s: float = 0.0
    """Host seconds after ready."""
    hang_at_request: int = 0
    worker_dies_at_request: int = 0
    """One scheduler dies; the root lives on and never answers again."""
    abort_at_request: int = 0
    """A scheduler aborts in native code (SIGABRT), and the server with it."""


class OomMoment(StrEnum):
    """When memory runs out."""

    WEIGHTS = "weights"
    GRAPHS = "graphs"
    SERVING = "serving"


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """Memory runs out at a moment if all of these hold."""

    moment: OomMoment = OomMoment.SERVING
    running_requests_from: int = 0
    context_tokens_from: int = 0
    """KV tokens of all running requests together."""
    draft_tokens_from: int = 0
    mem_fraction_from: float = 0.0


@dataclass(frozen=True, slots=True)
class Overrides:
    """What somebody else has decided for the server, whatever it was given."""

    args: Mapping[str, Value] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    reported: Mapping[str, Value] = field(default_factory=dict)
    """What `/server_info` says instead of the truth."""


@dataclass(frozen=True, slots=True)
class TextWorld:
    """What the model writes."""

    path: str = ""
    """A text file that it writes from, instead of the built-in texts."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """All of it. `health` maps a path to how it answers."""

    start: StartWorld = field(default_factory=StartWorld)
    processes: ProcessWorld = field(default_factory=ProcessWorld)
    health: Mapping[str, Answer] = field(default_factory=dict)
    stream: StreamWorld = field(default_factory=StreamWorld)
    speed: SpeedWorld = field(default_factory=SpeedWorld)
    text: TextWorld = field(default_factory=TextWorld)
    faults: FaultWorld = field(default_factory=FaultWorld)
    oom: tuple[OutOfMemory, ...] = ()
    overrides: Overrides = field(default_factory=Overrides)


HEALTHY = Scenario()
