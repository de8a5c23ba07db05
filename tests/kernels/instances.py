"""Projections to try: the whole range of sizes, rates, losses and degeneracies that the kernel promises to master."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from surefoot.rules import Floats
from tests.strategies import Source, signed


class Instance(NamedTuple):
    """The arguments of `surefoot.project`."""

    center: Floats
    learning_rates: Floats
    loss_estimate: Floats
    lower_costs: Floats
    limits: Floats
    floor: float


LARGER = (20, 50, 100, 300, 1000)
RELATIONS = ("zero", "equal", "opposite", "parallel", "nearly equal", "nearly opposite", "flat")
ROWS = 8


def projection(source: Source, larger: Sequence[int] = LARGER) -> Instance:
    """An instance of 2 to 12 arms, or one of the larger numbers, with a taste for trouble."""
    n_arms, n_constraints = source.integer(2, 12), source.integer(0, 12)
    if source.chance(35):
        n_arms = source.choice(larger)
    horizon = max(n_arms, int(source.power(1, 7)))
    floor = 1.0 / horizon
    rates = np.full(n_arms, source.power(math.log10(2), -6))
    factors = 1 + 4 * source.row(n_arms)
    if source.chance(70):
        rates *= factors

    center = point(source, n_arms, floor, corners=25)
    loss, arm = np.zeros(n_arms), source.integer(0, n_arms - 1)
    shares, largest = source.row(n_arms), source.power(math.log10(horizon), -3)
    match source.choice(["none", "played", "one", "all"]):
        case "played":
            loss[arm] = shares[arm] / center[arm]
        case "one":
            loss[arm] = largest
        case "all":
            loss = shares * largest

    lower = source.columns(n_constraints, n_arms)
    if source.chance(50):
        lower = signed(lower)
    digits = source.choice([0, 1, None, None, None])
    lower = lower if digits is None else lower.round(digits)
    for _ in range(source.integer(0, 3) if n_constraints >= 2 else 0):
        one, step = source.integer(0, n_constraints - 1), source.integer(1, n_constraints - 1)
        other = (one + step) % n_constraints
        share, nudge = source.integer(0, 100) / 100, source.power(-3, -14) * signed(source.row(n_arms))
        relation = source.choice(RELATIONS)
        lower[other] = {
            "zero": np.zeros(n_arms),
            "equal": lower[one],
            "opposite": -lower[one],
            "parallel": lower[one] * (0.1 + 0.9 * share),
            "nearly equal": lower[one] + nudge,
            "nearly opposite": nudge - lower[one],
            "flat": nudge + 2 * share - 1,
        }[relation]

    inside = point(source, n_arms, floor, corners=20)
    slack, own = np.full(n_constraints, source.power(-1, -12)), 10.0 ** (-12 * source.numbers(n_constraints))
    slack = source.choice([slack] * 5 + [own] * 4 + [np.zeros(n_constraints)])
    limits = lower @ inside + slack
    if source.chance(15):
        limits -= source.power(0, -10)
    return Instance(center, rates, loss, lower, limits, floor)


def point(source: Source, n_arms: int, floor: float, corners: int) -> Floats:
    """A strategy with every share at the floor or above; at a corner in so many of 100 cases."""
    shares, corner = source.distribution(n_arms), source.integer(0, n_arms - 1)
    if source.chance(corners):
        shares = np.eye(n_arms)[corner]
    return np.asarray(np.maximum(floor, floor + (1.0 - n_arms * floor) * shares))


def emptiness(lower: Floats, limits: Floats, floor: float) -> float:
    """How far the set is from holding a strategy: the least largest violation; negative if it has an interior."""
    n_constraints, n_arms = lower.shape
    if n_constraints == 0:
        return -np.inf
    answer = linprog(
        np.append(np.zeros(n_arms), 1.0),
        np.hstack([lower, -np.ones((n_constraints, 1))]),
        limits,
        np.append(np.ones(n_arms), 0.0)[None, :],
        [1.0],
        bounds=[(floor, None)] * n_arms + [(None, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.status == 0
    return float(answer.x[-1])


def nearly_tied(seed: int) -> tuple[Floats, Floats, Floats]:
    """Losses, costs and limits of a linear program in which much is equal, or differs by 1e-16 to 1e-9."""
    rng = np.random.default_rng(seed)
    n_arms, n_constraints = int(rng.integers(2, 21)), int(rng.integers(1, 6))
    digits, n_kinds = int(rng.integers(3)), int(rng.integers(1, n_arms + 1))
    kind = rng.integers(n_kinds, size=n_arms)  # arms of a kind have the same costs
    losses = np.round(rng.random(n_arms), digits)
    costs = np.round(rng.random((n_constraints, n_kinds)), digits)[:, kind]
    tied = rng.random(n_constraints) < 0.5
    limits = costs[np.arange(n_constraints), rng.integers(n_arms, size=n_constraints)]
    limits = np.where(tied, limits, np.round(rng.random(n_constraints), digits))
    for part in (losses, costs, limits):
        apart = 10.0 ** rng.uniform(-16, -9, part.shape if rng.random() < 0.5 else 1)
        part += apart * rng.integers(-2, 3, part.shape) * (rng.random(part.shape) < rng.random())
    return losses, costs, limits
