"""What is recommended for production, and on which evidence."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweeps.axes import is_environment
from sweeps.effects import mismatches, server_choices
from sweeps.exporters.launches import MODULE, OF_THE_PLACE, Launch, unprintable, without
from sweeps.naming import short
from sweeps.phrases import sentence
from sweeps.problems import Problem
from sweeps.ranking import Standing
from sweeps.reporting.answer import Answer, StatedGain
from sweeps.results import TrialResult
from sweeps.values import Value, show

_OURS = "EMULATED_"
_VARIABLES_OF_THE_PLACE = ("TMPDIR", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_TOLD_VARIABLES = ("NCCL_",)
"""Of the variables that a server sets itself, those that may decide its speed."""
_EMULATED_PROGRAM = "infra.emulated"
_LEAST_START_S = 600.0
_MOST = 1e9
_PROGRAM = re.compile(r"/[^\x00-\x1f\x7f-\x9f]*|[A-Za-z][\w.+-]*", re.ASCII)
_VERSION = re.compile(r"[0-9A-Za-z][\w.+-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Origin:
    """The sweep around a recommendation, as far as it is on record, as plain data."""

    workload: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    zone_fraction: float = 0.01
    """Rates closer than this are alike."""
    launch_spread: tuple[float, float] = (0.015, 8)
    """Between starts of one variant, as a fraction, and how many starts that is worth."""
    measuring: tuple[float, float] = (0.01, 0.01)
    """Deviation of the measuring of one start, as a fraction: of this variant, of plain decode."""

    @property
    def gpus(self) -> int:
        """Return how many GPUs a server had."""
        return int(self.host.get("gpus", 8))

    @property
    def start_s(self) -> float:
        """Return how long a start may take."""
        return float(self.budget.get("start_s", _LEAST_START_S))

    @property
    def stop_s(self) -> float:
        """Return how long a server may take to end."""
        return float(self.budget.get("stop_grace_s", 20.0))

    @property
    def load(self) -> str:
        """Say what was asked of the servers."""
        work = self.workload
        if not work:
            return "not on record"
        streams = ", ".join(map(str, [work["concurrency"], *work["concurrencies"]]))
        rate = work.get("requests_per_s")
        text = f"{work['prompts']} prompts, up to {work['max_tokens']} tokens, {streams} at a time"
        return f"{text}, and {rate:g} requests/s" if rate else text

    @property
    def most_streams(self) -> int:
        """Return the most requests at a time that were measured; 0: not on record."""
        work = self.workload
        return max([work["concurrency"], *work["concurrencies"]]) if work else 0

    def problems(self) -> Iterator[Problem]:
        """List what is no number that a file can hold."""
        given = {"host.gpus": self.host.get("gpus", 8),
                 "budget.start_s": self.budget.get("start_s", _LEAST_START_S),
                 "budget.stop_grace_s": self.budget.get("stop_grace_s", 20.0)}  # fmt: skip
        for name, value in given.items():
            if type(value) not in (int, float) or not 0 <= value < _MOST:
                why = "that is no such number"
                yield Problem(name, ascii(value), why, "Measure it again.")

    def as_data(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "workload": dict(self.workload), "host": dict(self.host), "budget": dict(self.budget),
            "zone_fraction": self.zone_fraction, "launch_spread": list(self.launch_spread),
            "measuring": list(self.measuring),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is exported, and how sure the sweep is of it."""

    standing: Standing
    trial: str
    """The start that is made again."""
    plain: Standing | None
    """The plain decode to compare with."""
    gain: float | None
    """Over that; None where a plain decode is exported."""
    gains: tuple[StatedGain, ...] = ()
    ties: int = 0
    certainty: str = "one start"
    sure: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def by(cls, answer: Answer) -> "Chosen":
        """Take what a sweep recommends."""
        gain = answer.gain
        said = answer.sure if answer.verdict is None else answer.sure[:1]
        return cls(
            answer.standing, answer.trial, answer.plain, None if gain is None else gain.value,
            answer.gains, len(answer.ties), answer.certainty, answer.sure,
            () if answer.settled else said,
        )  # fmt: skip

    @classmethod
    def by_hand(cls, standing: Standing, plain: Standing | None, answer: Answer | None) -> "Chosen":
        """Take one trial that a user names, with its figure alone."""
        gain, trial = None, standing.used[-1]
        warnings: tuple[str, ...] = ()
        if plain is not None and plain.value and not standing.config.is_plain:
            gain = standing.value / plain.value
        if answer is not None and trial not in answer.standing.trials:
            name = short(answer.standing.config)
            warnings = (f"not what the sweep recommends, which is {name}",)
        return cls(standing, trial, plain, gain, warnings=warnings)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A configuration to run, the trial that showed it, and how it stands against plain decode."""

    trial: TrialResult
    best: Standing
    metric: str
    unit: str
    gain: float | None
    """Over the best plain decode; None where plain decode is what is recommended."""
    ties: int
    """Other variants within the indifference."""
    program: tuple[str, ...]
    """Interpreter, -m and module."""
    launch: Launch
    """Without host and ports, which belong to the place and not to the configuration."""
    plain: Standing | None = None
    """The best plain decode."""
    settings: dict[str, Value] = field(default_factory=dict)
    """All that the server was asked for, by our names."""
    pins: dict[str, Value] = field(default_factory=dict)
    """Every setting that the server was given beside the configuration: fixed ones and pins."""
    certainty: str = ""
    """How sure the sweep is of it, in a few words."""
    gains: tuple[StatedGain, ...] = ()
    """As the sweep states them; empty for a trial that a user named."""
    sure: tuple[str, ...] = ()
    """How sure the sweep is of it, in sentences."""
    chosen: dict[str, Value] = field(default_factory=dict)
    """What the server chose by itself where nothing was given. Another version may choose other."""
    warnings: tuple[str, ...] = ()
    """What whoever takes it to production must know."""
    origin: Origin = field(default_factory=Origin)
    versions: tuple[str, str] = ("", "")
    """The first and the last SGLang that takes these options by these names."""
    image: str = ""
    """For formats that run containers."""

    @property
    def options(self) -> tuple[str, ...]:
        """Return the words after the program."""
        return self.launch.options

    @property
    def env(self) -> Mapping[str, str]:
        """Return the variables that the server needs."""
        return self.launch.env

    @property
    def name(self) -> str:
        """Return a name for services, the same for every export of a variant."""
        return f"sglang-{self.best.variant}"

    @property
    def evidence(self) -> str:
        """Say in one line what was measured, and that it was emulated if so."""
        interval = ""
        if self.best.low is not None and self.best.high is not None:
            interval = f" (95 % interval {self.best.low:.1f} to {self.best.high:.1f})"
        gain = ", plain decode" if self.gain is None else f", {self.gain:.2f} x best plain decode"
        word = "EMULATED: " if self.trial.emulated else ""
        return f"{word}{self.metric} {self.best.value:.1f} {self.unit}{interval}{gain}"

    def problems(self) -> Iterator[Problem]:
        """List what must not reach a file: a result is a file too, and may say anything."""
        yield from self.launch.problems()
        program = self.program
        if len(program) != 3 or program[1:] != ("-m", MODULE) or not _PROGRAM.fullmatch(program[0]):
            why = f"only INTERPRETER -m {MODULE} is exported"
            yield Problem("argv", ascii(program), why, "Measure a trial of SGLang.")
        trial = self.trial
        for name in ("engine_version", "sweep", "trial", "fingerprint", "host", "started_at"):
            yield from unprintable(name, str(getattr(trial, name)))
        if not _VERSION.fullmatch(trial.engine_version):
            why = "that is no version of SGLang"
            yield Problem("engine_version", ascii(trial.engine_version), why, "Measure it again.")
        yield from unprintable("image", self.image)
        yield from self.origin.problems()

    def baseline_data(self) -> dict[str, Any] | None:
        """Return the best plain decode as plain data."""
        if self.plain is None:
            return None
        plain = self.plain
        return {
            "config": dict(plain.config), "value": plain.value, "low": plain.low,
            "high": plain.high, "starts": plain.starts, "trial": plain.used[-1],
        }  # fmt: skip

    def remarks(self) -> list[str]:
        """Say all this in lines, for the head of a file."""
        trial, plain = self.trial, self.plain
        lines = ["EMULATED: measured without a GPU, for practice only"] if trial.emulated else []
        lines += [
            str(self.best.config), self.evidence,
            f"Trial {trial.trial} of sweep {trial.sweep}, {trial.started_at}.",
            f"Measured with SGLang {trial.engine_version}{self._range()}.",
            f"Host {trial.host}, fingerprint {trial.fingerprint or 'unknown'}.",
            f"Load: {self.origin.load}.",
            *self._assurance(),
            f"Plan {self.launch.plan}; `orchestrator verify` measures it again from this file.",
        ]  # fmt: skip
        if plain is not None and not self.best.config.is_plain:
            lines.append(f"Baseline: plain decode, {plain.value:.1f} {self.unit}.")
        lines += [sentence(f"Note: {warning}") for warning in self.warnings]
        if self.chosen:
            lines.append("Chosen by that server itself, and not given below:")
        lines += [f"  {name}={show(value)}" for name, value in sorted(self.chosen.items())]
        return [one_line(line) for line in lines]

    def _assurance(self) -> Iterator[str]:
        """Say how sure the sweep is, with its own figures."""
        if self.certainty:
            yield sentence(f"Certainty: {self.certainty}")
        word = "EMULATED " if self.trial.emulated else ""
        yield from (f"Gain: {word}{gain}; {gain.how}." for gain in self.gains)
        yield from (said for said in self.sure if said not in self.warnings)

    def _range(self) -> str:
        first, last = self.versions
        if not first:
            return ""
        return f"; {first} to {last} take the same options" if first != last else ""


def one_line(text: str) -> str:
    """Return a text as one line of printable characters, indented if it was."""
    kept = " ".join(text.split())
    shown = "".join(char if char.isprintable() else "?" for char in kept)
    return f"  {shown}" if text[:1] == " " else shown


def comments(what: Recommendation) -> list[str]:
    """Return the remarks as comments of one line each."""
    return [f"# {line}" for line in what.remarks()]


def recommend(
    chosen: Chosen, results: Sequence[TrialResult], metric: str, unit: str
) -> Recommendation:
    """Build the recommendation of what is exported."""
    trial = next(r for r in results if r.trial == chosen.trial)
    program, options = trial.argv[:3], without(trial.argv[3:], *OF_THE_PLACE)
    requested = trial.requested or dict(trial.config)
    if program[-1:] == (_EMULATED_PROGRAM,):
        program = ("python3", "-m", MODULE)
    return Recommendation(
        trial=trial,
        best=chosen.standing,
        metric=metric,
        unit=unit,
        gain=chosen.gain,
        ties=chosen.ties,
        program=program,
        launch=Launch(options, {n: v for n, v in trial.env.items() if not _is_of_the_place(n)}),
        plain=chosen.plain,
        settings=requested,
        pins={n: v for n, v in requested.items() if n not in trial.config and v is not None},
        certainty=chosen.certainty,
        gains=chosen.gains,
        sure=chosen.sure,
        chosen=_chosen(requested, trial),
        warnings=(*chosen.warnings, *_warnings(requested, trial)),
    )


def _chosen(requested: dict[str, Value], trial: TrialResult) -> dict[str, Value]:
    return {
        name: value
        for name, value in server_choices(requested, trial.effective).items()
        if value is not False and (not is_environment(name) or name.startswith(_TOLD_VARIABLES))
    }


def _warnings(requested: dict[str, Value], trial: TrialResult) -> tuple[str, ...]:
    """Return the notes on the trial, and the settings that the server did not take as given."""
    others = (str(mismatch) for mismatch in mismatches(requested, trial.effective))
    return tuple(dict.fromkeys([*trial.notes, *others]))


def _is_of_the_place(variable: str) -> bool:
    return variable.startswith(_OURS) or variable in _VARIABLES_OF_THE_PLACE
