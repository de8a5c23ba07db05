"""A linear program that leads the play, as long as it loses no more than what it leads.

Where losses stand still nothing beats the strategy with the least optimistic loss among those that are surely safe: it
has few arms, so it learns their costs soon. Where they do not, that strategy may be as bad as any. So two plans are
played at a time: the mixture of the follower (`follower.py`, `safety.py`), which stands up to any losses, and that of
the program. Both are safe at the upper cost bounds, and so is every mean of the two.

The share of the first is 1 / (1 + 9 exp(2 z)), within [1/10, 1], where z is by how much the program has lost less since
losses last changed, by unbiased estimates, divided by the root of the sum of their squares: exponential weights whose
rate tunes itself.
"""

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled
from surefoot.kernels.costs import Costs
from surefoot.kernels.dual import Floats
from surefoot.kernels.linear import Program, program
from surefoot.kernels.record import optimistic
from surefoot.kernels.safety import lose_least

LEAST_SHARE = 0.1
"""Of the follower in what is played, while the program leads."""

OF_COSTS = 0.25
"""How much of the distance between upper bound and mean of an arm's costs is added to the optimism of its loss."""

MOST = 1e75
"""Estimates are kept within this: those of absurd propensities could overflow."""

FOLLOWER, PROGRAM = 0, 1


class Leader(NamedTuple):
    """Two plans, and which of them has done better."""

    plans: Floats  # (2, K) the mixture of the follower, the solution of the program
    plan_weights: Floats  # (2,) of the safe strategy in each
    share: Floats  # (1,) of the follower in what is played
    lead: Floats  # (3,) by how much the follower's plan has lost more, in some rounds, and less, in others; squares
    task: Program  # over the arms, and the safe strategy as one arm more
    vertex: Floats  # (K + 1,) the solution of the program
    evidence: float  # ln(K m / delta): how optimistic it is


def new_leader(thresholds: Floats, safe_strategy: Floats, safe_costs: Floats, delta: float, leads: bool) -> Leader:
    """Plans before the first round: both the safe strategy."""
    n_arms, m = safe_strategy.size, thresholds.size
    task = program(n_arms + 1, m)
    task.limits[:] = thresholds
    task.costs[:, n_arms] = safe_costs
    return Leader(
        plans=np.stack((safe_strategy, safe_strategy)),
        plan_weights=np.ones(2),
        share=np.full(1, LEAST_SHARE if leads else 1.0),
        lead=np.zeros(3),
        task=task,
        vertex=np.zeros(n_arms + 1),
        evidence=float(np.log(n_arms * max(1, m) / delta)),
    )


@compiled
def compare(leader: Leader, arm: int, estimate: float) -> None:
    """Count by how much the follower's plan loses more than the program's, given the loss estimate of the arm."""
    more = (leader.plans[FOLLOWER, arm] - leader.plans[PROGRAM, arm]) * estimate
    more = min(MOST, max(-MOST, more))
    leader.lead[0] += max(0.0, more)
    leader.lead[1] += max(0.0, -more)
    leader.lead[2] += more * more


@compiled
def start_even(leader: Leader) -> None:
    """Forget which plan has done better."""
    for part in range(leader.lead.size):
        leader.lead[part] = 0.0


@compiled
def weigh(leader: Leader) -> None:
    """Set the share of the follower."""
    score = (leader.lead[0] - leader.lead[1]) / np.sqrt(1.0 + leader.lead[2])
    leader.share[0] = max(LEAST_SHARE, 1.0 / (1.0 + (1.0 / LEAST_SHARE - 1.0) * np.exp(2.0 * score)))


@compiled
def blend(leader: Leader, strategy: Floats) -> float:
    """Set the strategy to the mean of the plans; the weight of the safe strategy in it."""
    share, plans, weights = leader.share[0], leader.plans, leader.plan_weights
    for a in range(strategy.size):
        strategy[a] = share * plans[FOLLOWER, a] + (1.0 - share) * plans[PROGRAM, a]
    return float(share * weights[FOLLOWER] + (1.0 - share) * weights[PROGRAM])


@compiled
def plan_ahead(leader: Leader, known: Costs, record: Floats, safe_strategy: Floats, safe_costs: Floats) -> int:
    """The plan of the program: the least optimistic loss among strategies that are safe at the upper bounds.

    The less an arm's costs are known, the less of it can be played, so its loss is bounded the more optimistically.
    """
    for a in range(safe_strategy.size):
        unknown = 0.0
        for i in range(known.upper.shape[0]):
            unknown = max(unknown, min(1.0, known.upper[i, a]) - known.means[i, a])
        leader.task.losses[a] = optimistic(record, a, leader.evidence) - OF_COSTS * unknown
    plan = leader.plans[PROGRAM]
    status = lose_least(leader.task, leader.vertex, known.upper, safe_strategy, safe_costs, plan)
    leader.plan_weights[PROGRAM] = leader.vertex[plan.size]
    return status
