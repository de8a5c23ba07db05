"""The strategy played is the mean of two plans: the follower's, and that of a linear program.

Where losses do not change, nothing beats the strategy with the least optimistic loss among those that are certified
safe: it has few arms, so it learns their costs soon. Where they change, that strategy may be as bad as any. So two
plans are played at a time: the mixture of the follower (`follower.py`, `safety.py`), which stands up to any losses, and
the solution of the program. Both are safe at the upper cost bounds, and so is every mean of the two.

The share of the first is 1 / (1 + 9 exp(2 z)), within [1/10, 1], where z is an unbiased estimate of how much less the
program has lost since losses last changed, divided by the root of the sum of the squared estimates. These are
exponential weights whose rate tunes itself.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled
from surefoot.kernels.costs import KnownCosts
from surefoot.kernels.layout import NOT_NEGATIVE, derived, saved, sized
from surefoot.kernels.linear import Program
from surefoot.kernels.record import Record, optimistic
from surefoot.kernels.safety import lose_least
from surefoot.kernels.types import Floats
from surefoot.rules import SHARE

LEAST_SHARE = 0.1
"""Least share of the follower in what is played, while the program performs better."""

OF_COSTS = 0.25
"""How much of the distance between upper bound and mean of an arm's costs is added to the optimism of its loss."""

LARGEST_ESTIMATE = 1e75
"""Estimates are kept within this: those of absurd propensities could overflow."""

FOLLOWER, PROGRAM = 0, 1


class Plans(NamedTuple):
    """Two plans, and which of them has done better."""

    strategies: Annotated[Floats, saved(2, "K", rule=SHARE)]  # the mixture of the follower, the solution of the program
    safe_weights: Annotated[Floats, saved(2, rule=SHARE)]  # of the safe strategy in each
    share: Annotated[Floats, saved(1, rule=SHARE)]  # of the follower in what is played
    lost_more: Annotated[Floats, saved(1, rule=NOT_NEGATIVE)]  # by how much the follower's plan lost more, in all
    lost_less: Annotated[Floats, saved(1, rule=NOT_NEGATIVE)]  # and by how much less, in the other rounds
    squares: Annotated[Floats, saved(1, rule=NOT_NEGATIVE)]  # sum of the squares of both
    program: Annotated[Program, sized(K="K + 1")]  # over the arms, with the safe strategy as one more arm
    vertex: Annotated[Floats, derived("K + 1")]  # the solution of the program
    evidence: Annotated[float, derived()]  # ln(K m / delta): how optimistic the program is


def start_plans(
    plans: Any, thresholds: Floats, safe_strategy: Floats, safe_costs: Floats, delta: float, has_program: bool
) -> None:
    """Before the first round both plans are the safe strategy."""
    n_arms, m = safe_strategy.size, thresholds.size
    plans.strategies = safe_strategy
    plans.safe_weights = 1.0
    plans.share = LEAST_SHARE if has_program else 1.0
    plans.program.limits = thresholds
    plans.program.costs[:, n_arms] = safe_costs
    plans.evidence = np.log(n_arms * max(1, m) / delta)


@compiled
def compare(plans: Plans, arm: int, estimate: float) -> None:
    """Count by how much the follower's plan loses more than the program's, given the loss estimate of the arm."""
    more = (plans.strategies[FOLLOWER, arm] - plans.strategies[PROGRAM, arm]) * estimate
    more = min(LARGEST_ESTIMATE, max(-LARGEST_ESTIMATE, more))
    plans.lost_more[0] += max(0.0, more)
    plans.lost_less[0] += max(0.0, -more)
    plans.squares[0] += more * more


@compiled
def forget_comparison(plans: Plans) -> None:
    """Forget which plan has done better."""
    plans.lost_more[0] = 0.0
    plans.lost_less[0] = 0.0
    plans.squares[0] = 0.0


@compiled
def set_share(plans: Plans) -> None:
    """Set the share of the follower by what the plans have lost."""
    score = (plans.lost_more[0] - plans.lost_less[0]) / math.sqrt(1.0 + plans.squares[0])
    plans.share[0] = max(LEAST_SHARE, 1.0 / (1.0 + (1.0 / LEAST_SHARE - 1.0) * math.exp(2.0 * score)))


@compiled
def blend(plans: Plans, strategy: Floats) -> float:
    """Set the strategy to the mean of the plans; return the weight of the safe strategy in it."""
    share, both, weights = plans.share[0], plans.strategies, plans.safe_weights
    for a in range(strategy.size):
        strategy[a] = share * both[FOLLOWER, a] + (1.0 - share) * both[PROGRAM, a]
    return float(share * weights[FOLLOWER] + (1.0 - share) * weights[PROGRAM])


@compiled
def solve_program(plans: Any, known: KnownCosts, record: Record, safe_strategy: Floats, safe_costs: Floats) -> int:
    """Set the plan of the program: the least optimistic loss among strategies that are safe at the upper bounds.

    Returns the status of the solution.
    """
    be_optimistic(plans, known, record)
    return lead(plans, known, safe_strategy, safe_costs)


@compiled
def be_optimistic(plans: Any, known: KnownCosts, record: Record) -> None:
    """Set the losses of the program's arms.

    The less an arm's costs are known, the less of it can be played, so its loss is bounded the more optimistically.
    """
    for a in range(known.upper.shape[1]):
        unknown = 0.0
        for i in range(known.upper.shape[0]):
            unknown = max(unknown, min(1.0, known.upper[i, a]) - known.means[i, a])
        plans.program.losses[a] = optimistic(record, a, plans.evidence) - OF_COSTS * unknown


@compiled
def lead(plans: Any, known: KnownCosts, safe_strategy: Floats, safe_costs: Floats) -> int:
    """Set the plan of the program, given the losses of its arms; return the status of the solution."""
    plan = plans.strategies[PROGRAM]
    status = lose_least(plans.program, plans.vertex, known.upper, safe_strategy, safe_costs, plan)
    plans.safe_weights[PROGRAM] = plans.vertex[plan.size]
    return status
