"""The base class of confidence bounds: a name, parameters, and initial estimates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from surefoot.kernels.costs import CostBound, KnownCosts, unknown_costs
from surefoot.problem import Problem
from surefoot.rules import choice


@dataclass(frozen=True)
class Confidence(ABC):
    """A way to bound mean costs from below and from above, for all arms and guardrails and at all times.

    Policies read the two bounds and nothing else. The option `confidence` takes an object of this family or a name.
    """

    name: ClassVar[str]
    """What the option `confidence` calls it."""

    needs_horizon: ClassVar[bool] = False
    """Whether the bounds depend on the number of rounds; else they hold at all times, however long."""

    @abstractmethod
    def bound(self, problem: Problem) -> CostBound:
        """The bound for a problem, in the form that kernels use."""

    def new_costs(self, problem: Problem) -> KnownCosts:
        """Cost estimates for a problem before the first observation, independent of any policy."""
        return unknown_costs(problem.n_arms, problem.n_constraints, self.bound(problem))

    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def option(self) -> str | dict[str, Any]:
        """The bound as JSON-able data: its name, with all parameters if any of them is not the default."""
        if self == type(self)():
            return self.name
        return {"name": self.name, **self.parameters()}


@dataclass(frozen=True)
class OneSided(Confidence):
    """Two separate bounds: an upper one on the cost, and a lower one, which is the upper bound on 1 - cost.

    Parameters
    ----------
    sides
        "both": delta is split in halves, and with probability 1 - delta all lower and all upper bounds hold. "upper":
        the upper bounds get all of delta. Safety depends on them alone, so it keeps its probability, with less mixing.
        The lower bounds get another delta: with probability 1 - delta all of *them* hold, and both kinds hold together
        with probability 1 - 2 delta. Regret depends on the lower bounds; safety does not. "needed": as "upper", and if
        the safe strategy is a single arm, its costs as they were given are its upper bounds. That arm needs no part of
        delta, so the others get more, and no run is unsafe because a bound on it fails. The lower bounds, of all K arms
        at that level, then fail with probability K / (K - 1) times delta at most.
    """

    sides: str = "both"

    def __post_init__(self) -> None:
        choice("sides", self.sides, ("both", "upper", "needed"))

    def evidence(self, problem: Problem) -> float:
        """ln(1 / level), where the level is the share of delta for one bound on one cost of one arm."""
        halves = 2 if self.sides == "both" else 1
        n_arms = problem.n_arms - (self.stated_arm(problem) >= 0)
        return math.log(halves * n_arms * max(1, problem.n_constraints)) - math.log(problem.delta)

    def stated_arm(self, problem: Problem) -> int:
        """The arm that is the safe strategy, if its costs are to be taken as they were given; else -1.

        Examples
        --------
        >>> from surefoot import Problem, SafeStrategy
        >>> from surefoot.confidence import Betting
        >>> problem = Problem(3, [0.5], horizon=1000, safe=SafeStrategy([0, 1, 0], [0.2]))
        >>> Betting(sides="needed").stated_arm(problem), Betting(sides="upper").stated_arm(problem)
        (1, -1)
        """
        safe = problem.safe
        if self.sides != "needed" or safe is None or problem.n_arms == 1 or float(safe.strategy.max()) < 1.0:
            return -1
        return int(safe.strategy.argmax())

    def exempting(self, bound: CostBound, problem: Problem) -> CostBound:
        """The bound, with the costs of that arm as they were given."""
        arm, safe = self.stated_arm(problem), problem.safe
        return bound if arm < 0 or safe is None else bound._replace(exempt=arm, stated=safe.costs)
