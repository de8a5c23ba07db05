"""The projection when it has hardly moved: Newton's method from the last multipliers.

The follower of the regularised leader solves almost the same problem every time, with multipliers so large that it
takes many steps to reach them from 0. From the last multipliers it takes three or four steps. The result meets the
tolerances of `project`. In unusual cases this method gives up, and `project` takes over.
"""

import math

import numpy as np

from surefoot.kernels.compile import compiled, compiled_apart, compiled_sum
from surefoot.kernels.dual import (
    ACTIVE,
    BASE,
    BASIS,
    DIRECTION,
    FEASIBLE,
    RESIDUAL,
    ROUNDING,
    SCORES,
    SETTLED,
    SHIFT,
    WEIGHT,
    Workspace,
    gap,
    settle_sum,
)
from surefoot.kernels.types import Floats, Integers

STEPS = 12
LAST = 1e-16  # squared relative length of a step whose own square is lost in rounding


@compiled_apart
def resume(
    rate: float, lower: Floats, limits: Floats, floor: float, strategy: Floats, multipliers: Floats, work: Workspace
) -> bool:
    """Do what `project` does, for one rate of all arms, starting from `strategy` and `multipliers`; False if it fails.

    The scores are in the row BASE of ``work.arms``, as for `project`. Rows and scores are counted from their values at
    the largest arm, so that no digits cancel there.
    """
    n_arms, arms, rows, active = strategy.size, work.arms, work.rows, work.places
    if 1.0 - n_arms * floor <= n_arms * ROUNDING:
        return False
    top, n_active = 0, 0
    for a in range(n_arms):
        if strategy[a] > strategy[top]:
            top = a
    for i in range(limits.size):
        for a in range(n_arms):
            arms[BASIS + i, a] = lower[i, a] - lower[i, top]
        if multipliers[i] > 0.0:
            active[ACTIVE, n_active] = i
            n_active += 1
    level = 1.0 / (rate * strategy[top])
    for _ in range(STEPS):
        set_scores(arms, multipliers, active, n_active, top)
        total, beyond = fill(arms, strategy, rate, level, floor)
        if beyond > 0:  # the pole: from where no arm has more than everything
            level = 1.0 / rate - lowest(arms)
            total, beyond = fill(arms, strategy, rate, level, floor)
        rows[RESIDUAL, 0] = total - 1.0
        for j in range(n_active):
            i = active[ACTIVE, j]
            rows[RESIDUAL, j + 1] = cost(arms, BASIS + i, strategy) + (lower[i, top] - limits[i])
        if not newton(arms, rows, work.factor, active, n_active):
            return False
        decrement = 0.0
        for j in range(n_active + 1):
            decrement += rate * rows[DIRECTION, j] * rows[RESIDUAL, j]
        if not decrement < np.inf:
            return False
        length = 1.0 if decrement < 0.05 else 1.0 / (1.0 + math.sqrt(decrement))
        level += length * rows[DIRECTION, 0]
        held = 0
        for j in range(n_active):
            i = active[ACTIVE, j]
            multipliers[i] = max(0.0, multipliers[i] + length * rows[DIRECTION, j + 1])
            if multipliers[i] > 0.0:
                active[ACTIVE, held] = i
                held += 1
        if held < n_active or decrement > LAST:
            n_active = held
            continue
        if last_step(arms, rows, active, n_active, strategy, rate, level, floor) > 0:
            continue
        settle_sum(strategy)
        for i in range(limits.size):
            value, size = gap(lower, i, strategy, limits[i])
            if multipliers[i] == 0.0 and value > FEASIBLE * size:
                active[ACTIVE, n_active] = i
                n_active += 1
            elif multipliers[i] > 0.0 and abs(value) > SETTLED * size:
                return False
        if n_active == held:
            return True
    return False


