"""The best strategy in hindsight, and the safest one: small linear programs, solved by HiGHS and then polished.

HiGHS stops when constraints hold to its tolerance. A linear program's optimum lies at a vertex, and the solution of
HiGHS shows clearly which one, so `vertex` solves the equations of that vertex again, to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from surefoot.problem import Infeasible, SafeStrategy
from surefoot.rules import SHARE, Floats, Range, RuleError, frozen, numbers

TOTAL_LOSS = Range(-1e15, 1e15)
MET = 1e-9
"""Tolerance within which thresholds count as met."""
NO_MARGIN = 1e-12
"""A margin up to this size is rounding error."""
TIGHTEST = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Benchmark(NamedTuple):
    """The best strategy in hindsight (x*), and its total loss (L*)."""

    strategy: Floats
    value: float


def offline_optimum(total_losses: ArrayLike, mean_costs: ArrayLike, thresholds: ArrayLike) -> Benchmark:
    """The strategy with the least total loss among those whose mean costs keep the thresholds (Program (1)).

    Parameters
    ----------
    total_losses
        The loss of each arm summed over the rounds, (K,).
    mean_costs
        The expected cost of each arm under each guardrail, (m, K), in [0, 1].
    thresholds
        (m,), in [0, 1].

    Raises
    ------
    Infeasible
        If no strategy meets the thresholds; the message says which cannot be met together.

    Examples
    --------
    >>> import surefoot as sf
    >>> sf.offline_optimum([10.0, 20.0, 60.0], [[0.9, 0.5, 0.1]], [0.5])
    Benchmark(strategy=array([0., 1., 0.]), value=20.0)
    """
    losses = numbers("total_losses", total_losses, TOTAL_LOSS, None)
    costs, limits = _checked(mean_costs, thresholds, losses.size)
    scale = float(np.abs(losses).max()) or 1.0
    found = solve(losses / scale, costs, limits)
    if found is None:
        raise Infeasible(conflict(costs, limits, -MET))
    return Benchmark(frozen(found), float(losses @ found))


def safest_strategy(mean_costs: ArrayLike, thresholds: ArrayLike) -> SafeStrategy:
    """The strategy whose smallest margin under the thresholds is largest, with its costs (x^diamond and theta).

    Raises
    ------
    Infeasible
        If even that margin is not positive.

    Examples
    --------
    >>> import surefoot as sf
    >>> safe = sf.safest_strategy([[0.9, 0.2], [0.1, 0.6]], [0.5, 0.5])
    >>> safe.strategy.round(3), safe.costs.round(3)
    (array([0.333, 0.667]), array([0.433, 0.433]))
    """
    costs, limits = _checked(mean_costs, thresholds, None)
    if limits.size == 0:
        return SafeStrategy(np.full(costs.shape[1], 1.0 / costs.shape[1]), costs[:, 0])
    found, margin = widest_margin(costs, limits)
    if margin <= NO_MARGIN:
        raise Infeasible(conflict(costs, limits, NO_MARGIN))
    return SafeStrategy(found, costs @ found)


def _checked(mean_costs: ArrayLike, thresholds: ArrayLike, n_arms: int | None) -> tuple[Floats, Floats]:
    limits = numbers("thresholds", thresholds, SHARE, None)
    costs = numbers("mean_costs", mean_costs, SHARE, limits.size, n_arms)
    if costs.shape[1] < 1:
        raise RuleError("mean_costs", "have a column for each arm", mean_costs, f"shape {costs.shape}")
    return costs, limits


def solve(losses: Floats, costs: Floats, limits: Floats) -> Floats | None:
    """The vertex of {simplex, costs @ x <= limits} that minimises the loss; None if there is none."""
    n_arms = losses.size
    answer = linprog(losses, costs, limits, np.ones((1, n_arms)), [1.0], method="highs-ds", options=TIGHTEST)
    if answer.x is None:  # empty, or too thin for HiGHS: widen it by the tolerance
        if limits.size == 0 or widest_margin(costs, limits)[1] < -MET:
            return None
        answer = linprog(losses, costs, limits + MET / 2, np.ones((1, n_arms)), [1.0], method="highs-ds")
        return np.asarray(answer.x / answer.x.sum()) if answer.x is not None else None
    return vertex(answer.x, costs, limits)


def vertex(rough: Floats, costs: Floats, limits: Floats) -> Floats:
    """The vertex near a solution that is feasible to solver tolerance: same support, same tight constraints, exact."""
    support = rough > 1e-12
    tight = limits - costs @ rough < 1e-10
    equations = np.vstack([np.ones(support.sum()), costs[np.ix_(tight, support)]])
    wanted = np.concatenate([[1.0], limits[tight]])
    exact = np.zeros_like(rough)
    exact[support] = rough[support]
    for _ in range(2):  # the smallest correction that solves the equations; the second removes its rounding
        exact[support] += np.linalg.lstsq(equations, wanted - equations @ exact[support], rcond=1e-12)[0]
    fits = exact.min() >= 0.0 and (costs @ exact - limits).max(initial=0.0) <= 1e-12
    if not fits:
        exact = np.maximum(rough, 0.0)
    exact = np.maximum(exact, 0.0)
    return np.asarray(exact / exact.sum())


def widest_margin(costs: Floats, limits: Floats) -> tuple[Floats, float]:
    """The strategy with the largest smallest margin, and that margin."""
    n_constraints, n_arms = costs.shape
    answer = linprog(
        np.append(np.zeros(n_arms), -1.0),
        np.hstack([costs, np.ones((n_constraints, 1))]),
        limits,
        np.append(np.ones(n_arms), 0.0)[None, :],
        [1.0],
        bounds=[(0, None)] * n_arms + [(None, None)],
        method="highs-ds",
        options=TIGHTEST,
    )
    strategy = vertex(answer.x[:-1], costs, limits - answer.x[-1])
    return strategy, float((limits - costs @ strategy).min())


def conflict(costs: Floats, limits: Floats, margin: float) -> str:
    """A smallest set of thresholds that cannot be met together with more than this margin.

    It is found by leaving out thresholds one at a time.
    """
    left = list(range(limits.size))
    for i in range(limits.size):
        fewer = [j for j in left if j != i]
        if fewer and widest_margin(costs[fewer], limits[fewer])[1] <= margin:
            left = fewer
    named = " and ".join(f"thresholds[{i}] = {limits[i]:g}" for i in left)
    shortfall = -widest_margin(costs[left], limits[left])[1]
    best = f"every strategy misses one by at least {shortfall:.3g}" if shortfall > MET else "there is no margin left"
    return f"{named} cannot be met{' together' if len(left) > 1 else ''}: {best}"
