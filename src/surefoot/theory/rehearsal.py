"""A forecast put to the test: SOLB in a made-up world that matches it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surefoot.analysis.statistics import Interval, mean_interval
from surefoot.environments.costs import Beta
from surefoot.kernels.ledger import LOOSE
from surefoot.policies.solb import SOLB
from surefoot.problem import Problem, SafeStrategy
from surefoot.rules import Floats, RuleError
from surefoot.theory.plan import Forecast

BLOCK = 10_000
FEWEST = 1_000
"""Smallest number of rounds of a run."""
WORK = 20_000_000
"""Largest number of losses and costs drawn for one preset: a few seconds."""


class Means(NamedTuple):
    """Mean losses (K,) and costs (m, K); the last arm is the safe strategy."""

    losses: Floats
    costs: Floats
    concentration: float


class Rehearsal(NamedTuple):
    """The results over the seeds.

    `loose_after` is when guardrails are loose (`rounds_until_loose`), `safe_rounds` the sum of the safe arm's shares
    until then. `break_even` counts up to the last round behind the safe strategy, in expected losses. Either is None
    unless every run got there by 9/10 of its rounds.
    """

    loose_after: Interval | None
    safe_rounds: Interval | None
    break_even: Interval | None
    rounds: int
    seeds: int


def world_of(forecast: Forecast) -> Means:
    """A world to which a forecast applies.

    With no slack the best strategy is the even mixture of its arms: each but the last of these is above one threshold
    and below the others, the last below all. The wider the margin, the less these arms differ in loss: else the safe
    arm would be a better one to mix with than the last, and part of the best strategy. All other arms lose as much more
    than the safe arm as that loses more than the best strategy, and their costs are spread around the threshold.

    Examples
    --------
    >>> world = world_of(Forecast(n_arms=4, n_constraints=1, margin=0.3))
    >>> world.losses.round(3), world.costs.round(3)
    (array([0.233, 0.367, 0.7  , 0.5  ]), array([[0.7, 0.3, 0.5, 0.2]]))
    """
    n_arms, support, alpha, gap = forecast.n_arms, forecast.support, forecast.threshold, forecast.gap
    above, reach, safe_loss = support - 1, 0.4 * min(1.0 - alpha, alpha), min(1.0, max(0.5, 1.5 * gap))
    losses = np.full(n_arms, min(1.0, safe_loss + gap))
    costs = np.full((forecast.n_constraints, n_arms), alpha)
    best = safe_loss - gap
    if above:
        tilt = min(0.5 * gap * min(1.0, reach / (above * forecast.margin)), above * best)
        losses[:above], losses[above] = best - tilt / above, best + tilt
        costs[:, :support] = alpha - reach / above
        for i in range(forecast.n_constraints):
            costs[i, i % above] = alpha + reach
    else:
        losses[0], costs[:, 0] = best, alpha - forecast.slack
    others = n_arms - 1 - support
    costs[:, support:-1] += reach * (np.arange(others) - 0.5 * (others - 1)) / n_arms
    losses[-1], costs[:, -1] = safe_loss, alpha - forecast.margin
    variance = min(max(forecast.deviation, 1e-4) ** 2, alpha * (1.0 - alpha))
    concentration = alpha * (1.0 - alpha) / variance - 1.0 if variance else 0.0
    return Means(losses, costs, concentration)


def rehearse(forecast: Forecast, preset: str, seeds: int = 10) -> Rehearsal:
    """Play SOLB in the world of a forecast for three times the forecast rounds, up to a limit on the work.

    Parameters
    ----------
    forecast
        The forecast to test.
    preset
        Preset of SOLB.
    seeds
        How many runs.

    Examples
    --------
    >>> forecast = Forecast(n_arms=3, n_constraints=1, margin=0.3, deviation=0.1)
    >>> found = rehearse(forecast, "guaranteed", seeds=3)
    >>> found.loose_after.value < forecast.loose_after
    True
    """
    size = forecast.n_arms * (forecast.n_constraints + 1)
    most = WORK // (seeds * size)
    if most < FEWEST:
        rule = f"be at most {WORK // (seeds * FEWEST)} to be simulated {seeds} times in seconds"
        raise RuleError("n_arms (n_constraints + 1)", rule, size)
    rounds = int(min(max(3.0 * forecast.loose_after, 3.0 * forecast.break_even, 3000.0), most))
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
    """One run: rounds until loose, the sum of the safe arm's shares until then, rounds until break-even.

    The share of the safe arm in what is played means the same in all policies. The policy's own `safe_weight` leaves
    out what the proposal has of that arm, and what a linear program plays of it for its own sake.
    """
    world, safe = world_of(forecast), np.eye(forecast.n_arms)[-1]
    thresholds = np.full(forecast.n_constraints, forecast.threshold)
    problem = Problem(forecast.n_arms, thresholds, None, forecast.delta, SafeStrategy(safe, world.costs @ safe))
    policy, rng = SOLB(problem, seed, preset=preset), np.random.default_rng([seed, 1])
    model = Beta(world.costs, world.concentration)
    strategies, weights = np.empty((rounds, forecast.n_arms)), np.empty(rounds)
    costs = np.empty((BLOCK, *world.costs.shape))
    for first in range(0, rounds, BLOCK):
        here = slice(first, min(first + BLOCK, rounds))
        losses = (rng.random((BLOCK, forecast.n_arms)) < world.losses).astype(float)
        model.fill(costs, first, rng)  # a whole block, needed or not: a longer run starts like a shorter one
        n = here.stop - first
        policy.live(losses[:n], costs[:n], strategies[here], weights[here])
    shares = strategies[:, -1]  # not `weights`, which leave out what is played of it as one of the arms
    loose = rounds_until_loose(shares)
    return (
        loose,
        float(shares[:loose].sum()),
        after_last(np.cumsum(strategies @ world.losses - world.losses[-1]) > 0.0),
    )


def rounds_until_loose(weights: Floats) -> int:
    """Rounds after which the mean weight of the safe strategy, from there up to any later round, is below 0.1.

    The first round below 0.1 may come early, by chance. The last round above it may come late: the linear program of
    the preset "practical" returns to the safe strategy now and then, for a short while.

    Examples
    --------
    >>> rounds_until_loose(np.array([0.9, 0.05, 0.3, 0.04, 0.0, 0.12, 0.0, 0.0]))
    3
    """
    totals = np.concatenate(([0.0], np.cumsum(weights - LOOSE)))
    return int(weights.size - totals[::-1].argmax())


def after_last(which: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """Number of rounds up to and including the last True.

    Examples
    --------
    >>> after_last(np.array([False, True, False]))
    2
    """
    found = np.flatnonzero(which)
    return int(found[-1]) + 1 if found.size else 0
