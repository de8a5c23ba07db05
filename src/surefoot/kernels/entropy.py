"""One step of mirror descent with the negative entropy: min loss^T x + KL(x, center) on {simplex, A x <= b}.

Its dual has m unknowns: x(a) is proportional to center(a) exp(-loss(a) - sum_i mu_i A(i, a)). The dual function is
smooth and concave; it is maximised over mu >= 0 by Newton's method on the constraints that matter, with a line search.
"""

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, compiled_apart
from surefoot.kernels.dual import EMPTY, SOLVED, Floats

TIGHT = 1e-11
"""Excess up to which a constraint holds."""
LARGEST = 1e9
"""Multipliers beyond this are those of an empty set."""


class Entropy(NamedTuple):
    """Space for projections of a size."""

    multipliers: Floats  # (m,) mu
    trial: Floats  # (m,)
    gradient: Floats  # (m,) A x - b
    direction: Floats  # (m,)
    hessian: Floats  # (m, m) covariance of the rows of A under x


def entropy(n_constraints: int) -> Entropy:
    """Space for projections of a size."""
    multipliers, trial, gradient, direction = np.zeros((4, n_constraints))
    return Entropy(multipliers, trial, gradient, direction, np.zeros((n_constraints, n_constraints)))


@compiled
def dual_value(
    center: Floats, losses: Floats, costs: Floats, limits: Floats, multipliers: Floats, strategy: Floats
) -> float:
    """The dual function at the multipliers; `strategy` becomes the strategy that belongs to them."""
    largest = -np.inf
    for a in range(center.size):
        score = np.log(center[a]) - losses[a]
        for i in range(limits.size):
            score -= multipliers[i] * costs[i, a]
        strategy[a] = score
        largest = max(largest, score)
    total = 0.0
    for a in range(center.size):
        strategy[a] = np.exp(strategy[a] - largest)
        total += strategy[a]
    for a in range(center.size):
        strategy[a] /= total
    value: float = -np.log(total) - largest
    for i in range(limits.size):
        value -= multipliers[i] * limits[i]
    return value


@compiled_apart
def project_entropy(
    center: Floats, losses: Floats, costs: Floats, limits: Floats, strategy: Floats, work: Entropy
) -> int:
    """Write the projection into `strategy`; EMPTY if no strategy keeps the limits."""
    mu, trial, gradient, direction = work.multipliers, work.trial, work.gradient, work.direction
    for i in range(limits.size):
        mu[i] = 0.0
    value = dual_value(center, losses, costs, limits, mu, strategy)
    for _ in range(200):
        worst = find_gradient(costs, limits, strategy, mu, gradient)
        if worst <= TIGHT:
            return SOLVED
        newton_direction(costs, strategy, work)
        step, improved = 1.0, False
        for _ in range(60):
            promise = 0.0
            for i in range(limits.size):
                trial[i] = max(0.0, mu[i] + step * direction[i])
                promise += gradient[i] * (trial[i] - mu[i])
            new = dual_value(center, losses, costs, limits, trial, strategy)
            if new >= value + 1e-4 * promise - 1e-14 * (1.0 + abs(value)):
                improved = True
                break
            step *= 0.5
        if not improved:  # nothing but rounding is left to gain
            value = dual_value(center, losses, costs, limits, mu, strategy)
            return SOLVED if worst <= 1e-8 else EMPTY
        value = new
        largest = 0.0
        for i in range(limits.size):
            mu[i] = trial[i]
            largest = max(largest, mu[i])
        if largest > LARGEST:
            return EMPTY
    return SOLVED if find_gradient(costs, limits, strategy, mu, gradient) <= 1e-8 else EMPTY


@compiled
def find_gradient(costs: Floats, limits: Floats, strategy: Floats, multipliers: Floats, gradient: Floats) -> float:
    """The excess over every limit; the largest error in the optimality conditions."""
    worst = 0.0
    for i in range(limits.size):
        gradient[i] = -limits[i]
        for a in range(strategy.size):
            gradient[i] += costs[i, a] * strategy[a]
        worst = max(worst, abs(gradient[i]) if multipliers[i] > 0.0 else gradient[i])
    return worst


@compiled
def newton_direction(costs: Floats, strategy: Floats, work: Entropy) -> None:
    """Newton's direction on the constraints that are held or broken; 0 for the others."""
    size, hessian, direction, gradient = work.gradient.size, work.hessian, work.direction, work.gradient
    for i in range(size):
        free = work.multipliers[i] > 0.0 or gradient[i] > 0.0
        direction[i] = gradient[i] if free else 0.0
        mean = 0.0
        for a in range(strategy.size):
            mean += strategy[a] * costs[i, a]
        for j in range(size):
            hessian[i, j] = 0.0
            if free and (work.multipliers[j] > 0.0 or gradient[j] > 0.0):
                for a in range(strategy.size):
                    hessian[i, j] += strategy[a] * (costs[i, a] - mean) * costs[j, a]
        hessian[i, i] += 1e-14 + 1e-10 * hessian[i, i] if free else 1.0
    for c in range(size):  # elimination: the matrix is positive definite
        for r in range(c + 1, size):
            factor = hessian[r, c] / hessian[c, c]
            for k in range(c, size):
                hessian[r, k] -= factor * hessian[c, k]
            direction[r] -= factor * direction[c]
    for r in range(size - 1, -1, -1):
        for k in range(r + 1, size):
            direction[r] -= hessian[r, k] * direction[k]
        direction[r] /= hessian[r, r]
