"""Costs: stochastic, independent over time, with fixed means, one row of them per guardrail.

To write a model, inherit from `Costs`, set `means` and write `fill`. As with losses, draw everything random round by
round from the generator that is passed in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr, ndtri

from surefoot.environments.losses import SWITCH, increasing
from surefoot.environments.model import Model
from surefoot.environments.tables import cost_means, rank, read_array, read_columns
from surefoot.kernels.draws import BETA, CORRELATED, Drawn, flips
from surefoot.rules import SHARE, Floats, Range, RuleError, frozen, number, numbers

__all__ = ["Bernoulli", "Beta", "Costs", "Drifting", "Fixed", "FromTable", "Switching"]

CONCENTRATION = Range(0, 1e9)
DRIFT = Range(2, SWITCH.high, whole=True)
NEXT_TO_NOTHING = 1e-6
"""A Beta distribution with a concentration below this cannot be distinguished from coin flips."""


class Costs(Model, ABC):
    """Costs of every arm under every guardrail."""

    means: Floats
    """The expected costs, (guardrails, arms). Strategies are judged by these. Where they change: the largest."""

    @abstractmethod
    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        """Write the costs of the rounds from `first` on into `out`, (rounds, guardrails, arms)."""

    def drawn(self, seed: int) -> Drawn | None:
        """The model in compiled code, which draws by counter; None if it has no such code."""
        return None

    @property
    def phases(self) -> Floats:
        """Expected costs, (phases, guardrails, arms): a strategy is safe in every round if it is safe in each phase.

        The benchmark of regret is the best strategy of these.
        """
        return self.means[None]

    def means_in(self, first: int, rounds: int) -> Floats:
        """The expected costs of some rounds, (rounds, guardrails, arms); (1, guardrails, arms) if all are equal."""
        return self.means[None]

    def over(self, horizon: int) -> Self:
        """The model for a scenario of this many rounds."""
        return self


class Bernoulli(Costs):
    """Coin flips: cost 1 with probability `means`, else 0.

    With ``correlation`` above 0 the costs of an arm are correlated across guardrails: they show whether normal
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

    def drawn(self, seed: int) -> Drawn | None:
        if type(self).fill is not Bernoulli.fill:
            return None
        coins, correlation = flips(seed, self.means[None]), self.correlation
        if not correlation:
            return coins
        return coins._replace(kind=CORRELATED, ones=np.array(ndtri(self.means)), correlation=correlation)


class Beta(Costs):
    """Costs from Beta distributions: the larger the concentration, the closer to their means.

    The variance is ``means (1 - means) / (concentration + 1)``; a mean of 0 or 1 is a constant. ``concentration`` is
    one number or one per guardrail; 0, its limit, are coin flips. ``correlation`` is as for `Bernoulli`, and slower.

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
        flipped, ones, zeros = self._parameters()
        if self.correlation:
            out[...] = betaincinv(ones, zeros, ndtr(correlated(out.shape, self.correlation, rng)))
        else:
            out[...] = rng.beta(ones, zeros, out.shape)
        out[:, flipped] = out[:, flipped] < self.means[flipped]

    def _parameters(self) -> tuple[NDArray[np.bool_], Floats, Floats]:
        """Where coins are flipped, and both parameters of the distributions elsewhere."""
        concentration = np.broadcast_to(self.concentration[:, None], self.means.shape)
        flipped = (concentration < NEXT_TO_NOTHING) | (self.means == 0.0) | (self.means == 1.0)
        ones = np.where(flipped, 1.0, concentration * self.means)  # Beta(1, 1) is uniform: a flip is then a comparison
        return flipped, ones, np.where(flipped, 1.0, concentration - ones)

    def drawn(self, seed: int) -> Drawn | None:
        if type(self).fill is not Beta.fill or self.correlation:
            return None
        flipped, ones, zeros = self._parameters()
        return flips(seed, self.means[None])._replace(kind=BETA, ones=np.where(flipped, 0.0, ones), zeros=zeros)


class Changing(Costs):
    """Coin flips whose means change. Each round's strategy is judged by the means of that round."""

    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        rng.random(out=out)
        np.less(out, self.means_in(first, len(out)), out=out)


