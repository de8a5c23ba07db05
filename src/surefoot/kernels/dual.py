"""The pieces of the projection's dual: scratch arrays, sums over the arms, the level, the residuals.

Kernels hand one `Task` around: the data of one projection, its answer, and scratch arrays made once. Loops are scalar
and index the arrays directly; nothing is raised, and nothing is allocated.
"""

from typing import Annotated, NamedTuple

from surefoot.kernels.compile import compiled, compiled_sum
from surefoot.kernels.layout import derived
from surefoot.kernels.types import Floats, Integers

# Relative to the terms of which a residual is the sum:
SETTLED = 1e-13  # an active constraint is met
FEASIBLE = 1e-12  # an inactive constraint is met; a set is empty if it misses by more
THIN = 1e-10  # if rounding leaves more, the set is too thin to distinguish from an empty one
# Other tolerances:
LAST_STEP = 1e-12  # relative change of the strategy whose square is lost in rounding
OFF_FLOOR = 1e-11  # an arm that should be above the floor by this share of it must leave it
DEPENDENT = 1e-25  # a row is dependent if less than this share of its squared length is independent of the others
ROUNDING = 2.3e-16

TILE = 1024  # arms per partial sum: they are in the fastest cache when read again, and rounding does not grow with K

# The rows of the arrays of a Workspace. Per arm:
SCORES = 0  # at the multipliers being tried
SHIFT = 1  # direction @ lower_costs, or another combination of the active rows
WEIGHT = 2  # curvature of an arm above the floor, else 0
RELEASED = 3  # 1 for an arm at the floor that an exchange has just set free
BASE = 4  # scores without multipliers: 1 / (rates * center) + loss, filled by the caller of project
BASIS = 5  # and below: the active rows, centred and orthogonalised
# Per active constraint, in order of arrival (TOLERANCE: per constraint):
RESIDUAL = 0  # lower_costs @ x - limits
SIZE = 1  # of the terms of that residual
MEAN = 2  # weighted mean of the row
DIRECTION = 3  # step of the multiplier
TOLERANCE = 4  # relative residual up to which a constraint counts as met
# Per row of the basis:
SPREAD = 5  # squared length before the other rows were projected out
REDUCED = 6  # residual along it
NOISE = 7  # the error of that from rounding of the residuals
# Integers:
ACTIVE = 0  # the constraints held as equalities, in order of arrival
POSITION = 1  # place of each in the basis, -1 if it depends on earlier ones
MEMBER = 2  # inverse of POSITION


class Workspace(NamedTuple):
    """Scratch arrays for projections with one number of arms and of constraints. Their rows are named above."""

    arms: Annotated[Floats, derived(f"{BASIS} + m + 1", "K")]
    rows: Annotated[Floats, derived(NOISE + 1, "m + 1")]
    factor: Annotated[Floats, derived("m + 1", "m + 1")]  # unit upper triangle, squared lengths on the diagonal
    places: Annotated[Integers, derived(3, "m + 1")]


class Task(NamedTuple):
    """One projection: what is given, what is asked for (strategy, multipliers), and the arrays of a Workspace."""

    rates: Floats  # (K,)
    highest_rate: float
    lower: Floats  # (m, K)
    limits: Floats  # (m,)
    floor: float
    strategy: Floats  # (K,)
    multipliers: Floats  # (m,)
    arms: Floats
    rows: Floats
    factor: Floats
    places: Integers


@compiled_sum
def free_moments(strategy: Floats, rates: Floats, floor: float) -> tuple[float, float, int]:
    """Sum and curvature of the arms above the floor, and how many are at it."""
    total, curvature, at_floor = 0.0, 0.0, 0
    for a in range(strategy.size):
        x = strategy[a]
        if x > floor:
            total += x
            curvature += rates[a] * x * x
        else:
            at_floor += 1
    return total, curvature, at_floor


@compiled_sum
def gap(lower: Floats, i: int, strategy: Floats, limit: float) -> tuple[float, float]:
    """``lower[i] @ strategy - limit`` and the size of the terms it is made of."""
    value, size = -limit, abs(limit)
    for a in range(strategy.size):
        term = lower[i, a] * strategy[a]
        value += term
        size += abs(term)
    return value, size


@compiled_sum
def least_value(values: Floats, row: int, floor: float) -> float:
    """The smallest value of ``values[row] @ x`` over the truncated simplex."""
    total, lowest = 0.0, values[row, 0]
    for a in range(values.shape[1]):
        total += values[row, a]
        lowest = min(lowest, values[row, a])
    return float(floor * total + (1.0 - values.shape[1] * floor) * lowest)


