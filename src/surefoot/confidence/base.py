"""What every confidence bound is: a name, parameters, and estimates that know nothing yet."""

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
    """A way to bound mean costs from below and from above, for all arms and constraints and at all times.

    Policies read the two bounds and nothing else. The option `confidence` takes an object of this family or a name.
    """

    name: ClassVar[str]
    """What the option `confidence` calls it."""

    needs_horizon: ClassVar[bool] = False
    """Whether the bounds depend on the number of rounds; else they hold at all times, however long."""

    @abstractmethod
    def bound(self, problem: Problem) -> CostBound:
        """The bound for a problem, as kernels know it."""

    def new_costs(self, problem: Problem) -> KnownCosts:
        """Estimates of the costs of a problem, apart from any policy, before the first observation."""
        return unknown_costs(problem.n_arms, problem.n_constraints, self.bound(problem))

    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def option(self) -> str | dict[str, Any]:
        """The bound as JSON-able data: its name alone, or with all parameters if not all of them are the defaults."""
        if self == type(self)():
            return self.name
        return {"name": self.name, **self.parameters()}


@dataclass(frozen=True)
class OneSided(Confidence):
    """A pair of bounds, each of which holds by itself: an upper one, and the same for 1 - cost as the lower one.

    Parameters
    ----------
    sides
        "both": delta is split in halves, and with probability 1 - delta all lower and all upper bounds hold. "upper":
        the upper bounds have all of delta. Safety rests on them alone, so it keeps its probability, with less mixing.
        The lower bounds have delta once more, apart: with probability 1 - delta all of *them* hold, and both kinds
        together with 1 - 2 delta. On the lower bounds rests regret, not safety.
    """

    sides: str = "both"

    def __post_init__(self) -> None:
        choice("sides", self.sides, ("both", "upper"))

    def evidence(self, problem: Problem) -> float:
        """ln(1 / level), the level being what one bound on one cost of one arm has of delta."""
        halves = 2 if self.sides == "both" else 1
        return math.log(halves * problem.n_arms * max(1, problem.n_constraints)) - math.log(problem.delta)
