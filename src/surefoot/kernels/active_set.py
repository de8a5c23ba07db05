"""The robust projection with active constraints: Newton on the dual with a careful active set.

The multipliers of the constraints maximise a concave function. Active constraints are held as equalities; Newton's
system for their multipliers is solved by orthogonalising their rows, centred and weighted by the curvature
``rates * x**2`` (never squared into normal equations), so that nearly parallel constraints keep half of the digits.
A violated row that depends on the active ones is exchanged for one of them, or for an arm that leaves the floor, as in
the dual simplex method; if neither stops the exchange, the dual is unbounded and the set is empty.
"""

import numpy as np

from surefoot.kernels.compile import compiled_apart, compiled_sum
from surefoot.kernels.dual import (
    ACTIVE,
    BASE,
    BASIS,
    DEPENDENT,
    DIRECTION,
    FEASIBLE,
    LAST_STEP,
    MEAN,
    MEMBER,
    NOISE,
    OFF_FLOOR,
    POSITION,
    REDUCED,
    RELEASED,
    RESIDUAL,
    ROUNDING,
    SCORES,
    SETTLED,
    SHIFT,
    SIZE,
    SPREAD,
    THIN,
    TOLERANCE,
    WEIGHT,
    Task,
    active_gaps,
    gap,
    least_value,
    most_violated,
    normalise,
    note_violated,
)
from surefoot.kernels.types import EMPTY, SOLVED, UNDECIDED, Floats


@compiled_sum
def weighted_dot(arms: Floats, left: int, right: int) -> float:
    """Inner product of two rows of `arms` under the weights."""
    result = 0.0
    for a in range(arms.shape[1]):
        result += arms[WEIGHT, a] * arms[left, a] * arms[right, a]
    return result


@compiled_sum
def weighted_moments(arms: Floats, row: int) -> tuple[float, float, float]:
    """Weighted mean and sum of squares of a row of `arms`, and the sum of the weights."""
    total, squares, mass = 0.0, 0.0, 0.0
    for a in range(arms.shape[1]):
        weighted = arms[WEIGHT, a] * arms[row, a]
        total += weighted
        squares += weighted * arms[row, a]
        mass += arms[WEIGHT, a]
    return total / mass, squares, mass


