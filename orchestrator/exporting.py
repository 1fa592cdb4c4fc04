"""What `export` does: which trial, what is known around it, what must be said, and the files."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.gpus import count_gpus
from infra.probing.probe import probe_host
from infra.redaction import MASK, Redactor, is_secret_name
from infra.secret_refs import is_reference
from infra.sglang.protocol import SINCE, Feature, has
from infra.sglang.version_range import takes_the_same
from orchestrator.choices import AS_WRITTEN
from orchestrator.explain import BEST
from orchestrator.files import write_text
from orchestrator.goals import answer_in, goal_of, ranking_of
from orchestrator.lookup import known_sweep, known_trial
from orchestrator.refusals import bad_option
from orchestrator.space_file import settle_host
from orchestrator.state import State
from sweeps.alike import namesakes
from sweeps.axes import is_environment
from sweeps.config import Config
from sweeps.equivalence import reading_of
from sweeps.exporters import EXPORTERS, Launch, Recommendation, written
from sweeps.exporters.cautions import cautions
from sweeps.exporters.recommendation import Chosen, Origin, recommend
from sweeps.hosts import HostSpec
from sweeps.limits import broken_limits
from sweeps.metrics import known_metric
from sweeps.problems import nearest
from sweeps.ranking import Standing, standing_of
from sweeps.results import TrialResult
from sweeps.search.evidence import Reading, between_starts
from sweeps.sweep import Objective

IMAGE = "lmsysorg/sglang:v{version}"
YAML_ENDS = (".yaml", ".yml")
"""SGLang refuses configuration files with another ending."""


@dataclass(frozen=True, slots=True)
class ExportChoice:
    """What the command line asks for."""

    form: str = "sh"
    allow_emulated: bool = False
    concurrency: int | None = None
    """Requests at a time in production, where that is known."""
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """An export, ready to be written or printed."""

    form: str
    text: str
    beside: str
    """What the format cannot hold, for a second file; empty: nothing."""
    warnings: tuple[str, ...]

    def written(self, output: Path) -> tuple[Path, ...]:
        """Write the files and return their paths. Raises BadInputError and DiskError."""
        if EXPORTERS[self.form].write_beside and output.suffix.lower() not in YAML_ENDS:
            mend = f"Call it {output.stem}.yaml."
            raise bad_option("--output", str(output), "SGLang reads .yaml and .yml only", mend)
        write_text(output, self.text, 0o755 if EXPORTERS[self.form].executable else None)
        if not self.beside:
            return (output,)
        beside = companion(output)
        write_text(beside, self.beside)
        return output, beside

    def printable(self) -> str:
        """Return the text for standard output. Raises BadInputError where one file is no enough."""
        if self.beside:
            why = "it cannot hold all settings: the rest goes to a second file, NAME.env"
            raise bad_option("--format", self.form, why, "Give --output NAME.yaml.")
        return self.text


def companion(output: Path) -> Path:
    """Return the file that holds what a format cannot."""
    return output.with_suffix(".env")


def export(
    state_dir: Path, sweep_id: str | None, trial: str | None, choice: ExportChoice
) -> Exported | None:
    """Export a trial, or the best of the newest sweep or of one named; None where none is.

    Raises BadInputError.
    """
    if choice.form not in EXPORTERS:
        mend = nearest(choice.form, EXPORTERS) or f"There are {', '.join(EXPORTERS)}."
        raise bad_option("--format", choice.form, "there is no such format", mend)
    state = State(state_dir)
    one = known_sweep(state, sweep_id)
    result = None if trial in (None, BEST) else known_trial(state, str(trial), sweep_id)
    what = recommendation(state, result.sweep if result else one, result)
    if what is None:
        return None
    if what.trial.emulated and not choice.allow_emulated:
        why = "it was measured on an emulated host, and says nothing of a real one"
        mend = "Add --allow-emulated, for practice; the file then says EMULATED."
        raise bad_option("--trial", what.trial.trial, why, mend)
    version = what.trial.engine_version
    if EXPORTERS[choice.form].write_beside and not has(Feature.CONFIG_FILE, version):
        flag, since = Feature.CONFIG_FILE.value, SINCE[Feature.CONFIG_FILE]
        why = f"SGLang {version}, which was measured, has no {flag} (from {since})"
        raise bad_option("--format", choice.form, why, "Choose another format.")
    what, secrets = without_secrets(what)
    here = fingerprint_here(state, what.origin)
    told = (*what.warnings, *secrets, *cautions(what, here, choice.concurrency))
    image = choice.image or IMAGE.format(version=what.trial.engine_version)
    what = replace(what, warnings=tuple(" ".join(w.split()) for w in told), image=image)
    text, beside = written(what, choice.form)
    return Exported(choice.form, text, beside, what.warnings)


def recommendation(
    state: State, sweep_id: str, result: TrialResult | None = None
) -> Recommendation | None:
    """Return a trial with all that is known around it; without one, the best of the sweep.

    None where none was measured. Raises BadInputError for a trial without a figure.
    """
    card = state.card(sweep_id)
    goal, results = goal_of(card), state.results(sweep_id)
    unit, answer = known_metric(goal.metric).unit, answer_in(card, results)
    if result is not None:
        plain = answer.plain if answer else ranking_of(goal, results).plain
        chosen = Chosen.by_hand(_standing(result, goal), plain, answer)
    elif answer is not None:
        chosen = Chosen.by(answer)
    else:
        return None
    what = recommend(chosen, results, goal.metric, unit)
    what = replace(what, origin=_origin(card, what, results))
    broken = broken_limits(what.trial, goal.limits)
    versions = takes_the_same(what.settings, what.trial.engine_version)
    warnings = (*what.warnings, *(f"it breaks a limit: {why}" for why in broken))
    return replace(what, versions=versions, warnings=warnings)


def without_secrets(what: Recommendation) -> tuple[Recommendation, tuple[str, ...]]:
    """Leave out what is secret, and say so: whoever starts the server must give it."""
    redactor = Redactor.from_environment()
    env = {n: str(v) for n, v in _masked(redactor, dict(what.env)).items()}
    words = _masked(redactor, {"argv": list(what.options)})["argv"]
    groups = Launch(tuple(words)).grouped
    kept = [group for group in groups if not any(MASK in word for word in group)]
    names = [n for n, value in env.items() if MASK in value]
    names += [group[0] for group in groups if group not in kept]
    launch = Launch(
        tuple(word for group in kept for word in group),
        {n: v for n, v in env.items() if MASK not in v},
    )
    said = [f"{name} is secret and was left out: give it to the server" for name in names]
    said += [
        f"{shown} is secret and was left out: give it to the server; it was {reference} here"
        for shown, reference in _references(what)
    ]
    return replace(what, launch=launch), tuple(said)


def _references(what: Recommendation) -> Iterator[tuple[str, str]]:
    """Yield the options and variables that the server got by reference, each with that."""
    for name, value in {**what.origin.host.get("env", {}), **what.settings}.items():
        if is_secret_name(name) and isinstance(value, str) and is_reference(value):
            yield name if is_environment(name) else f"--{name.replace('_', '-')}", value


def fingerprint_here(state: State, origin: Origin) -> str:
    """Return the fingerprint of this machine as a host like that of an export; empty if unknown."""
    if not origin.host:
        return ""
    host = settle_host(HostSpec.from_data(origin.host), AS_WRITTEN, count_gpus())
    return probe_host(host, state.host_folder(host.name)).fingerprint


def _masked(redactor: Redactor, data: Mapping[str, Any]) -> dict[str, Any]:
    masked = redactor.data(data)
    assert isinstance(masked, dict), "a mapping stays one"
    return masked


def _standing(result: TrialResult, goal: Objective) -> Standing:
    """Return where a trial stands by itself. Raises BadInputError where it has no figure."""
    if not result.outcome.has_rate or goal.metric not in result.estimates:
        why = f"it is {result.outcome.value}: {result.reason or 'it was not measured to its end'}"
        mend = "`orchestrator trials` lists those that were measured."
        raise bad_option("--trial", result.trial, why, mend)
    return standing_of([result], goal.metric)


def _origin(
    card: Mapping[str, Any], what: Recommendation, results: Sequence[TrialResult]
) -> Origin:
    hosts = card.get("hosts", [])
    spec: dict[str, Any] = next((one for one in hosts if one["name"] == what.trial.host), {})
    default, workload = Origin(), card.get("workload", {})
    groups: dict[Config, list[Reading]] = {}
    names = {c: one.configs[0] for one in namesakes(results) for c in one.configs}
    for result in results:
        same = workload.get("temperature") == 0
        if reading := reading_of(result, what.metric, same_texts=same):
            config = names.get(result.config, result.config)
            groups.setdefault(config, []).append(reading)
    variance, weight = between_starts(groups.values())
    sides = [side.config for side in (what.best, what.plain or what.best)]
    mine, plain = (_measuring(groups.get(names.get(c, c), [])) for c in sides)
    return Origin(
        workload, spec, card.get("budget", {}),
        float(card.get("zone_fraction", default.zone_fraction)), (math.sqrt(variance), weight),
        (mine, plain),
    )  # fmt: skip


def _measuring(starts: Sequence[Reading]) -> float:
    """Return the deviation of the measuring of one start."""
    if not starts:
        return Origin().measuring[0]
    return math.sqrt(sum(start.variance for start in starts) / len(starts))
