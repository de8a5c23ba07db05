"""Small linear programs against HiGHS: values, vertices, emptiness; degenerate, tied and infeasible ones by design."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from surefoot.analysis.optimum import widest_margin
from surefoot.kernels.layout import zeros
from surefoot.kernels.linear import Program, minimise
from surefoot.kernels.types import EMPTY, SOLVED
from surefoot.rules import Floats

KINDS = ("plain", "duplicate", "quarters", "zeros and ones", "signed", "tied", "nearly parallel", "tight")


def instance(kind: str, n_arms: int, n_constraints: int, seed: int) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    losses, costs = rng.random(n_arms), rng.random((n_constraints, n_arms))
    limits = rng.random(n_constraints) * rng.choice([0.3, 0.6, 1.0])
    if kind == "duplicate" and n_constraints > 1:
        costs[1], limits[1] = costs[0], limits[0]
        losses[-1], costs[:, -1] = losses[0], costs[:, 0]
    if kind == "quarters":
        losses, costs, limits = (np.round(4 * part) / 4 for part in (losses, costs, limits))
    if kind == "zeros and ones":
        costs, limits = np.round(costs), rng.choice([0.0, 0.5, 1.0], n_constraints)
    if kind == "signed":
        costs = 2 * costs - 1
    if kind == "tied":
        losses[:] = 0.5
    if kind == "nearly parallel" and n_constraints > 1:
        costs[1] = costs[0] + 1e-9 * rng.random(n_arms)
        limits[1] = limits[0]
    if kind == "tight":  # a single strategy is left, if any
        limits = costs @ rng.dirichlet(np.ones(n_arms))
    return losses, costs, limits


def solved(losses: Floats, costs: Floats, limits: Floats) -> tuple[int, Floats]:
    task = zeros(Program, K=losses.size, m=limits.size)
    task.losses[:], task.costs[:], task.limits[:] = losses, costs, limits
    strategy = np.zeros(losses.size)
    return minimise(task, strategy), strategy


def highs(losses: Floats, costs: Floats, limits: Floats) -> float | None:
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    answer = linprog(losses, costs, limits, np.ones((1, losses.size)), [1.0], method="highs-ds", options=tight)
    return None if answer.x is None else float(answer.fun)


@settings(max_examples=2000)
@given(st.sampled_from(KINDS), st.integers(2, 15), st.integers(0, 12), st.integers(0, 10**9))
def test_as_good_as_highs(kind: str, n_arms: int, n_constraints: int, seed: int) -> None:
    losses, costs, limits = instance(kind, n_arms, n_constraints, seed)
    status, strategy = solved(losses, costs, limits)
    assert strategy.min() >= 0
    assert abs(strategy.sum() - 1) < 1e-14
    assert np.count_nonzero(strategy) <= n_constraints + 1  # a vertex
    margin = widest_margin(costs, limits)[1] if n_constraints else 1.0
    if status == EMPTY:
        assert margin <= 1e-9
        assert (costs @ strategy - limits).max() == pytest.approx(-margin, abs=1e-9)  # as close as can be
    else:
        assert status == SOLVED
        assert margin >= -1e-9
        assert (costs @ strategy - limits).max(initial=0.0) <= 1e-10
        wanted = highs(losses, costs, limits)
        if wanted is not None:
            # in a set narrower than HiGHS's tolerance, its answer may lie a little outside and be a little better
            assert losses @ strategy == pytest.approx(wanted, abs=1e-10 if margin > 1e-8 else 1e-6)


def test_large_programs() -> None:
    for seed in range(20):
        losses, costs, limits = instance("plain", 300, 6, seed)
        limits = limits + 0.3
        status, strategy = solved(losses, costs, limits)
        assert status == SOLVED
        assert losses @ strategy == pytest.approx(highs(losses, costs, limits), abs=1e-10)


def test_every_kind_comes_with_room_and_without() -> None:
    # the control: were all instances empty, or none, the test above would say little
    for kind in KINDS:
        found = {solved(*instance(kind, 6, 3, seed))[0] for seed in range(200)}
        assert found == ({EMPTY, SOLVED} if kind != "tight" else {SOLVED}), kind
