"""What is believed of every configuration of a pool: its rate, and what one start would teach."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sweeps.config import Config
from sweeps.prediction.all_reduces import NOT_TIMED, AllReduces
from sweeps.prediction.profile import HostProfile
from sweeps.search.accepts import KNOWN_SPREAD, AcceptPrior
from sweeps.search.cycles import CyclePrior
from sweeps.search.encoding import Encoder
from sweeps.search.equality import accepts_differ
from sweeps.search.evidence import Evidence, Variant
from sweeps.search.gaussian import Belief, Conditioned, Floats, condition
from sweeps.search.pool import Pool
from sweeps.search.roles import trait_of, width_of
from sweeps.search.step_times import Moments, PartedTimes, SmoothTimes, StepTimes, fit_of

MOST_VARIANTS = 120
"""That the models are fitted to: their cost grows with the third power."""
MOST_UNPOOLED_DRAFTS, MOST_UNPOOLED_SERVINGS = 80, 40
TRIAL_ACCEPT_VARIANCE, TRIAL_CYCLE_VARIANCE = 0.013**2, 0.009**2
"""What the measuring of one trial leaves open, until trials have shown it."""


SCALES = ((1.0, 0.0), (0.3, 0.5), (2.5, 1.0))
"""Of the effects of settings that are not bold, and what speaks against each, in logarithms."""
INERT_FRACTION = 0.05
CEILING_DEVIATIONS = 1.96
"""Of the accept length that early stopping allows a start to have, see `Planner.accept_bound`."""
PROBE_NODES = 9
"""Of the quadrature over what a step probe may show."""
REFUTED = 3.5
"""Standard deviations by which a measured accept length may miss what was computed."""


@dataclass(frozen=True)
class Models:
    """The two models of a sweep, fitted to its evidence."""

    encoder: Encoder
    cycle: StepTimes
    accept: Conditioned
    unpooled: bool

    @classmethod
    def fit(
        cls, encoder: Encoder, evidence: Evidence, *, by_parts: bool = False,
        profile: HostProfile | None = None, all_reduces: AllReduces = NOT_TIMED,
    ) -> "Models":  # fmt: skip
        """Condition both on the pooled readings of variants; step times by parts if so asked, with
        what a profile and a screening know of them."""
        variants = _most_telling(list(evidence.variants.values()))
        unpooled = accepts_differ(evidence)
        inert = inert_axes(encoder, evidence)
        fit = fit_of(encoder, evidence, inert, profile, all_reduces) if by_parts else None
        times: StepTimes
        if fit is not None:
            times = PartedTimes(fit)
        else:
            times = SmoothTimes(encoder, _fit_cycles(encoder, variants, inert))
        return cls(
            encoder,
            times,
            _fit_accepts(encoder, variants, unpooled=unpooled),
            unpooled,
        )

    def accepts(self, configs: Sequence[Config]) -> Belief:
        """Return what is believed of logarithms of accept lengths."""
        return self.accept.at(self.encoder.accepts(configs))

    def joint(self, configs: Sequence[Config]) -> tuple[Floats, Floats]:
        """Return expected log rates of configurations, and their covariance."""
        cycle = self.cycle.at(configs)
        accept = self.accepts(configs)
        return accept.mean - cycle.mean, accept.covariance + cycle.covariance

    def over(self, pool: Pool) -> "Outlook":
        """Evaluate a pool. Where accept lengths are not pooled it is made smaller."""
        drafts, servings = list(pool.drafts), list(pool.servings)
        if self.unpooled:
            drafts = drafts[:MOST_UNPOOLED_DRAFTS]
            servings = servings[:MOST_UNPOOLED_SERVINGS]
        widths = [(draft.algorithm, width_of(draft)) for draft in drafts]
        kinds = list(dict.fromkeys(widths))
        place = {kind: at for at, kind in enumerate(kinds)}
        kind_of = np.array([place[kind] for kind in widths])
        by, n = np.arange(len(servings)), len(servings)
        if self.unpooled:
            accepts = [Config.of({**d, **s}) for d in drafts for s in servings]
            accept_rows = np.arange(len(drafts))[:, None] * n + by[None, :]
        else:
            accepts = list(drafts)
            accept_rows = np.repeat(np.arange(len(drafts))[:, None], n, axis=1)
        return Outlook(
            drafts, servings,
            self.cycle.over(kinds, servings),
            self.accept.at(self.encoder.accepts(accepts)),
            kind_of[:, None] * n + by[None, :], accept_rows,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """Means and variances of drafts by servings."""

    mean: Floats
    variance: Floats


@dataclass(frozen=True)
class Outlook:
    """Log rates of all pairs of a draft and a serving, as tables of drafts by servings."""

    drafts: Sequence[Config]
    servings: Sequence[Config]
    _cycle: Moments
    _accept: Moments
    _cycle_rows: NDArray[np.intp]
    _accept_rows: NDArray[np.intp]

    @cached_property
    def mean(self) -> Floats:
        """Expected log rates."""
        mean = self._accept.mean[self._accept_rows] - self._cycle.mean[self._cycle_rows]
        return np.asarray(mean)

    @cached_property
    def variance(self) -> Floats:
        """How sure that is."""
        accept, cycle = self._accept.variance, self._cycle.variance
        return np.asarray(accept[self._accept_rows] + cycle[self._cycle_rows])

    @property
    def accept(self) -> Table:
        """Log accept lengths."""
        rows = self._accept_rows
        return Table(self._accept.mean[rows], self._accept.variance[rows])

    @property
    def cycle(self) -> Table:
        """Log step times in seconds."""
        rows = self._cycle_rows
        return Table(self._cycle.mean[rows], self._cycle.variance[rows])

    def cycle_over(self, at: tuple[int, int]) -> Table:
        """Return log step times over that of one of them: of plain decode, the break-even."""
        own, row = self._cycle, int(self._cycle_rows[at])
        together = own.covariance_with(row)
        variance = own.variance + own.variance[row] - 2 * together
        rows = self._cycle_rows
        return Table((own.mean - own.mean[row])[rows], np.asarray(np.maximum(variance, 0.0))[rows])

    def least_cycle(self, deviations: float) -> Floats:
        """Return log step times that are hardly undercut."""
        low = self._cycle.mean - deviations * np.sqrt(self._cycle.variance)
        return np.asarray(low[self._cycle_rows])

    def lessons(self, at: tuple[int, int], launch_variance: float) -> "Lessons":
        """Return what one start of each would teach of its difference to one of them. Step time and
        accept length are learnt each by itself."""
        accept_with, cycle_with = self._with(at)
        cycle_noise = launch_variance + TRIAL_CYCLE_VARIANCE
        return Lessons(
            _moved(self._cycle.variance, cycle_with, cycle_noise)[self._cycle_rows],
            _moved(self._accept.variance, accept_with, TRIAL_ACCEPT_VARIANCE)[self._accept_rows],
            np.sqrt(self._accept.variance)[self._accept_rows],
        )

    def _with(self, at: tuple[int, int]) -> tuple[Floats, Floats]:
        accept = self._accept.covariance_with(int(self._accept_rows[at]))
        return accept, self._cycle.covariance_with(int(self._cycle_rows[at]))


@dataclass(frozen=True, slots=True)
class Lessons:
    """What one start would teach: standard deviations of logarithms, a table each."""

    cycle: Floats
    """By how much the step probe moves a difference."""
    accept: Floats
    """By how much the measured pass moves it further."""
    accept_spread: Floats
    """How sure the accept length is before."""

    def worth(self, ahead: Floats, may_stop: Floats) -> tuple[Floats, Floats]:
        """Return the gain to expect of one start, and the chance that it is stopped in its probe.

        `ahead` is by how much each is expected to be ahead, and `may_stop` that of what a start
        must reach at the most to be let go on (negative: behind). What the probe ends, teaches
        nothing of the accept length, and gains nothing.
        """
        nodes, weights = np.polynomial.hermite_e.hermegauss(PROBE_NODES)
        gain: Floats = np.zeros(ahead.shape)
        stopped: Floats = np.zeros(ahead.shape)
        hoped = CEILING_DEVIATIONS * self.accept_spread
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            after = ahead + node * self.cycle
            goes_on = after + hoped > may_stop
            gain += weight * np.where(goes_on, expected_gain(after, self.accept), 0.0)
            stopped += weight * ~goes_on
        return gain, stopped


def _moved(own: Floats, shared: Floats, noise: float) -> Floats:
    return np.asarray(np.abs(own - shared) / np.sqrt(own + noise))


def expected_gain(ahead: Floats, spread: Floats) -> Floats:
    """Return what a choice between two gains in the mean if the one that is `ahead` on average
    (negative: behind) turns out by a normal variable of that spread."""
    from scipy.special import ndtr  # slow to import, and `check` needs none of it

    safe = np.maximum(spread, 1e-9)
    score = ahead / safe
    density = np.exp(-0.5 * score**2) / math.sqrt(2 * math.pi)
    return np.asarray(safe * density + ahead * ndtr(score))


def inert_axes(encoder: Encoder, evidence: Evidence) -> frozenset[str]:
    """Name the replacing settings under which plain decode was as fast as without."""
    plain = encoder.space.plain()
    at_default = next((v for v in evidence.variants.values() if v.config == plain), None)
    found = set()
    for variant in evidence.variants.values() if at_default else ():
        changed = [n for n, v in variant.config.items() if plain.get(n) != v]
        if at_default is None or len(changed) != 1 or not trait_of(changed[0]).replaces:
            continue
        if abs(variant.cycle.value - at_default.cycle.value) < INERT_FRACTION:
            found.add(changed[0])
    return frozenset(found)


def _fit_accepts(encoder: Encoder, variants: Sequence[Variant], *, unpooled: bool) -> Conditioned:
    """Fit accept lengths; where measured ones refute those that were computed, without these."""
    drafted = [v for v in variants if v.accept is not None]
    points = encoder.accepts([v.config for v in drafted])
    values = np.array([v.accept.value for v in drafted if v.accept])
    noise = np.array([v.accept.variance for v in drafted if v.accept])
    fitted = condition(AcceptPrior(encoder, unpooled), points, values, noise)
    known = ~np.isnan(points.numbers[:, -1])
    off = np.abs(values - fitted.at(points).mean) / np.sqrt(noise + KNOWN_SPREAD**2)
    if (off[known] < REFUTED).all():
        return fitted
    return condition(AcceptPrior(encoder, unpooled, believes=False), points, values, noise)


def _fit_cycles(
    encoder: Encoder, variants: Sequence[Variant], inert: frozenset[str]
) -> Conditioned:
    """Fit step times, with the spread of small effects that explains them best."""
    points = encoder.cycles([v.config for v in variants])
    values = np.array([v.cycle.value for v in variants])
    noise = np.array([v.cycle.variance for v in variants])
    level = float(np.median(values)) if len(values) else 0.0
    fits = []
    for scale, doubt in SCALES:
        prior = CyclePrior(encoder, level=level, scale=scale, inert=inert)
        fits.append((condition(prior, points, values, noise), doubt))
    return max(fits, key=lambda f: f[0].fit - f[1])[0]


def _most_telling(variants: list[Variant]) -> list[Variant]:
    """Keep plain decode, the fastest and the latest, where there are too many to fit."""
    if len(variants) <= MOST_VARIANTS:
        return variants
    by_rate = sorted(variants, key=_best_rate, reverse=True)
    kept = by_rate[: MOST_VARIANTS // 2] + [v for v in variants if v.config.is_plain][:20]
    latest = sorted(variants, key=lambda v: v.starts[-1].place)[-MOST_VARIANTS // 2 + 20 :]
    return list({v.config: v for v in [*kept, *latest]}.values())


def _best_rate(variant: Variant) -> float:
    rates = [s.measured_rate.value for s in variant.starts if s.measured_rate is not None]
    return max(rates, default=-math.inf)
