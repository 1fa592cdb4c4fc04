"""What the end of a trial means to Optuna."""

from collections.abc import Mapping
from dataclasses import dataclass

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from sweeps.limits import broken_limits
from sweeps.results import Outcome, TrialResult
from sweeps.sweep import Objective
from sweeps.values import Value

CONSTRAINT = "feasible"
"""Optuna's constraint: at most 0 where the configuration can run and keeps the limits."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state that a trial gets, with what a sampler learns from it.

    Measured and partial trials count with their values. Stopped ones are pruned, with the rate so
    far as a step value. Infeasible and hung ones are pruned under a violated constraint: a sampler
    learns nothing from failures and would ask for the same again. Faults are failures. One that
    breaks a limit counts, under a violated constraint.
    """

    state: TrialState
    values: tuple[float, ...] = ()
    step: tuple[int, float] | None = None
    constraint: float | None = None

    @classmethod
    def on(cls, result: TrialResult, objective: Objective) -> "Verdict":
        """Judge a result by the values of the objective."""
        names = (objective.metric, *objective.also)
        told = [result.value(name) for name in names]
        values = tuple(value for value in told if value is not None)
        whole = len(values) == len(names)
        match result.outcome:
            case Outcome.MEASURED | Outcome.PARTIAL if whole:
                broken = broken_limits(result, objective.limits)
                return cls(TrialState.COMPLETE, values, constraint=float(len(broken)) or -1.0)
            case Outcome.STOPPED:
                tokens = int(result.value("output_tokens") or 0)
                step = (tokens, values[0]) if whole and len(names) == 1 else None
                return cls(TrialState.PRUNED, step=step, constraint=-1.0)
            case Outcome.INFEASIBLE | Outcome.HUNG:
                return cls(TrialState.PRUNED, constraint=1.0)
            case _:
                return cls(TrialState.FAIL)

    def tell(self, study: optuna.Study, trial: Trial) -> None:
        """Write it into a study."""
        if self.constraint is not None:
            trial.set_constraint(CONSTRAINT, self.constraint)
        if self.step is not None:
            trial.report(self.step[1], step=self.step[0])
        study.tell(trial, list(self.values) or None, state=self.state)

    def told(
        self,
        config: Mapping[str, Value],
        distributions: Mapping[str, BaseDistribution],
        attributes: Mapping[str, object],
    ) -> FrozenTrial:
        """Return the trial as `tell` leaves it, for a study that never saw it."""
        values = list(self.values) or ([self.step[1]] if self.step else None)
        return create_trial(
            state=self.state,
            values=values,
            params=dict(config),
            distributions=dict(distributions),
            user_attrs=dict(attributes),
            intermediate_values=dict([self.step]) if self.step else {},
            constraints=None if self.constraint is None else {CONSTRAINT: self.constraint},
        )


REFUSED = Verdict(TrialState.PRUNED, constraint=1.0)
"""Of a configuration that breaks a rule, and is never started."""

NOTHING_LEARNT = Verdict(TrialState.FAIL)
