"""The projection: one mirror-descent step onto the truncated safe set.

Minimise ``loss @ x + D(x, center)`` over ``{sum(x) = 1, x >= floor, lower_costs @ x <= limits}``, where D is the
Bregman divergence of the log-barrier ``sum(ln(1 / x) / rates)``. With a level (the multiplier of the sum) and
multipliers ``mu >= 0`` of the constraints, the minimiser is

    x(a) = max(floor, 1 / (rates(a) * (scores(a) + level))),   scores = 1 / (rates * center) + loss + mu @ lower_costs,

so the whole problem lives in the few numbers ``level, mu``:

* `normalise` finds the level for given scores. That is all there is to do when no constraint is active.
* `hold_few` finds one or two multipliers, the common case, by plain Newton in level and multipliers at once.
* `raise_multipliers` (in `active_set`) always works: any number of active constraints, however degenerate, and it
  detects an empty set.

The strategy is always computed from the multipliers, so stationarity holds by construction and the iteration has only
the few residuals of the active constraints to bring to zero.
"""

import math

from surefoot.kernels.active_set import raise_multipliers
from surefoot.kernels.compile import compiled
from surefoot.kernels.dual import (
    ACTIVE,
    BASE,
    FEASIBLE,
    LAST_STEP,
    ROUNDING,
    SETTLED,
    TOLERANCE,
    WEIGHT,
    Task,
    Workspace,
    active_gaps,
    most_violated,
    normalise,
    note_violated,
    settle_sum,
)
from surefoot.kernels.types import EMPTY, SOLVED, UNDECIDED, Floats


@compiled
def project(
    rates: Floats, lower: Floats, limits: Floats, floor: float, strategy: Floats, multipliers: Floats, work: Workspace
) -> int:
    """Fill `strategy` and `multipliers` with the projection for the scores ``1 / (rates * center) + loss``.

    The caller has put these scores into the row BASE of ``work.arms``.

    Returns SOLVED, or EMPTY if no strategy meets the constraints (the strategy is then meaningless).
    """
    n_arms = strategy.size
    highest_rate = 0.0
    for a in range(n_arms):
        highest_rate = max(highest_rate, rates[a])
    for i in range(limits.size):
        multipliers[i] = 0.0
        work.rows[TOLERANCE, i] = FEASIBLE
    task = Task(
        rates, highest_rate, lower, limits, floor, strategy, multipliers,
        work.arms, work.rows, work.factor, work.places,
    )  # fmt: skip
    if 1.0 - n_arms * floor <= n_arms * ROUNDING:  # the set is a single point
        lowest = 0
        for a in range(n_arms):
            strategy[a] = floor
            slope = work.arms[BASE, a] - 1.0 / (rates[a] * floor)
            if slope < work.arms[BASE, lowest] - 1.0 / (rates[lowest] * floor):
                lowest = a
        strategy[lowest] += max(0.0, 1.0 - n_arms * floor)  # the rest goes to the arm with the lowest slope
        return SOLVED if most_violated(task, 0) < 0 else EMPTY
    level = normalise(task, BASE, 0.0, LAST_STEP)
    n_violated = note_violated(task)
    if n_violated > 0 and not hold_few(task, level, n_violated):
        status = raise_multipliers(task, False)
        if status == UNDECIDED:
            status = raise_multipliers(task, True)
        if status != SOLVED:
            return EMPTY
    settle_sum(strategy)
    return SOLVED


