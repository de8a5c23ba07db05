"""The empirical Bernstein radius that holds at all times."""

import numpy as np

from surefoot.kernels.betting import BETS, SHARES, STEPS
from surefoot.kernels.compile import compiled_apart
from surefoot.kernels.dual import ROUNDING, Floats

REMEMBERED = 2
SQUARES, REACH = 0, 1  # the sum of squared surprises; the sum of deviations it allowed when that was last asked
SETTLED = 1e-9  # how much more than enough the logarithm of the wealth may be
PRICES = 2  # row of the settings: psi(bet) = -ln(1 - bet) - bet, what a bet pays for a squared surprise


@compiled_apart
def radius(
    settings: Floats, memory: Floats, i: int, arm: int, n: int, mean: float, cost: float, useful: float
) -> float:
    """The half-width after one more cost, the n-th; `mean` has it in it. Infinite if not less than `useful`."""
    expected = (0.5 + n * mean - cost) / n  # as it was before the cost was seen
    memory[i, arm, SQUARES] += (cost - expected) * (cost - expected)
    if memory[i, arm, REACH] >= useful * n:  # and it only grows
        return np.inf
    memory[i, arm, REACH] = reach(settings, memory[i, arm, SQUARES], memory[i, arm, REACH])
    width: float = memory[i, arm, REACH] / n
    return width


@compiled_apart
def reach(settings: Floats, squares: float, guess: float) -> float:
    """The sum of deviations, never less, at which the wealth of the mixture is enough.

    The logarithm of the wealth is convex in it, so every step of Newton's ends at the root or above.
    """
    reached = guess
    for _ in range(STEPS):
        top, total, slope = -np.inf, 0.0, 0.0  # the wealth is exp(top) * total
        for j in range(settings.shape[1]):
            bet = settings[BETS, j]
            won, paid = bet * reached, settings[PRICES, j] * squares
            logarithm = settings[SHARES, j] + won - paid - 4.0 * ROUNDING * (won + paid + 64.0)
            if logarithm > top:
                shrunk = np.exp(top - logarithm)
                top, total, slope = logarithm, 1.0 + total * shrunk, bet + slope * shrunk
            else:
                wealth = np.exp(logarithm - top)
                total += wealth
                slope += wealth * bet
        excess = top + np.log(total)
        if 0.0 < excess < SETTLED:
            break
        reached -= (excess - 0.5 * SETTLED) * total / slope
    return reached
