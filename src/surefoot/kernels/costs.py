"""Estimates of the costs: counts, means, and lower and upper confidence bounds.

Policies read `lower` and `upper` and nothing else, so a confidence bound is just a way to fill these two. N(a) changes
for the played arm alone, so a round refreshes one column.
"""

from typing import Annotated, Any, NamedTuple, cast

import numpy as np

from surefoot.kernels import bernstein, betting, eb_mixture, hoeffding
from surefoot.kernels.betting import Bets
from surefoot.kernels.compile import compiled
from surefoot.kernels.layout import COUNT, NOT_NEGATIVE, derived, layout_of, saved
from surefoot.kernels.types import Floats, Integers
from surefoot.rules import SHARE, Range

PAPER, HOEFFDING, BERNSTEIN, EB_MIXTURE, BETTING = range(5)

NO_BETS = np.zeros(0)


class CostBound(NamedTuple):
    """A kind of confidence bound, and its parameters."""

    kind: int = PAPER
    scale: float = 0.0  # the paper's and Hoeffding's: squared radius after one observation; else the evidence asked for
    fractions: Floats = NO_BETS  # (bets,) of the wealth that each bet of a mixture puts at stake
    shares: Floats = NO_BETS  # (bets,) ln(share of each bet in the mixture * level)
    prices: Floats = NO_BETS  # (bets,) psi(fraction), for the empirical Bernstein mixture
    nodes: int = 0  # values at which past costs are remembered, for the betting bound
    more: float = 0.0  # evidence that its bounds need in addition once they have begun again
    exempt: int = -1  # an arm whose costs are stated, and not bounded from above by what is observed; -1: none
    stated: Floats = NO_BETS  # (m,) what its costs are, or upper bounds of them

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of `KnownCosts` beside the numbers of arms and guardrails."""
        remembers = self.kind == BETTING
        return {"bets": self.fractions.size, "wealth": self.fractions.size * remembers, "nodes": self.nodes}


class KnownCosts(NamedTuple):
    """Estimates of the costs of all arms (for m guardrails and K arms)."""

    counts: Annotated[Integers, saved("K", rule=COUNT)]  # how often each arm was observed, N(a)
    means: Annotated[Floats, saved("m", "K", rule=SHARE)]  # sample means, g^_i(a)
    lower: Annotated[Floats, saved("m", "K", rule=Range(-1, 1))]  # g^_i(a) - beta(a), or another lower bound
    upper: Annotated[Floats, saved("m", "K", rule=Range(0, 2))]  # g^_i(a) + beta(a), or another upper bound
    contradicted: Annotated[Integers, saved(1, rule=COUNT)]  # how often bounds have contradicted each other (`narrow`)
    begun: Annotated[Integers, saved(1, rule=COUNT)]  # 1 once bounds that bet have begun again after that
    since: Annotated[Integers, saved("K", rule=COUNT)]  # the counts when they did
    squares: Annotated[Floats, saved("m", "K", rule=NOT_NEGATIVE)]  # Bernstein bounds: sum of squared deviations
    reach: Annotated[Floats, saved("m", "K", rule=NOT_NEGATIVE)]  # eb-mixture: the last R; bets: firm lower bounds
    upper_wealth: Annotated[Floats, saved("m", "K", "wealth", rule=NOT_NEGATIVE)]  # of each bet against `upper`
    lower_wealth: Annotated[Floats, saved("m", "K", "wealth", rule=NOT_NEGATIVE)]  # of each bet against `lower`
    nodes: Annotated[Floats, saved("m", "K", "nodes", rule=NOT_NEGATIVE)]  # weights of past costs at even spacings
    kind: Annotated[int, derived()]  # which bound
    scale: Annotated[float, derived()]  # see `CostBound`
    exempt: Annotated[int, derived()]  # see `CostBound`
    stated: Annotated[Floats, derived("m")]  # the upper bounds of that arm
    more: Annotated[float, derived()]  # see `CostBound`
    mixture: Bets


def start_costs(known: Any, bound: CostBound) -> None:
    """Nothing observed yet: bounds of 0 and 1, or for the paper mean 0 and radius 1, as both algorithms start."""
    known.lower = -1.0 if bound.kind == PAPER else 0.0
    known.upper = 1.0
    known.kind, known.scale, known.exempt, known.more = bound.kind, bound.scale, bound.exempt, bound.more
    if bound.exempt >= 0:
        known.stated = bound.stated
        known.upper[:, bound.exempt] = bound.stated
    known.mixture.fractions, known.mixture.shares = bound.fractions, bound.shares
    if bound.prices.size:
        known.mixture.prices = bound.prices


def unknown_costs(n_arms: int, n_constraints: int, bound: CostBound) -> KnownCosts:
    """Estimates without a policy, before the first observation."""
    draft = layout_of(KnownCosts).new(K=n_arms, m=n_constraints, **bound.sizes)
    start_costs(draft, bound)
    return cast(KnownCosts, draft.opened())


@compiled
def observe(known: KnownCosts, arm: int, costs: Floats) -> None:
    """Update means and bounds of one arm by the costs just observed (Section 3.1 of the paper)."""
    known.counts[arm] += 1
    for i in range(costs.size):
        known.means[i, arm] += (costs[i] - known.means[i, arm]) / known.counts[arm]
    if known.kind == PAPER:
        bound(known, arm)
    else:
        narrow(known, arm, costs)


@compiled
def bound(known: KnownCosts, arm: int) -> None:
    """Set the paper's bounds of one arm, which has been observed, from its count and means."""
    radius = min(1.0, hoeffding.radius(known.scale, known.counts[arm]))  # beta_t(a) of Lemma 1
    for i in range(known.means.shape[0]):
        known.lower[i, arm] = known.means[i, arm] - radius
        known.upper[i, arm] = known.means[i, arm] + radius


@compiled
def bound_again(known: KnownCosts) -> None:
    """Set the paper's bounds of all arms from counts and means; the old bounds are ignored."""
    if known.kind == PAPER:
        for a in range(known.counts.size):
            if known.counts[a] > 0:
                bound(known, a)
            else:
                for i in range(known.means.shape[0]):
                    known.lower[i, a], known.upper[i, a] = -1.0, 1.0


@compiled
def narrow(known: KnownCosts, arm: int, costs: Floats) -> None:
    """Narrow the bounds of one arm by the costs just observed; bounds never widen, but by rounding.

    They contradict each other once a lower bound is above its upper bound; bets ask for more (`betting.narrow`).
    With bets a lower bound falls with its upper bound once they have met.
    """
    n, lower, upper = known.counts[arm], known.lower, known.upper
    for i in range(costs.size):
        cost, mean = costs[i], known.means[i, arm]
        if known.kind == BETTING:
            betting.narrow(known, i, arm, n - known.since[arm], cost)
        else:
            if known.kind == HOEFFDING:
                radius = hoeffding.radius(known.scale, n)
            elif known.kind == BERNSTEIN:
                radius = bernstein.radius(known.scale, known.squares, i, arm, n, mean, cost)
            else:
                useful = max(upper[i, arm] - mean, mean - lower[i, arm])
                radius = eb_mixture.radius(known, i, arm, n, mean, cost, useful)
            radius += hoeffding.rounding(n)
            lower[i, arm] = max(lower[i, arm], mean - radius)
            if arm != known.exempt:
                upper[i, arm] = min(upper[i, arm], mean + radius)
                if lower[i, arm] > upper[i, arm]:
                    known.contradicted[0] = 1
