"""The wealth of a mixture of bets against a candidate for a mean, and the least candidate it excludes.

A bet of f against the candidate q for the mean of costs in [0, 1] multiplies its wealth, for each cost x, by

    1 + f (q - x) / (1 - q) = 1 + f ((1 - x) odds - x),   odds = q / (1 - q).

If the mean is q or more, the wealth is a supermartingale, and so is that of a mixture of bets f in (0, 1); by Ville's
inequality it ever reaches 1 / level with a probability of at most the level. Then q is excluded, and with it all
above q, since wealth increases with the odds. A lower bound is the same with 1 - x for x and 1 - q for q.

Costs are remembered as weights on evenly spaced nodes 0, ..., 1: a cost between two nodes is shared between them so
that its mean is kept. The logarithm of a factor is concave in x, so the nodes never make wealth larger, nor a bound
too narrow. Two nodes are the sums of 1 - x and of x; with them a bet is a likelihood ratio of coin flips.

As a function of ln(odds) the logarithm of the wealth is convex and increasing, so Newton's method comes down to the
root from above, and every step of it is an excluded candidate. All rounding is against the wealth.

Most costs do not move the bounds. To see that, the wealth against the present bounds is carried on cost by cost, a
product for each bet and never less than what the nodes say; they are asked only when it is WORTHWHILE times enough.
What is forgone is 0.2 % of the width on average, and most of the times a bound would move.
"""

import numpy as np

from surefoot.kernels.compile import compiled_apart, compiled_sum, merged
from surefoot.kernels.dual import ROUNDING, Floats
from surefoot.kernels.logarithm import logarithm

# Rows of the settings:
BETS, SHARES = 0, 1  # f, and ln(share in the mixture * level), so that a wealth of 1 is enough
LOGARITHM, SLOPE, SIZE = 2, 3, 4  # room to compute: of a bet's wealth; in ln(odds); of the terms it is the sum of
ROWS = 5
SETTLED = 1e-4  # how much more than enough the logarithm of the wealth may be
NEAR = 0.02  # where Newton's next step is the last: about a quarter of the square of this is left
WORTHWHILE = 1.08
STEPS = 100
UNBOUNDED = 1e15  # odds of a candidate that floating point can hardly tell from 1


@compiled_apart
def narrow(
    settings: Floats, memory: Floats, lower: Floats, upper: Floats, i: int, arm: int, n: int, cost: float
) -> None:
    """Narrow the bounds by one more cost, the n-th. `memory`: wealth against `upper`, against `lower`, the nodes."""
    split(memory, i, arm, 2 * settings.shape[1], cost)
    odds = upper[i, arm] / (1.0 - upper[i, arm])
    if may_exclude(settings, memory, i, arm, False, (1.0 - cost) * odds - cost):
        least = excluded(settings, memory, i, arm, False, n, odds)
        if least < odds:
            upper[i, arm] = min(1.0, least / (1.0 + least) * (1.0 + 2.0 * ROUNDING))
    odds = (1.0 - lower[i, arm]) / lower[i, arm]
    if may_exclude(settings, memory, i, arm, True, cost * odds - (1.0 - cost)):
        least = excluded(settings, memory, i, arm, True, n, odds)
        if least < odds:
            lower[i, arm] = 1.0 / (1.0 + least) * (1.0 - 2.0 * ROUNDING)


@merged
def split(memory: Floats, i: int, arm: int, first: int, cost: float) -> None:
    """Share a cost between the two nodes beside it; they start at `first`."""
    last = memory.shape[2] - first - 1
    node = min(int(cost * last), last - 1)
    part = cost * last - node
    memory[i, arm, first + node] += 1.0 - part
    memory[i, arm, first + node + 1] += part


