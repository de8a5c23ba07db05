"""Projections to try: the whole range of sizes, rates, losses and degeneracies that the kernel promises to master."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from surefoot.rules import Floats


class Instance(NamedTuple):
    """The arguments of `surefoot.project`."""

    center: Floats
    learning_rates: Floats
    loss_estimate: Floats
    lower_costs: Floats
    limits: Floats
    floor: float


def draw_instance(rng: np.random.Generator, n_arms: int, n_constraints: int, horizon: int) -> Instance:
    """An instance of the given size; everything else is left to chance, with a taste for trouble."""
    floor = 1.0 / max(horizon, n_arms)
    room = 1.0 - n_arms * floor
    rates = np.full(n_arms, 10 ** rng.uniform(-6, np.log10(2)))
    if rng.random() < 0.7:
        rates *= rng.uniform(1, 5, n_arms)

    center = np.maximum(floor, floor + room * rng.dirichlet(np.full(n_arms, 10 ** rng.uniform(-2, 1))))
    if rng.random() < 0.25:  # at a corner
        center = np.full(n_arms, floor)
        center[rng.integers(n_arms)] += room

    loss = np.zeros(n_arms)
    kind, arm, largest = rng.integers(4), rng.integers(n_arms), 10 ** rng.uniform(-3, np.log10(horizon))
    if kind == 0:
        loss[arm] = largest
    elif kind == 1:
        loss = rng.random(n_arms) * largest
    elif kind == 2:
        loss[arm] = rng.random() / center[arm]

    lower = rng.uniform(-1 if rng.random() < 0.5 else 0, 1, (n_constraints, n_arms))
    lower = rng.choice([lower, lower.round(), lower.round(1)], p=[0.6, 0.2, 0.2])
    for _ in range(rng.integers(1, 4) if n_constraints >= 2 else 0):
        one, other = rng.choice(n_constraints, 2, replace=False)
        nudge = 10 ** rng.uniform(-14, -3) * rng.uniform(-1, 1, n_arms)
        relations = [
            lower[other], lower[one], lower[one] * rng.uniform(0.1, 1), lower[one] + nudge, -lower[one],
            nudge - lower[one], rng.uniform(-1, 1) + nudge,
        ]  # fmt: skip
        lower[other] = relations[rng.integers(len(relations))]

    inside = floor + room * rng.dirichlet(np.full(n_arms, 10 ** rng.uniform(-1.5, 1)))
    if rng.random() < 0.2:
        inside = np.full(n_arms, floor)
        inside[rng.integers(n_arms)] += room
    slack = 10 ** rng.uniform(-12, 0, n_constraints)
    if rng.random() < 0.5:
        slack[:] = 10 ** rng.uniform(-12, -1)
    if rng.random() < 0.1:
        slack[:] = 0.0
    limits = lower @ inside + slack
    if rng.random() < 0.15:
        limits -= 10 ** rng.uniform(-10, 0)
    return Instance(center, rates, loss, lower, limits, floor)


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
