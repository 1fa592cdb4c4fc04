"""The small sweep of a verification or a comparison: its host, its sides and its starts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.gpus import count_gpus
from infra.inventory import load_inventory
from infra.probing.facts import HostFacts, release
from infra.probing.probe import probe_host
from infra.sglang.setting_checks import setting_problems
from orchestrator.choices import AS_WRITTEN, THIS_MACHINE, ClusterChoice, Driver, HostChoice
from orchestrator.refusals import bad_option
from orchestrator.search.given import GivenTrial
from orchestrator.space_file import prepare, settle_host
from orchestrator.state import State
from orchestrator.subjects import Subject, check_plan
from sweeps.axes import Choice, is_environment
from sweeps.config import Config
from sweeps.hosts import HostSpec
from sweeps.pins import CAPACITY
from sweeps.problems import BadInputError, nearest
from sweeps.sweep import Budget, Model, Objective, Sweep
from sweeps.values import Value

if TYPE_CHECKING:
    from orchestrator.cluster.lent import Cluster

ALGORITHM = "speculative_algorithm"
PLAIN = "plain decode"


@dataclass(frozen=True, slots=True)
class ProofChoice:
    """What the command line asks for."""

    starts: int = 2
    within: float | None = None
    """The zone as a fraction; None: the indifference of the sweep."""
    with_plain: bool = False
    """Judge the gain over plain decode, measured beside it."""
    driver: Driver = Driver.SERIAL
    host_name: str | None = None
    host: HostChoice = AS_WRITTEN
    python: str | None = None
    prompts: Path | None = None
    inventory: Path = Path("hosts.toml")

    @property
    def machines(self) -> ClusterChoice:
        """Return where the starts are made: on a host of the inventory, or here.

        Raises BadInputError where the inventory is none.
        """
        if self.host_name is None or not self.inventory.is_file():
            return THIS_MACHINE
        is_there = self.host_name in load_inventory(self.inventory).names()
        return ClusterChoice((self.host_name,), self.inventory) if is_there else THIS_MACHINE


class ProofPlan:
    """What will be started, and where; all that can be checked without a start is checked."""

    def __init__(
        self,
        state: State,
        subjects: Sequence[Subject],
        choice: ProofChoice,
        cluster: "Cluster | None" = None,
    ) -> None:
        """Take one file to verify or two to compare; `cluster` has the host, if it is not here.

        Raises BadInputError, and HostError where a host of a cluster is lost.
        """
        self._state, self._choice = state, choice
        self._first, self._other = subjects[0], subjects[1] if len(subjects) > 1 else None
        self.host, self.facts = self._lent(cluster) if cluster else self._find_host()
        if self._first.record["emulated"] and not self.host.emulated:
            why = "an emulated figure says nothing of a real host"
            raise bad_option("FILE", self._first.label, why, "Leave out --host.")
        self.notes = (*self._edits(), *self._surroundings())
        """What a reader of the answer must know."""
        self.sweep, configs = self._make_sweep()
        self.trials = _ordered(configs, choice.starts)
        """Each start, in its order."""

    def card(self, zone_fraction: float) -> dict[str, object]:
        """Return what the state folder keeps of it."""
        sweep = self.sweep
        return {
            "name": sweep.name, "key": sweep.key, "file": self._first.label,
            "created_at": datetime.now(UTC).isoformat(), "objective": sweep.objective.metric,
            "limits": [], "also": [], "workload": sweep.workload.as_data(),
            "emulated": self.host.emulated, "hosts": [host.as_data() for host in sweep.hosts],
            "verifies": [one.launch.plan for one in (self._first, self._other) if one],
            "zone_fraction": zone_fraction,
        }  # fmt: skip

    def _find_host(self) -> tuple[HostSpec, HostFacts]:
        choice, spec = self._choice, self._first.host
        if choice.host_name not in (None, spec.name):
            spec = self._known_host(str(choice.host_name))
        if choice.python is not None:
            spec = replace(spec, python=choice.python)
        host = settle_host(replace(spec, version=None), choice.host, count_gpus())
        facts = probe_host(host, self._state.host_folder(host.name))
        return replace(host, version=facts.version), facts

    def _lent(self, cluster: "Cluster") -> tuple[HostSpec, HostFacts]:
        choice, model = self._choice, Model(str(self._first.settings.get("model_path", "")))
        host, facts = cluster.probe(str(choice.host_name), choice.host, model, choice.python)
        return replace(host, version=facts.version), facts

    def _known_host(self, name: str) -> HostSpec:
        cards = [self._state.card(one) for one in reversed(self._state.sweep_ids())]
        known: dict[str, Any] = {}
        for card in cards:
            hosts = card.get("hosts")
            for host in hosts if isinstance(hosts, list) else ():
                known.setdefault(host["name"], host)
        if name not in known:
            there = [*known, self._first.host.name]
            mend = nearest(name, there) or f"There are {', '.join(dict.fromkeys(there))}."
            why = f"neither {self._choice.inventory} nor a sweep here names such a host"
            raise bad_option("--host", name, why, mend)
        return HostSpec.from_data(known[name])

    def _edits(self) -> list[str]:
        subjects = [one for one in (self._first, self._other) if one]
        said = [f"{one.label} was edited: {edit}" for one in subjects for edit in one.edits]
        return [*said, *(f"{one.label}: {note}" for one in subjects for note in one.notes)]

    def _surroundings(self) -> list[str]:
        """Say what is not as it was when the figure was measured."""
        data, facts, said = self._first.record, self.facts, []
        then, now = str(data["engine_version"]), facts.software.sglang_version
        if now and release(then) != release(now):
            said.append(f"SGLang is {now} here, and {then} was measured")
        if data["fingerprint"] and data["fingerprint"] != facts.fingerprint:
            said.append(
                f"the host or its software changed: fingerprint {facts.fingerprint}, and"
                f" {data['fingerprint']} was measured"
            )
        if self._other is None and not data["confirmed"]:
            said.append("the exported figure chose its variant, which flatters it")
        if self._other and self._other.record["workload"] != data["workload"]:
            said.append(f"both are measured with the load of {self._first.label}")
        return said

    def _make_sweep(self) -> tuple[Sweep, dict[str, Config]]:
        """Put what all sides share into fixed settings, and the rest into configurations."""
        sides = self._sides()
        names = {name: None for settings in sides.values() for name in settings}
        swept = {ALGORITHM, *self._first.record["config"]}
        shared = {
            name: value
            for name in names
            if name not in swept and len(found := {s.get(name) for s in sides.values()}) == 1
            for value in found
        }
        env = {name: str(value) for name, value in shared.items() if is_environment(name)}
        fixed = {n: v for n, v in shared.items() if not is_environment(n) and n != "model_path"}
        # Nothing is pinned in addition: just what the files say is started.
        fixed |= {name: None for name in CAPACITY if name not in names}
        configs = {side: Config.of({n: s.get(n) for n in names if n not in shared})
                   for side, s in sides.items()}  # fmt: skip
        label = self._first.record["sweep"] if self._other is None else "two"
        sweep = Sweep(
            name=_name("verify" if self._other is None else "compare", str(label)),
            model=Model(str(self._first.settings.get("model_path", ""))),
            axes=_axes(configs.values()),
            fixed=fixed,
            workload=self._first.workload(self._choice.prompts),
            objective=Objective(str(self._first.record["metric"])),
            budget=_budget(self._first.record, len(sides) * self._choice.starts),
            hosts=[replace(self.host, env={**_places(self.host), **env})],
            sampler="random",
            early_stopping=False,
        )
        return self._checked(sweep, configs), configs

    def _sides(self) -> dict[str, dict[str, Value]]:
        """Return all settings of each side."""
        first = self._first
        check_plan(first, first.settings)
        sides = {first.label: first.settings}
        if self._other is not None:
            check_plan(self._other, self._other.settings)
            label = self._other.label
            sides[label if label != first.label else f"{label} again"] = self._other.settings
        elif self._choice.with_plain:
            baseline = first.record["baseline"]
            if baseline is None or Config.of(first.record["config"]).is_plain:
                why = "it is plain decode itself, or none was measured"
                raise bad_option("--with-plain", first.label, why, "Leave it out.")
            without = dict.fromkeys(first.record["config"])
            sides[PLAIN] = {**first.settings, **without, **baseline["config"]}
        return sides

    def _checked(self, sweep: Sweep, configs: Mapping[str, Config]) -> Sweep:
        host = sweep.hosts[0]
        problems = [
            problem
            for config in configs.values()
            for problem in setting_problems(
                {n: (v,) for n, v in config.items() if v is not None and not is_environment(n)},
                str(host.version), self.facts.accepted_flags or None,
            )
        ]  # fmt: skip
        if problems:
            raise BadInputError(self._first.label, problems)
        return prepare(sweep, Path(self._first.label), self._choice.host)


def _ordered(configs: Mapping[str, Config], starts: int) -> list[GivenTrial]:
    """Take turns forth and back, A-B-B-A, so that a host that drifts is even to both."""
    order: list[GivenTrial] = []
    sides = [GivenTrial(side, config) for side, config in configs.items()]
    for number in range(starts):
        order += sides if number % 2 == 0 else sides[::-1]
    return order


def _axes(configs: Iterable[Config]) -> list[Choice]:
    """Return what the sides vary, with plain decode for a baseline as every space has it."""
    values: dict[str, dict[Value, None]] = {}
    for config in configs:
        for name, value in config.items():
            values.setdefault(name, {None: None})[value] = None
    return [Choice(name, list(found)) for name, found in values.items()]


def _name(kind: str, label: str) -> str:
    return f"{kind}-{''.join(c if c.isalnum() or c in '-_' else '-' for c in label)}"


def _budget(data: Mapping[str, Any], trials: int) -> Budget:
    known = {field.name for field in fields(Budget)}
    kept = {name: value for name, value in data["budget"].items() if name in known}
    return Budget(**{**kept, "trials": trials, "gpu_hours": None})


def _places(host: HostSpec) -> dict[str, str]:
    """Return the variables of the host that an export leaves out, as they belong to the place."""
    return {n: v for n, v in host.env.items() if n.startswith("CUDA_")}