@compiled_apart
def raise_multipliers(task: Task, one_by_one: bool) -> int:
    """Raise the multipliers of violated constraints until all are met: SOLVED, EMPTY, or UNDECIDED after many steps.

    Violated constraints become active all at once at first, which is fast, or `one_by_one`, which is steady.
    """
    lower, limits = task.lower, task.limits
    highest_rate, strategy, multipliers = task.highest_rate, task.strategy, task.multipliers
    arms, rows, places = task.arms, task.rows, task.places
    n_arms = strategy.size
    set_scores(task, 0.0, 0)
    level = normalise(task, SCORES, 0.0, LAST_STEP)
    for a in range(n_arms):
        arms[RELEASED, a] = 0.0
    any_released = False
    accuracy = LAST_STEP  # of the strategy at hand
    best, stalls, crossings = np.inf, 0, 0
    for i in range(limits.size):
        multipliers[i] = 0.0
        rows[TOLERANCE, i] = FEASIBLE
    n_active = note_violated(task)
    if one_by_one:
        places[ACTIVE, 0] = most_violated(task, 0)
        n_active = 1
    worst = active_gaps(task, n_active)
    for iteration in range(60 + 20 * limits.size):
        entering, gain = -1, 0.0
        settled = worst <= SETTLED
        if not settled:
            rank, mass = orthogonalise(task, n_active)
            if rank < n_active and not one_by_one:
                n_active = keep_independent(task, n_active)
                one_by_one = True
                worst = active_gaps(task, n_active)
                continue
            newton_direction(task, n_active, rank, 0.0)
            for j in range(n_active):
                gain += rows[DIRECTION, j] * rows[RESIDUAL, j]
            stalls = stalls + 1 if gain > 0.9 * best and highest_rate * gain < 1e-6 else 0
            best = min(best, gain)
            settled = stalls >= 4 or (highest_rate * gain < 1e-6 and within_rounding(task, level, n_active, rank))
            # accurate enough to handle a dependent constraint first; the last digits can wait
            settled = settled or (first_unmet(task, n_active) >= 0 and worst_independent(task, rank) <= FEASIBLE)
            if settled and accuracy == LAST_STEP:
                crossing = refine(task, level, n_active, rank, mass)
                entering = first_unmet(task, n_active)
                settled = entering < 0
                if settled and crossing and crossings < 8:  # rounding may bring the same arm back again and again
                    crossings += 1
                    set_scores(task, 0.0, n_active)
                    level = normalise(task, SCORES, level, accuracy)
                    worst = active_gaps(task, n_active)
                    continue
        if settled and accuracy > LAST_STEP:
            accuracy = LAST_STEP
            level = normalise(task, SCORES, level, accuracy)
            worst = active_gaps(task, n_active)
            continue
        if settled:
            one_by_one = True
            joining = most_violated(task, n_active)
            if joining < 0:
                return SOLVED if meets_constraints(task, n_active) else UNDECIDED
            size = gap(lower, joining, strategy, limits[joining])[1]
            if least_value(lower, joining, task.floor) - limits[joining] > FEASIBLE * size:
                return EMPTY
            places[ACTIVE, n_active] = joining
            n_active += 1
            worst = active_gaps(task, n_active)
            best = np.inf
            continue
        if entering >= 0:
            exchange_direction(task, n_active, entering)
        level_step = move_of_scores(task, n_active)
        length, limit, leaving, arriving = longest_step(task, level, level_step, entering >= 0, n_active)
        if length == np.inf:  # nothing stops the exchange
            if rows[RESIDUAL, entering] > 10.0 * FEASIBLE * rows[SIZE, entering]:
                return EMPTY
            rows[TOLERANCE, places[ACTIVE, entering]] = 100.0 * FEASIBLE
            continue
        if arriving >= 0:
            arms[RELEASED, arriving] = 1.0
            any_released = True
        elif entering < 0 and any_released:
            any_released = False
            for a in range(n_arms):
                arms[RELEASED, a] = 0.0
        if entering >= 0:
            accuracy = LAST_STEP
            set_scores(task, length, n_active)
            level = normalise(task, SCORES, level + length * level_step, accuracy)
            worst = active_gaps(task, n_active)
        else:
            accuracy = min(1e-4, max(LAST_STEP, 0.01 * highest_rate * gain))
            length, level, worst = search(task, level, level_step, accuracy, gain, length, limit, n_active)
        for j in range(n_active):
            i = places[ACTIVE, j]
            multipliers[i] = max(0.0, multipliers[i] + length * rows[DIRECTION, j])
        if length == limit:
            multipliers[places[ACTIVE, leaving]] = 0.0
            n_active -= 1
            # it left as soon as it entered: it is met as well as rounding allows
            if length == 0.0 and leaving == n_active and one_by_one:
                rows[TOLERANCE, places[ACTIVE, leaving]] = 100.0 * FEASIBLE
            for j in range(leaving, n_active):
                places[ACTIVE, j] = places[ACTIVE, j + 1]
            worst = active_gaps(task, n_active)
        if entering >= 0 or length == limit or highest_rate * gain > 1e-6:
            best = np.inf  # a stall means that plain Newton steps gain nothing
        if iteration % 5 == 4 and certifies_empty(task, n_active):
            return EMPTY
    return UNDECIDED


@compiled_apart
def meets_constraints(task: Task, n_active: int) -> bool:
    """True if the active constraints are tight, and all constraints met, as far as rounding allows."""
    active_gaps(task, n_active)
    for j in range(n_active):
        if abs(task.rows[RESIDUAL, j]) > max(1e-13, THIN * task.rows[SIZE, j]):
            return False
    for i in range(task.limits.size):
        value, size = gap(task.lower, i, task.strategy, task.limits[i])
        if value > THIN * max(1.0, size):
            return False
    return True


@compiled_apart
def keep_independent(task: Task, n_active: int) -> int:
    """Drop dependent constraints that have no multiplier yet; return how many are left."""
    multipliers, places = task.multipliers, task.places
    kept = 0
    for j in range(n_active):
        i = places[ACTIVE, j]
        if places[POSITION, j] >= 0 or multipliers[i] > 0.0:
            places[ACTIVE, kept] = i
            kept += 1
    return kept