class Switching(Changing):
    """Coin flips whose means change abruptly.

    The means are (phases, guardrails, arms): phase i holds until `at[i]` rounds have passed, the last one for good.

    Examples
    --------
    >>> import surefoot as sf
    >>> model = sf.costs.Switching([[[0.1, 0.2]], [[0.5, 0.2]]], at=500)
    >>> model.means_in(499, 2).tolist(), model.means.tolist()
    ([[[0.1, 0.2]], [[0.5, 0.2]]], [[0.5, 0.2]])
    """

    def __init__(self, means: ArrayLike, at: int | Sequence[int]) -> None:
        self.at = increasing(at)
        self.by_phase = frozen(numbers("means", means, SHARE, None, None, None))
        if len(self.by_phase) != len(self.at) + 1:
            raise RuleError("means", f"have {len(self.at) + 1} phases, one more than at", len(self.by_phase))
        self.means = frozen(self.by_phase.max(axis=0))

    @property
    def phases(self) -> Floats:
        return self.by_phase

    def means_in(self, first: int, rounds: int) -> Floats:
        return self.by_phase[np.searchsorted(self.at, np.arange(first, first + rounds), side="right")]

    def drawn(self, seed: int) -> Drawn | None:
        return flips(seed, self.by_phase, self.at) if fills_as(self, Switching) else None


class Drifting(Changing):
    """Coin flips whose means move in a straight line, from `start` in the first round to `end` in the last.

    Both are (guardrails, arms). With `rounds` the means arrive at `end` in that round and stay there; by default it is
    the horizon of the scenario.

    Examples
    --------
    >>> import surefoot as sf
    >>> sf.costs.Drifting([[0.1, 0.2]], [[0.5, 0.2]], rounds=3).means_in(0, 4).tolist()
    [[[0.1, 0.2]], [[0.3, 0.2]], [[0.5, 0.2]], [[0.5, 0.2]]]
    """

    def __init__(self, start: ArrayLike, end: ArrayLike, rounds: int | None = None) -> None:
        self.start = frozen(numbers("start", start, SHARE, None, None))
        self.end = frozen(numbers("end", end, SHARE, *self.start.shape))
        self.rounds = None if rounds is None else number("rounds", rounds, DRIFT)
        self.means = frozen(np.maximum(self.start, self.end))

    @property
    def phases(self) -> Floats:
        return np.stack([self.start, self.end])  # in between the costs of a strategy are in between, too

    def over(self, horizon: int) -> Self:
        return self if self.rounds is not None else type(self)(self.start, self.end, horizon)

    def means_in(self, first: int, rounds: int) -> Floats:
        if self.rounds is None:
            raise RuleError("rounds", "be given, or the model be part of a scenario", None)
        passed = np.minimum(np.arange(first, first + rounds) / (self.rounds - 1), 1.0)[:, None, None]
        return np.asarray((1 - passed) * self.start + passed * self.end)

    def drawn(self, seed: int) -> Drawn | None:
        if self.rounds is None or not fills_as(self, Drifting):
            return None
        return flips(seed, np.stack([self.start, self.end]), way=self.rounds - 1)


class Fixed(Costs):
    """Given costs.

    The array is (guardrails, arms) for all rounds, or (rounds, guardrails, arms), or an ``.npy`` file of that. The
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
    guardrail in their order.

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


def fills_as(model: Changing, kind: type[Changing]) -> bool:
    """True if a model draws as this class does, and is not a subclass that does it in its own way."""
    return type(model).fill is Changing.fill and type(model).means_in is kind.means_in


def correlated(shape: tuple[int, ...], correlation: float, rng: np.random.Generator) -> Floats:
    """Standard normal variables (rounds, guardrails, arms) that share a part across guardrails."""
    rounds, constraints, arms = shape
    normal = rng.standard_normal((rounds, constraints + 1, arms))
    return np.asarray(np.sqrt(correlation) * normal[:, :1] + np.sqrt(1.0 - correlation) * normal[:, 1:])
