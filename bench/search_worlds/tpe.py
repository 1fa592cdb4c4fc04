"""Optuna's TPE as the nearest peer uses it: single values, the highest wins."""

import optuna
from optuna.samplers import TPESampler
from optuna.trial import Trial, TrialState

from search_worlds.strategies import METRIC, Listed, below, best_possible_accept
from search_worlds.trials import Stop
from search_worlds.world import World
from sweeps.axes import Axis, Choice, IntRange
from sweeps.config import Config
from sweeps.results import TrialResult
from sweeps.sampling import valid_samples
from sweeps.values import Value

ASKS = 20


class Tpe(Listed):
    """Multivariate, grouped; with `stopping` trials end below the bar of the best single value."""

    def __init__(self, world: World, seed: int, *, stopping: bool) -> None:
        super().__init__(world, iter(()))
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = TPESampler(seed=seed, multivariate=True, group=True)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._space, self._stopping = world.space, stopping
        self._seen: set[Config] = set()
        self._trial: Trial | None = None

    def ask(self) -> tuple[Config, str] | None:
        """Return plain decode, then what TPE draws; at random where many draws bring no news."""
        if not self.values:
            self._study.enqueue_trial(dict(self.plain))
        for _ in range(ASKS):
            trial = self._study.ask()
            config = self._space.walk(lambda axis, trial=trial: _suggest(trial, axis))  # type: ignore[misc] # bound per draw
            if not self._space.broken_rules(config) and config not in self._seen:
                return self._taken(trial, config)
            self._study.tell(trial, state=TrialState.FAIL)
        config = next(c for c in valid_samples(self._space, len(self.values)))
        self._study.enqueue_trial(dict(config))
        trial = self._study.ask()
        return self._taken(trial, self._space.walk(lambda axis: _suggest(trial, axis)))

    def _taken(self, trial: Trial, config: Config) -> tuple[Config, str]:
        self._trial = trial
        self._seen.add(config)
        return config, "search" if self.values else "baseline"

    def stop(self, config: Config, purpose: str) -> Stop | None:
        """Stop against the lower end of the best single value."""
        if not self._stopping or not self.values:
            return None
        return below(0.98 * max(v for v, _ in self.values), best_possible_accept(config))

    def tell(self, result: TrialResult) -> None:
        """Tell the value, of stopped trials too: it is what was seen."""
        super().tell(result)
        assert self._trial is not None, "asked for"
        self._study.tell(self._trial, result.estimates[METRIC].value)


def _suggest(trial: Trial, axis: Axis) -> Value:
    if isinstance(axis, Choice):
        return trial.suggest_categorical(axis.name, list(axis.values))
    if isinstance(axis, IntRange):
        return trial.suggest_int(axis.name, axis.low, axis.high, step=axis.step, log=axis.log)
    return trial.suggest_float(axis.name, axis.low, axis.high, log=axis.log)
