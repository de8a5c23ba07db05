"""A forecast put to the test: SOLB in a made-up world that matches it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surefoot.analysis.statistics import Interval, mean_interval
from surefoot.environments.costs import Beta
from surefoot.kernels.ledger import LOOSE
from surefoot.policies.solb import SOLB
from surefoot.problem import Floats, Problem, SafeStrategy
from surefoot.theory.plan import Forecast

SAFE_LOSS = 0.5
BLOCK = 10_000
WORK = 20_000_000
"""Losses and costs drawn for one preset, at most: a few seconds."""


class World(NamedTuple):
    """Mean losses (K,) and costs (m, K); the last arm is the safe strategy."""

    losses: Floats
    costs: Floats
    concentration: float


class Rehearsal(NamedTuple):
    """What came of it, over the seeds.

    `loose_after` counts up to the last round with a safe weight of 0.1 or more, not the first below: by chance a
    single early round may lie below. `break_even` counts up to the last round behind the safe strategy, in expected
    losses. Either is None unless every run got there by 9/10 of its rounds.
    """

    loose_after: Interval | None
    safe_rounds: Interval | None
    break_even: Interval | None
    rounds: int
    seeds: int


def world_of(forecast: Forecast) -> World:
    """A world to which a forecast applies.

    With no slack the best strategy is the even mixture of its arms: each but the last of these is above one threshold
    and below the others, the last below all. All other arms lose as much more than the safe arm as that loses more
    than the best strategy, and their costs are spread around the threshold.

    Examples
    --------
    >>> world = world_of(Forecast(n_arms=4, n_constraints=1, margin=0.3))
    >>> world.losses.round(3), world.costs.round(3)
    (array([0.2, 0.4, 0.7, 0.5]), array([[0.7, 0.3, 0.5, 0.2]]))
    """
    n_arms, support, alpha, gap = forecast.n_arms, forecast.support, forecast.threshold, min(forecast.gap, 0.5)
    losses = np.full(n_arms, SAFE_LOSS + gap)
    costs = np.full((forecast.n_constraints, n_arms), alpha)
    above = support - 1
    if above:
        reach = 0.4 * min(1.0 - alpha, alpha)
        losses[:above], losses[above] = SAFE_LOSS - gap * (1.0 + 0.5 / above), SAFE_LOSS - gap * 0.5
        losses[:above] = np.maximum(0.0, losses[:above])
        costs[:, :support] = alpha - reach / above
        for i in range(forecast.n_constraints):
            costs[i, i % above] = alpha + reach
    else:
        losses[0], costs[:, 0] = SAFE_LOSS - gap, alpha - forecast.slack
    others = n_arms - 1 - support
    costs[:, support : n_arms - 1] += 0.4 * min(1.0 - alpha, alpha) * (np.arange(others) - 0.5 * (others - 1)) / n_arms
    losses[-1], costs[:, -1] = SAFE_LOSS, alpha - forecast.margin
    variance = min(max(forecast.deviation, 1e-4) ** 2, alpha * (1.0 - alpha))
    concentration = alpha * (1.0 - alpha) / variance - 1.0 if variance else 0.0
    return World(losses, costs, concentration)


def rehearse(forecast: Forecast, preset: str, seeds: int = 10) -> Rehearsal:
    """Let SOLB live through the world of a forecast, half as long again as that says, or as long as patience lasts.

    Parameters
    ----------
    forecast
        What is to be tried.
    preset
        Of SOLB.
    seeds
        How many runs.

    Examples
    --------
    >>> forecast = Forecast(n_arms=3, n_constraints=1, margin=0.3, deviation=0.1)
    >>> found = rehearse(forecast, "guaranteed", seeds=3)
    >>> 0.5 < found.loose_after.value / forecast.loose_after < 1.5
    True
    """
    most = WORK // (seeds * forecast.n_arms * (forecast.n_constraints + 1))
    rounds = int(min(max(1.5 * forecast.loose_after, 1.5 * min(forecast.break_even, 1e15), 1000), most))
    runs = np.array([live(forecast, preset, seed, rounds) for seed in range(seeds)])
    there = runs <= 0.9 * rounds
    loose, weights, even = (mean_interval(column) for column in runs.T)
    return Rehearsal(
        loose if there[:, 0].all() else None,
        weights if there[:, 0].all() else None,
        even if there[:, 2].all() else None,
        rounds,
        seeds,
    )


def live(forecast: Forecast, preset: str, seed: int, rounds: int) -> tuple[int, float, int]:
    """One run: rounds until loose, the sum of safe weights until then, rounds until break-even."""
    world, safe = world_of(forecast), np.eye(forecast.n_arms)[-1]
    thresholds = np.full(forecast.n_constraints, forecast.threshold)
    problem = Problem(forecast.n_arms, thresholds, None, forecast.delta, SafeStrategy(safe, world.costs @ safe))
    policy, rng = SOLB(problem, seed, preset=preset), np.random.default_rng([seed, 1])
    model = Beta(world.costs, world.concentration)
    strategies, weights = np.empty((rounds, forecast.n_arms)), np.empty(rounds)
    for first in range(0, rounds, BLOCK):
        here = slice(first, min(first + BLOCK, rounds))
        losses = (rng.random((here.stop - first, forecast.n_arms)) < world.losses).astype(float)
        costs = np.empty((here.stop - first, *world.costs.shape))
        model.fill(costs, first, rng)
        policy.live(losses, costs, strategies[here], weights[here])
    loose = after_last(weights >= LOOSE)
    return loose, float(weights[:loose].sum()), after_last(np.cumsum(strategies @ world.losses - SAFE_LOSS) > 0.0)


def after_last(which: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """How many rounds there are up to the last of these.

    Examples
    --------
    >>> after_last(np.array([False, True, False]))
    2
    """
    found = np.flatnonzero(which)
    return int(found[-1]) + 1 if found.size else 0
