"""Running sums from which a run is judged. They do not grow with the horizon, nor depend on where blocks are cut.

Sums that enter regret and violation are compensated (Kahan): row 0 of such an array holds the sum, row 1 the excess
that rounding has added to it.
"""

from typing import Annotated, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, compiled_apart
from surefoot.kernels.layout import derived
from surefoot.kernels.types import Floats, Integers

OVER = 1e-12
"""A cost is above its threshold when it is so by more than this: below, it is rounding."""
LOOSE = 0.1
"""The weight of the safe strategy below which the guardrails count as loosened."""
TOGETHER = 4
"""Rounds of a world that are added together."""


class WorldSums(NamedTuple):
    """Sums of the losses alone."""

    losses: Annotated[Floats, derived(2, "K")]  # sum of l_t
    squares: Annotated[Floats, derived("K", "K")]  # sum of e_t e_t^T, lower half; e_t(a) = l_t^T x^diamond - l_t(a)
    gaps: Annotated[Floats, derived(TOGETHER, "K")]  # scratch: e_t of some rounds
    rounds: Annotated[Integers, derived(1)]  # added


class PlaySums(NamedTuple):
    """Sums of what a policy played."""

    loss: Annotated[Floats, derived(2, 1)]  # sum of l_t^T x_t
    learning_loss: Annotated[Floats, derived(2, 1)]  # sum of (1 - gamma_{t-1}) l_t^T x~_t
    weighted_losses: Annotated[Floats, derived(2, "K")]  # sum of gamma_{t-1} l_t
    violations: Annotated[Floats, derived(2, "m")]  # sum of [g_i^T x_t - alpha_i]^+
    worst_margin: Annotated[Floats, derived(1)]  # least alpha_i - g_i^T x_t
    allocation: Annotated[Floats, derived("K")]  # sum of x_t since the last checkpoint
    rounds: Annotated[Integers, derived(1)]  # played
    rounds_over: Annotated[Integers, derived(1)]  # in violation
    rounds_until_loose: Annotated[Integers, derived(1)]  # before the first with a safe weight below LOOSE, or -1


class WorldRows(NamedTuple):
    """The sums of the losses at each checkpoint, and the best strategy in hindsight there."""

    stops: Integers  # (n,) the checkpoints: rounds, increasing
    taken: Integers  # (1,) how many rows are filled
    losses: Floats  # (n, K) sum of l_t
    best: Integers  # (n,) the row of the best vertex, or -1 if vertices are not listed
    squared_gaps: Floats  # (n,) sum of (l_t^T (x^diamond - x*))^2


class PlayRows(NamedTuple):
    """The sums of what a policy played at each checkpoint."""

    stops: Integers  # (n,) the checkpoints: rounds, increasing
    taken: Integers  # (1,) how many rows are filled
    loss: Floats  # (n,)
    learning_loss: Floats  # (n,)
    weighted_losses: Floats  # (n, K)
    violations: Floats  # (n, m)
    worst_margin: Floats  # (n,)
    allocation: Floats  # (n, K)
    rounds_over: Integers  # (n,)
    rounds_until_loose: Integers  # (n,)


class Account(NamedTuple):
    """What is needed to judge the rounds of a block."""

    sums: PlaySums
    rows: PlayRows
    mean_costs: Floats  # (1, m, K) for all rounds, or (rounds, m, K)
    thresholds: Floats  # (m,)
    safe_strategy: Floats  # (K,) zeros if there is none


def world_rows(stops: Integers, n_arms: int) -> WorldRows:
    """Rows before the first round."""
    n = stops.size
    return WorldRows(stops, np.zeros(1, np.int64), np.zeros((n, n_arms)), np.full(n, -1), np.zeros(n))


def play_rows(stops: Integers, n_arms: int, n_constraints: int) -> PlayRows:
    """Rows before the first round."""
    n = stops.size
    return PlayRows(
        stops=stops,
        taken=np.zeros(1, np.int64),
        loss=np.zeros(n),
        learning_loss=np.zeros(n),
        weighted_losses=np.zeros((n, n_arms)),
        violations=np.zeros((n, n_constraints)),
        worst_margin=np.zeros(n),
        allocation=np.zeros((n, n_arms)),
        rounds_over=np.zeros(n, np.int64),
        rounds_until_loose=np.zeros(n, np.int64),
    )


