"""What the routes of one emulated server share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from infra.clock import Clock
from infra.emulated.scenario_file import ScenarioSource
from infra.emulated.serving.corpora import Corpora
from infra.emulated.serving.replies import Style
from infra.emulated.serving.scheduler import Scheduler
from infra.emulated.versions import Manners, manners
from sweeps.values import Value

_TRUE = ("1", "true", "True")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What `/server_info` and `/model_info` say and no request changes."""

    args: Mapping[str, Value]
    launch_command: str
    version: str
    environment: Mapping[str, str]
    start_times_s: Mapping[str, object]
    memory_gib: Mapping[str, float]
    graph_sizes: tuple[int, ...]

    @property
    def model(self) -> str:
        """Return the name that the model is served under."""
        return str(self.args["served_model_name"])

    @property
    def how(self) -> Manners:
        """Return the manners of the version."""
        return manners(self.version)

    def is_set(self, variable: str, *, default: bool = False) -> bool:
        """Read a switch among the environment variables."""
        text = self.environment.get(variable)
        return default if text is None else text in _TRUE


@dataclass(slots=True)
class ServerState:
    """One running server, as its routes see it. Belongs to one event loop."""

    scheduler: Scheduler
    clock: Clock
    facts: ServerFacts
    style: Style
    corpora: Corpora
    ready_since_s: float | None = None
    draining: bool = False
    numbers: "count[int]" = field(default_factory=lambda: count(1))
    """Numbers of the requests; probes and the warm-up have none."""

    @property
    def ready(self) -> bool:
        """Tell whether the warm-up is over."""
        return self.ready_since_s is not None

    @property
    def scenario(self) -> ScenarioSource:
        """Return the world that the server lives in."""
        return self.scheduler.scenario

    def ready_for_s(self) -> float:
        """Return for how many host seconds the server has been ready."""
        since_s = self.ready_since_s
        return 0.0 if since_s is None else self.clock.now_s() - since_s


def make_state(scheduler: Scheduler, clock: Clock, facts: ServerFacts) -> ServerState:
    """Make the state of a server that has just been loaded. Raises CorpusError."""
    corpora = Corpora(scheduler.engine)
    path = facts.args.get("speculative_ngram_external_corpus_path")
    if path is not None:
        corpora.load_file(str(path))
    return ServerState(scheduler, clock, facts, _style(scheduler, facts), corpora)


def _style(scheduler: Scheduler, facts: ServerFacts) -> Style:
    args, settings, how = facts.args, scheduler.engine.settings, facts.how
    asked = args.get("stream_output") or args.get("incremental_streaming_output")
    return Style(
        how=how,
        draft_tokens=settings.draft_tokens,
        draft_steps=settings.draft_steps,
        speculates=settings.speculates,
        timings=bool(args["enable_metrics"]),
        cache_report=bool(args["enable_cache_report"]),
        form=how.chunks_repeat_on_request if asked else how.chunks_repeat,
        weight_version=str(args["weight_version"]),
    )
