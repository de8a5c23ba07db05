"""What is to be solved: Problem, SafeStrategy, Decision; and the rules that every input must keep, as data.

Input is checked once, at the door. Every rule is a row of `RULES`; whatever breaks one raises `ValueError` with one
sentence: the argument, the rule, the value received.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

SUM_TOLERANCE = 1e-9
"""How far from 1 the sum of a strategy that comes from outside may be; it is then normalised."""


class EmptySafeSet(ValueError):
    """No strategy above the floor meets the constraints."""


class Infeasible(ValueError):
    """No strategy at all meets the thresholds."""


class Interval(NamedTuple):
    """Where a number may lie. Infinite ends are never included: every input is finite.

    Ends such as 1e-300 and 1e15 keep products and quotients finite, and numerics within what has been tried.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    whole: bool = False

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool | np.bool_) or not isinstance(value, Integral if self.whole else Real):
            return False
        try:
            number = float(value)
        except OverflowError:  # a whole number too large for a float
            return False
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        return above and below and math.isfinite(number)

    def __str__(self) -> str:
        number = "a whole number" if self.whole else "a finite number"
        if math.isinf(self.low):
            return number
        if math.isinf(self.high):
            return f"{number} {'>' if self.open_low else '>='} {self.low:g}"
        span = f"in {'(' if self.open_low else '['}{self.low:g}, {self.high:g}{')' if self.open_high else ']'}"
        return f"{number} {span}" if self.whole else span


SHARE = Interval(0, 1)
POSITIVE = Interval(1e-15, 1e15)
REAL = Interval(-1e6, 1e6)

RULES: Mapping[str, Interval] = {
    # the problem
    "n_arms": Interval(2, whole=True),
    "thresholds": SHARE,
    "horizon": Interval(3, 1e15, whole=True),
    "delta": Interval(0, 1, open_low=True, open_high=True),
    "safe.strategy": SHARE,
    "safe.costs": Interval(0, 1, open_high=True),
    # ask and tell
    "arm": Interval(0, whole=True),
    "propensity": Interval(1e-300, 1),
    "proposal_weight": SHARE,
    "loss": SHARE,
    "costs": SHARE,
    # options of policies
    "learning_rate": Interval(1e-12, 1e6),
    "seed": Interval(0, whole=True),
    "benchmark_loss": Interval(0),
    "safe_loss": SHARE,
    "dual_rate": Interval(1e-12, 1e6),
    "option margin": Interval(1e-12, 1),  # "margin" is the parameter of a scenario
    "exploration": Interval(0, 1, open_low=True),
    # confidence bounds
    "bets": Interval(2, 1000, whole=True),
    "nodes": Interval(2, 10_001, whole=True),
    # one projection
    "center": POSITIVE,
    "learning_rates": POSITIVE,
    "loss_estimate": Interval(0, 1e100),
    "lower_costs": REAL,
    "limits": REAL,
    "floor": Interval(0, 1, open_low=True),
    # a saved policy
    "round": Interval(0, whole=True),
    "state.proposal": SHARE,
    "state.learning_rates": Interval(1e-300, 1e15),
    "state.inverse_caps": Interval(1, 1e100),
    "state.base_rate": Interval(1e-300, 1e15),
    "state.spent": Interval(0, 1e300),
    "state.found": Interval(-1, 1e300),
    "state.met": Interval(0, 1e15),
    "state.record": Interval(0, 1e15),
    "state.plans": SHARE,
    "state.plan_weights": SHARE,
    "state.share": SHARE,
    "state.lead": Interval(0, 1e300),
    "state.multipliers": Interval(0, 1e300),
    "state.counts": Interval(0, 1e15),
    "state.means": SHARE,
    "state.lower": SHARE,
    "state.upper": SHARE,
    "state.memory": Interval(0, 1e300),
    "state.empty_rounds": Interval(0, 1e15),
    "state.safe_weight": SHARE,
    "state.other": Interval(-1e300, 1e300),
    "state.strategy": SHARE,
    "state.sampled": SHARE,
    "state.duals": Interval(0, 1e15),
    "state.queues": Interval(0, 1e16),
    "state.weights": SHARE,
    "state.level": Interval(2, 1e15),
    "state.rounds": Interval(0, 1e15),
    "state.lost": Interval(0, 1e15),
    "state.gained": Interval(0, 1e15),
    "state.drawn": Interval(0),
    "state.totals": Interval(0, 1e300),
    # what the world does
    "means": SHARE,
    "losses": SHARE,
    "at": Interval(1, 1e15, whole=True),
    "start": SHARE,
    "end": SHARE,
    "values": SHARE,
    "constraint": Interval(0, whole=True),
    "strength": SHARE,
    "correlation": SHARE,
    "concentration": Interval(0, 1e9),
    "success_rate": SHARE,
    "value": SHARE,
    "instance": Interval(1, 4, whole=True),
    "omega": Interval(0, 0.5, open_low=True, open_high=True),
    "gap": SHARE,
    "margin": Interval(0, 0.5, open_low=True, open_high=True),
    # a simulation
    "seeds": Interval(1, 1e6, whole=True),
    "one of seeds": Interval(0, 9.2e18, whole=True),  # so that a table can hold it
    "checkpoints": Interval(1, 1e15, whole=True),
    "number of checkpoints": Interval(1, 1e4, whole=True),
    "workers": Interval(1, 4096, whole=True),
    # bounds
    "n_constraints": Interval(0, whole=True),
    "instance.margin": Interval(1e-12, 1),  # of any problem, not just of a scenario
    "threshold": SHARE,
    "observations": Interval(0),
    "sum_of_radii": Interval(0),
    "total_loss": Interval(0),
    "heavy_rounds": Interval(0),
    # a forecast
    "forecast.n_constraints": Interval(1, whole=True),
    "forecast.threshold": Interval(0, 1, open_low=True),
    "forecast.gap": Interval(1e-6, 1),
    "deviation": Interval(0, 0.5),
    "slack": SHARE,
    "optimism": SHARE,
    "traffic": Interval(0, 1e15, open_low=True),
    # the offline optimum
    "total_losses": Interval(-1e15, 1e15),
    "mean_costs": SHARE,
}


