"""The empirical Bernstein inequality of Maurer and Pontil."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from surefoot.confidence.base import OneSided
from surefoot.kernels.costs import BERNSTEIN, CostBound
from surefoot.problem import Problem


@dataclass(frozen=True)
class Bernstein(OneSided):
    """mean -+ (sqrt(2 V ln(2 T / level) / N) + 7 ln(2 T / level) / (3 (N - 1))), V the sample variance.

    The level is delta / (2 K m), or delta / (K m) with ``sides="upper"``. A single observation gives no bound.

    Parameters
    ----------
    sides
        "both", "upper" or "needed"; see `OneSided`.

    Notes
    -----
    *Validity.* After n >= 2 observations the inequality fails on one side with probability level / T. The union is over
    all n up to T, as for `Hoeffding`, so bounds never have to widen again. The inequality is for independent costs of
    one law; it is not known to hold if only their means, given the past, stay the same.

    Better than `Hoeffding` when the variance is small and N in the thousands; `EBMixture` is better still.

    *Cost.* A square root. One number is remembered per arm and guardrail, the sum of squared deviations.

    References
    ----------
    Maurer, Pontil, "Empirical Bernstein bounds and sample variance penalization", COLT 2009, Theorem 4.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000)
    >>> policy = sf.COLB(problem, seed=7, confidence="bernstein")
    >>> for _ in range(100):
    ...     policy.tell((0, 0.5), loss=0.5, costs=[0.1])
    >>> policy.upper_costs.round(3)
    array([[0.392, 1.   , 1.   ]])
    """

    name: ClassVar[str] = "bernstein"
    needs_horizon: ClassVar[bool] = True

    def bound(self, problem: Problem) -> CostBound:
        """The bound for a problem; see `Confidence`."""
        return self.exempting(CostBound(BERNSTEIN, self.evidence(problem) + math.log(2 * problem.rounds)), problem)
