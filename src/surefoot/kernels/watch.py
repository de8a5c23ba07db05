"""An observer that knows the true costs and checks whether the confidence bounds of a policy hold (the clean event).

Bounds change for the played arm alone, so a round checks one column (in the round in which all bounds begin again,
too). While no lower bound is above the true cost, a truncated safe strategy u = (1 - K/T) x + 1/T costs at most alpha_i
+ K/T at the lower bounds, and so is in the truncated safe set; in the other rounds each comparator is checked.
"""

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled
from surefoot.kernels.types import Floats, Integers

OVER = 1e-12
"""A cost is over its limit when it is so by more than this: below, it is rounding."""


class Watch(NamedTuple):
    """The true costs, and the counts of what was observed."""

    costs: Floats  # (m, K) true means
    limits: Floats  # (m,) alpha_i + K / T
    comparators: Floats  # (n, K) truncated strategies; the benchmark will be one of them
    above: Integers  # (m, K) 1 where the lower bound is above the true cost now
    left: Integers  # (n,) how many rounds were watched when a comparator was first outside the safe set; 0: never
    rounds: Integers  # (1,) watched
    missed: Integers  # (1,) rounds after which a bound of the played arm did not hold
    places_above: Integers  # (1,) how many entries of `above` are 1 now
    rounds_above: Integers  # (1,) rounds with any such entry


def watch(costs: Floats, limits: Floats, comparators: Floats) -> Watch:
    """An observer before the first round."""
    costs, limits = np.array(costs, order="C"), np.array(limits)
    above, left = np.zeros(costs.shape, np.int64), np.zeros(len(comparators), np.int64)
    return Watch(costs, limits, comparators, above, left, *(np.zeros(1, np.int64) for _ in range(4)))


IDLE = watch(np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0)))
"""For policies that nobody watches."""


@compiled
def look(eye: Watch, lower: Floats, upper: Floats, arm: int) -> None:
    """Look at the bounds after feedback on an arm."""
    n_constraints = lower.shape[0]
    if n_constraints == 0 or n_constraints != eye.costs.shape[0]:
        return
    eye.rounds[0] += 1
    missed = 0
    for i in range(n_constraints):
        cost = eye.costs[i, arm]
        above = 0 if lower[i, arm] <= cost else 1  # NaN does not count as a bound
        if above != eye.above[i, arm]:
            eye.places_above[0] += above - eye.above[i, arm]
            eye.above[i, arm] = above
        if above == 1 or not cost <= upper[i, arm]:
            missed = 1
    if missed == 1:
        eye.missed[0] += 1
    if eye.places_above[0] > 0:
        eye.rounds_above[0] += 1
        for n in range(eye.left.size):
            if eye.left[n] == 0 and not inside(lower, eye.limits, eye.comparators[n]):
                eye.left[n] = eye.rounds[0]


@compiled
def inside(lower: Floats, limits: Floats, strategy: Floats) -> bool:
    """True if a strategy above the floor is in the truncated safe set."""
    for i in range(limits.size):
        cost = 0.0
        for a in range(strategy.size):
            cost += lower[i, a] * strategy[a]
        if not cost <= limits[i] + OVER:
            return False
    return True
