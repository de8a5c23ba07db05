"""The bets in a mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from surefoot.confidence.base import OneSided
from surefoot.kernels.betting import RESERVE
from surefoot.kernels.costs import BETTING, CostBound
from surefoot.problem import Problem
from surefoot.rules import Range, number

HIGHEST, LOWEST = 4.0, -15.0  # logarithms to the base 2 of f / (1 - f)


@dataclass(frozen=True)
class Mixture(OneSided):
    """A time-uniform bound from the wealth of a mixture of bets.

    Parameters
    ----------
    sides
        "both", "upper" or "needed"; see `OneSided`.
    bets
        Number of bets in the mixture.
    """

    bets: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bets", number("bets", self.bets, Range(2, 1000, whole=True)))

    def bound_of(self, problem: Problem, kind: int, nodes: int = 0) -> CostBound:
        """A bound with these bets.

        f / (1 - f) goes from 16 down to 2^-15 in even ratios. A bet of f is the best one after about
        ln(1 / level) / f^2 observations, so the range covers 1 to 10^10 observations. Shares fall slowly, like
        1 / (3 + k) for f / (1 - f) = 2^(4 - k), because early bounds matter more.

        The betting bounds keep a ten-millionth of delta for the time after a contradiction, when they begin again.
        """
        depths = np.linspace(0.0, HIGHEST - LOWEST, self.bets)
        odds, shares = 2.0 ** (HIGHEST - depths), 1.0 / (3.0 + depths)
        evidence, more = self.evidence(problem), 0.0
        if kind == BETTING:
            evidence, more = evidence - math.log1p(-RESERVE), math.log1p(-RESERVE) - math.log(RESERVE)
        bound = CostBound(
            kind, evidence, odds / (1.0 + odds), np.log(shares / shares.sum()) - evidence, nodes=nodes, more=more
        )
        return self.exempting(bound, problem)