@compiled
def hold_few(task: Task, level: float, n_violated: int) -> bool:
    """Try to get by with one or two active constraints, the common case; False if that is not enough.

    Newton in the level and the multipliers at once, damped as self-concordance asks, one loop over the arms a step.
    Rows and scores are counted from their values at the largest arm, so that no digits cancel there. All harder cases
    are left to `raise_multipliers`.
    """
    rates, lower, limits, floor = task.rates, task.lower, task.limits, task.floor
    strategy = task.strategy
    arms, places = task.arms, task.places
    if n_violated > 2:
        return False
    n_arms = strategy.size
    one, two = places[ACTIVE, 0], places[ACTIVE, 1] if n_violated == 2 else -1
    top = 0
    for a in range(n_arms):
        if strategy[a] > strategy[top]:
            top = a
    level += arms[BASE, top]
    mu_one, mu_two = 0.0, 0.0
    for _ in range(20):
        other = max(two, 0)
        held_two = 1.0 if two >= 0 else 0.0
        total, cost_one, cost_two = -1.0, lower[one, top] - limits[one], lower[other, top] - limits[other]
        mass, first_one, first_two, one_one, one_two, two_two = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for a in range(n_arms):
            row_one = lower[one, a] - lower[one, top]
            row_two = held_two * (lower[other, a] - lower[other, top])
            score = (arms[BASE, a] - arms[BASE, top]) + mu_one * row_one + mu_two * row_two + level
            x = 1.0 / (rates[a] * score)
            weight = rates[a] * x * x
            if score <= 0.0:
                return False
            if x <= floor:
                x, weight = floor, 0.0
            strategy[a], arms[WEIGHT, a] = x, weight
            total += x
            cost_one += x * row_one
            cost_two += x * row_two
            mass += weight
            first_one += weight * row_one
            first_two += weight * row_two
            one_one += weight * row_one * row_one
            one_two += weight * row_one * row_two
            two_two += weight * row_two * row_two
        # the Newton step: level, then one, then two eliminated
        mean_one, mean_two = first_one / mass, first_two / mass
        pivot_one = one_one - first_one * mean_one
        share = (one_two - first_one * mean_two) / pivot_one
        pivot_two = two_two - first_two * mean_two - share * (one_two - first_one * mean_two)
        gap_one = cost_one - mean_one * total
        gap_two = cost_two - mean_two * total - share * gap_one
        if not (pivot_one > 1e-10 * one_one and (two < 0 or pivot_two > 1e-10 * two_two)):
            return False
        step_two = gap_two / pivot_two if two >= 0 else 0.0
        step_one = gap_one / pivot_one - share * step_two
        level_step = (total - first_one * step_one - first_two * step_two) / mass
        decrement = task.highest_rate * (level_step * total + step_one * cost_one + step_two * cost_two)
        length = 1.0 if decrement < 0.05 else 1.0 / (1.0 + math.sqrt(decrement))
        if mu_one + length * step_one <= 0.0:
            if two < 0 or mu_two + length * step_two <= 0.0:
                return False
            one, mu_one, two = two, mu_two, -1
            mu_two = 0.0
            continue
        if two >= 0 and mu_two + length * step_two <= 0.0:
            two, mu_two = -1, 0.0
            continue
        mu_one += length * step_one
        mu_two += length * step_two
        level += length * level_step
        if decrement > 1e-16:
            continue
        crossing = last_step(task, level, top, one, mu_one, step_one, other, mu_two, step_two, level_step)
        if crossing and decrement > LAST_STEP * LAST_STEP:
            continue
        places[ACTIVE, 0], places[ACTIVE, 1] = one, two
        n_active = 1 if two < 0 else 2
        joining = most_violated(task, n_active)
        if joining < 0 and active_gaps(task, n_active) <= SETTLED:
            task.multipliers[one] = mu_one
            task.multipliers[other] += mu_two
            return True
        if joining < 0 or two >= 0:
            return False
        two = joining
    return False


@compiled
def last_step(
    task: Task, level: float, top: int, one: int, mu_one: float, step_one: float,
    other: int, mu_two: float, step_two: float, level_step: float,
) -> bool:  # fmt: skip
    """Take the last Newton step, too small for its square to matter, in the strategy itself.

    True if it takes an arm to the floor or away from it: there its square does matter.
    """
    lower, floor, strategy, arms = task.lower, task.floor, task.strategy, task.arms
    crossing = False
    for a in range(strategy.size):
        row_one = lower[one, a] - lower[one, top]
        row_two = lower[other, a] - lower[other, top]
        if strategy[a] > floor:
            strategy[a] -= arms[WEIGHT, a] * (level_step + step_one * row_one + step_two * row_two)
            crossing = crossing or strategy[a] < floor
            strategy[a] = max(floor, strategy[a])
        else:
            score = (arms[BASE, a] - arms[BASE, top]) + mu_one * row_one + mu_two * row_two + level
            crossing = crossing or task.rates[a] * score * floor < 1.0
    return crossing
