"""The entropy projection, by its optimality conditions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings

from surefoot.analysis.optimum import widest_margin
from surefoot.kernels.entropy import Entropy, project_entropy
from surefoot.kernels.layout import zeros
from surefoot.kernels.types import EMPTY
from surefoot.rules import Floats
from tests.strategies import Source, drawn, program


class Step(NamedTuple):
    """What `project_entropy` is given."""

    center: Floats
    losses: Floats
    costs: Floats
    limits: Floats


def one_step(source: Source) -> Step:
    """A step after a round, from a strategy inside the simplex."""
    losses, costs, limits = program(source, 12, 6)
    n_arms, arm = losses.size, source.integer(0, losses.size - 1)
    losses *= source.choice([0.01, 1.0, 10.0]) * np.eye(n_arms)[arm]
    costs = 1.7 * costs - 0.7
    relation = source.choice(["none", "duplicate", "parallel"])
    if relation != "none" and limits.size > 1:
        factor = 1.0 if relation == "duplicate" else 0.5
        costs[1], limits[1] = factor * costs[0], factor * limits[0]
    return Step(0.99 * source.distribution(n_arms) + 0.01 / n_arms, losses, costs, limits)


@settings(max_examples=1500)
@given(drawn(one_step, 3))
def test_optimality_conditions(step: Step) -> None:
    center, losses, costs, limits = step
    n_constraints, n_arms = costs.shape
    strategy, work = np.zeros(n_arms), zeros(Entropy, m=n_constraints)
    status = project_entropy(center, losses, costs, limits, strategy, work)
    margin = widest_margin(costs, limits)[1] if n_constraints else 1.0
    if status == EMPTY:
        assert margin <= 1e-6
        return
    excess = costs @ strategy - limits
    held = work.multipliers > 0
    assert margin >= -1e-8
    assert abs(strategy.sum() - 1) < 1e-13
    assert work.multipliers.min(initial=0.0) >= 0
    assert excess.max(initial=0.0) <= 1e-10
    assert np.abs(excess[held]).max(initial=0.0) <= 1e-10  # complementarity
    stationary = np.log(strategy / center) + losses + work.multipliers @ costs  # the same for all arms
    assert np.ptp(stationary) <= 1e-10 * (1 + np.abs(work.multipliers @ costs).max(initial=0.0))


def test_constraints_are_active_and_sets_empty_on_the_way() -> None:
    rng = np.random.default_rng(0)
    active, empty = 0, 0
    for _ in range(300):
        costs, limits, work = rng.random((2, 4)), rng.random(2), zeros(Entropy, m=2)
        status = project_entropy(np.full(4, 0.25), np.array([1.0, 0, 0, 0]), costs, limits, np.zeros(4), work)
        empty += status == EMPTY
        active += status != EMPTY and work.multipliers.max() > 0
    assert active > 50
    assert empty > 30


@pytest.mark.parametrize(
    ("center", "losses", "costs", "limits"),
    [
        ([0.303, 0.697], [0, 0.004], [[-0.578, 0.412], [-0.133, 0.821], [0.41, 0.856]], [0, 0.344, 0.634]),
        ([1e-14, 1 - 1e-14], [0, 0], [[0.54, 0.87], [0.21, 0.42]], [0.71, 0.32]),
    ],
)
def test_multipliers_next_to_zero_block_nothing(center: Any, losses: Any, costs: Any, limits: Any) -> None:
    # on these a constraint that has just let go once made every step useless, and the set was called empty
    strategy, work = np.zeros(2), zeros(Entropy, m=len(limits))
    rows, most = np.array(costs, float), np.array(limits, float)
    status = project_entropy(np.array(center, float), np.array(losses, float), rows, most, strategy, work)
    assert status != EMPTY
    assert (rows @ strategy <= most + 1e-10).all()