@compiled
def set_scores(arms: Floats, multipliers: Floats, active: Integers, n_active: int, top: int) -> None:
    """The scores at the multipliers, less that of the largest arm."""
    n_arms, origin = arms.shape[1], arms[BASE, top]
    for a in range(n_arms):
        arms[SCORES, a] = arms[BASE, a] - origin
    for j in range(n_active):
        i = active[ACTIVE, j]
        for a in range(n_arms):
            arms[SCORES, a] += multipliers[i] * arms[BASIS + i, a]


@compiled
def lowest(arms: Floats) -> float:
    """The smallest score."""
    least = arms[SCORES, 0]
    for a in range(arms.shape[1]):
        least = min(least, arms[SCORES, a])
    return float(least)


@compiled_sum
def fill(arms: Floats, strategy: Floats, rate: float, level: float, floor: float) -> tuple[float, int]:
    """The strategy of the scores at a level and its curvature: its sum, and how many arms are beyond the pole."""
    total, beyond = 0.0, 0
    for a in range(strategy.size):
        score = rate * (arms[SCORES, a] + level)
        x = 1.0 / score
        beyond += score <= 0.0
        free = x > floor
        strategy[a] = x if free else floor
        arms[WEIGHT, a] = rate * x * x if free else 0.0
        total += strategy[a]
    return total, beyond


@compiled_sum
def cost(arms: Floats, row: int, strategy: Floats) -> float:
    """A row times the strategy."""
    total = 0.0
    for a in range(strategy.size):
        total += arms[row, a] * strategy[a]
    return total


@compiled_sum
def product(arms: Floats, one: int, two: int) -> float:
    """A row times another."""
    total = 0.0
    for a in range(arms.shape[1]):
        total += arms[one, a] * arms[two, a]
    return total


@compiled_sum
def entire(arms: Floats, row: int) -> float:
    """The sum of a row."""
    total = 0.0
    for a in range(arms.shape[1]):
        total += arms[row, a]
    return total


@compiled
def newton(arms: Floats, rows: Floats, factor: Floats, active: Integers, n_active: int) -> bool:
    """Find Newton's step for the level and the active multipliers; False if rounding would affect it."""
    size = n_active + 1
    factor[0, 0] = entire(arms, WEIGHT)
    for j in range(n_active):
        row = BASIS + active[ACTIVE, j]
        for a in range(arms.shape[1]):
            arms[SHIFT, a] = arms[WEIGHT, a] * arms[row, a]
        factor[0, j + 1] = entire(arms, SHIFT)
        for k in range(j, n_active):
            factor[j + 1, k + 1] = product(arms, SHIFT, BASIS + active[ACTIVE, k])
    for j in range(size):
        rows[DIRECTION, j] = rows[RESIDUAL, j]
        factor[j, j] *= 1.0 - 1e-10  # a pivot that loses all but this of its digits is below 0
    for j in range(size):
        pivot = factor[j, j]
        if not pivot > 0.0:
            return False
        for k in range(j + 1, size):
            share = factor[j, k] / pivot
            for other in range(k, size):
                factor[k, other] -= share * factor[j, other]
            rows[DIRECTION, k] -= share * rows[DIRECTION, j]
    for j in range(size - 1, -1, -1):
        for k in range(j + 1, size):
            rows[DIRECTION, j] -= factor[j, k] * rows[DIRECTION, k]
        rows[DIRECTION, j] /= factor[j, j]
    return True


@compiled
def last_step(
    arms: Floats,
    rows: Floats,
    active: Integers,
    n_active: int,
    strategy: Floats,
    rate: float,
    level: float,
    floor: float,
) -> int:
    """Take the last step in the strategy itself; return how many arms it takes to the floor or away from it."""
    crossing = 0
    for a in range(strategy.size):
        shift = 0.0
        for j in range(n_active):
            shift += rows[DIRECTION, j + 1] * arms[BASIS + active[ACTIVE, j], a]
        if strategy[a] > floor:
            strategy[a] -= arms[WEIGHT, a] * (rows[DIRECTION, 0] + shift)
            if strategy[a] < floor:
                strategy[a] = floor
                crossing += 1
        elif rate * (arms[SCORES, a] + level + shift) * floor < 1.0:
            crossing += 1
    return crossing
