"""Summaries over seeds: means with intervals, quantiles, and exact intervals for shares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, stdtrit

LEVEL = 0.95
QUANTILES = (0.1, 0.5, 0.9)


class Interval(NamedTuple):
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float


def mean_interval(values: ArrayLike, level: float = LEVEL) -> Interval:
    """The mean, with Student's confidence interval; no interval from a single value.

    Examples
    --------
    >>> mean_interval([1.0, 2.0, 3.0])
    Interval(value=2.0, low=-0.484..., high=4.484...)
    """
    array = np.asarray(values, np.float64)
    mean = float(array.mean())
    if array.size < 2:
        return Interval(mean, np.nan, np.nan)
    half = float(stdtrit(array.size - 1, (1 + level) / 2) * array.std(ddof=1) / np.sqrt(array.size))
    return Interval(mean, mean - half, mean + half)


def share_interval(successes: int, trials: int, level: float = LEVEL) -> Interval:
    """A share, with the exact interval of Clopper and Pearson.

    References
    ----------
    Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika
    1934.

    Examples
    --------
    >>> share_interval(0, 59)
    Interval(value=0.0, low=0.0, high=0.0606...)
    """
    tail = (1 - level) / 2
    low = float(betaincinv(successes, trials - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1 - tail)) if successes < trials else 1.0
    return Interval(successes / trials, low, high)
