"""The scenarios on which claims are tried. Losses are of three arms: tempting, middling, and safe."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefoot.environments.costs import Bernoulli as BernoulliCosts
from surefoot.environments.losses import Bernoulli, Losses, Switching
from surefoot.environments.lower_bound import LowerBoundLosses
from surefoot.environments.scenario import Scenario
from surefoot.problem import Problem, SafeStrategy

THRESHOLD = 0.5


def three_arms(
    horizon: int, losses: Losses, margin: float, costs: Sequence[Sequence[float]], delta: float = 0.05
) -> Scenario:
    """Costs of the first two arms by guardrail; the third is safe, with the margin under each threshold."""
    rows = [[*row, THRESHOLD - margin] for row in costs]
    safe = SafeStrategy([0, 0, 1], [THRESHOLD - margin] * len(rows))
    problem = Problem(3, [THRESHOLD] * len(rows), horizon, delta, safe)
    return Scenario("claims-v1", problem, losses, BernoulliCosts(np.array(rows)))


def boundary(horizon: int, margin: float = 0.3, n_constraints: int = 1, delta: float = 0.05) -> Scenario:
    """Better arms cost more: the best safe strategy is a mixture, exactly on the threshold."""
    costs = [[0.9, 0.55], [0.3, 0.7]][:n_constraints]
    return three_arms(horizon, Bernoulli([0.1, 0.4, 0.8]), margin, costs, delta)


def lopsided(horizon: int, margin: float = 0.3) -> Scenario:
    """Two guardrails: one that binds, and one whose costs are lower everywhere than under the safe strategy."""
    return three_arms(horizon, Bernoulli([0.1, 0.4, 0.8]), margin, [[0.9, 0.55], [0.05, 0.1]])


def inside(horizon: int, best: float = 0.05, margin: float = 0.3, cost: float = 0.4, delta: float = 0.05) -> Scenario:
    """The best arm is safe by itself: the difficulty is to find it."""
    return three_arms(horizon, Bernoulli([0.8, best, 0.7]), margin, [[0.9, cost]], delta)


def switching(horizon: int, margin: float = 0.3, delta: float = 0.05) -> Scenario:
    """The two safe arms change places half-way."""
    rows = [[0.8, 0.05, 0.7], [0.8, 0.45, 0.15]]
    return three_arms(horizon, Switching(rows, [horizon // 2]), margin, [[0.9, 0.4]], delta)


def constant_gap(horizon: int, gap: float, margin: float = 0.3) -> Scenario:
    """The safe strategy loses just `gap` more than the best in every single round."""
    losses = LowerBoundLosses(instance=1, omega=0.4, shift=0.0, gap=2.0 * gap, n_arms=3)
    return three_arms(horizon, losses, margin, [[0.35, 0.45]])
