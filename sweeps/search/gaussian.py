"""Gaussian beliefs about a function, conditioned on noisy values of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_JITTER = 1e-9


@dataclass(frozen=True, slots=True)
class Points:
    """Points as codes and numbers, along the last axis of each; what they mean is the prior's."""

    codes: NDArray[np.int64]
    numbers: Floats

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: NDArray[np.intp] | Sequence[int]) -> "Points":
        """Return some of them."""
        return Points(self.codes[rows], self.numbers[rows])

    @property
    def down(self) -> "Points":
        """Return them as a column, to be set against a row."""
        return Points(self.codes[:, None, :], self.numbers[:, None, :])

    @property
    def along(self) -> "Points":
        """Return them as a row."""
        return Points(self.codes[None, :, :], self.numbers[None, :, :])


class Prior(Protocol):
    """What is believed before anything is measured."""

    def mean(self, points: Points) -> Floats:
        """Return the expected values."""
        ...

    def kernel(self, a: Points, b: Points) -> Floats:
        """Return the covariance of points with points; the two broadcast."""
        ...


@dataclass(frozen=True, slots=True)
class Conditioned:
    """A prior after its observations."""

    prior: Prior
    points: Points
    _whitener: Floats = field(repr=False)
    """The inverse of the lower root of the covariance."""
    _weights: Floats = field(repr=False)
    fit: float
    """Log probability of the observations, but for a constant."""

    def at(self, points: Points) -> "Belief":
        """Return the belief at some points."""
        mean, spread = self.prior.mean(points), self.prior.kernel(points, points)
        if len(self.points) == 0:
            return Belief(mean, spread, self, points, np.zeros((0, len(points))))
        across = self.prior.kernel(self.points.down, points.along)
        half = _product(self._whitener, across)
        variance = np.maximum(spread - np.einsum("ij,ij->j", half, half), 0.0)
        return Belief(mean + across.T @ self._weights, variance, self, points, half)


@dataclass(frozen=True, slots=True)
class Belief:
    """Means and variances at points, and how they move together."""

    mean: Floats
    variance: Floats
    _of: Conditioned = field(repr=False)
    _points: Points = field(repr=False)
    _half: Floats = field(repr=False)

    @property
    def covariance(self) -> Floats:
        """Return the covariance of all points."""
        prior = self._of.prior.kernel(self._points.down, self._points.along)
        return np.asarray(prior - self._half.T @ self._half)

    def covariance_with(self, row: int) -> Floats:
        """Return the covariance of every point with one of them."""
        one = self._points.take([row])
        prior = self._of.prior.kernel(self._points, one)
        return np.asarray(prior - self._half.T @ self._half[:, row])


def condition(prior: Prior, points: Points, values: Floats, noise: Floats) -> Conditioned:
    """Learn from values at points; `noise` is the variance of each."""
    if len(points) == 0:
        return Conditioned(prior, points, np.zeros((0, 0)), np.zeros(0), 0.0)
    from scipy.linalg import (
        cholesky,
        solve_triangular,
    )  # slow to import, and `check` needs none of it

    covariance = prior.kernel(points.down, points.along) + np.diag(noise + _JITTER)
    lower = cholesky(covariance, lower=True)
    whitener = solve_triangular(lower, np.eye(len(points)), lower=True, check_finite=False)
    surprise = values - prior.mean(points)
    weights = whitener.T @ (whitener @ surprise)
    fit = -0.5 * float(surprise @ weights) - float(np.log(np.diag(lower)).sum())
    return Conditioned(prior, points, whitener, weights, fit)


def _product(left: Floats, right: Floats) -> Floats:
    """Multiply small by wide. BLAS starts threads for that, and on a busy machine they wait for
    each other fifty times as long as this takes."""
    return np.asarray(np.einsum("ij,jk->ik", left, right))