@compiled_apart
def orthogonalise(task: Task, n_active: int) -> tuple[int, float]:
    """Centre the active rows, orthogonalise them one after the other; return how many are independent."""
    rates, lower, floor, strategy = task.rates, task.lower, task.floor, task.strategy
    arms, rows, factor, places = task.arms, task.rows, task.factor, task.places
    n_arms = strategy.size
    heaviest = 0
    for a in range(n_arms):
        x = strategy[a]
        arms[WEIGHT, a] = rates[a] * x * x if x > floor or arms[RELEASED, a] > 0.0 else 0.0
        if arms[WEIGHT, a] > arms[WEIGHT, heaviest]:
            heaviest = a
    rank, mass = 0, 0.0
    for j in range(n_active):
        i, fresh = places[ACTIVE, j], BASIS + rank
        for a in range(n_arms):  # centred on the heaviest arm first: no digits cancel there
            arms[fresh, a] = lower[i, a] - lower[i, heaviest]
        mean, spread, mass = weighted_moments(arms, fresh)
        rows[MEAN, j] = lower[i, heaviest] + mean
        for a in range(n_arms):
            arms[fresh, a] -= mean
        for k in range(rank):
            part = weighted_dot(arms, BASIS + k, fresh) / factor[k, places[MEMBER, k]]
            factor[k, j] = part
            spread += part * part * rows[SPREAD, k]
            for a in range(n_arms):
                arms[fresh, a] -= part * arms[BASIS + k, a]
        length = weighted_dot(arms, fresh, fresh)
        if length <= DEPENDENT * spread:
            places[POSITION, j] = -1
        else:
            factor[rank, j] = length
            rows[SPREAD, rank] = spread
            places[POSITION, j], places[MEMBER, rank] = rank, j
            rank += 1
    return rank, mass


@compiled_apart
def back_substitute(task: Task, rank: int) -> None:
    """Solve with the unit upper triangle, in place, for the direction of the first independent rows."""
    rows, factor, places = task.rows, task.factor, task.places
    for k in range(rank - 1, -1, -1):
        j = places[MEMBER, k]
        for later in range(k + 1, rank):
            i = places[MEMBER, later]
            rows[DIRECTION, j] -= factor[k, i] * rows[DIRECTION, i]


@compiled_apart
def newton_direction(task: Task, n_active: int, rank: int, excess: float) -> None:
    """The step of the multipliers that undoes the residuals (and an excess of the sum), to first order."""
    rows, factor, places = task.rows, task.factor, task.places
    for j in range(n_active):
        rows[DIRECTION, j] = 0.0
    for k in range(rank):
        j = places[MEMBER, k]
        reduced = rows[RESIDUAL, j] - rows[MEAN, j] * excess
        for earlier in range(k):
            reduced -= factor[earlier, j] * rows[REDUCED, earlier]
        rows[REDUCED, k] = reduced
        rows[DIRECTION, j] = reduced / factor[k, j]
    back_substitute(task, rank)


@compiled_apart
def exchange_direction(task: Task, n_active: int, entering: int) -> None:
    """The direction that raises (or lowers) a dependent multiplier and leaves the strategy where it is."""
    rows, factor, places = task.rows, task.factor, task.places
    for j in range(n_active):
        rows[DIRECTION, j] = 0.0
    sign = 1.0 if rows[RESIDUAL, entering] > 0.0 else -1.0
    rank = 0
    for j in range(entering):
        if places[POSITION, j] >= 0:
            rows[DIRECTION, j] = -sign * factor[rank, entering]
            rank += 1
    back_substitute(task, rank)
    rows[DIRECTION, entering] = sign


@compiled_apart
def move_of_scores(task: Task, n_active: int) -> float:
    """Fill SHIFT with the change of the scores along the direction; return the first-order change of the level."""
    lower, arms, rows, places = task.lower, task.arms, task.rows, task.places
    for a in range(arms.shape[1]):
        arms[SHIFT, a] = 0.0
    level_step = 0.0
    for j in range(n_active):
        by, i = rows[DIRECTION, j], places[ACTIVE, j]
        for a in range(arms.shape[1]):
            arms[SHIFT, a] += by * lower[i, a]
        level_step -= by * rows[MEAN, j]
    return level_step


