"""Confidence bounds of peers that keep their own: exact Hoeffding radii, valid at all rounds up to the horizon."""

from __future__ import annotations

import math

import numpy as np

from surefoot.kernels.costs import Costs, bound, unknown_costs
from surefoot.problem import Problem


def hoeffding_costs(problem: Problem) -> Costs:
    """Nothing known of the costs yet; with probability 1 - delta all of them stay within the bounds, in all rounds."""
    return unknown_costs(problem.n_arms, problem.n_constraints, hoeffding_scale(problem, problem.n_constraints))


def hoeffding_losses(problem: Problem, widening: float = 1.0) -> Costs:
    """The same for stochastic losses, as one row; the radius is widened by a factor."""
    return unknown_costs(problem.n_arms, 1, widening**2 * hoeffding_scale(problem, 1))


def hoeffding_scale(problem: Problem, rows: int) -> float:
    """The squared radius after one observation: ln(2 T K m / delta) / 2, by Hoeffding and a union over all rounds."""
    return 0.5 * math.log(2.0 * problem.horizon * problem.n_arms * max(rows, 1) / problem.delta)


def restore(rounds: int, *estimates: Costs) -> None:
    """Set the bounds of estimates that were loaded, if their counts fit the number of rounds."""
    for loaded in estimates:
        if loaded.counts.sum() != rounds:
            raise ValueError(f"state.counts must sum to round = {rounds}, got a sum of {loaded.counts.sum()}")
        for arm in np.flatnonzero(loaded.counts):
            bound(loaded, int(arm))
