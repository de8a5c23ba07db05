"""Costs: stochastic, independent over time, with fixed means, one row of them per constraint.

To write a model, inherit from `Costs`, set `means` and write `fill`. As with losses, draw everything random round by
round from the generator that is passed in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtr, ndtri

from surefoot.environments.model import Model
from surefoot.environments.tables import cost_means, rank, read_array, read_columns
from surefoot.rules import SHARE, Floats, Range, frozen, number, numbers

__all__ = ["Bernoulli", "Beta", "Costs", "Fixed", "FromTable"]

CONCENTRATION = Range(0, 1e9)
NEXT_TO_NOTHING = 1e-6
"""A Beta distribution with a concentration below this cannot be distinguished from coin flips."""


class Costs(Model, ABC):
    """Costs of every arm under every constraint."""

    means: Floats
    """The expected costs, (constraints, arms). Strategies are judged by these."""

    @abstractmethod
    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        """Write the costs of the rounds from `first` on into `out`, (rounds, constraints, arms)."""


class Bernoulli(Costs):
    """Coin flips: cost 1 with probability `means`, else 0.

    With ``correlation`` above 0 the costs of an arm are correlated across constraints: they show whether normal
    variables with that correlation are small (a Gaussian copula). Arms and rounds stay independent.

    Examples
    --------
    >>> import numpy as np, surefoot as sf
    >>> model, out = sf.costs.Bernoulli([[0.1, 0.9], [0.1, 0.9]], correlation=1.0), np.empty((3, 2, 2))
    >>> model.fill(out, 0, np.random.default_rng(1))
    >>> bool((out[:, 0] == out[:, 1]).all())
    True
    """

    def __init__(self, means: ArrayLike, correlation: float = 0.0) -> None:
        self.means = frozen(numbers("means", means, SHARE, None, None))
        self.correlation = float(number("correlation", correlation, SHARE))

    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        if self.correlation:
            np.less(correlated(out.shape, self.correlation, rng), ndtri(self.means), out=out)
        else:
            rng.random(out=out)
            np.less(out, self.means, out=out)


class Beta(Costs):
    """Costs from Beta distributions: the larger the concentration, the closer to their means.

    The variance is ``means (1 - means) / (concentration + 1)``; a mean of 0 or 1 is a constant. ``concentration`` is
    one number or one per constraint; 0, its limit, are coin flips. ``correlation`` is as for `Bernoulli`, and slower.

    Examples
    --------
    >>> import numpy as np, surefoot as sf
    >>> model, out = sf.costs.Beta([[0.2, 0.7]], concentration=20), np.empty((1000, 1, 2))
    >>> model.fill(out, 0, np.random.default_rng(1))
    >>> out.mean(axis=0).round(1)
    array([[0.2, 0.7]])
    """

    def __init__(self, means: ArrayLike, concentration: ArrayLike, correlation: float = 0.0) -> None:
        self.means = frozen(numbers("means", means, SHARE, None, None))
        rows, each = len(self.means), concentration
        if rank(concentration) == 0:
            each = [number("concentration", concentration, CONCENTRATION)] * rows
        self.concentration = frozen(numbers("concentration", each, CONCENTRATION, rows))
        self.correlation = float(number("correlation", correlation, SHARE))

    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        concentration = np.broadcast_to(self.concentration[:, None], self.means.shape)
        flips = (concentration < NEXT_TO_NOTHING) | (self.means == 0.0) | (self.means == 1.0)
        ones = np.where(flips, 1.0, concentration * self.means)  # Beta(1, 1) is uniform: a flip is then a comparison
        zeros = np.where(flips, 1.0, concentration - ones)
        if self.correlation:
            out[...] = betaincinv(ones, zeros, ndtr(correlated(out.shape, self.correlation, rng)))
        else:
            out[...] = rng.beta(ones, zeros, out.shape)
        out[:, flips] = out[:, flips] < self.means[flips]


class Fixed(Costs):
    """Given costs.

    The array is (constraints, arms) for all rounds, or (rounds, constraints, arms), or an ``.npy`` file of that. The
    means are the averages over all given rounds.

    Examples
    --------
    >>> import surefoot as sf
    >>> sf.costs.Fixed([[0.1, 0.6]]).means
    array([[0.1, 0.6]])
    """

    def __init__(self, array: ArrayLike | str | Path) -> None:
        if isinstance(array, str | Path):
            self.array = read_array("costs", array, 3)
        else:
            self.array = frozen(numbers("costs", array, SHARE, *[None] * (3 if rank(array) == 3 else 2)))
        self.means = frozen(np.array(self.array if self.array.ndim == 2 else self.array.mean(axis=0, dtype=np.float64)))
        self.n_rounds = None if self.array.ndim == 2 else len(self.array)

    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        out[...] = self.array if self.array.ndim == 2 else self.array[first : first + len(out)]


class FromTable(Bernoulli):
    r"""Coin flips whose means are in a CSV or Parquet file, one row an arm.

    The file has a column ``success_rate``, and a failure costs 1; or columns whose names start with ``cost``, one per
    constraint in their order.

    Examples
    --------
    >>> import pathlib, tempfile, surefoot as sf
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "arms.csv"
    >>> _ = path.write_text("arm,success_rate,value\n0,0.9,0.2\n1,0.4,0.8\n")
    >>> sf.costs.FromTable(path).means
    array([[0.1, 0.6]])
    """

    def __init__(self, path: str | Path, correlation: float = 0.0) -> None:
        super().__init__(cost_means(read_columns(path)), correlation)


def correlated(shape: tuple[int, ...], correlation: float, rng: np.random.Generator) -> Floats:
    """Standard normal variables (rounds, constraints, arms) that share a part across constraints."""
    rounds, constraints, arms = shape
    normal = rng.standard_normal((rounds, constraints + 1, arms))
    return np.asarray(np.sqrt(correlation) * normal[:, :1] + np.sqrt(1.0 - correlation) * normal[:, 1:])
