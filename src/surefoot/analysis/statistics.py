"""Summaries over seeds: means with intervals, quantiles, and exact intervals for shares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, stdtrit

from surefoot.rules import Floats

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


def summaries(name: str, values: Floats) -> dict[str, Floats]:
    """The mean, its interval and the quantiles of each row, under the names of the columns of a summary.

    Examples
    --------
    >>> import numpy as np
    >>> {name: float(entry[0]) for name, entry in summaries("loss", np.array([[1.0, 2.0, 3.0]])).items()}
    {'loss': 2.0, 'loss_low': -0.48..., 'loss_high': 4.48..., 'loss_q10': 1.2, 'loss_q50': 2.0, 'loss_q90': 2.8}
    """
    size, mean = values.shape[1], values.mean(axis=1)
    half = np.full(len(values), np.nan)
    if size > 1:
        half = stdtrit(size - 1, (1 + LEVEL) / 2) * values.std(axis=1, ddof=1) / np.sqrt(size)
    quantiles = np.quantile(values, QUANTILES, axis=1)
    found = {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
    return found | {f"{name}_q{round(100 * q)}": row for q, row in zip(QUANTILES, quantiles, strict=True)}


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
