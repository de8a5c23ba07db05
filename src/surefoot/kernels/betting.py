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

If the lower bound comes to lie above the upper one, one of them has failed. Mostly that is luck: each may fail with the
probability `level`. So from then on the upper bound, on which safety rests, is taken for both. Bounds contradict each
other only if the wealth against the upper bound reaches STRONG / level, or the upper bound falls below a firm lower
bound, found at that level whenever the count has doubled: it matters only where costs fall. The first time that may
have been bad luck, and a policy lets all bounds begin again, from later costs alone and with much more evidence
(`begin_again`). The second time it was not: with fixed means it happens less than once in a million runs.

Most costs do not move the bounds. To detect that, the wealth against the present bounds is updated with every cost, one
product for each bet. It is never less than the wealth at the nodes, which is computed only when the former is
WORTHWHILE times enough. This skips most of the times a bound would move, and loses 0.2 % of the width on average.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, compiled_apart, compiled_sum, merged
from surefoot.kernels.dual import ROUNDING
from surefoot.kernels.layout import derived
from surefoot.kernels.logarithm import logarithm
from surefoot.kernels.types import Floats

SETTLED = 1e-4  # how much more than enough the logarithm of the wealth may be
NEAR = 0.02  # where Newton's next step is the last: about a quarter of the square of this is left
WORTHWHILE = 1.08
STEPS = 100
STRONG = 10.0  # how many times the wealth of a lower bound a firm one needs
RESERVE = 1e-7  # the part of delta that is kept for bounds that begin again
UNBOUNDED = 1e15  # odds of a candidate that floating point can hardly tell from 1


class Bets(NamedTuple):
    """The bets of a mixture, and room to compute their wealth."""

    fractions: Annotated[Floats, derived("bets")]  # f, of the wealth, that each bet puts at stake
    shares: Annotated[Floats, derived("bets")]  # ln(share in the mixture * level), so that a wealth of 1 is enough
    prices: Annotated[Floats, derived("bets")]  # psi(f) = -ln(1 - f) - f, what a bet pays for a squared surprise
    logarithms: Annotated[Floats, derived("bets")]  # scratch: of the wealth of each bet
    slopes: Annotated[Floats, derived("bets")]  # scratch: of those in ln(odds)
    magnitudes: Annotated[Floats, derived("bets")]  # scratch: of the terms that each logarithm is the sum of


# `known` below is a `KnownCosts` (costs.py imports this module).


@compiled
def narrow(known: Any, i: int, arm: int, n: int, cost: float) -> None:
    """Narrow the bounds by one more cost, the n-th."""
    mixture, lower, upper = known.mixture, known.lower, known.upper
    nodes = known.nodes[i, arm]
    split(nodes, cost)
    bounded = arm != known.exempt
    met = bounded and lower[i, arm] == upper[i, arm]
    if bounded:
        odds = upper[i, arm] / (1.0 - upper[i, arm])
        if may_exclude(mixture, known.upper_wealth[i, arm], (1.0 - cost) * odds - cost):
            least = excluded(mixture, known.upper_wealth[i, arm], nodes, False, n, odds, 0.0)
            if least < odds:
                upper[i, arm] = min(1.0, least / (1.0 + least) * (1.0 + 2.0 * ROUNDING))
    odds = (1.0 - lower[i, arm]) / lower[i, arm]
    won = cost * odds - (1.0 - cost)
    if not met and may_exclude(mixture, known.lower_wealth[i, arm], won):
        least = excluded(mixture, known.lower_wealth[i, arm], nodes, True, n, odds, 0.0)
        if least < odds:
            lower[i, arm] = 1.0 / (1.0 + least) * (1.0 - 2.0 * ROUNDING)
    if bounded and known.contradicted[0] == known.begun[0]:
        if met or lower[i, arm] > upper[i, arm]:
            contest(known, i, arm, n, won)
        elif n & (n - 1) == 0:
            firm(known, i, arm, n)
        if known.reach[i, arm] > upper[i, arm]:
            known.contradicted[0] = known.begun[0] + 1
    if bounded and lower[i, arm] > upper[i, arm]:
        lower[i, arm] = upper[i, arm]


@compiled_apart
def contest(known: Any, i: int, arm: int, n: int, won: float) -> None:
    """Where bounds have met or now meet, take the upper one for both, and look at the evidence against it.

    On a cost by which a bet of 1 wins `won` at the lower bound. The nodes are checked only when the wealth is enough.
    """
    mixture, lower, upper = known.mixture, known.lower, known.upper
    wealth, moved = known.lower_wealth[i, arm], lower[i, arm] > upper[i, arm]
    lower[i, arm] = upper[i, arm]
    if moved or carry_on(mixture.fractions, wealth, won) >= STRONG:
        odds = (1.0 - lower[i, arm]) / lower[i, arm]
        more, _ = excess(mixture, wealth, known.nodes[i, arm], True, n, odds, math.log(STRONG))
        if more >= 0.0:
            known.contradicted[0] = known.begun[0] + 1


