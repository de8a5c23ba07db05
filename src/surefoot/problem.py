"""What is to be solved: Problem, SafeStrategy, Decision.

Input is checked once, when an object is made. The ways to check it are in `rules.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from surefoot import rules
from surefoot.rules import SHARE, Floats, Range, RuleError

N_ARMS = Range(2, whole=True)
HORIZON = Range(3, 1e15, whole=True)
DELTA = Range(0, 1, open_low=True, open_high=True)
SAFE_COST = Range(0, 1, open_high=True)


class EmptySafeSet(ValueError):
    """No strategy above the floor meets the guardrails."""


class Infeasible(ValueError):
    """No strategy at all meets the thresholds."""


class Decision(NamedTuple):
    """An arm and the probability with which it was drawn. Keep it until its feedback arrives, then pass it to `tell`.

    It also keeps the proposal's weight in the draw, 1 - safe_weight. SOLB with ``estimator="weighted"`` needs it when
    the feedback is late and the weight has changed since.

    `Policy.ask` numbers its decisions, and `Policy.tell` takes a numbered one only once, and only if it is the oldest
    open decision of its arm. Safety rests on that. A decision is plain data, so you can build one yourself, without a
    number, for an arm that was chosen elsewhere. Then you vouch that feedback comes once for every decision, and for
    each arm in the order of asking: the policy cannot check it.

    Examples
    --------
    >>> Decision(arm=2, propensity=0.31)
    Decision(arm=2, propensity=0.31, proposal_weight=1.0, number=None)
    """

    arm: int
    propensity: float
    proposal_weight: float = 1.0
    number: int | None = None


LEAST_SHARE = 1e-15
"""Smaller shares of a safe strategy are rounding, and count as 0."""


@dataclass(frozen=True, eq=False, init=False)
class SafeStrategy:
    """A strategy that is known to be strictly safe, and its costs (x^diamond and theta_i).

    Parameters
    ----------
    strategy
        One share per arm. The shares sum to 1.
    costs
        Its expected cost per guardrail, each in [0, 1); with one guardrail, a number will do. Upper bounds on the
        costs are fine: what is safe at the bounds is safe at the true costs. If you do not know any, play the strategy
        for n rounds first and use ``mean + sqrt(ln(m / delta0) / (2 n))``, with n fixed beforehand: this bound is valid
        for one look. If you keep checking, use a time-uniform bound (docs/choosing.md). Either fails with a probability
        of at most delta0, which adds to delta.

    Examples
    --------
    >>> SafeStrategy([0, 0, 0, 1], costs=[0.2]).costs
    array([0.2])
    """

    strategy: Floats
    costs: Floats

    def __init__(self, strategy: ArrayLike, costs: ArrayLike) -> None:
        shares = rules.simplex("safe.strategy", strategy, None)
        if (shares[shares < LEAST_SHARE] > 0.0).any():
            shares = rules.simplex("safe.strategy", shares * (shares >= LEAST_SHARE), None)
        object.__setattr__(self, "strategy", rules.frozen(shares))
        object.__setattr__(self, "costs", rules.frozen(rules.numbers("safe.costs", costs, SAFE_COST, None)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SafeStrategy) and self.to_dict() == other.to_dict()

    def to_dict(self) -> dict[str, list[float]]:
        """Return the strategy as JSON-able data."""
        return {"strategy": self.strategy.tolist(), "costs": self.costs.tolist()}


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """A constrained bandit: choose one of `n_arms` options each round and keep every expected cost within its limit.

    Parameters
    ----------
    n_arms
        Number of options (K), at least 2.
    thresholds
        One limit in [0, 1] per guardrail (alpha_i); with one guardrail, a number will do. Without any, a plain bandit.
    horizon
        Number of rounds (T), at least 3 and at least `n_arms`. None if it is not known; not every policy allows that.
    delta
        Largest probability with which the guarantee may fail, in all rounds together.
    safe
        A strategy that is known to be safe. Policies for hard guardrails need one. Each of its costs must be below the
        limit.

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
    surefoot.rules.RuleError: thresholds[1] must be in [0, 1], got 1.3
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
            "n_arms": rules.number("n_arms", n_arms, N_ARMS),
            "thresholds": rules.frozen(rules.numbers("thresholds", thresholds, SHARE, None)),
            "horizon": None if horizon is None else rules.number("horizon", horizon, HORIZON),
            "delta": float(rules.number("delta", delta, DELTA)),
            "safe": safe,
        }
        if horizon is not None and checked["horizon"] < checked["n_arms"]:
            raise RuleError("horizon", f"be at least n_arms = {checked['n_arms']}", horizon)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if safe is not None:
            self._check_safe(safe)

    def _check_safe(self, safe: SafeStrategy) -> None:
        if not isinstance(safe, SafeStrategy):
            raise RuleError("safe", "be a SafeStrategy", safe)
        if safe.strategy.size != self.n_arms:
            raise RuleError("safe.strategy", f"have n_arms = {self.n_arms} entries", safe.strategy.size)
        if safe.costs.size != self.n_constraints:
            raise RuleError("safe.costs", f"have {self.n_constraints} entries, one per threshold", safe.costs.size)
        for i, (cost, threshold) in enumerate(zip(safe.costs, self.thresholds, strict=True)):
            if cost >= threshold:
                rule = f"be below its threshold {threshold:g} (without a margin only the safe strategy can be played)"
                raise RuleError(f"safe.costs[{i}]", rule, float(cost))
        if self.horizon is not None and self.margin < 12 * self.n_arms / self.horizon:
            warnings.warn(
                f"the margin {self.margin:.3g} is below 12 * n_arms / horizon = {12 * self.n_arms / self.horizon:.3g}: "
                "safety still holds, but the paper's regret bounds for hard guardrails do not apply",
                stacklevel=3,
            )

    @property
    def n_constraints(self) -> int:
        """Number of guardrails (m)."""
        return self.thresholds.size

    @property
    def margin(self) -> float:
        """How safe the safe strategy is (rho): the smallest of thresholds - safe.costs, or 1 without thresholds."""
        if self.safe is None:
            raise RuleError("problem", "have a safe strategy for its margin", None, "safe=None")
        return float(min(self.thresholds - self.safe.costs, default=1.0))

    @property
    def rounds(self) -> int:
        """The horizon, where one is needed: an error if it is not known."""
        if self.horizon is None:
            raise RuleError("horizon", "be a number of rounds for what depends on it", None)
        return self.horizon

    @property
    def floor(self) -> float:
        """The smallest share of an arm in a proposal (1 / T)."""
        return 1.0 / self.rounds

    @property
    def limits(self) -> Floats:
        """The limits on the costs in the truncated safe set (alpha_i + K / T)."""
        return self.thresholds + self.n_arms / self.rounds

    @property
    def growth(self) -> float:
        """The factor by which a learning rate increases (kappa)."""
        return math.exp(1.0 / math.log(self.rounds))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.to_dict() == other.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as JSON-able data, for `from_dict`."""
        return {
            "n_arms": self.n_arms,
            "thresholds": self.thresholds.tolist(),
            "horizon": self.horizon,
            "delta": self.delta,
            "safe": None if self.safe is None else self.safe.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Problem:
        """Make the problem that `to_dict` returned."""
        known = rules.fields("problem", data, "n_arms", "thresholds", "horizon", "delta", "safe")
        safe = known["safe"]
        if safe is not None:
            safe = SafeStrategy(**rules.fields("safe", safe, "strategy", "costs"))
        with warnings.catch_warnings():  # the warning came when the problem was made
            warnings.simplefilter("ignore", UserWarning)
            return cls(**{**known, "safe": safe})
