"""The radius of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from surefoot.confidence.base import Confidence
from surefoot.kernels.costs import PAPER, CostBound
from surefoot.problem import Problem


@dataclass(frozen=True)
class Paper(Confidence):
    """mean -+ min(1, sqrt(4 ln(T K m / delta) / N)): the radius of Lemma 1.

    Notes
    -----
    *Validity.* By Hoeffding's inequality, with a union over arms, guardrails and numbers of observations up to T. The
    constant is generous: the bounds fail with probability at most 2 T K m (delta / (T K m))^8, where delta would be
    enough.

    As in the pseudo-code, the bounds are -1 and 1 before the first observation, and are not clipped to [0, 1].

    *Cost.* A square root. It stores only counts and means.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", Lemma 1.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000)
    >>> sf.COLB(problem, confidence=sf.confidence.Paper()).upper_costs
    array([[1., 1., 1.]])
    """

    name: ClassVar[str] = "paper"
    needs_horizon: ClassVar[bool] = True

    def bound(self, problem: Problem) -> CostBound:
        """The bound for a problem; see `Confidence`."""
        return CostBound(PAPER, paper_scale(problem.rounds, problem.n_arms, problem.n_constraints, problem.delta))


def paper_scale(horizon: int, n_arms: int, n_constraints: int, delta: float) -> float:
    """4 ln(T K m / delta), the squared radius after one observation (Lemma 1); 0 when there is nothing to bound."""
    return 4.0 * (math.log(horizon * n_arms * n_constraints) - math.log(delta)) if n_constraints else 0.0
