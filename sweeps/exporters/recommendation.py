"""What is recommended for production, and on which evidence."""

from dataclasses import dataclass, field

from sweeps.axes import is_environment
from sweeps.effects import mismatches, server_choices
from sweeps.ranking import Ranking, Standing
from sweeps.results import TrialResult
from sweeps.values import Value

_OURS = "EMULATED_"
_OF_THE_PLACE = ("--host", "--port", "--nccl-port", "--dist-init-addr")
_VARIABLES_OF_THE_PLACE = ("TMPDIR", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_TOLD_VARIABLES = ("NCCL_",)
"""Of the variables that a server sets itself, those that may decide its speed."""
_EMULATED_PROGRAM, _REAL_PROGRAM = "infra.emulated", "sglang.launch_server"


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
    program: tuple[str, ...]
    """Interpreter, -m and module; the rest of the command line is in `options`."""
    options: tuple[str, ...]
    """Without host and ports, which belong to the place and not to the configuration."""
    env: dict[str, str]
    pins: dict[str, Value] = field(default_factory=dict)
    """Every setting that the server was given beside the configuration: fixed ones and pins."""
    chosen: dict[str, Value] = field(default_factory=dict)
    """What the server chose by itself where nothing was given. Another version may choose other."""
    warnings: tuple[str, ...] = ()
    """What whoever takes it to production must know."""

    @property
    def evidence(self) -> str:
        """Say in one line what was measured, and that it was emulated if so."""
        interval = ""
        if self.best.low is not None and self.best.high is not None:
            interval = f" (95 % interval {self.best.low:.1f} to {self.best.high:.1f})"
        gain = ", plain decode" if self.gain is None else f", {self.gain:.2f} x best plain decode"
        word = "EMULATED: " if self.trial.emulated else ""
        return f"{word}{self.metric} {self.best.value:.1f} {self.unit}{interval}{gain}"


def recommend(
    ranking: Ranking, results: list[TrialResult], metric: str, unit: str
) -> Recommendation:
    """Build the recommendation of a ranking. Raises LookupError where nothing was measured."""
    best = ranking.best
    if best is None:
        raise LookupError("no trial was measured")
    trial = next(r for r in results if r.trial == best.trials[-1])
    program, options = trial.argv[:3], _without(trial.argv[3:], *_OF_THE_PLACE)
    requested = trial.requested or dict(best.config)
    if program[-1] == _EMULATED_PROGRAM:
        program = ("python3", "-m", _REAL_PROGRAM)
    return Recommendation(
        trial=trial,
        best=best,
        metric=metric,
        unit=unit,
        gain=ranking.gain,
        ties=len(ranking.ties) - 1,
        program=program,
        options=options,
        env={n: v for n, v in trial.env.items() if not _is_of_the_place(n)},
        pins={n: v for n, v in requested.items() if n not in best.config and v is not None},
        chosen=_chosen(requested, trial),
        warnings=_warnings(requested, trial),
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


def _without(options: tuple[str, ...], *names: str) -> tuple[str, ...]:
    kept: list[str] = []
    skip = False
    for word in options:
        if skip or word in names:
            skip = word in names
            continue
        kept.append(word)
    return tuple(kept)
