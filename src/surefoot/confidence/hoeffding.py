"""Hoeffding's inequality, exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from surefoot.confidence.base import OneSided
from surefoot.kernels.costs import HOEFFDING, CostBound
from surefoot.problem import Problem


@dataclass(frozen=True)
class Hoeffding(OneSided):
    """mean -+ sqrt(ln(T / level) / (2 N)), the level being delta / (2 K m), or delta / (K m) with ``sides="upper"``.

    Parameters
    ----------
    sides
        "both", "upper" or "needed"; see `OneSided`.

    Notes
    -----
    *Validity.* After n observations of an arm, Hoeffding's inequality fails on one side with probability level / T. The
    number of observations depends on the costs themselves, so the union is over all n up to T. It holds for all n at
    once, so bounds never have to widen again.

    *Cost.* A square root. It stores only counts, means and bounds.

    References
    ----------
    Hoeffding, "Probability inequalities for sums of bounded random variables", JASA 1963, Theorem 1.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000)
    >>> policy = sf.COLB(problem, seed=7, confidence="hoeffding")
    >>> for _ in range(100):
    ...     policy.tell((0, 0.5), loss=0.5, costs=[0.1])
    >>> policy.upper_costs.round(3)
    array([[0.342, 1.   , 1.   ]])
    """

    name: ClassVar[str] = "hoeffding"
    needs_horizon: ClassVar[bool] = True

    def bound(self, problem: Problem) -> CostBound:
        """The bound for a problem; see `Confidence`."""
        bound = CostBound(HOEFFDING, 0.5 * (self.evidence(problem) + math.log(problem.rounds)))
        return self.exempting(bound, problem)
