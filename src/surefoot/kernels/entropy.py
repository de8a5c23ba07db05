"""One step of mirror descent with the negative entropy: min loss^T x + KL(x, center) on {simplex, A x <= b}.

Its dual has m unknowns: x(a) is proportional to center(a) exp(-loss(a) - sum_i mu_i A(i, a)). The dual function is
smooth and concave; it is maximised over mu >= 0 by Newton's method on the constraints that matter, with a line search.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, compiled_apart
from surefoot.kernels.layout import derived
from surefoot.kernels.types import EMPTY, SOLVED, Floats

TIGHT = 1e-11
"""Excess up to which a constraint holds."""
ROUGH = 1e-8
"""Excess up to which a constraint holds where rounding allows no better."""
LARGEST = 1e9
"""Multipliers beyond this are those of an empty set."""


class Entropy(NamedTuple):
    """Scratch space for projections of one size."""

    multipliers: Annotated[Floats, derived("m")]  # mu
    trial: Annotated[Floats, derived("m")]
    gradient: Annotated[Floats, derived("m")]  # A x - b
    direction: Annotated[Floats, derived("m")]
    hessian: Annotated[Floats, derived("m", "m")]  # covariance of the rows of A under x


@compiled
def dual_value(
    center: Floats, losses: Floats, costs: Floats, limits: Floats, multipliers: Floats, strategy: Floats
) -> float:
    """The dual function at the multipliers; `strategy` becomes the strategy that belongs to them."""
    largest = -np.inf
    for a in range(center.size):
        score = math.log(center[a]) - losses[a]
        for i in range(limits.size):
            score -= multipliers[i] * costs[i, a]
        strategy[a] = score
        largest = max(largest, score)
    total = 0.0
    for a in range(center.size):
        strategy[a] = math.exp(strategy[a] - largest)
        total += strategy[a]
    for a in range(center.size):
        strategy[a] /= total
    value: float = -math.log(total) - largest
    for i in range(limits.size):
        value -= multipliers[i] * limits[i]
    return value


@compiled_apart
def project_entropy(
    center: Floats, losses: Floats, costs: Floats, limits: Floats, strategy: Floats, work: Entropy
) -> int:
    """Write the projection into `strategy`; EMPTY if no strategy keeps the limits."""
    mu, gradient = work.multipliers, work.gradient
    for i in range(limits.size):
        mu[i] = 0.0
    value = dual_value(center, losses, costs, limits, mu, strategy)
    for _ in range(300):
        worst = find_gradient(costs, limits, strategy, mu, gradient)
        if worst <= TIGHT:
            return SOLVED
        if drop_small(mu, gradient):  # multipliers near zero that should fall would block every step
            value = dual_value(center, losses, costs, limits, mu, strategy)
            find_gradient(costs, limits, strategy, mu, gradient)
        newton_direction(costs, strategy, work)
        new = search(center, losses, costs, limits, strategy, value, work)
        if new == -np.inf:  # the gradient itself always leads upwards
            for i in range(limits.size):
                work.direction[i] = gradient[i]
            new = search(center, losses, costs, limits, strategy, value, work)
        if new == -np.inf:  # nothing but rounding is left to gain
            dual_value(center, losses, costs, limits, mu, strategy)
            return SOLVED if find_gradient(costs, limits, strategy, mu, gradient) <= ROUGH else EMPTY
        value = new
        largest = 0.0
        for i in range(limits.size):
            mu[i] = work.trial[i]
            largest = max(largest, mu[i])
        if largest > LARGEST:
            return EMPTY
    return SOLVED if find_gradient(costs, limits, strategy, mu, gradient) <= ROUGH else EMPTY


@compiled
def drop_small(multipliers: Floats, gradient: Floats) -> bool:
    """Set multipliers close to zero to zero if their constraints have room; True if there were any."""
    largest, found = 1.0, False
    for i in range(multipliers.size):
        largest = max(largest, multipliers[i])
    for i in range(multipliers.size):
        if 0.0 < multipliers[i] < 1e-9 * largest and gradient[i] < 0.0:
            multipliers[i] = 0.0
            found = True
    return found


@compiled
def search(
    center: Floats, losses: Floats, costs: Floats, limits: Floats, strategy: Floats, value: float, work: Entropy
) -> float:
    """Line search along the direction, staying above zero, until the dual value rises enough; -inf if it never does.

    Leaves `work.trial` and `strategy` at the point it reaches.
    """
    step = 1.0
    for _ in range(60):
        promise = 0.0
        for i in range(limits.size):
            work.trial[i] = max(0.0, work.multipliers[i] + step * work.direction[i])
            promise += work.gradient[i] * (work.trial[i] - work.multipliers[i])
        new = dual_value(center, losses, costs, limits, work.trial, strategy)
        if promise > 0.0 and new >= value + 1e-4 * promise - 1e-14 * (1.0 + abs(value)):
            return new
        step *= 0.5
    return -np.inf


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