@compiled_apart
def begin_again(known: Any) -> None:
    """Forget all past costs: bounds begin again, from later costs alone and with more evidence."""
    ask_for_more(known)
    known.begun[0] = 1
    for a in range(known.counts.size):
        known.since[a] = known.counts[a]
        for i in range(known.means.shape[0]):
            known.lower[i, a], known.reach[i, a] = 0.0, 0.0
            if a != known.exempt:
                known.upper[i, a] = 1.0
            for j in range(known.nodes.shape[2]):
                known.nodes[i, a, j] = 0.0
            for j in range(known.mixture.fractions.size):
                known.upper_wealth[i, a, j], known.lower_wealth[i, a, j] = 0.0, 0.0


@compiled
def ask_for_more(known: Any) -> None:
    """Ask the evidence of bounds that have begun again."""
    for j in range(known.mixture.shares.size):
        known.mixture.shares[j] -= known.more


@compiled_apart
def firm(known: Any, i: int, arm: int, n: int) -> None:
    """Raise the firm lower bound, which needs STRONG times the wealth; it is kept in `reach`."""
    reach, scratch = known.reach, known.mixture.magnitudes  # `excess` has done with a magnitude when it writes a wealth
    odds = (1.0 - reach[i, arm]) / reach[i, arm]
    least = excluded(known.mixture, scratch, known.nodes[i, arm], True, n, odds, math.log(STRONG))
    if least < odds:
        reach[i, arm] = 1.0 / (1.0 + least) * (1.0 - 2.0 * ROUNDING)


@merged
def split(nodes: Floats, cost: float) -> None:
    """Share a cost between the two nodes beside it."""
    last = nodes.size - 1
    node = min(int(cost * last), last - 1)
    part = cost * last - node
    nodes[node] += 1.0 - part
    nodes[node + 1] += part


@merged
def may_exclude(mixture: Bets, wealth: Floats, won: float) -> bool:
    """Update the wealth for a cost on which a bet of 1 wins `won`; True if it is worthwhile to check the nodes."""
    if not won < UNBOUNDED:  # there is no bound yet
        return True
    return carry_on(mixture.fractions, wealth, won) > WORTHWHILE


@compiled_sum
def carry_on(fractions: Floats, wealth: Floats, won: float) -> float:
    """Multiply the wealth of each bet, and add it up."""
    total = 0.0
    for j in range(fractions.size):
        grown = wealth[j] * (1.0 + fractions[j] * won)
        wealth[j] = grown
        total += grown
    return total


@compiled_apart
def excluded(
    mixture: Bets, wealth: Floats, nodes: Floats, mirrored: bool, n: int, odds: float, further: float
) -> float:
    """The least odds that the nodes exclude, or the given ones if that is more; infinite while there are none.

    The logarithm of the wealth must be enough, and `further` more.
    """
    least = odds if odds < UNBOUNDED else first_odds(mixture, nodes, mirrored, n, further)
    if not least < UNBOUNDED:
        return odds
    more, slope = excess(mixture, wealth, nodes, mirrored, n, least, further)
    if more < 0.0:
        return odds
    for _ in range(STEPS):
        if more < SETTLED:
            break
        trial: float = least * math.exp(-more / slope * (1.0 - SETTLED))  # the part left out is larger than rounding
        if more < NEAR:
            return trial
        more, slope = excess(mixture, wealth, nodes, mirrored, n, trial, further)
        if more < 0.0:  # by rounding
            break
        least = trial
    return least


@compiled_apart
def excess(
    mixture: Bets, wealth: Floats, nodes: Floats, mirrored: bool, n: int, odds: float, further: float
) -> tuple[float, float]:
    """By how much the logarithm of the wealth is more than enough, and its slope in ln(odds); the wealth is kept."""
    n_bets, last = mixture.fractions.size, nodes.size - 1
    for j in range(n_bets):
        mixture.logarithms[j], mixture.slopes[j], mixture.magnitudes[j] = mixture.shares[j], 0.0, 0.0
    for node in range(last + 1):
        weight = nodes[last - node if mirrored else node]
        if weight > 0.0:
            cost = node / last
            won = (1.0 - cost) * odds
            for j in range(n_bets):
                factor = 1.0 + mixture.fractions[j] * (won - cost)
                grown = weight * logarithm(factor)
                mixture.logarithms[j] += grown
                mixture.slopes[j] += weight * mixture.fractions[j] * won / factor
                mixture.magnitudes[j] += abs(grown)
    total, slope = 0.0, 0.0
    for j in range(n_bets):
        rounding = ROUNDING * ((n + 16.0) * mixture.magnitudes[j] + 32.0 * n + 64.0)
        wealth[j] = math.exp(min(690.0, mixture.logarithms[j] - rounding))
        total += wealth[j]
        slope += wealth[j] * mixture.slopes[j]
    return math.log(total) - further, slope / total


@compiled_apart
def first_odds(mixture: Bets, nodes: Floats, mirrored: bool, n: int, further: float) -> float:
    """Odds that one of the bets alone excludes, all costs counted in parts as ones and zeros."""
    last, zeros, least = nodes.size - 1, 0.0, np.inf
    for node in range(last):
        zeros += nodes[last - node if mirrored else node] * (1.0 - node / last)
    for j in range(mixture.fractions.size):
        bet = mixture.fractions[j]
        needed = further - mixture.shares[j] - (n - zeros) * math.log(1.0 - bet)
        least = min(least, math.expm1(needed / zeros) / bet)
    return least * (1.0 + SETTLED)
