"""Mixing in a safe strategy, with the weight that the upper cost bounds require."""

from surefoot.kernels.compile import compiled, compiled_apart, compiled_sum
from surefoot.kernels.linear import Program, minimise
from surefoot.kernels.types import SOLVED, Floats

PATIENCE = 0.02
"""Added to the loss gap of an anchor, a round: of equally good ones that with the least weight is taken."""


@compiled
def weight_needed(proposal: Floats, upper: Floats, thresholds: Floats, safe_costs: Floats) -> float:
    """The least weight of the safe strategy that makes the mixture safe at the upper cost bounds (gamma_t)."""
    weight = 0.0
    for i in range(thresholds.size):
        cost = 0.0
        for a in range(proposal.size):
            cost += upper[i, a] * proposal[a]
        cost = min(cost, 1.0)
        if cost > thresholds[i]:
            weight = max(weight, (cost - thresholds[i]) / (cost - safe_costs[i]))
    return weight


@compiled
def mix(strategy: Floats, weight: float, safe_strategy: Floats, proposal: Floats) -> None:
    """X = gamma x^diamond + (1 - gamma) x~."""
    for a in range(strategy.size):
        strategy[a] = weight * safe_strategy[a] + (1.0 - weight) * proposal[a]


@compiled_apart
def lose_least(
    task: Program, vertex: Floats, upper: Floats, safe_strategy: Floats, safe_costs: Floats, strategy: Floats
) -> int:
    """Set the strategy that loses least among those that are safe at the upper cost bounds.

    The program is over the arms, whose losses are given, and the safe strategy as one more arm, whose costs are given.

    The weight of the safe strategy is the last entry of `vertex`: 1 unless the program was solved.

    Returns the status of the solution.
    """
    n_arms = strategy.size
    task.losses[n_arms] = 0.0
    for a in range(n_arms):
        task.losses[n_arms] += safe_strategy[a] * task.losses[a]
        for i in range(task.limits.size):
            task.costs[i, a] = min(1.0, upper[i, a])
    status = minimise(task, vertex, 1)
    spare = 1.0  # of the safe strategy, as a solution may be one only to rounding
    if status == SOLVED:
        spare = weight_needed(vertex, task.costs, task.limits, safe_costs)
    for a in range(n_arms + 1):
        vertex[a] *= 1.0 - spare
    weight = spare + vertex[n_arms]
    vertex[n_arms] = weight
    for a in range(n_arms):
        strategy[a] = min(1.0, vertex[a] + weight * safe_strategy[a])  # a share may exceed 1 by rounding
    return status


@compiled
def safe_share(strategy: Floats, safe_strategy: Floats) -> float:
    """The largest part of a strategy that is the safe strategy itself, whose costs are known."""
    share = 1.0
    for a in range(strategy.size):
        if safe_strategy[a] > 0.0:
            share = min(share, strategy[a] / safe_strategy[a])
    return share


@compiled_sum
def pessimistic_cost(
    i: int, strategy: Floats, upper: Floats, share: float, safe_strategy: Floats, safe_costs: Floats
) -> float:
    """An upper bound on a cost of a strategy: that of its safe part is known, the rest is bounded arm by arm."""
    cost, rest = 0.0, 0.0
    for a in range(strategy.size):
        unknown = strategy[a] - share * safe_strategy[a]
        cost += upper[i, a] * strategy[a]
        rest += upper[i, a] * (unknown if unknown > 0.0 else 0.0)
    return min(1.0, min(cost, share * float(safe_costs[i]) + rest))


@compiled
def weight_of(arm: int, upper: Floats, thresholds: Floats, excess: Floats) -> float:
    """The weight of an arm that makes up for the excess; 0 if its own upper bounds are not all under the thresholds."""
    for i in range(thresholds.size):
        if upper[i, arm] > thresholds[i]:
            return 0.0
    weight = 0.0
    for i in range(thresholds.size):
        if excess[i] > 0.0:
            weight = max(weight, excess[i] / (excess[i] + (thresholds[i] - upper[i, arm])))
    return weight


@compiled
def mix_anchored(
    strategy: Floats, proposal: Floats, totals: Floats, rounds: float, upper: Floats, thresholds: Floats,
    safe_strategy: Floats, safe_costs: Floats, excess: Floats, anchors: int,
) -> float:  # fmt: skip
    """Mix the proposal with a strategy that is certified safe, until every cost is under its threshold.

    Candidates are the safe strategy and, if `anchors` is 1, every arm whose upper bounds are all under the thresholds;
    the one with the least weight times loss gap is taken, the gap by the loss estimates so far. `excess` is scratch.

    Returns the weight of the safe strategy.
    """
    n_arms, over = proposal.size, False
    share = safe_share(proposal, safe_strategy)
    for i in range(thresholds.size):
        cost = pessimistic_cost(i, proposal, upper, share, safe_strategy, safe_costs)
        excess[i] = cost - thresholds[i]
        over = over or excess[i] > 0.0
    for a in range(n_arms):
        strategy[a] = proposal[a]
    if not over:
        return 0.0
    own, safe_total = 0.0, 0.0
    for a in range(n_arms):
        own += proposal[a] * totals[a]
        safe_total += safe_strategy[a] * totals[a]
    anchor, weight, price = -1, 0.0, 0.0
    for i in range(thresholds.size):
        if excess[i] > 0.0:
            weight = max(weight, excess[i] / (excess[i] + thresholds[i] - safe_costs[i]))
    price = weight * ((safe_total - own) / rounds + PATIENCE)
    for k in range(n_arms if anchors == 1 else 0):
        other = weight_of(k, upper, thresholds, excess)
        if other > 0.0 and other * ((totals[k] - own) / rounds + PATIENCE) < price:
            anchor, weight, price = k, other, other * ((totals[k] - own) / rounds + PATIENCE)
    if anchor < 0:
        mix(strategy, weight, safe_strategy, proposal)
        return weight
    for a in range(n_arms):
        strategy[a] = (1.0 - weight) * proposal[a]
    strategy[anchor] += weight
    return 0.0
