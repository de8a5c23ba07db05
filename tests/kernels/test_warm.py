"""The projection from where the last one was: right whenever it says so, and nearly always when little has moved."""

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings

from surefoot.kernels.dual import BASE, Workspace
from surefoot.kernels.layout import zeros
from surefoot.kernels.projection import project
from surefoot.kernels.types import EMPTY
from surefoot.kernels.warm import resume
from surefoot.policies.projection import Projection
from surefoot.rules import Floats
from tests.kernels.instances import ROWS, Instance, emptiness, projection
from tests.kernels.kkt import residuals
from tests.strategies import Source, drawn, signed


class Round(NamedTuple):
    """An instance with one rate for all arms, where to start, and how little has moved since: one arm."""

    instance: Instance
    start: Projection
    arm: int
    moves: Floats


def one_round(source: Source) -> Round:
    """Start at the solution of an instance, or anywhere if there is none."""
    given = projection(source, larger=(20, 50, 300))
    n_arms, n_constraints = given.center.size, given.limits.size
    instance = given._replace(learning_rates=np.full(n_arms, given.learning_rates[0]))
    anywhere = Projection(
        source.distribution(n_arms) + instance.floor, 10.0 ** (9 * signed(source.numbers(n_constraints)))
    )
    size = source.choice([1e-9, 1e-3, 0.1, 3.0])
    moves = 2 * size * signed(source.numbers(1 + n_constraints))
    return Round(instance, cold(instance) or anywhere, source.integer(0, n_arms - 1), moves)


def prepare(instance: Instance) -> Workspace:
    work: Workspace = zeros(Workspace, K=instance.center.size, m=instance.limits.size)
    work.arms[BASE] = 1 / (instance.learning_rates * instance.center) + instance.loss_estimate
    return work


def cold(instance: Instance) -> Projection | None:
    strategy, multipliers = np.empty_like(instance.center), np.empty_like(instance.limits)
    rates, lower, limits, floor = instance.learning_rates, instance.lower_costs, instance.limits, instance.floor
    status = project(rates, lower, limits, floor, strategy, multipliers, prepare(instance))
    return None if status == EMPTY else Projection(strategy, multipliers)


def warm(instance: Instance, strategy: Floats, multipliers: Floats) -> Projection | None:
    strategy, multipliers = strategy.copy(), multipliers.copy()
    rate, lower, limits, floor = instance.learning_rates[0], instance.lower_costs, instance.limits, instance.floor
    solved = resume(rate, lower, limits, floor, strategy, multipliers, prepare(instance))
    return Projection(strategy, multipliers) if solved else None


def check(instance: Instance, answer: Projection) -> None:
    """As strict as the test of `project`."""
    found = residuals(instance, answer)
    assert found.violation <= 1e-9
    assert found.below_floor == 0.0
    assert found.excess <= 1e-14
    if found.worst() > 1e-10:
        assert abs(emptiness(instance.lower_costs, instance.limits, instance.floor)) < 1e-9, found


def nudged(instance: Instance, at: Projection, arm: int, moves: Floats) -> Instance:
    """The next round: one arm's score (the first move) and costs have moved."""
    loss, lower = instance.loss_estimate.copy(), instance.lower_costs.copy()
    loss[arm] += moves[0] / (instance.learning_rates[arm] * at.strategy[arm])
    lower[:, arm] += moves[1:] * 1e-3
    return instance._replace(loss_estimate=loss, lower_costs=lower)


@settings(max_examples=1000)
@given(drawn(one_round, ROWS + 3))
def test_whatever_it_calls_solved_is(given: Round) -> None:
    after = nudged(*given)
    answer = warm(after, *given.start)
    if answer is not None:
        check(after, answer)


def test_it_rarely_fails_when_little_has_moved() -> None:
    """Ordinary sets, with room; a control that returns where it was is not optimal."""
    rng, failed, still = np.random.default_rng(3), 0, 0
    for _ in range(2000):
        n_arms, m = int(rng.integers(2, 60)), int(rng.integers(0, 5))
        lower, center = rng.random((m, n_arms)), rng.dirichlet(np.ones(n_arms)) * 0.9 + 0.1 / n_arms
        rates, loss = np.full(n_arms, 10 ** rng.uniform(-3, 0)), 10 ** rng.uniform(-1, 4) * rng.random(n_arms)
        instance = Instance(center, rates, loss, lower, lower @ center + rng.random(m) * 0.1, 1e-5)
        start = cold(instance)
        assert start is not None
        after = nudged(instance, start, int(rng.integers(n_arms)), 0.03 * rng.normal(size=1 + m))
        answer = warm(after, *start)
        failed += answer is None
        if answer is not None:
            check(after, answer)
        still += residuals(after, start).worst() < 1e-10
    assert failed < 40
    assert still < 40