@compiled_apart
def set_scores(task: Task, length: float, n_active: int) -> None:
    """Scores at ``multipliers + length * direction``."""
    lower, multipliers, arms = task.lower, task.multipliers, task.arms
    rows, places = task.rows, task.places
    for a in range(arms.shape[1]):
        arms[SCORES, a] = arms[BASE, a]
    for j in range(n_active):
        i = places[ACTIVE, j]
        multiplier = max(0.0, multipliers[i] + length * rows[DIRECTION, j])
        for a in range(arms.shape[1]):
            arms[SCORES, a] += multiplier * lower[i, a]


@compiled_apart
def search(
    task: Task,
    level: float,
    level_step: float,
    accuracy: float,
    gain: float,
    length: float,
    limit: float,
    n_active: int,
) -> tuple[float, float, float]:
    """Go along the direction until the slope of the (concave) dual is well below its first value, `gain`."""
    highest_rate = task.highest_rate
    rows = task.rows
    near, near_slope, far, start, worst = 0.0, gain, limit, level, 0.0
    for _ in range(60):
        set_scores(task, length, n_active)
        level = normalise(task, SCORES, start + length * level_step, accuracy)
        worst = active_gaps(task, n_active)
        if highest_rate * gain < 1e-24:
            break
        slope = 0.0
        for j in range(n_active):
            slope += rows[DIRECTION, j] * rows[RESIDUAL, j]
        # where the dual is far from quadratic, only a positive slope proves ascent, and only ascent proves that no
        # active set is visited twice; near the end self-concordance allows for overshooting
        if slope < (-0.5 * gain if highest_rate * gain < 0.0625 else 0.0):
            far = length
            secant = near + (length - near) * near_slope / (near_slope - slope)
            length = min(max(secant, near + 0.1 * (far - near)), near + 0.5 * (far - near))
        elif slope > 0.5 * gain and length < far and far > near * (1.0 + 1e-9):
            near, near_slope = length, slope
            length = min(4.0 * length, limit) if far == limit else 0.5 * (near + far)
        else:
            break
    return length, level, worst


@compiled_apart
def longest_step(
    task: Task, level: float, level_step: float, exchange: bool, n_active: int
) -> tuple[float, float, int, int]:
    """The length to try, where a multiplier would reach 0 and which one, and the arm that leaves the floor, or -1."""
    rates, lower, floor, strategy = task.rates, task.lower, task.floor, task.strategy
    multipliers, arms, rows, places = task.multipliers, task.arms, task.rows, task.places
    limit, leaving = np.inf, -1
    for j in range(n_active):
        if rows[DIRECTION, j] < 0.0:
            reach = multipliers[places[ACTIVE, j]] / -rows[DIRECTION, j]
            if reach <= limit:
                limit, leaving = reach, j
    trial, arriving = np.inf if exchange else 1.0, -1
    for a in range(strategy.size):
        move = rates[a] * (arms[SHIFT, a] + level_step)
        if move < 0.0:
            inverse = rates[a] * (arms[SCORES, a] + level)
            if exchange and arms[WEIGHT, a] == 0.0:
                if max(0.0, inverse - 1.0 / floor) < -move * trial:
                    trial, arriving = max(0.0, inverse - 1.0 / floor) / -move, a
                continue
            if exchange:  # is the arm really moving, or is this rounding?
                size = 0.0
                for j in range(n_active):
                    size += abs(rows[DIRECTION, j] * lower[places[ACTIVE, j], a])
                if -move <= 1e-10 * rates[a] * size:
                    continue
            room = inverse - 0.1 * min(inverse, 1.0 / floor)  # no arm grows more than tenfold in one step
            if room < -move * trial:
                trial, arriving = room / -move, -1
    if limit <= trial:
        trial, arriving = limit, -1
    return trial, limit, leaving, arriving


