"""Slow twins of the confidence bounds, at 60 digits and from the whole list of costs; nothing of the package is used.

Each is an upper bound; the lower bound is the same of 1 - cost. Levels are those of one bound on one side.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 60

Numbers = list[mp.mpf]


def exact(costs: list[float], mirrored: bool = False) -> Numbers:
    """The costs, or 1 - cost, with no rounding."""
    return [1 - mp.mpf(cost) if mirrored else mp.mpf(cost) for cost in costs]


def mean(costs: Numbers) -> mp.mpf:
    return mp.fsum(costs) / len(costs)


def hoeffding(costs: Numbers, level: float, horizon: int) -> mp.mpf:
    return mean(costs) + mp.sqrt(mp.log(horizon / mp.mpf(level)) / (2 * len(costs)))


def bernstein(costs: Numbers, level: float, horizon: int) -> mp.mpf:
    """Maurer and Pontil, Theorem 4, with level / horizon for delta."""
    n, centre = len(costs), mean(costs)
    if n == 1:
        return mp.mpf(1)
    variance = mp.fsum((cost - centre) ** 2 for cost in costs) / (n - 1)
    log = mp.log(2 * horizon / mp.mpf(level))
    return centre + mp.sqrt(2 * variance * log / n) + 7 * log / (3 * (n - 1))


def bets(count: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Bets and their shares."""
    depths = [mp.mpf(19) * j / (count - 1) for j in range(count)]
    total = mp.fsum(1 / (3 + depth) for depth in depths)
    return [(2 ** (4 - depth) / (1 + 2 ** (4 - depth)), 1 / (3 + depth) / total) for depth in depths]


def betting_wealth(costs: Numbers, candidate: mp.mpf, count: int) -> mp.mpf:
    """What one has made of 1 by betting that costs are below the candidate."""
    return mp.fsum(
        share * mp.fprod(1 + bet * (candidate - cost) / (1 - candidate) for cost in costs) for bet, share in bets(count)
    )


def kl_wealth(ones: mp.mpf, zeros: mp.mpf, candidate: mp.mpf, count: int) -> mp.mpf:
    """The mixture of likelihood ratios, coins of mean (1 - bet) candidate to one of mean candidate."""
    total = mp.mpf(0)
    for bet, share in bets(count):
        coin = (1 - bet) * candidate
        total += share * (coin / candidate) ** ones * ((1 - coin) / (1 - candidate)) ** zeros
    return total


def eb_wealth(costs: Numbers, candidate: mp.mpf, count: int) -> mp.mpf:
    """Fan's supermartingales, mixed."""
    deviation, squares, total = mp.mpf(0), mp.mpf(0), mp.mpf(0)
    for k, cost in enumerate(costs):
        expected = (mp.mpf(1) / 2 + total) / (k + 1)
        deviation += candidate - cost
        squares += (cost - expected) ** 2
        total += cost
    return mp.fsum(share * mp.exp(bet * deviation + (mp.log(1 - bet) + bet) * squares) for bet, share in bets(count))


def nodal_wealth(costs: Numbers, candidate: mp.mpf, count: int, nodes: int) -> mp.mpf:
    """`betting_wealth` with each logarithm replaced by its chord between the nodes beside the cost."""
    total = mp.mpf(0)
    for bet, share in bets(count):
        log = mp.mpf(0)
        for cost in costs:
            place = cost * (nodes - 1)
            below = min(int(mp.floor(place)), nodes - 2)
            for node, weight in ((below, 1 - (place - below)), (below + 1, place - below)):
                log += weight * mp.log(1 + bet * (candidate - mp.mpf(node) / (nodes - 1)) / (1 - candidate))
        total += share * mp.exp(log)
    return total


def least_excluded(wealth: Callable[[mp.mpf], mp.mpf], level: float, digits: int = 14) -> mp.mpf:
    """The root in q of an increasing wealth(q) = 1 / level, or 1 if there is none."""
    low, high = mp.mpf(0), mp.mpf(1)
    while high - low > mp.mpf(10) ** -digits:
        middle = (low + high) / 2
        low, high = (low, middle) if wealth(middle) >= 1 / mp.mpf(level) else (middle, high)
    return high
