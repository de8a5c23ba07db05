"""The level of a projection over very many arms, where the rounding of long sums matters."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.kernels import dual
from surefoot.kernels.layout import zeros
from surefoot.rules import Floats
from tests.kernels.instances import Instance
from tests.kernels.kkt import residuals

N_ARMS, FLOOR = 10_000, 1e-7


def plain(kernel: object) -> object:
    """The Python function behind a kernel: it adds one term after the other, whatever the machine."""
    return getattr(kernel, "py_func", kernel)


def scores_after_a_loss(rng: np.random.Generator, strategy: Floats, rates: Floats) -> Floats:
    scores = 1 / (rates * strategy)
    arm = rng.integers(N_ARMS)
    scores[arm] += 3 * rng.random() / strategy[arm]
    return scores


def count_steps(monkeypatch: pytest.MonkeyPatch, tile: int) -> tuple[list[int], list[float]]:
    """How many Newton steps the level takes in each of ten rounds, and how far from 1 the last sum was."""
    sums: list[float] = []
    moments = plain(dual.free_moments)

    def noted(strategy: Floats, rates: Floats, floor: float) -> tuple[float, float, int]:
        found: tuple[float, float, int] = moments(strategy, rates, floor)  # type: ignore[operator]
        sums.append(found[0])
        return found

    monkeypatch.setattr(dual, "free_moments", noted)
    monkeypatch.setattr(dual, "TILE", tile)
    rng, n_tiles = np.random.default_rng(0), -(-N_ARMS // tile)
    work, rates, strategy = zeros(dual.Workspace, K=N_ARMS, m=0), np.full(N_ARMS, 0.05), np.full(N_ARMS, 1 / N_ARMS)
    task = dual.Task(rates, 0.05, np.zeros((0, N_ARMS)), np.zeros(0), FLOOR, strategy, np.zeros(0), *work)
    steps, errors = [], []
    for _ in range(10):
        work.arms[dual.BASE] = scores_after_a_loss(rng, strategy, rates)
        sums.clear()
        plain(dual.normalise)(task, dual.BASE, 0.0, dual.LAST_STEP)  # type: ignore[operator]
        steps.append(len(sums) // n_tiles)
        errors.append(abs(sum(sums[-n_tiles:]) - 1))
        dual.settle_sum(strategy)
    return steps, errors


def test_newton_stops_when_only_rounding_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """One long sum is too noisy for the accuracy asked for. Newton must notice, not go back and forth 200 times."""
    steps, errors = count_steps(monkeypatch, tile=10**9)
    assert max(errors) * N_ARMS**0.5 > dual.LAST_STEP  # the control: the accuracy was out of reach
    assert max(steps) <= 20


def test_sums_in_tiles_have_less_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    tile = dual.TILE
    _, long = count_steps(monkeypatch, tile=10**9)
    monkeypatch.undo()
    steps, short = count_steps(monkeypatch, tile)
    assert max(short) < 0.5 * max(long)
    assert max(steps) <= 5


@pytest.mark.parametrize("n_constraints", [0, 1, 3])
@pytest.mark.parametrize("n_arms", [dual.TILE, dual.TILE + 1, 30_000])
def test_answers_over_many_arms_are_optimal(n_arms: int, n_constraints: int) -> None:
    rng = np.random.default_rng([n_arms, n_constraints])
    center = rng.uniform(0.5, 1.5, n_arms)
    center /= center.sum()
    loss = np.zeros(n_arms)
    loss[rng.integers(n_arms)] = n_arms
    lower = rng.random((n_constraints, n_arms))
    limits = lower @ center - 0.001 * rng.random(n_constraints)
    instance = Instance(center, 0.05 * rng.uniform(1, 3, n_arms), loss, lower, limits, 1e-9)
    found = residuals(instance, sf.project(*instance))
    assert found.violation <= 1e-12
    assert found.below_floor == 0.0
    assert found.worst() <= 1e-10
