"""A mixture of likelihood ratios of coin flips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.confidence.bets import Mixture
from surefoot.kernels.costs import BETTING, CostBound
from surefoot.problem import Problem


@dataclass(frozen=True)
class KLMixture(Mixture):
    """Likelihood ratios of coin flips: q is excluded if a mixture of coins with lower means explains the costs better.

    "Better" means by a factor of 1 / level. With S the sum of N costs, the upper bound is the root in q of

        sum over bets f of share(f) (p / q)^S ((1 - p) / (1 - q))^(N - S) = 1 / level,   p = (1 - f) q.

    The lower bound is the same for 1 - cost. The level is delta / (2 K m), or delta / (K m) with ``sides="upper"``.

    Parameters
    ----------
    sides
        "both", "upper" or "needed"; see `OneSided`.
    bets
        How many coins there are in the mixture.

    Notes
    -----
    *Validity.* For costs in [0, 1] with mean mu >= q, E[a^x b^(1 - x)] <= E[a x + b (1 - x)] <= 1 for a = 1 - f and
    b = (1 - (1 - f) q) / (1 - q): each ratio, and so their mixture, is a supermartingale, which by Ville's inequality
    reaches 1 / level with a probability of at most the level. It increases with q, so to exclude q is to exclude all
    above. There is no union over time, and no horizon; the choice of arms may depend on all past observations.

    All coins lie on the side of q that the bound is about, so no level is spent on the other side. A continuous mixture
    in their place, Beta(1/2, 1/2) restricted to that side, would need incomplete beta functions. It is at most 7 %
    narrower (rare costs, N = 30 to 100), and up to 14 % wider (N = 10^6).

    This is `Betting` with two nodes. For coin flips the two are the same. Other costs count in parts, a cost of 0.3 as
    0.3 of a one and 0.7 of a zero, so a small variance does not narrow the bound.

    *Cost.* A product per bet and side. When the bound moves, two logarithms per bet, once or twice. It moves only when
    the wealth is 1.08 times enough. ``2 bets + 2`` numbers are remembered per arm and guardrail, 0.3 kB.

    References
    ----------
    Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of Mathematical Statistics 1970
    (mixtures and Ville's inequality); Garivier, Cappe, "The KL-UCB algorithm for bounded stochastic bandits and
    beyond", COLT 2011 (costs in [0, 1] are no worse than coin flips). The mixture is our own.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000)
    >>> policy = sf.COLB(problem, seed=7, confidence="kl-mixture")
    >>> for _ in range(100):
    ...     policy.tell((0, 0.5), loss=0.5, costs=[0.1])
    >>> policy.upper_costs.round(3)
    array([[0.244, 1.   , 1.   ]])
    """

    name: ClassVar[str] = "kl-mixture"

    def bound(self, problem: Problem) -> CostBound:
        """The bound for a problem; see `Confidence`."""
        return self.bound_of(problem, BETTING, nodes=2)
