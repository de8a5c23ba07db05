"""What is known of the costs: counts, means, and confidence bounds below and above.

Policies read `lower` and `upper` and nothing else, so another confidence bound is another way to fill the two. N(a)
changes for the played arm alone, so a round refreshes one column.
"""

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled
from surefoot.kernels.dual import Floats, Integers


class Costs(NamedTuple):
    """Estimates of the costs of all arms (for m constraints and K arms)."""

    counts: Integers  # (K,) how often each arm was observed, N(a)
    means: Floats  # (m, K) sample means, g^_i(a)
    lower: Floats  # (m, K) g^_i(a) - beta(a)
    upper: Floats  # (m, K) g^_i(a) + beta(a)
    scale: float  # beta(a)^2 * N(a); the paper has 4 ln(T K m / delta)


def unknown_costs(n_arms: int, n_constraints: int, scale: float) -> Costs:
    """Estimates before the first observation: mean 0 and radius 1, the time-0 values of both algorithms."""
    shape = (n_constraints, n_arms)
    return Costs(np.zeros(n_arms, np.int64), np.zeros(shape), np.full(shape, -1.0), np.ones(shape), scale)


@compiled
def observe(known: Costs, arm: int, costs: Floats) -> None:
    """Update means and bounds of one arm by the costs it has just shown (Section 3.1 of the paper)."""
    known.counts[arm] += 1
    for i in range(costs.size):
        known.means[i, arm] += (costs[i] - known.means[i, arm]) / known.counts[arm]
    bound(known, arm)


@compiled
def bound(known: Costs, arm: int) -> None:
    """Set the bounds of one arm, which has been observed, from its count and means."""
    radius = min(1.0, np.sqrt(known.scale / known.counts[arm]))  # beta_t(a) of Lemma 1
    for i in range(known.means.shape[0]):
        known.lower[i, arm] = known.means[i, arm] - radius
        known.upper[i, arm] = known.means[i, arm] + radius
