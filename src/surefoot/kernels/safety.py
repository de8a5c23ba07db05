"""Mixing in a safe strategy, by as much as the upper cost bounds ask for."""

from surefoot.kernels.compile import compiled
from surefoot.kernels.dual import Floats


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
