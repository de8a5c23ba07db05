"""Small linear programs over the simplex: min loss^T x on {x >= 0, sum x = 1, A x <= b}, by the simplex method.

There are m + 1 equations, so a basis is a few columns out of K arms and m slacks, and its equations are solved from
scratch in each step: no error builds up. The first phase lowers the largest excess over the limits; it ends at a
feasible basis, or at the strategy that comes closest to being feasible.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, compiled_apart
from surefoot.kernels.layout import derived
from surefoot.kernels.types import EMPTY, SOLVED, UNDECIDED, Floats, Integers

LEAST_PRICE = 1e-12
"""Reduced costs above minus this are rounding."""
LEAST_PIVOT = 1e-11
"""Entries below this are no pivots."""
LEAST_EXCESS = 1e-11
"""An excess up to this is rounding."""
CHECKED = 1e-9
"""A solution may exceed a limit by this."""
COARSE = 2.0**-20
"""Costs are rounded up to multiples of this for a program that cannot be solved otherwise."""


class Program(NamedTuple):
    """A linear program, and the space to solve it in."""

    losses: Annotated[Floats, derived("K")]
    costs: Annotated[Floats, derived("m", "K")]
    limits: Annotated[Floats, derived("m")]
    basis: Annotated[Integers, derived("m + 1")]  # columns: arms, then slacks, then the excess
    places: Annotated[Integers, derived("m + 1")]  # rows in the order of elimination
    matrix: Annotated[Floats, derived("m + 1", "m + 1")]  # the basis, eliminated
    vectors: Annotated[Floats, derived(4, "m + 1")]  # right-hand side, values, prices, direction


RIGHT, VALUES, PRICES, DIRECTION = 0, 1, 2, 3


@compiled
def entry(task: Program, row: int, column: int) -> float:
    """An entry of the equations: the sum of the shares, then costs + slack - excess = limit."""
    n_arms = task.losses.size
    if column < n_arms:
        return 1.0 if row == 0 else task.costs[row - 1, column]
    if column < n_arms + task.limits.size:
        return 1.0 if row - 1 == column - n_arms else 0.0
    return 0.0 if row == 0 else -1.0


@compiled
def price_of(task: Program, column: int, lowering_excess: bool) -> float:
    """What a column costs: in the first phase the excess alone, then the arms."""
    n_arms = task.losses.size
    if lowering_excess:
        return 1.0 if column == n_arms + task.limits.size else 0.0
    return task.losses[column] if column < n_arms else 0.0


@compiled_apart
def eliminate(task: Program) -> bool:
    """Factorise the basis, rows ordered by their largest pivot; False if it is singular."""
    rows = task.basis.size
    for r in range(rows):
        task.places[r] = r
        for c in range(rows):
            task.matrix[r, c] = entry(task, r, task.basis[c])
    for c in range(rows):
        best = c
        for r in range(c + 1, rows):
            if abs(task.matrix[r, c]) > abs(task.matrix[best, c]):
                best = r
        if task.matrix[best, c] == 0.0:
            return False
        if best != c:
            task.places[c], task.places[best] = task.places[best], task.places[c]
            for k in range(rows):
                task.matrix[c, k], task.matrix[best, k] = task.matrix[best, k], task.matrix[c, k]
        for r in range(c + 1, rows):
            factor = task.matrix[r, c] / task.matrix[c, c]
            task.matrix[r, c] = factor
            for k in range(c + 1, rows):
                task.matrix[r, k] -= factor * task.matrix[c, k]
    return True


@compiled
def solve(task: Program, out: Floats, column: int) -> None:
    """Write the basis^-1 times a column of the equations (or, for -1, the right-hand side) into `out`."""
    rows = task.basis.size
    for r in range(rows):
        place = task.places[r]
        value = task.vectors[RIGHT, place] if column < 0 else entry(task, place, column)
        for k in range(r):
            value -= task.matrix[r, k] * out[k]
        out[r] = value
    for r in range(rows - 1, -1, -1):
        for k in range(r + 1, rows):
            out[r] -= task.matrix[r, k] * out[k]
        out[r] /= task.matrix[r, r]


@compiled
def find_prices(task: Program, lowering_excess: bool) -> None:
    """Solve the transposed equations for the price of each row."""
    rows, prices, scratch = task.basis.size, task.vectors[PRICES], task.vectors[DIRECTION]
    for c in range(rows):
        value = price_of(task, task.basis[c], lowering_excess)
        for k in range(c):
            value -= task.matrix[k, c] * scratch[k]
        scratch[c] = value / task.matrix[c, c]
    for c in range(rows - 1, -1, -1):
        for k in range(c + 1, rows):
            scratch[c] -= task.matrix[k, c] * scratch[k]
    for r in range(rows):
        prices[task.places[r]] = scratch[r]


@compiled
def find_entering(task: Program, lowering_excess: bool, first: bool) -> int:
    """A column whose reduced cost is negative: the most negative, or the first of all; -1 if there is none."""
    rows, prices = task.basis.size, task.vectors[PRICES]
    found, least = -1, -LEAST_PRICE
    for column in range(task.losses.size + task.limits.size):
        reduced = price_of(task, column, lowering_excess)
        for r in range(rows):
            reduced -= prices[r] * entry(task, r, column)
        if reduced < least:
            held = False
            for r in range(rows):
                held |= task.basis[r] == column
            if not held:
                found, least = column, reduced
                if first:
                    return found
    return found


@compiled
def find_leaving(task: Program, first: bool) -> int:
    """The place in the basis that reaches zero first; of several, the excess, or the largest pivot, or the first."""
    rows, values, direction = task.basis.size, task.vectors[VALUES], task.vectors[DIRECTION]
    excess = task.losses.size + task.limits.size
    least = np.inf
    for r in range(rows):
        if direction[r] > LEAST_PIVOT:
            least = min(least, max(0.0, values[r]) / direction[r])
    found = -1
    for r in range(rows):
        if direction[r] > LEAST_PIVOT and max(0.0, values[r]) / direction[r] <= least * (1.0 + 1e-12) + 1e-15:
            if task.basis[r] == excess:
                return r
            if found < 0:
                found = r
            elif first:
                if task.basis[r] < task.basis[found]:
                    found = r
            elif direction[r] > direction[found]:
                found = r
    return found


@compiled_apart
def descend_vertices(task: Program, lowering_excess: bool) -> int:
    """Go from vertex to vertex until none is better, or until the excess has left the basis."""
    excess = task.losses.size + task.limits.size
    patience = 20 * (excess + 1)
    for step in range(2 * patience):
        if not eliminate(task):
            return UNDECIDED
        solve(task, task.vectors[VALUES], -1)
        find_prices(task, lowering_excess)
        cautious = step >= patience // 4  # Bland's rule ends any cycle of Dantzig's rule
        entering = find_entering(task, lowering_excess, cautious)
        if entering < 0:
            return SOLVED
        solve(task, task.vectors[DIRECTION], entering)
        leaving = find_leaving(task, cautious)
        if leaving < 0:
            return UNDECIDED  # in a bounded set only rounding can cause this
        left = task.basis[leaving]
        task.basis[leaving] = entering
        if lowering_excess and left == excess:
            return SOLVED
    return UNDECIDED


@compiled
def read_off(task: Program, strategy: Floats) -> None:
    """The strategy of the basis that was solved last: shares that are at least 0 and sum to 1."""
    for a in range(strategy.size):
        strategy[a] = 0.0
    total = 0.0
    for r in range(task.basis.size):
        if task.basis[r] < strategy.size:
            share = max(0.0, task.vectors[VALUES, r])
            strategy[task.basis[r]] = share
            total += share
    for a in range(strategy.size):
        strategy[a] /= total


@compiled
def start_basis(task: Program) -> bool:
    """Start at the best arm and all slacks. True if the excess has to replace the most negative slack."""
    best = 0
    for a in range(1, task.losses.size):
        if task.losses[a] < task.losses[best]:
            best = a
    worst, place = -LEAST_EXCESS, -1
    task.basis[0] = best
    task.vectors[RIGHT, 0] = 1.0
    for i in range(task.limits.size):
        task.basis[i + 1] = task.losses.size + i
        task.vectors[RIGHT, i + 1] = task.limits[i]
        slack = task.limits[i] - task.costs[i, best]
        if slack < worst:
            worst, place = slack, i
    if place >= 0:
        task.basis[place + 1] = task.losses.size + task.limits.size
    return place >= 0


@compiled
def drive_out(task: Program, place: int) -> None:
    """Replace the excess, which is zero, by any column that can take its place."""
    for column in range(task.losses.size + task.limits.size):
        held = False
        for r in range(task.basis.size):
            held |= task.basis[r] == column
        if not held:
            solve(task, task.vectors[DIRECTION], column)
            if abs(task.vectors[DIRECTION, place]) > 1e-9:
                task.basis[place] = column
                return


@compiled
def certified(task: Program, strategy: Floats, lowering_excess: bool) -> bool:
    """True if the prices prove that the strategy of the basis is optimal: a solution, or the least excess.

    Where no reduced cost is negative, the value of the prices is a lower bound on the loss (or excess) of every
    strategy. The strategy must attain it, up to the value of an excess of `LEAST_EXCESS`. The columns outside the basis
    were priced in the last step. NaN fails every comparison.
    """
    rows, n_arms, prices = task.basis.size, strategy.size, task.vectors[PRICES]
    loss, excess, astray, bound, size = 0.0, 0.0, 0.0, 0.0, 1.0
    for r in range(rows):
        column = task.basis[r]
        reduced, over = price_of(task, column, lowering_excess), -task.vectors[RIGHT, r]
        for k in range(rows):
            reduced -= prices[k] * entry(task, k, column)
            if task.basis[k] < n_arms:
                over += entry(task, r, task.basis[k]) * strategy[task.basis[k]]
        if column < n_arms:
            loss += task.losses[column] * strategy[column]
        if r == 0:
            astray = abs(over)
        else:
            excess = max(excess, over)
        bound += prices[r] * task.vectors[RIGHT, r] + min(0.0, reduced)
        size += abs(prices[r])
    value = excess if lowering_excess else loss
    return astray <= LEAST_EXCESS and value - bound <= LEAST_EXCESS * size and (lowering_excess or excess <= CHECKED)


@compiled_apart
def attempt(task: Program, strategy: Floats) -> int:
    """Write a solution into `strategy`, or if EMPTY the closest strategy; UNDECIDED if rounding prevents both."""
    excess = task.losses.size + task.limits.size
    if start_basis(task):
        if descend_vertices(task, True) != SOLVED:
            return UNDECIDED
        for r in range(task.basis.size):
            if task.basis[r] == excess:
                if task.vectors[VALUES, r] > LEAST_EXCESS:
                    read_off(task, strategy)
                    return EMPTY if certified(task, strategy, True) else UNDECIDED
                drive_out(task, r)
    if descend_vertices(task, False) != SOLVED:
        return UNDECIDED
    read_off(task, strategy)
    return SOLVED if certified(task, strategy, False) else UNDECIDED


@compiled
def play_one(task: Program, strategy: Floats) -> None:
    """The single arm whose largest excess over the limits is least."""
    best, least = 0, np.inf
    for a in range(strategy.size):
        strategy[a] = 0.0
        excess = 0.0
        for i in range(task.limits.size):
            excess = max(excess, task.costs[i, a] - task.limits[i])
        if excess < least:
            best, least = a, excess
    strategy[best] = 1.0


@compiled_apart
def minimise(task: Program, strategy: Floats, exact: int = 0) -> int:
    """Write the vertex with the least loss into `strategy`; EMPTY if no strategy keeps the limits.

    The strategy is then one whose largest excess over the limits is least. Both are checked (`certified`). If the check
    fails, the costs of all arms but the last `exact` ones are rounded up in `task`: what differed by little more than
    rounding becomes equal, or clearly different. Then the program is solved again. If the check still fails, the status
    is UNDECIDED and the strategy is the single arm whose largest excess is least.
    """
    status = attempt(task, strategy)
    if status == UNDECIDED:
        for i in range(task.limits.size):
            for a in range(strategy.size - exact):
                task.costs[i, a] = math.ceil(task.costs[i, a] / COARSE) * COARSE
        status = attempt(task, strategy)
    if status == UNDECIDED:
        play_one(task, strategy)
    return status