def shown(value: object) -> str:
    """A value as an error message shows it: numbers plainly, anything long cut short."""
    text = " ".join(repr(value.item() if isinstance(value, np.generic) else value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def number(name: str, value: Any) -> Any:
    """`value` itself, if it keeps the rule for `name`."""
    rule = RULES[name]
    if value not in rule:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        kind = "" if is_number or "number" in str(rule) else "a number "
        raise ValueError(f"{name} must be {kind}{rule}, got {shown(value)}")
    return value


def numbers(name: str, values: ArrayLike, *shape: int | None) -> Floats:
    """A new, contiguous array of the given shape (None: any length), each entry keeping the rule for `name`."""
    if not is_numeric(values):
        raise ValueError(f"{name} must be an array of numbers, got {shown(values)}")
    array = np.array(values, np.float64, order="C")
    if array.size == 0 and 0 in shape and None not in shape:
        array = array.reshape([length or 0 for length in shape])
    if array.ndim != len(shape) or any(n not in (None, k) for n, k in zip(shape, array.shape, strict=True)):
        wanted = " x ".join("any number" if length is None else str(length) for length in shape)
        raise ValueError(f"{name} must be an array of shape {wanted}, got one of shape {array.shape}")
    rule = RULES[name]
    if array.size and not (array.min() in rule and array.max() in rule):
        for place in np.ndindex(array.shape):
            if array[place] not in rule:
                where = ", ".join(map(str, place))
                raise ValueError(f"{name}[{where}] must be {rule}, got {shown(array[place])}")
    return array


def is_numeric(values: ArrayLike) -> bool:
    """Tell whether these are numbers, in rows of equal length: no text, no booleans, nothing missing."""
    try:
        array = np.array(values)
    except ValueError:  # rows of different lengths
        return False
    if isinstance(values, np.ndarray):
        return array.dtype.kind in "iuf" and not np.ma.is_masked(values)
    return array.dtype.kind in "iuf" and not any(isinstance(v, bool) for v in np.array(values, object).flat)


def fields(name: str, data: Any, *expected: str) -> Mapping[str, Any]:
    """`data` itself, if it is a mapping with just these keys."""
    if not isinstance(data, Mapping) or set(data) != set(expected):
        received = sorted(map(str, data)) if isinstance(data, Mapping) else data
        raise ValueError(f"{name} must have the keys {', '.join(expected)}, got {shown(received)}")
    return data


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """`value` itself, if it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        words = " or ".join(map(repr, allowed))
        raise ValueError(f"{name} must be {words}, got {shown(value)}")
    return value


def simplex(name: str, values: ArrayLike, length: int | None) -> Floats:
    """A strategy: shares that sum to 1 (to `SUM_TOLERANCE`; they are then normalised)."""
    strategy = numbers(name, values, length)
    total = math.fsum(strategy)
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise ValueError(f"{name} must sum to 1, got a sum of {total:.12g}")
    return strategy if abs(total - 1.0) < 1e-15 else strategy / total


def frozen(array: Floats) -> Floats:
    """The array, made read-only."""
    array.flags.writeable = False
    return array


class Decision(NamedTuple):
    """An arm and the probability with which it was drawn. Keep it until its feedback arrives, then `tell` it.

    The weight that was not the safe strategy's in the draw, 1 - safe_weight, travels with it: loss estimates that are
    weighted, SOLB's with ``estimator="weighted"``, never combine late feedback with today's weight. Plain data: a
    caller may build one, for an arm that was chosen elsewhere.

    Examples
    --------
    >>> Decision(arm=2, propensity=0.31)
    Decision(arm=2, propensity=0.31, proposal_weight=1.0)
    """

    arm: int
    propensity: float
    proposal_weight: float = 1.0


@dataclass(frozen=True, eq=False, init=False)
class SafeStrategy:
    """A strategy that is known to be strictly safe, and its costs (x^diamond and theta_i).

    Parameters
    ----------
    strategy
        One share per arm; they sum to 1.
    costs
        Its expected cost per constraint, each in [0, 1). Upper bounds on them do as well: whatever is safe with the
        bound is safe with the true cost. When only samples are known, play the strategy n rounds first and take
        ``mean + sqrt(ln(m / delta0) / (2 n))``, at a price of delta0 in the probability.

    Examples
    --------
    >>> SafeStrategy([0, 0, 0, 1], costs=[0.2]).costs
    array([0.2])
    """

    strategy: Floats
    costs: Floats

    def __init__(self, strategy: ArrayLike, costs: ArrayLike) -> None:
        object.__setattr__(self, "strategy", frozen(simplex("safe.strategy", strategy, None)))
        object.__setattr__(self, "costs", frozen(numbers("safe.costs", costs, None)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SafeStrategy) and self.to_dict() == other.to_dict()

    def to_dict(self) -> dict[str, list[float]]:
        """The strategy as JSON-able data."""
        return {"strategy": self.strategy.tolist(), "costs": self.costs.tolist()}


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """A constrained bandit: choose one of `n_arms` options a round, keep every expected cost under its threshold.

    Parameters
    ----------
    n_arms
        Number of options (K), at least 2.
    thresholds
        One limit in [0, 1] per cost (alpha_i); none at all is a plain bandit.
    horizon
        Number of rounds (T), at least 3 and at least `n_arms`; None if nobody knows, for policies that can do without.
    delta
        Probability with which the guarantees may fail.
    safe
        A strategy that is known to be safe: what hard-constraint policies need. Each of its costs lies below the
        threshold.

    Examples
    --------
    >>> problem = Problem(
    ...     n_arms=4, thresholds=[0.5], horizon=50_000, delta=0.05,
    ...     safe=SafeStrategy([0, 0, 0, 1], costs=[0.2]),
    ... )
    >>> problem.n_constraints, problem.margin
    (1, 0.3)
    >>> Problem(n_arms=2, thresholds=[0.5, 1.3], horizon=100)
    Traceback (most recent call last):
    ValueError: thresholds[1] must be in [0, 1], got 1.3
    """

    n_arms: int
    thresholds: Floats
    horizon: int | None
    delta: float
    safe: SafeStrategy | None

    def __init__(
        self,
        n_arms: int,
        thresholds: ArrayLike,
        horizon: int | None,
        delta: float = 0.05,
        safe: SafeStrategy | None = None,
    ) -> None:
        checked = {
            "n_arms": int(number("n_arms", n_arms)),
            "thresholds": frozen(numbers("thresholds", thresholds, None)),
            "horizon": None if horizon is None else int(number("horizon", horizon)),
            "delta": float(number("delta", delta)),
            "safe": safe,
        }
        if horizon is not None and horizon < n_arms:
            raise ValueError(f"horizon must be at least n_arms = {n_arms}, got {horizon}")
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if safe is not None:
            self._check_safe(safe)

    def _check_safe(self, safe: SafeStrategy) -> None:
        if not isinstance(safe, SafeStrategy):
            raise ValueError(f"safe must be a SafeStrategy, got {shown(safe)}")
        if safe.strategy.size != self.n_arms:
            raise ValueError(f"safe.strategy must have n_arms = {self.n_arms} entries, got {safe.strategy.size}")
        if safe.costs.size != self.n_constraints:
            raise ValueError(
                f"safe.costs must have {self.n_constraints} entries, one per threshold, got {safe.costs.size}"
            )
        for i, (cost, threshold) in enumerate(zip(safe.costs, self.thresholds, strict=True)):
            if cost >= threshold:
                raise ValueError(
                    f"safe.costs[{i}] must be below its threshold {threshold:g} (with no margin there is nothing to "
                    f"explore with, and only the safe strategy could ever be played), got {cost:g}"
                )
        if self.horizon is not None and self.margin < 12 * self.n_arms / self.horizon:
            warnings.warn(
                f"the margin {self.margin:.3g} is below 12 * n_arms / horizon = {12 * self.n_arms / self.horizon:.3g}: "
                "every round is still safe, but the paper's bounds on regret under hard constraints do not apply",
                stacklevel=3,
            )

    @property
    def n_constraints(self) -> int:
        """Number of constraints (m)."""
        return self.thresholds.size

    @property
    def margin(self) -> float:
        """By how much the safe strategy is safe (rho): the smallest of thresholds - safe.costs; 1 with no threshold."""
        if self.safe is None:
            raise ValueError("margin must be asked of a problem with a safe strategy, got safe=None")
        return float(min(self.thresholds - self.safe.costs, default=1.0))

    @property
    def rounds(self) -> int:
        """The horizon, for those who cannot do without one."""
        if self.horizon is None:
            raise ValueError("horizon must be a number of rounds for what depends on it, got None")
        return self.horizon

    @property
    def floor(self) -> float:
        """The smallest share of an arm in a proposal (1 / T)."""
        return 1.0 / self.rounds

    @property
    def limits(self) -> Floats:
        """The thresholds of the truncated safe set (alpha_i + K / T)."""
        return self.thresholds + self.n_arms / self.rounds

    @property
    def growth(self) -> float:
        """The factor by which a learning rate increases (kappa)."""
        return math.exp(1.0 / math.log(self.rounds))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.to_dict() == other.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """The problem as JSON-able data; `from_dict` is its inverse."""
        return {
            "n_arms": self.n_arms,
            "thresholds": self.thresholds.tolist(),
            "horizon": self.horizon,
            "delta": self.delta,
            "safe": None if self.safe is None else self.safe.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Problem:
        """The problem that `to_dict` described."""
        known = fields("problem", data, "n_arms", "thresholds", "horizon", "delta", "safe")
        safe = known["safe"]
        if safe is not None:
            safe = SafeStrategy(**fields("safe", safe, "strategy", "costs"))
        with warnings.catch_warnings():  # whoever made the problem has been warned
            warnings.simplefilter("ignore", UserWarning)
            return cls(**{**known, "safe": safe})
