"""Mixing in what is safe: also where a linear program is hard to solve, or has no solution."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog

from surefoot.kernels.layout import zeros
from surefoot.kernels.linear import Program
from surefoot.kernels.safety import lose_least
from surefoot.kernels.types import EMPTY, SOLVED, UNDECIDED, Floats

UNSOLVED = json.loads((Path(__file__).parent / "unsolved.json").read_text())


class Found(NamedTuple):
    """What `lose_least` makes of losses and upper bounds, with the first arm for a safe strategy."""

    status: int
    strategy: Floats
    weight: float
    loss: float


def found(losses: Floats, upper: Floats, limits: Floats, safe_costs: Floats) -> Found:
    n_arms, safe = upper.shape[1], np.eye(upper.shape[1])[0]
    task, vertex, strategy = zeros(Program, K=n_arms + 1, m=len(upper)), np.zeros(n_arms + 1), np.zeros(n_arms)
    task.losses[:n_arms], task.limits[:], task.costs[:, n_arms] = losses, limits, safe_costs
    status = lose_least(task, vertex, upper, safe, safe_costs, strategy)
    weight = float(vertex[n_arms])
    assert 0.0 <= weight <= 1.0
    assert strategy.min() >= 0.0
    assert abs(strategy.sum() - 1.0) <= 1e-12
    if limits.min() > 0.0:
        assert (weight * safe_costs + upper @ (strategy - weight * safe) <= limits + 1e-12).all()
    return Found(status, strategy, weight, float(losses @ strategy))


def test_a_basis_that_is_singular_is_left_behind() -> None:
    """Most upper bounds are equal, so a pivot may be rounding, and what it leads to no number."""
    parts = (np.array(UNSOLVED[name]) for name in ("losses", "upper", "limits", "safe_costs"))
    assert found(*parts).status == SOLVED


def test_bounds_that_hardly_differ() -> None:
    """Differences of 1e-12 to 1e-2: all are solved, at a loss that is the least but for the rounding of bounds."""
    rng, coarse = np.random.default_rng(2), 0
    for trial in range(6000):
        n_arms, m, apart = int(rng.integers(2, 31)), int(rng.integers(1, 13)), 10.0 ** rng.uniform(-12, -2)
        upper = 1.0 - apart * rng.integers(0, 4, (m, n_arms))
        upper[:, 0] = rng.uniform(0.3, 0.7, m)
        losses = rng.choice([-1.25, -1.25 + apart, -0.25, 0.2, rng.uniform(-1, 1)], n_arms)
        limits, safe_costs = np.full(m, 0.5), np.full(m, 0.15)
        outcome = found(losses, upper, limits, safe_costs)
        assert outcome.status == SOLVED
        if trial % 10 == 0:
            wanted = linprog(
                np.append(losses, losses[0]),
                A_ub=np.column_stack((upper, safe_costs)),
                b_ub=limits,
                A_eq=np.ones((1, n_arms + 1)),
                b_eq=[1.0],
            )
            assert outcome.loss == pytest.approx(wanted.fun, abs=1e-5)
            coarse += bool(abs(outcome.loss - wanted.fun) > 1e-7)
    assert coarse <= 12  # 0.7 % of all are rounded


@pytest.mark.parametrize(("limit", "status"), [(-1.0, EMPTY), (np.nan, UNDECIDED)])
def test_what_cannot_be_solved_leaves_what_is_safe(limit: float, status: int) -> None:
    outcome = found(np.array([0.9, 0.1]), np.array([[0.2, 0.6]]), np.array([limit]), np.array([0.2]))
    assert outcome.status == status
    assert outcome.weight == 1.0
    assert outcome.strategy.tolist() == [1.0, 0.0]
