"""Instances, which bounds apply to, and the bounds themselves."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surefoot.problem import DELTA, HORIZON, N_ARMS, Problem
from surefoot.rules import SHARE, WHOLE, Range, RuleError, number, shown

AMOUNT = Range(0)
"""What was measured or counted over a run."""
MARGIN = Range(1e-12, 1)


@dataclass(frozen=True)
class Instance:
    """A problem and how hard it turned out to be: what the bounds depend on.

    Parameters
    ----------
    n_arms, n_constraints, horizon, delta
        As of a `Problem` (K, m, T, delta).
    margin
        By how much the safe strategy is safe (rho); None if there is no such strategy, as for COLB.
    benchmark_loss
        Total loss of the best safe strategy in hindsight (L*), at most the horizon. A run calls it
        `bandit_complexity`.
    gap
        Root mean square, over the rounds, of what the safe strategy loses more than the best one (Delta); None if
        there is no safe strategy. Times the root of the horizon it is the `safety_complexity` of a run.
    threshold
        The smallest threshold (alpha).
    learning_rate
        The rate at which the policy starts (eta); if None, what the theorem in question asks for.

    Examples
    --------
    >>> instance = Instance(5, 1, 10_000, delta=0.05, margin=0.3, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> instance.omega, instance.safety_complexity
    (0.1, 20.0)
    """

    n_arms: int
    n_constraints: int
    horizon: float
    delta: float
    margin: float | None
    benchmark_loss: float
    gap: float | None
    threshold: float
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        for name, rule in RULE_OF.items():
            value = getattr(self, name)
            if value is not None or name not in OPTIONAL:
                checked = number(name, value, rule)
                object.__setattr__(self, name, checked if rule.whole else float(checked))
        if self.horizon < self.n_arms:
            raise RuleError("horizon", f"be at least n_arms = {self.n_arms}", self.horizon)
        if self.benchmark_loss > self.horizon:
            raise RuleError("benchmark_loss", f"be at most horizon = {self.horizon}", self.benchmark_loss)
        if self.margin is not None and self.margin > self.threshold:
            raise RuleError("margin", f"be at most threshold = {self.threshold:g}", self.margin)

    @classmethod
    def measured(cls, problem: Problem, row: Mapping[str, Any], learning_rate: float | None = None) -> Instance:
        """The instance that a run met: `row` is one of its table's, at the horizon.

        Examples
        --------
        >>> problem = Problem(5, [0.5], horizon=10_000)
        >>> row = {"round": 10_000, "bandit_complexity": 1_000.0, "safety_complexity": None}
        >>> Instance.measured(problem, row).omega
        0.1
        """
        missing = [name for name in ("round", "bandit_complexity", "safety_complexity") if name not in row]
        if missing:
            raise RuleError("row", f"have a {missing[0]}", sorted(row))
        horizon, complexity = problem.rounds, row["safety_complexity"]
        if row["round"] != horizon:
            rule = f"be of the last round, {horizon}"
            raise RuleError("row", rule, row["round"], f"one of round {shown(row['round'])}")
        return cls(
            problem.n_arms,
            problem.n_constraints,
            horizon,
            problem.delta,
            None if problem.safe is None else problem.margin,
            rounded(row["bandit_complexity"], horizon),
            None if complexity is None else rounded(complexity / math.sqrt(horizon), 1.0),
            float(min(problem.thresholds, default=1.0)),
            learning_rate,
        )

    @property
    def omega(self) -> float:
        """Loss of the best safe strategy per round."""
        return self.benchmark_loss / self.horizon

    @property
    def safety_complexity(self) -> float:
        """How far the safe strategy is from the best one: the root of the sum of their squared gaps (S)."""
        return self.known("gap") * math.sqrt(self.horizon)

    def sure(self, events: int) -> float:
        """The probability that none of so many events of probability delta happens, by the union bound."""
        return max(0.0, 1.0 - events * self.delta)

    def known(self, name: str) -> float:
        """Return margin or gap, by name, for a bound that needs it."""
        value: float | None = getattr(self, name)
        if value is None:
            raise RuleError(name, "be a number for bounds on SOLB", None)
        return value

    def at(self, horizon: float) -> Instance:
        """The same instance per round over another horizon of any length; the theorems set the learning rate."""
        return self.changed(horizon=horizon, benchmark_loss=self.omega * horizon, learning_rate=None)

    def changed(self, **changes: float | None) -> Instance:
        """Another instance with these values, which are not checked: horizons may lie beyond what a policy takes."""
        other = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(other, name, value)
        return other


RULE_OF = {
    "n_arms": N_ARMS,
    "n_constraints": WHOLE,
    "horizon": HORIZON,
    "delta": DELTA,
    "margin": MARGIN,
    "benchmark_loss": AMOUNT,
    "gap": SHARE,
    "threshold": SHARE,
    "learning_rate": Range(1e-12, 1e6),
}
"""The rule for each parameter of an instance."""
OPTIONAL = ("margin", "gap", "learning_rate")


def rounded(value: float, most: float) -> float:
    """A measured value, moved back to 0 or to its maximum if rounding took it just outside."""
    if -1e-9 * most <= value < 0.0:
        return 0.0
    return most if most < value <= (1.0 + 1e-9) * most else value


@dataclass(frozen=True)
class Bound:
    """What a theorem says about an instance.

    Attributes
    ----------
    name, statement
        What it is called, and what it says, in a sentence.
    terms
        What it is the sum of.
    trivial
        What can be said without the theorem.
    probability
        With which it holds; None for bounds on a mean.
    conditions
        The conditions of the theorem, in words, and whether each is met.
    lower
        True for a lower bound, False for an upper bound.
    gap
        True if the published proof has a gap, so that the bound is not proved.
    longest
        The longest horizon for which it is proved.

    Examples
    --------
    >>> bound = Bound("Mine", "It is at most 3.", {"one": 1.0, "two": 2.0}, 4.0, 0.9, (("2 > 1", True),))
    >>> bound.total, bound.says_something
    (3.0, True)
    """

    name: str
    statement: str
    terms: Mapping[str, float]
    trivial: float
    probability: float | None
    conditions: tuple[tuple[str, bool], ...] = ()
    lower: bool = False
    gap: bool = False
    longest: float = math.inf

    @property
    def total(self) -> float:
        """The bound itself, the sum of its terms."""
        return math.fsum(self.terms.values())

    @property
    def applies(self) -> bool:
        """True if all conditions are met and the bound holds with a positive probability."""
        return all(holds for _, holds in self.conditions) and (self.probability is None or self.probability > 0.0)

    @property
    def says_something(self) -> bool:
        """True if the bound applies and, if it is an upper bound, is below the trivial one."""
        return self.applies and (self.lower or self.total < self.trivial)
