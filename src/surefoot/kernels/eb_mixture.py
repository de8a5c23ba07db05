"""The time-uniform empirical Bernstein radius."""

import math
from typing import Any

import numpy as np

from surefoot.kernels.betting import STEPS, Bets
from surefoot.kernels.compile import compiled_apart
from surefoot.kernels.dual import ROUNDING

SETTLED = 1e-9  # how much more than enough the logarithm of the wealth may be


@compiled_apart
def radius(known: Any, i: int, arm: int, n: int, mean: float, cost: float, useful: float) -> float:
    """The half-width after the n-th cost, which `mean` includes; infinite if not less than `useful`."""
    expected = (0.5 + n * mean - cost) / n  # as it was before the cost was seen
    known.squares[i, arm] += (cost - expected) * (cost - expected)
    if known.reach[i, arm] >= useful * n:  # and it only grows
        return np.inf
    known.reach[i, arm] = reach(known.mixture, known.squares[i, arm], known.reach[i, arm])
    width: float = known.reach[i, arm] / n
    return width


@compiled_apart
def reach(mixture: Bets, squares: float, guess: float) -> float:
    """The sum of deviations, or slightly more, at which the wealth of the mixture is enough.

    The logarithm of the wealth is convex in it, so every step of Newton's ends at the root or above.
    """
    reached = guess
    for _ in range(STEPS):
        top, total, slope = -np.inf, 0.0, 0.0  # the wealth is exp(top) * total
        for j in range(mixture.fractions.size):
            bet = mixture.fractions[j]
            won, paid = bet * reached, mixture.prices[j] * squares
            logarithm = mixture.shares[j] + won - paid - 4.0 * ROUNDING * (won + paid + 64.0)
            if logarithm > top:
                shrunk = math.exp(top - logarithm)
                top, total, slope = logarithm, 1.0 + total * shrunk, bet + slope * shrunk
            else:
                wealth = math.exp(logarithm - top)
                total += wealth
                slope += wealth * bet
        excess = top + math.log(total)
        if 0.0 < excess < SETTLED:
            break
        reached -= (excess - 0.5 * SETTLED) * total / slope
    return reached
