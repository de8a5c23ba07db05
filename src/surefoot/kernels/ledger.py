"""Running sums from which a run is judged. They do not grow with the horizon, nor depend on where blocks are cut.

Sums that enter regret and violation are compensated (Kahan): row 0 of such an array holds the sum, row 1 the excess
that rounding has added to it.
"""

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, compiled_apart
from surefoot.kernels.types import Floats, Integers

OVER = 1e-12
"""A cost is above its threshold when it is so by more than this: below, it is rounding."""
LOOSE = 0.1
"""The weight of the safe strategy below which the guardrails count as loosened."""


class WorldSums(NamedTuple):
    """Sums of the losses alone."""

    losses: Floats  # (2, K) sum of l_t
    squares: Floats  # (K, K) sum of e_t e_t^T, lower half; e_t(a) = l_t^T x^diamond - l_t(a)
    gaps: Floats  # (K,) scratch: e_t


class PlaySums(NamedTuple):
    """Sums of what a policy played."""

    loss: Floats  # (2, 1) sum of l_t^T x_t
    learning_loss: Floats  # (2, 1) sum of (1 - gamma_{t-1}) l_t^T x~_t
    weighted_losses: Floats  # (2, K) sum of gamma_{t-1} l_t
    violations: Floats  # (2, m) sum of [g_i^T x_t - alpha_i]^+
    worst_margin: Floats  # (1,) least alpha_i - g_i^T x_t
    allocation: Floats  # (K,) sum of x_t since the last checkpoint
    rounds: Integers  # (1,) played
    rounds_over: Integers  # (1,) in violation
    rounds_until_loose: Integers  # (1,) before the first with a safe weight below LOOSE, or -1


def world_sums(n_arms: int) -> WorldSums:
    """Sums before the first round."""
    return WorldSums(np.zeros((2, n_arms)), np.zeros((n_arms, n_arms)), np.zeros(n_arms))


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


@compiled_apart
def add_world(sums: WorldSums, losses: Floats, safe_strategy: Floats) -> None:
    """Take in the losses of a block of rounds."""
    for t in range(losses.shape[0]):
        at_safe = 0.0
        for a in range(safe_strategy.size):
            add(sums.losses, a, losses[t, a])
            at_safe += losses[t, a] * safe_strategy[a]
        for a in range(safe_strategy.size):
            sums.gaps[a] = at_safe - losses[t, a]
        for a in range(safe_strategy.size):
            for b in range(a + 1):
                sums.squares[a, b] += sums.gaps[a] * sums.gaps[b]


@compiled_apart
def add_play(
    sums: PlaySums, losses: Floats, strategies: Floats, safe_weights: Floats,
    mean_costs: Floats, thresholds: Floats, safe_strategy: Floats,
) -> None:  # fmt: skip
    """Take in the strategies of a block of rounds; `mean_costs` has one row for all of them, or one each."""
    for t in range(losses.shape[0]):
        weight, loss, at_safe = safe_weights[t], 0.0, 0.0
        for a in range(safe_strategy.size):
            loss += losses[t, a] * strategies[t, a]
            at_safe += losses[t, a] * safe_strategy[a]
            sums.allocation[a] += strategies[t, a]
        add(sums.loss, 0, loss)
        add(sums.learning_loss, 0, loss - weight * at_safe)  # (1 - gamma) x~ = x - gamma x^diamond
        if weight > 0.0:
            for a in range(safe_strategy.size):
                add(sums.weighted_losses, a, weight * losses[t, a])
        above = False
        for i in range(thresholds.size):
            margin = thresholds[i]
            for a in range(safe_strategy.size):
                margin -= mean_costs[min(t, len(mean_costs) - 1), i, a] * strategies[t, a]
            sums.worst_margin[0] = min(sums.worst_margin[0], margin)
            if margin < -OVER:
                above = True
                add(sums.violations, i, -margin)
        sums.rounds_over[0] += above
        if weight < LOOSE and sums.rounds_until_loose[0] < 0:
            sums.rounds_until_loose[0] = sums.rounds[0]
        sums.rounds[0] += 1


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
