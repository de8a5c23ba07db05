"""An empirical Bernstein bound for all times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.confidence.bets import Mixture
from surefoot.kernels.costs import EB_MIXTURE, CostBound
from surefoot.problem import Problem


@dataclass(frozen=True)
class EBMixture(Mixture):
    """mean -+ R / N, with R the root of  sum over bets f of share(f) exp(f R - psi(f) V) = 1 / level.

    V is the sum of squared surprises (cost - m)^2, m = (1/2 + sum of the earlier costs) / (1 + their number), and
    psi(f) = -ln(1 - f) - f. The level is delta / (2 K m), or delta / (K m) with ``sides="upper"``.

    Parameters
    ----------
    sides
        "both", "upper" or "needed"; see `OneSided`.
    bets
        Number of bets in the mixture.

    Notes
    -----
    *Validity.* Fan's inequality: exp(f y - psi(f) y^2) <= 1 + f y for y >= -1 and 0 <= f < 1. With y = m - cost, for
    costs of mean mu,

        E exp(f (mu - cost) - psi(f) (cost - m)^2) <= exp(f (mu - m)) (1 + f (m - mu)) <= 1,

    since m is known beforehand. So each bet's product is a supermartingale, and so is the mixture; by Ville's
    inequality it reaches 1 / level with a probability of at most the level. The same with cost - m on the other side.
    There is no union over time, and no horizon; the choice of arms may depend on all past observations.

    The width follows the variance, so use this bound for costs that vary little. It is wide for fewer than a hundred
    observations.

    *Cost.* Nothing while the last R shows that the bounds do not move; otherwise Newton's method on the equation above.
    It stores two numbers per arm and guardrail, V and the last R.

    References
    ----------
    Fan, Grama, Liu, "Exponential inequalities for martingales with applications", EJP 2015,
    Lemma 4.1; Howard, Ramdas, McAuliffe, Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences",
    Annals of Statistics 2021, Theorem 4. The mixture is our own.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000)
    >>> policy = sf.COLB(problem, seed=7, confidence="eb-mixture")
    >>> for _ in range(100):
    ...     policy.tell((0, 0.5), loss=0.5, costs=[0.1])
    >>> policy.upper_costs.round(3)
    array([[0.167, 1.   , 1.   ]])
    """

    bets: int = 12

    name: ClassVar[str] = "eb-mixture"

    def bound(self, problem: Problem) -> CostBound:
        """The bound for a problem; see `Confidence`."""
        bound, powers = self.bound_of(problem, EB_MIXTURE), np.arange(2, 60)
        bets = bound.fractions
        series = (bets[:, None] ** powers / powers).sum(axis=1)  # the same value, without cancellation
        return bound._replace(prices=np.where(bets < 0.5, series, -np.log1p(-bets) - bets))