@compiled_apart
def within_rounding(task: Task, level: float, n_active: int, rank: int) -> bool:
    """True if rounding of the scores and of the residuals explains the residuals that are left."""
    lower, multipliers, arms = task.lower, task.multipliers, task.arms
    rows, factor, places = task.rows, task.factor, task.places
    for a in range(arms.shape[1]):
        arms[SHIFT, a] = abs(arms[BASE, a]) + abs(level)
    for j in range(n_active):
        i = places[ACTIVE, j]
        for a in range(arms.shape[1]):
            arms[SHIFT, a] += multipliers[i] * abs(lower[i, a])
    for k in range(rank):
        j = places[MEMBER, k]
        noise = rows[SIZE, j]
        for earlier in range(k):
            noise += abs(factor[earlier, j]) * rows[NOISE, earlier]
        rows[NOISE, k] = noise
        for a in range(arms.shape[1]):
            noise += arms[WEIGHT, a] * arms[SHIFT, a] * abs(arms[BASIS + k, a])
        if abs(rows[REDUCED, k]) > 4.0 * ROUNDING * noise:
            return False
    return True


@compiled_apart
def refine(task: Task, level: float, n_active: int, rank: int, mass: float) -> bool:
    """Correct the strategy itself if rounding of the scores leaves residuals that are too large.

    True if the multipliers, which move too, now ask for an arm to leave the floor: it stays there, and is not optimal.
    """
    rates, floor, strategy, multipliers, arms = task.rates, task.floor, task.strategy, task.multipliers, task.arms
    rows, places = task.rows, task.places
    if worst_independent(task, rank) <= FEASIBLE:
        return False
    for _ in range(4):
        excess = -1.0
        for a in range(strategy.size):
            excess += strategy[a]
        newton_direction(task, n_active, rank, excess)
        level_step = move_of_scores(task, n_active) + excess / mass
        for a in range(strategy.size):
            if strategy[a] > floor:
                strategy[a] = max(floor, strategy[a] - arms[WEIGHT, a] * (arms[SHIFT, a] + level_step))
        for j in range(n_active):
            i = places[ACTIVE, j]
            multipliers[i] = max(0.0, multipliers[i] + rows[DIRECTION, j])
        level += level_step
        active_gaps(task, n_active)
    for j in range(n_active):  # SHIFT becomes what the multipliers add to the scores
        rows[DIRECTION, j] = multipliers[places[ACTIVE, j]]
    move_of_scores(task, n_active)
    for a in range(strategy.size):
        inverse = rates[a] * (arms[BASE, a] + arms[SHIFT, a] + level)
        if strategy[a] <= floor and inverse * floor < 1.0 - OFF_FLOOR:
            return True
    return False


@compiled_apart
def worst_independent(task: Task, rank: int) -> float:
    """The largest residual of the independent rows, relative to its terms."""
    worst = 0.0
    for k in range(rank):
        j = task.places[MEMBER, k]
        worst = max(worst, abs(task.rows[RESIDUAL, j]) / task.rows[SIZE, j])
    return worst


@compiled_apart
def first_unmet(task: Task, n_active: int) -> int:
    """The first dependent active constraint that is violated, or has a multiplier without being tight; or -1."""
    multipliers, rows, places = task.multipliers, task.rows, task.places
    for j in range(n_active):
        if places[POSITION, j] < 0:
            i, value = places[ACTIVE, j], rows[RESIDUAL, j]
            allowed = rows[TOLERANCE, i] * rows[SIZE, j]
            if value > allowed or (value < -allowed and multipliers[i] > 0.0):
                return j
    return -1


@compiled_apart
def certifies_empty(task: Task, n_active: int) -> bool:
    """True if no strategy meets the sum of the active constraints weighted by their multipliers (Farkas)."""
    lower, limits, floor, multipliers = task.lower, task.limits, task.floor, task.multipliers
    arms, rows, places = task.arms, task.rows, task.places
    for a in range(arms.shape[1]):
        arms[SHIFT, a] = 0.0
    limit, size = 0.0, 0.0
    for j in range(n_active):
        i = places[ACTIVE, j]
        for a in range(arms.shape[1]):
            arms[SHIFT, a] += multipliers[i] * lower[i, a]
        limit += multipliers[i] * limits[i]
        size += multipliers[i] * rows[SIZE, j]
    return least_value(arms, SHIFT, floor) - limit > FEASIBLE * size
