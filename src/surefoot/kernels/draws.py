"""Losses and costs drawn by counter, in compiled code: coin flips, also of coins that belong together, and Beta costs.

The cost of an arm in a round is a function of seed, round, arm and guardrail (`counter.py`), so a policy draws only
those of the arm that it plays, and all policies of a seed still meet the same world.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, compiled_apart
from surefoot.kernels.counter import COSTS, LOSSES, TILE, UNIT, fill_uniform, uniform, unit, words
from surefoot.kernels.types import Floats, Integers

UNDRAWN, FLIPS, DRIFT, BETA, SHARED, CORRELATED = -1, 0, 1, 2, 3, 4
"""Nothing is drawn; coin flips with the means of a phase, or with means on the way to the next; Beta distributions;
coins that arms share; coin flips that are correlated across guardrails."""
HALF_UNIT = 2.0**-32
LOG_4, LOG_5 = math.log(4.0), math.log(5.0)
TURN = 2.0 * math.pi * HALF_UNIT
SECOND = 1 << 8  # the attempts of the second gamma variable of a Beta distribution
COMMON = 1  # the attempt that is what the guardrails of an arm have in common
LAST = (1 << 7) - 1  # the most attempts; each succeeds with a probability of more than 0.65
FARTHEST = 700.0  # the exponential of more would overflow


class Drawn(NamedTuple):
    """A model of losses, which has one guardrail, or of costs."""

    kind: int
    seed: int
    first: Integers  # (1,) the rounds before the block
    means: Floats  # (phases, m, K)
    at: Integers  # (phases - 1,) the rounds after which a phase ends
    way: float  # DRIFT: rounds from the first phase to the second, less 1
    ones: Floats  # (m, K) BETA: the two parameters; where the first is 0, a coin is flipped
    zeros: Floats  # (m, K) SHARED: what the two sides of a coin are worth. CORRELATED: a coin is 1 below `ones`
    coins: Integers  # (K,) SHARED: the arm whose coin it is: itself, or one before it
    correlation: float  # CORRELATED: of the normal variables behind the coins
    tile: Floats  # scratch for `fill_uniform`


def flips(seed: int, means: Floats, at: Sequence[int] = (), way: float = 0.0) -> Drawn:
    """A model of coin flips: means (phases, m, K) that hold until so many rounds have passed, or drift that long."""
    means = np.array(means, order="C")
    unused, coins, phases = np.zeros((0, 0)), np.zeros(0, np.int64), np.array(at, np.int64)
    kind, first, tile = DRIFT if way else FLIPS, np.zeros(1, np.int64), np.zeros(TILE)
    return Drawn(kind, seed, first, means, phases, float(way), unused, unused, coins, 0.0, tile)


FILLED = flips(0, np.zeros((1, 0, 0)))._replace(kind=UNDRAWN)
"""For costs that are there already."""


@compiled
def mean_at(model: Drawn, round_: int, i: int, a: int) -> float:
    """The mean of a place."""
    if model.kind == DRIFT:
        passed = min(round_ / model.way, 1.0)
        return float((1.0 - passed) * model.means[0, i, a] + passed * model.means[1, i, a])
    phase = 0
    while phase < model.at.size and model.at[phase] <= round_:
        phase += 1
    return float(model.means[phase, i, a])


@compiled
def normal_variable(high: Any, low: Any, angle: Any) -> float:
    """A normal variable out of three words, by the method of Box and Muller."""
    return math.sqrt(-2.0 * math.log1p(-unit(high, low))) * math.cos(TURN * float(angle))


@compiled
def gamma_variable(seed: int, round_: int, a: int, i: int, shape: float, attempts: int) -> float:
    """A gamma variable whose shape is 1 or more, by the method of Marsaglia and Tsang (2000).

    A normal variable is transformed, and kept or rejected; attempts are numbered, so none disturbs another place.
    """
    middle = shape - 1.0 / 3.0
    width = 1.0 / math.sqrt(9.0 * middle)
    for attempt in range(attempts + 1, attempts + LAST):
        high, low, angle, luck = words(seed, COSTS, round_, a, i, attempt)
        normal = normal_variable(high, low, angle)
        root = 1.0 + width * normal
        cube, level, square = root * root * root, HALF_UNIT * (float(luck) + 0.5), normal * normal
        if root > 0.0 and (
            level < 1.0 - 0.0331 * square * square  # spares the logarithms, nearly always
            or math.log(level) < 0.5 * square + middle * (1.0 - cube + math.log(cube))
        ):
            return float(middle * cube)
    return middle


@compiled
def log_gamma_variable(seed: int, round_: int, a: int, i: int, shape: float, attempts: int) -> float:
    """The logarithm of a gamma variable of any shape; the variable itself may be too small for a float."""
    if shape >= 1.0:
        return math.log(gamma_variable(seed, round_, a, i, shape, attempts))
    high, low, _, _ = words(seed, COSTS, round_, a, i, attempts)
    raised = gamma_variable(seed, round_, a, i, shape + 1.0, attempts)
    return math.log(raised) + math.log1p(-unit(high, low)) / shape


@compiled
def narrow_beta_variable(seed: int, round_: int, a: int, i: int, one: float, other: float) -> float:
    """A Beta variable whose parameters are both above 1, by the algorithm BB of Cheng (1978)."""
    low, high, total = min(one, other), max(one, other), one + other
    slope = math.sqrt((total - 2.0) / (2.0 * low * high - total))
    reach = low + 1.0 / slope
    for attempt in range(1, LAST):
        first, second, third, fourth = words(seed, COSTS, round_, a, i, attempt)
        uniform = unit(first, second) + 0.5 * UNIT  # neither 0 nor 1
        odds = slope * math.log(uniform / (1.0 - uniform))
        part = low * math.exp(odds)
        luck = uniform * uniform * (unit(third, fourth) + 0.5 * UNIT)
        level = reach * odds - LOG_4
        if (
            low + level - part + 1.0 + LOG_5 >= 5.0 * luck  # spares the logarithms, mostly
            or level + total * math.log(total / (high + part)) >= math.log(luck)
        ):
            return float((part if low == one else high) / (high + part))
    return one / total


@compiled
def beta_variable(seed: int, round_: int, a: int, i: int, one: float, other: float) -> float:
    """A Beta variable of any parameters. In general it is the share of one gamma variable in the sum of two."""
    if one > 1.0 and other > 1.0 and one + other > 2.001:  # else the slope would be lost in rounding
        return narrow_beta_variable(seed, round_, a, i, one, other)
    distance = log_gamma_variable(seed, round_, a, i, other, SECOND) - log_gamma_variable(seed, round_, a, i, one, 0)
    return 1.0 / (1.0 + math.exp(distance)) if distance < FARTHEST else 0.0


@compiled
def in_common(model: Drawn, round_: int, a: int) -> float:
    """What an arm adds to the normal variables of all its guardrails in a round."""
    if model.kind != CORRELATED:
        return 0.0
    high, low, angle, _ = words(model.seed, COSTS, round_, a, 0, COMMON)
    return math.sqrt(model.correlation) * normal_variable(high, low, angle)


@compiled
def cost_at(model: Drawn, round_: int, i: int, a: int, common: float) -> float:
    """The cost of a place."""
    if model.kind == BETA and model.ones[i, a] > 0.0:
        return beta_variable(model.seed, round_, a, i, model.ones[i, a], model.zeros[i, a])
    if model.kind == CORRELATED:
        high, low, angle, _ = words(model.seed, COSTS, round_, a, i, 0)
        normal = common + math.sqrt(1.0 - model.correlation) * normal_variable(high, low, angle)
        return 1.0 if normal < model.ones[i, a] else 0.0
    coin = model.coins[a] if model.kind == SHARED else a
    one = uniform(model.seed, COSTS, round_, coin, i) < mean_at(model, round_, i, a)
    if model.kind == SHARED:
        return float(model.ones[i, a] if one else model.zeros[i, a])
    return 1.0 if one else 0.0


@compiled_apart
def draw_costs(model: Drawn, costs: Floats, t: int, a: int) -> None:
    """Write the costs of an arm in round t of the block."""
    common = in_common(model, model.first[0] + t, a)
    for i in range(costs.shape[1]):
        costs[t, i, a] = cost_at(model, model.first[0] + t, i, a, common)


@compiled_apart
def fill_costs(model: Drawn, costs: Floats) -> None:
    """Write the costs of all arms in a block of rounds."""
    for t in range(costs.shape[0]):
        for a in range(costs.shape[2]):
            draw_costs(model, costs, t, a)


@compiled_apart
def fill_losses(model: Drawn, losses: Floats) -> None:
    """Write the losses of a block of rounds."""
    fill_uniform(losses, model.seed, LOSSES, int(model.first[0]), model.tile)
    for t in range(losses.shape[0]):
        round_ = model.first[0] + t
        for a in range(losses.shape[1] - 1, -1, -1):  # no arm follows the coin of one after it
            mean = mean_at(model, round_, 0, a)
            if model.kind == SHARED:
                losses[t, a] = model.ones[0, a] if losses[t, model.coins[a]] < mean else model.zeros[0, a]
            else:
                losses[t, a] = 1.0 if losses[t, a] < mean else 0.0
