"""The samplers by name, and how one that fails is replaced."""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import (
    BaseSampler,
    GPSampler,
    NSGAIISampler,
    QMCSampler,
    RandomSampler,
    TPESampler,
)
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sweeps.axes import Axis
from sweeps.config import Config
from sweeps.sampling import valid_samples
from sweeps.search.encoding import values_of
from sweeps.space import Space
from sweeps.values import Value

logger = logging.getLogger(__name__)

STARTUP_TRIALS = 8
_RelativeSpace = dict[str, BaseDistribution]


class PlayedSampler(BaseSampler):
    """Gives the values of the configuration that it is told to play, whoever chose it."""

    config: Config | None = None

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> _RelativeSpace:
        """Return nothing: each axis is asked for by itself, as the conditions have it."""
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: _RelativeSpace
    ) -> dict[str, Any]:
        """Return nothing, for the same reason."""
        return {}

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return the value of one axis. Raises LookupError where nothing is to be played."""
        if self.config is None:
            raise LookupError("no configuration is to be played")
        return self.config[param_name]


class GridSampler(PlayedSampler):
    """Every configuration of the space once, in an order drawn from the seed."""

    def __init__(self, space: Space, seed: int) -> None:
        self._left: Iterator[Config] = valid_samples(space, seed)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Choose the next configuration; the last one again where none is left."""
        self.config = next(self._left, self.config)


class StagedSampler(PlayedSampler):
    """One axis at a time: each value of an axis beside the best of the others, then the next axis.

    What people do by hand. Settings that only pay together stay unseen.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._axes_left = space.ordered()
        self._tried: set[str] = set()

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Choose the next configuration; the last one again where none is left."""
        finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        self._tried |= {Config.of(one.params).variant for one in finished}
        best = self._best(study, finished)
        while self._axes_left:
            axis = self._axes_left[0]
            for value in values_of(axis):
                config = self._with(best, axis, value)
                if config.variant not in self._tried and not self._space.broken_rules(config):
                    self._tried.add(config.variant)
                    self.config = config
                    return
            self._axes_left.pop(0)
        self.config = self.config or best

    def _with(self, best: Config, axis: Axis, value: Value) -> Config:
        """Return the best with one value changed; axes that come with it have their defaults."""
        return self._space.walk(
            lambda each: value if each is axis else best.get(each.name, each.default)
        )

    def _best(self, study: optuna.Study, finished: Sequence[FrozenTrial]) -> Config:
        if not finished:
            return self._space.plain()
        upwards = study.directions[0] is StudyDirection.MAXIMIZE
        best = (max if upwards else min)(finished, key=lambda one: one.values[0])
        return Config.of(best.params)


class SturdySampler(BaseSampler):
    """Another sampler, and random draws wherever that one fails: the sweep goes on."""

    def __init__(self, inner: BaseSampler, seed: int) -> None:
        self.failures = 0
        self._inner = inner
        self._random = RandomSampler(seed=seed)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> _RelativeSpace:
        """Ask the other sampler."""
        ask = self._inner.infer_relative_search_space
        found: _RelativeSpace = self._try(lambda: ask(study, trial), dict)
        return found

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: _RelativeSpace
    ) -> dict[str, Any]:
        """Ask the other sampler."""
        ask = self._inner.sample_relative
        found: dict[str, Any] = self._try(lambda: ask(study, trial, search_space), dict)
        return found

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Ask the other sampler, or draw."""
        asked = (study, trial, param_name, param_distribution)
        return self._try(
            lambda: self._inner.sample_independent(*asked),
            lambda: self._random.sample_independent(*asked),
        )

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Tell the other sampler."""
        self._try(lambda: self._inner.before_trial(study, trial), lambda: None)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Tell the other sampler."""
        self._try(lambda: self._inner.after_trial(study, trial, state, values), lambda: None)

    def _try(self, ask: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception:  # the one guard of a sampler: whatever it raises, the sweep goes on
            self.failures += 1
            if self.failures == 1:
                name = type(self._inner).__name__
                logger.warning("%s failed; what it does not give is drawn", name, exc_info=True)
            return otherwise()


SAMPLER_MAKERS: dict[str, Callable[[Space, int], BaseSampler]] = {
    "tpe": lambda _, seed: TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS),
    "gp": lambda _, seed: GPSampler(seed=seed, n_startup_trials=STARTUP_TRIALS),
    "qmc": lambda _, seed: QMCSampler(seed=seed, warn_independent_sampling=False),
    "nsga2": lambda _, seed: NSGAIISampler(seed=seed, population_size=STARTUP_TRIALS),
    "random": lambda _, seed: RandomSampler(seed=seed),
    "grid": GridSampler,
    "staged": StagedSampler,
}
"""Sampler name, as a space file gives it, and how it is made of a space and a seed."""


def make_sampler(name: str, space: Space, seed: int) -> BaseSampler:
    """Make a sampler that never fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # whoever names it knows
        return SturdySampler(SAMPLER_MAKERS[name](space, seed), seed)