def world_sums(n_arms: int) -> WorldSums:
    """Sums before the first round."""
    squares, gaps = np.zeros((n_arms, n_arms)), np.zeros((TOGETHER, n_arms))
    return WorldSums(np.zeros((2, n_arms)), squares, gaps, np.zeros(1, np.int64))


def play_sums(n_arms: int, n_constraints: int) -> PlaySums:
    """Sums before the first round."""
    return PlaySums(
        loss=np.zeros((2, 1)),
        learning_loss=np.zeros((2, 1)),
        weighted_losses=np.zeros((2, n_arms)),
        violations=np.zeros((2, n_constraints)),
        worst_margin=np.full(1, np.inf),
        allocation=np.zeros(n_arms),
        rounds=np.zeros(1, np.int64),
        rounds_over=np.zeros(1, np.int64),
        rounds_until_loose=np.full(1, -1),
    )


@compiled
def add(total: Floats, i: int, value: float) -> None:
    """Add to a compensated sum."""
    corrected = value - total[1, i]
    new = total[0, i] + corrected
    total[1, i] = (new - total[0, i]) - corrected
    total[0, i] = new


@compiled
def upcoming(stops: Integers, taken: Integers) -> int:
    """The next checkpoint; -1 if there is none."""
    return int(stops[taken[0]]) if taken[0] < stops.size else -1


@compiled_apart
def add_world(
    sums: WorldSums, rows: WorldRows, losses: Floats, safe_strategy: Floats, vertices: Floats, tied: float
) -> None:
    """Take in the losses of a block of rounds, and fill the rows of its checkpoints."""
    t, n = 0, losses.shape[0]
    while t < n:
        stop = upcoming(rows.stops, rows.taken)
        end = n if stop < 0 else min(n, t + stop - int(sums.rounds[0]))
        sums.rounds[0] += end - t
        while t < end:
            count = min(TOGETHER, end - t)
            if count == TOGETHER:
                add_four(sums, losses, t, safe_strategy)
            else:
                for one in range(t, end):
                    add_one(sums, losses, one, safe_strategy)
            t += count
        if sums.rounds[0] == stop:
            settle_world(sums, rows, vertices, tied)


@compiled
def add_one(sums: WorldSums, losses: Floats, t: int, safe_strategy: Floats) -> None:
    """Take in the losses of a round."""
    at_safe, gaps = 0.0, sums.gaps[0]
    for a in range(safe_strategy.size):
        add(sums.losses, a, losses[t, a])
        at_safe += losses[t, a] * safe_strategy[a]
    for a in range(safe_strategy.size):
        gaps[a] = at_safe - losses[t, a]
    for a in range(safe_strategy.size):
        for b in range(a + 1):
            sums.squares[a, b] += gaps[a] * gaps[b]


@compiled
def add_four(sums: WorldSums, losses: Floats, t: int, safe_strategy: Floats) -> None:
    """Take in the losses of four rounds: the same sums, in the same order, with fewer trips to memory."""
    first = second = third = fourth = 0.0
    for a in range(safe_strategy.size):
        share = safe_strategy[a]
        first += losses[t, a] * share
        second += losses[t + 1, a] * share
        third += losses[t + 2, a] * share
        fourth += losses[t + 3, a] * share
        total, excess = sums.losses[0, a], sums.losses[1, a]
        for s in range(t, t + TOGETHER):  # as `add` does
            corrected = losses[s, a] - excess
            new = total + corrected
            excess, total = (new - total) - corrected, new
        sums.losses[0, a], sums.losses[1, a] = total, excess
    gaps = sums.gaps
    for a in range(safe_strategy.size):
        gaps[0, a], gaps[1, a] = first - losses[t, a], second - losses[t + 1, a]
        gaps[2, a], gaps[3, a] = third - losses[t + 2, a], fourth - losses[t + 3, a]
    for a in range(safe_strategy.size):
        for b in range(a + 1):
            total = sums.squares[a, b] + gaps[0, a] * gaps[0, b]
            total += gaps[1, a] * gaps[1, b]
            total += gaps[2, a] * gaps[2, b]
            sums.squares[a, b] = total + gaps[3, a] * gaps[3, b]


