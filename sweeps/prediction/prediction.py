"""What can be said of a space now: its cells, what is open, and what to pay for next."""

from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.config import Config
from sweeps.prediction.attribution import Attribution, attribute
from sweeps.prediction.cells import Cell, cells_of
from sweeps.prediction.profile import HostProfile
from sweeps.results import TrialResult
from sweeps.search.planner import Planner
from sweeps.search.steps import Step


@dataclass(frozen=True, slots=True)
class Prediction:
    """The cells of a space, fastest first, and what would change the picture."""

    cells: Sequence[Cell]
    plain: Config
    """Plain decode with nothing changed."""
    next_step: Step | None
    """The one start to pay for; None where none is expected to teach anything."""
    attribution: Attribution | None
    trials: int
    """That it rests on. 0: it is a prior."""
    basis: str
    """In words: what it rests on."""
    emulated: bool

    @property
    def best_plain(self) -> Cell:
        """Return the plain decode that others are held against: the fastest that is known."""
        plains = [cell for cell in self.cells if cell.config.is_plain]
        return min(plains, key=lambda cell: abs(cell.break_even.value - 1.0))

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON."""
        step = self.next_step
        return {
            "basis": self.basis,
            "prior": self.trials == 0,
            "trials": self.trials,
            "emulated": self.emulated,
            "next": step and {
                "config": dict(step.config), "variant": step.config.variant,
                "gain_fraction": step.gain_fraction, "gain_per_gpu_hour": step.gain_per_gpu_hour,
            },
            "attribution": self.attribution and self.attribution.as_data(),
            "rows": [cell.as_data() for cell in self.cells],
        }  # fmt: skip


def predict(
    planner: Planner, results: Sequence[TrialResult], profile: HostProfile, plain: Config,
    *, host: str, emulated: bool,
) -> Prediction | None:  # fmt: skip
    """Predict the whole space, from a profile where no plain decode was measured on the host.

    None where the metric of the sweep cannot be predicted.
    """
    trials = [r for r in results if r.estimates]
    measured = any(r.config.is_plain for r in trials)
    history = trials if measured else [profile.plain_trial(plain, host, emulated=emulated), *trials]
    look = planner.look(history)
    if look is None or look.fit is None:
        return None
    algorithm = next((d.algorithm for d in look.outlook.drafts if d.algorithm), None)
    servings = [s for s in look.outlook.servings if look.fit.bold(s) == s]
    return Prediction(
        cells_of(look),
        plain,
        planner.most_telling(history),
        attribute(look.fit, algorithm, servings) if algorithm else None,
        len(trials),
        _basis(len(trials), profile, measured=measured),
        emulated,
    )


def _basis(trials: int, profile: HostProfile, *, measured: bool) -> str:
    if not trials:
        return f"a prior, before any trial: {profile.source}"
    text = f"{trials} trial{'s' if trials > 1 else ''}"
    return text if measured else f"{text}, and for plain decode {profile.source}"