@merged
def may_exclude(settings: Floats, memory: Floats, i: int, arm: int, mirrored: bool, won: float) -> bool:
    """Carry on the wealth by a cost on which a bet of 1 wins so much; tell if it is worthwhile to look."""
    if not won < UNBOUNDED:  # there is no bound yet
        return True
    return carry_on(settings, memory, i, arm, settings.shape[1] if mirrored else 0, won) > WORTHWHILE


@compiled_sum
def carry_on(settings: Floats, memory: Floats, i: int, arm: int, first: int, won: float) -> float:
    """Multiply the wealth of each bet, and add it up."""
    total = 0.0
    for j in range(settings.shape[1]):
        wealth = memory[i, arm, first + j] * (1.0 + settings[BETS, j] * won)
        memory[i, arm, first + j] = wealth
        total += wealth
    return total


@compiled_apart
def excluded(settings: Floats, memory: Floats, i: int, arm: int, mirrored: bool, n: int, odds: float) -> float:
    """The least odds that the nodes exclude, or the given ones if that is more; infinite while there are none."""
    least = odds if odds < UNBOUNDED else first_odds(settings, memory, i, arm, mirrored, n)
    if not least < UNBOUNDED:
        return odds
    more, slope = excess(settings, memory, i, arm, mirrored, n, least)
    if more < 0.0:
        return odds
    for _ in range(STEPS):
        if more < SETTLED:
            break
        trial: float = least * np.exp(-more / slope * (1.0 - SETTLED))  # what is spared is more than rounding
        if more < NEAR:
            return trial
        more, slope = excess(settings, memory, i, arm, mirrored, n, trial)
        if more < 0.0:  # by rounding
            break
        least = trial
    return least


@compiled_apart
def excess(
    settings: Floats, memory: Floats, i: int, arm: int, mirrored: bool, n: int, odds: float
) -> tuple[float, float]:
    """By how much the logarithm of the wealth is more than enough, and its slope in ln(odds); the wealth is kept."""
    n_bets = settings.shape[1]
    nodes, last = 2 * n_bets, memory.shape[2] - 2 * n_bets - 1
    for j in range(n_bets):
        settings[LOGARITHM, j], settings[SLOPE, j], settings[SIZE, j] = settings[SHARES, j], 0.0, 0.0
    for node in range(last + 1):
        weight = memory[i, arm, nodes + (last - node if mirrored else node)]
        if weight > 0.0:
            cost = node / last
            won = (1.0 - cost) * odds
            for j in range(n_bets):
                factor = 1.0 + settings[BETS, j] * (won - cost)
                grown = weight * logarithm(factor)
                settings[LOGARITHM, j] += grown
                settings[SLOPE, j] += weight * settings[BETS, j] * won / factor
                settings[SIZE, j] += abs(grown)
    first, wealth, slope = n_bets if mirrored else 0, 0.0, 0.0
    for j in range(n_bets):
        rounding = ROUNDING * ((n + 16.0) * settings[SIZE, j] + 32.0 * n + 64.0)
        memory[i, arm, first + j] = np.exp(min(690.0, settings[LOGARITHM, j] - rounding))
        wealth += memory[i, arm, first + j]
        slope += memory[i, arm, first + j] * settings[SLOPE, j]
    return np.log(wealth), slope / wealth


@compiled_apart
def first_odds(settings: Floats, memory: Floats, i: int, arm: int, mirrored: bool, n: int) -> float:
    """Odds that one of the bets alone excludes, all costs counted in parts as ones and zeros."""
    nodes = 2 * settings.shape[1]
    last, zeros, least = memory.shape[2] - nodes - 1, 0.0, np.inf
    for node in range(last):
        zeros += memory[i, arm, nodes + (last - node if mirrored else node)] * (1.0 - node / last)
    for j in range(settings.shape[1]):
        bet = settings[BETS, j]
        needed = -settings[SHARES, j] - (n - zeros) * np.log(1.0 - bet)
        least = min(least, np.expm1(needed / zeros) / bet)
    return least * (1.0 + SETTLED)
