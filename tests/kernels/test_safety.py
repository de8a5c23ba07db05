"""Mixing in what is safe: also where a linear program is not solved."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from surefoot.kernels.linear import program
from surefoot.kernels.safety import lose_least

UNSOLVED = json.loads((Path(__file__).parent / "unsolved.json").read_text())


def test_a_program_that_is_not_solved_leaves_what_is_safe() -> None:
    """Most upper bounds are equal, so a pivot may be rounding: the basis is singular and its solution no number."""
    upper, safe_costs = np.array(UNSOLVED["upper"]), np.array(UNSOLVED["safe_costs"])
    n_arms, safe = upper.shape[1], np.eye(upper.shape[1])[0]
    task, vertex, strategy = program(n_arms + 1, len(upper)), np.zeros(n_arms + 1), np.zeros(n_arms)
    task.losses[:n_arms], task.limits[:], task.costs[:, n_arms] = UNSOLVED["losses"], UNSOLVED["limits"], safe_costs
    weight = lose_least(task, vertex, upper, safe, safe_costs, strategy)
    assert 0.0 <= weight <= 1.0
    assert strategy.min() >= 0.0
    assert abs(strategy.sum() - 1.0) <= 1e-12
    rest = strategy - weight * safe
    assert (weight * safe_costs + upper @ rest <= task.limits + 1e-12).all()
