"""What is recommended for production, and on which evidence."""

from dataclasses import dataclass

from sweeps.ranking import Ranking, Standing
from sweeps.results import TrialResult

_OURS = "EMULATED_"
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
    """Without host and port, which belong to the place and not to the configuration."""
    env: dict[str, str]

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
    program, options = trial.argv[:3], _without(trial.argv[3:], "--host", "--port")
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
        env={n: v for n, v in trial.env.items() if not n.startswith(_OURS)},
    )


def _without(options: tuple[str, ...], *names: str) -> tuple[str, ...]:
    kept: list[str] = []
    skip = False
    for word in options:
        if skip or word in names:
            skip = word in names
            continue
        kept.append(word)
    return tuple(kept)
