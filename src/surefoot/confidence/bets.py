"""The bets that mixtures are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.confidence.base import OneSided
from surefoot.kernels.betting import BETS, ROWS, SHARES
from surefoot.problem import Floats, Problem, number

HIGHEST, LOWEST = 4.0, -15.0  # logarithms to the base 2 of f / (1 - f)


@dataclass(frozen=True)
class Mixture(OneSided):
    """A bound by the wealth of a mixture of bets, which holds at all times.

    Parameters
    ----------
    sides
        "both" or "upper"; see `OneSided`.
    bets
        How many there are in the mixture.
    """

    bets: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bets", int(number("bets", self.bets)))

    def settings(self, problem: Problem) -> Floats:
        """The bets f, and the logarithms of their shares in the mixture times the level.

        f / (1 - f) goes from 16 down to 2^-15 in even ratios. A bet of f is the best one after about
        ln(1 / level) / f^2 observations, so the range lasts from the first of them to 10^10. Shares fall off slowly,
        like 1 / (3 + k) for f / (1 - f) = 2^(4 - k): early bounds matter more.
        """
        settings = np.zeros((ROWS, self.bets))
        depths = np.linspace(0.0, HIGHEST - LOWEST, self.bets)
        odds, shares = 2.0 ** (HIGHEST - depths), 1.0 / (3.0 + depths)
        settings[BETS] = odds / (1.0 + odds)
        settings[SHARES] = np.log(shares / shares.sum()) - self.evidence(problem)
        return settings