@compiled
def settle_world(sums: WorldSums, rows: WorldRows, vertices: Floats, tied: float) -> None:
    """Fill the next row; the best vertex too, if they are listed."""
    n, largest = rows.taken[0], 0.0
    for a in range(rows.losses.shape[1]):
        rows.losses[n, a] = sums.losses[0, a]
        largest = max(largest, abs(sums.losses[0, a]))
    if len(vertices) > 0:
        best = best_vertex(vertices, rows.losses[n], sums.squares, tied * largest)
        rows.best[n] = best
        rows.squared_gaps[n] = squared_gap(sums.squares, vertices[best])
    rows.taken[0] += 1


@compiled
def add_round(account: Account, t: int, losses: Floats, strategy: Floats, weight: float) -> None:
    """Take in a round, which is row t of its block: the strategy played, and the safe strategy's weight in it."""
    sums, safe, loss, at_safe = account.sums, account.safe_strategy, 0.0, 0.0
    for a in range(safe.size):
        loss += losses[t, a] * strategy[a]
        at_safe += losses[t, a] * safe[a]
        sums.allocation[a] += strategy[a]
    add(sums.loss, 0, loss)
    add(sums.learning_loss, 0, loss - weight * at_safe)  # (1 - gamma) x~ = x - gamma x^diamond
    if weight > 0.0:
        for a in range(safe.size):
            add(sums.weighted_losses, a, weight * losses[t, a])
    above, row = False, min(t, len(account.mean_costs) - 1)
    for i in range(account.thresholds.size):
        margin = account.thresholds[i]
        for a in range(safe.size):
            margin -= account.mean_costs[row, i, a] * strategy[a]
        sums.worst_margin[0] = min(sums.worst_margin[0], margin)
        if margin < -OVER:
            above = True
            add(sums.violations, i, -margin)
    sums.rounds_over[0] += above
    if weight < LOOSE and sums.rounds_until_loose[0] < 0:
        sums.rounds_until_loose[0] = sums.rounds[0]
    sums.rounds[0] += 1


@compiled_apart
def add_play(account: Account, losses: Floats, strategies: Floats, safe_weights: Floats) -> None:
    """Take in a block of rounds, and fill the rows of its checkpoints."""
    stop = upcoming(account.rows.stops, account.rows.taken)
    for t in range(losses.shape[0]):
        add_round(account, t, losses, strategies[t], safe_weights[t])
        if account.sums.rounds[0] == stop:
            settle_play(account.sums, account.rows)
            stop = upcoming(account.rows.stops, account.rows.taken)


@compiled
def settle_play(sums: PlaySums, rows: PlayRows) -> None:
    """Fill the next row, and begin a new allocation."""
    n = rows.taken[0]
    rows.loss[n], rows.learning_loss[n] = sums.loss[0, 0], sums.learning_loss[0, 0]
    for a in range(sums.allocation.size):
        rows.weighted_losses[n, a] = sums.weighted_losses[0, a]
        rows.allocation[n, a] = sums.allocation[a]
        sums.allocation[a] = 0.0
    for i in range(rows.violations.shape[1]):
        rows.violations[n, i] = sums.violations[0, i]
    rows.worst_margin[n] = sums.worst_margin[0]
    rows.rounds_over[n], rows.rounds_until_loose[n] = sums.rounds_over[0], sums.rounds_until_loose[0]
    rows.taken[0] += 1


@compiled
def squared_gap(squares: Floats, strategy: Floats) -> float:
    """The sum of (l_t^T (x^diamond - x))^2, out of the lower half of `squares`."""
    total = 0.0
    for a in range(strategy.size):
        if strategy[a] != 0.0:
            total += squares[a, a] * strategy[a] * strategy[a]
            for b in range(a):
                total += 2.0 * squares[a, b] * strategy[a] * strategy[b]
    return max(0.0, total)


@compiled_apart
def best_vertex(vertices: Floats, losses: Floats, squares: Floats, tolerance: float) -> int:
    """The row with the least loss; of those that are equal to the tolerance, the one with the least squared gap."""
    least = np.inf
    for v in range(len(vertices)):
        value = 0.0
        for a in range(losses.size):
            value += vertices[v, a] * losses[a]
        least = min(least, value)
    best, gap = -1, np.inf
    for v in range(len(vertices)):
        value = 0.0
        for a in range(losses.size):
            value += vertices[v, a] * losses[a]
        if value <= least + tolerance:
            new = squared_gap(squares, vertices[v])
            if new < gap or best < 0:
                best, gap = v, new
    return best
