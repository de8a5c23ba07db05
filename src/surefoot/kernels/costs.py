"""What is known of the costs: counts, means, and confidence bounds below and above.

Policies read `lower` and `upper` and nothing else, so another confidence bound is another way to fill the two. N(a)
changes for the played arm alone, so a round refreshes one column.
"""

from typing import NamedTuple

import numpy as np

from surefoot.kernels import bernstein, betting, eb_mixture, hoeffding
from surefoot.kernels.compile import compiled, compiled_apart
from surefoot.kernels.dual import Floats, Integers

PAPER, HOEFFDING, BERNSTEIN, EB_MIXTURE, BETTING = range(5)

NO_SETTINGS = np.zeros((0, 0))


class Costs(NamedTuple):
    """Estimates of the costs of all arms (for m constraints and K arms)."""

    counts: Integers  # (K,) how often each arm was observed, N(a)
    means: Floats  # (m, K) sample means, g^_i(a)
    lower: Floats  # (m, K) g^_i(a) - beta(a), or another lower confidence bound
    upper: Floats  # (m, K) g^_i(a) + beta(a), or another upper confidence bound
    scale: float  # beta(a)^2 * N(a), in the paper 4 ln(T K m / delta); for other bounds the evidence they ask for
    kind: int  # which bound
    settings: Floats  # (rows, bets) what it has been told beside the scale, and room to compute
    memory: Floats  # (m, K, n) what it remembers beside counts and means


def unknown_costs(
    n_arms: int, n_constraints: int, scale: float, kind: int = PAPER, settings: Floats = NO_SETTINGS, memory: int = 0
) -> Costs:
    """Estimates before the first observation: bounds of 0 and 1, or for the paper mean 0 and radius 1.

    The latter are the time-0 values of both algorithms.
    """
    shape = (n_constraints, n_arms)
    counts, means, upper = np.zeros(n_arms, np.int64), np.zeros(shape), np.ones(shape)
    lower = np.full(shape, -1.0 if kind == PAPER else 0.0)
    return Costs(counts, means, lower, upper, scale, kind, settings, np.zeros((*shape, memory)))


@compiled
def observe(known: Costs, arm: int, costs: Floats) -> None:
    """Update means and bounds of one arm by the costs it has just shown (Section 3.1 of the paper)."""
    known.counts[arm] += 1
    for i in range(costs.size):
        known.means[i, arm] += (costs[i] - known.means[i, arm]) / known.counts[arm]
    if known.kind == PAPER:
        bound(known, arm)
    else:
        narrow(known, arm, costs)


@compiled
def bound(known: Costs, arm: int) -> None:
    """Set the paper's bounds of one arm, which has been observed, from its count and means."""
    radius = min(1.0, hoeffding.radius(known.scale, known.counts[arm]))  # beta_t(a) of Lemma 1
    for i in range(known.means.shape[0]):
        known.lower[i, arm] = known.means[i, arm] - radius
        known.upper[i, arm] = known.means[i, arm] + radius


@compiled_apart
def narrow(known: Costs, arm: int, costs: Floats) -> None:
    """Narrow the bounds of one arm by the costs it has just shown: what was once excluded stays so."""
    n, lower, upper, memory = known.counts[arm], known.lower, known.upper, known.memory
    for i in range(costs.size):
        cost, mean = costs[i], known.means[i, arm]
        if known.kind == BETTING:
            betting.narrow(known.settings, memory, lower, upper, i, arm, n, cost)
            continue
        if known.kind == HOEFFDING:
            radius = hoeffding.radius(known.scale, n)
        elif known.kind == BERNSTEIN:
            radius = bernstein.radius(known.scale, memory, i, arm, n, mean, cost)
        else:
            useful = max(upper[i, arm] - mean, mean - lower[i, arm])
            radius = eb_mixture.radius(known.settings, memory, i, arm, n, mean, cost, useful)
        radius += hoeffding.rounding(n)
        lower[i, arm] = max(lower[i, arm], mean - radius)
        upper[i, arm] = min(upper[i, arm], mean + radius)
