"""Screens the communication settings of a space on its hosts, without a server or a model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.allreduce.probe import AllReduceProbe
from infra.clean_proof import LocalPremises
from infra.clock import ScaledClock
from infra.host_lock import owner_text
from infra.local_host import LocalHost
from infra.probing.facts import HostFacts
from orchestrator.choices import HostChoice
from orchestrator.files import read_json, write_json
from orchestrator.host_check import load_probed, with_folder
from orchestrator.host_locks import hosts_locked
from orchestrator.refusals import bad_option, locked
from orchestrator.search.known import KnownHost, KnownRules
from orchestrator.state import State, new_sweep_id
from orchestrator.tools import gpu_view
from sweeps.config import Config
from sweeps.hosts import HostSpec
from sweeps.prediction.all_reduces import NOT_TIMED, AllReduces
from sweeps.screening import (
    STEP_TOKENS,
    Place,
    Screened,
    blamed,
    communication_of,
    is_screened,
    known_alike,
    next_setting,
    ranked,
)
from sweeps.sweep import Sweep

FILE = "screening.json"
TOKEN_BYTES = 14336
"""What a token adds to an all-reduce where the model does not say: 7,168 elements of two bytes."""
DEADLINE_S = 90.0
"""Host seconds for one setting: eight ranks need about 20 to import and to meet."""
_ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True)
class Screening:
    """What a host answered, in the order of asking."""

    host: str
    fingerprint: str
    emulated: bool
    token_bytes: int
    screened: tuple[Screened, ...]
    not_screened: tuple[str, ...] = ()
    """Communication axes that only a server can show."""

    @property
    def places(self) -> list[Place]:
        """Return the settings, best first."""
        return ranked(self.screened)

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        return {
            "host": self.host, "fingerprint": self.fingerprint, "emulated": self.emulated,
            "token_bytes": self.token_bytes,
            "screened": [one.as_data() for one in self.screened],
            "not_screened": list(self.not_screened),
        }  # fmt: skip


def screen(
    space_file: Path,
    state_dir: Path,
    choice: HostChoice,
    most: int,
    tell: Callable[[HostSpec, Screened, int], None],
) -> list[Screening]:
    """Time up to `most` settings on each host and keep the answers for its sweeps.

    Raises BadInputError before anything starts.
    """
    state = State(state_dir)
    sweep, facts = load_probed(space_file, choice, state)
    if not communication_of(sweep.space.plain()):
        mend = "Add an axis of communication, such as NCCL_PROTO."
        raise bad_option("SPACE_FILE", space_file.name, "it has no axis of communication", mend)
    mark = new_sweep_id(f"screen-{sweep.name}")
    with locked(state, mark), hosts_locked(sweep, facts, owner_text(mark, state.root)):
        return [_screen_host(sweep, h, facts[h.name], state, mark, most, tell) for h in sweep.hosts]


def read_screening(state: State, host: str, fingerprint: str) -> Screening | None:
    """Return what a host answered, if it is still the host that it was."""
    data = read_json(state.host_folder(host) / FILE)
    if data is None or data["fingerprint"] != fingerprint:
        return None
    told = {**data, "screened": tuple(Screened.from_data(one) for one in data["screened"])}  # type: ignore[attr-defined] # from as_data
    return Screening(**{**told, "not_screened": tuple(data["not_screened"])})  # type: ignore[arg-type] # from as_data


def timed_all_reduces(state: State, fingerprints: Mapping[str, str]) -> AllReduces:
    """Return the all-reduces of the first host that was screened, and still is what it was."""
    for host, fingerprint in fingerprints.items():
        if screening := read_screening(state, host, fingerprint):
            return AllReduces(screening.screened)
    return NOT_TIMED


def refusals(state: State, fingerprints: Mapping[str, str]) -> Callable[[Config], str]:
    """Return what says why a configuration hangs or fails by what its hosts answered."""
    found = [
        screening
        for host, fingerprint in fingerprints.items()
        if (screening := read_screening(state, host, fingerprint))
    ]
    return lambda config: next(filter(None, (_refusal(one, config) for one in found)), "")


def _refusal(screening: Screening, config: Config) -> str:
    trouble = blamed(screening.screened, config)
    return f"its all-reduce on host {screening.host} {trouble}" if trouble else ""


def _screen_host(
    sweep: Sweep,
    host: HostSpec,
    facts: HostFacts,
    state: State,
    mark: str,
    most: int,
    tell: Callable[[HostSpec, Screened, int], None],
) -> Screening:
    folder = state.host_folder(host.name)
    spec = with_folder(host, state)
    clock, machine = ScaledClock(host.clock_scale), LocalHost()
    premises = LocalPremises(machine, gpu_view(spec), clock, name=host.name, gpu_indices=set())
    probe = AllReduceProbe(
        spec, machine, premises, clock, folder / "screening", mark, deadline_s=DEADLINE_S
    )
    rules = KnownRules(sweep, [KnownHost(host.name, facts.version, facts.machine)])
    token_bytes = token_bytes_of(sweep.model.path)
    sizes = [tokens * token_bytes for tokens in STEP_TOKENS]
    done: list[Screened] = []
    while len(done) < most:
        setting = next_setting(sweep.space, done, emulated=host.emulated)
        if setting is None:
            break
        full = sweep.settings(Config.of({**sweep.space.plain(), **setting}))
        alike = known_alike(sweep.space, done, setting, rules.canonical)
        done.append(alike or probe.measure(len(done), setting, full, sizes))
        tell(host, done[-1], most)
    names = communication_of(sweep.space.plain())
    unseen = tuple(name for name in names if not is_screened(name, emulated=host.emulated))
    found = Screening(host.name, facts.fingerprint, host.emulated, token_bytes, tuple(done), unseen)
    write_json(folder / FILE, found.as_data())
    return found


def token_bytes_of(model: str) -> int:
    """Return what one token adds to an all-reduce, by the model's own configuration."""
    config = read_json(Path(model) / "config.json") or {}
    texts = config.get("text_config")
    width = (texts if isinstance(texts, dict) else config).get("hidden_size")
    return width * _ELEMENT_BYTES if isinstance(width, int) and width else TOKEN_BYTES


def sizes_of(screened: Sequence[Screened]) -> list[int]:
    """Return the sizes that were timed, in bytes."""
    return [r.size_bytes for r in next((s.reductions for s in screened if s.reductions), ())]