@compiled_sum
def block_sum(values: Floats, start: int, stop: int) -> float:
    """Sum of a stretch of values."""
    total = 0.0
    for a in range(start, stop):
        total += values[a]
    return total


@compiled
def settle_sum(strategy: Floats) -> None:
    """Add the remaining error of the sum to the largest entry. The sum is taken in blocks, so it is accurate."""
    largest = 0
    for a in range(strategy.size):
        if strategy[a] > strategy[largest]:
            largest = a
    total = 0.0
    for start in range(0, strategy.size, 32):
        total += block_sum(strategy, start, min(start + 32, strategy.size))
    strategy[largest] -= total - 1.0


@compiled
def fill(strategy: Floats, rates: Floats, scores: Floats, floor: float, origin: float, level: float) -> None:
    """The strategy at a level that is counted from the score `origin`."""
    for a in range(strategy.size):
        strategy[a] = max(floor, 1.0 / (rates[a] * ((scores[a] - origin) + level)))


@compiled
def normalise(task: Task, row: int, start: float, accuracy: float) -> float:
    """Fill `strategy` for the level at which it sums to one, given the scores in a row of `arms`; return that level.

    The sum is convex and decreasing in the level, its inverse nearly linear: Newton on the inverse approaches the root
    from the left, monotonically, in a few steps. The level is counted from the smallest score, where its pole is, so
    that no digits cancel. The last step is taken in the strategy itself.
    """
    rates, floor, strategy, arms = task.rates, task.floor, task.strategy, task.arms
    n_arms = strategy.size
    lowest = 0
    for a in range(n_arms):
        if arms[row, a] < arms[row, lowest]:
            lowest = a
    origin = arms[row, lowest]
    least = 1.0 / rates[lowest]  # here the lowest arm alone has all the mass
    level = max(start + origin, least)
    step = 0.0
    for trial in range(200):
        total, curvature, at_floor = 0.0, 0.0, 0
        for first in range(0, n_arms, TILE):
            x, slopes = strategy[first : first + TILE], rates[first : first + TILE]
            fill(x, slopes, arms[row, first : first + TILE], floor, origin, level)
            tile_total, tile_curvature, tile_at_floor = free_moments(x, slopes, floor)
            total += tile_total
            curvature += tile_curvature
            at_floor += tile_at_floor
        if at_floor == n_arms:
            level = least
            continue
        room = 1.0 - at_floor * floor
        step = (total - room) / curvature
        # the largest relative change still to come, rates * strategy * step, is at most the root of this
        if step * step * curvature * task.highest_rate <= accuracy * accuracy:
            break
        further = max(level + step * total / room, least)
        if trial > 0 and further <= level:  # left of the root every true step goes right, so this one is rounding
            break
        level = further
    for a in range(n_arms):
        x = strategy[a]
        if x > floor:
            strategy[a] = max(floor, x - rates[a] * x * x * step)
    return float(level + step - origin)


@compiled
def active_gaps(task: Task, n_active: int) -> float:
    """Fill the residuals of the active constraints; return the largest one relative to its terms."""
    lower, limits, strategy, rows, places = task.lower, task.limits, task.strategy, task.rows, task.places
    worst = 0.0
    for j in range(n_active):
        i = places[ACTIVE, j]
        value, size = gap(lower, i, strategy, limits[i])
        rows[RESIDUAL, j], rows[SIZE, j] = value, size
        if abs(value) > worst * size:
            worst = abs(value) / size
    return worst


@compiled
def most_violated(task: Task, n_active: int) -> int:
    """The inactive constraint that is violated most, relative to its terms; -1 if all are met."""
    lower, limits, strategy, rows, places = task.lower, task.limits, task.strategy, task.rows, task.places
    worst, most = -1, 0.0
    for i in range(limits.size):
        value, size = gap(lower, i, strategy, limits[i])
        if value > rows[TOLERANCE, i] * size and value > most * size:
            inactive = True
            for j in range(n_active):
                inactive = inactive and places[ACTIVE, j] != i
            if inactive:
                worst, most = i, value / size
    return worst


@compiled
def note_violated(task: Task) -> int:
    """Make all violated constraints the active ones; return how many there are."""
    lower, limits, strategy, places = task.lower, task.limits, task.strategy, task.places
    n_active = 0
    for i in range(limits.size):
        value, size = gap(lower, i, strategy, limits[i])
        if value > FEASIBLE * size:
            places[ACTIVE, n_active] = i
            n_active += 1
    return n_active
