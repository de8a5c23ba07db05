"""PrimalDual and QueuePrimalDual: contract, twins, the projection of the prices, and what they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surefoot as sf
from surefoot.policies.base import RAREST
from surefoot.policies.primal_dual import PrimalDual, project
from surefoot.policies.queue_primal_dual import QueuePrimalDual
from surefoot.testing import PolicyContract
from tests.policies.signed import signed_violations, slope
from tests.reference import primal_dual as twins


class TestMovingPricesContract(PolicyContract):
    learnt_share = None  # it shrinks losses by 1 + 2 / margin, in the contract 41

    @staticmethod
    def make(problem: sf.Problem, seed: int) -> sf.Policy[Any]:
        return PrimalDual(problem, seed, learning_rate=0.3, dual_rate=0.5)


@pytest.mark.parametrize("alpha", [[], [0.5], [0.3, 0.6, 0.1]])
@pytest.mark.parametrize("cls", [PrimalDual, QueuePrimalDual])
def test_kernels_follow_their_twins(cls: Any, alpha: list[float]) -> None:
    rng, safe = np.random.default_rng(len(alpha)), sf.SafeStrategy(np.eye(4)[3], [0.5 * a for a in alpha])
    problem = sf.Problem(4, alpha, 1000, 0.1, safe)
    policy, twin = cls(problem, 1), getattr(twins, cls.__name__)(4, 1000, alpha, 0.1, problem.margin)
    pressed = capped = 0
    for _ in range(1000):
        arm, loss, costs = int(rng.integers(4)), float(rng.random()), [float(rng.random() < 0.7) for _ in alpha]
        propensity = float(policy.strategy[arm])
        policy.tell(sf.Decision(arm, propensity), loss, costs)
        twin.round(arm, propensity, loss, costs)
        assert policy.strategy == pytest.approx(twin.x, abs=1e-9)
        if cls is PrimalDual:
            assert policy.duals == pytest.approx(twin.prices, abs=1e-9)
            capped += abs(policy.duals.sum() - 1 / problem.margin) < 1e-12
            pressed += bool((policy.duals > 0).any())
        else:
            assert policy.queues == pytest.approx(twin.Q, abs=1e-9)
            pressed += bool((policy.queues > 0).any())
    assert pressed > 100 or not alpha  # the branches were taken
    assert capped > 100 or not alpha or cls is QueuePrimalDual


@given(st.lists(st.floats(-10, 10), min_size=0, max_size=12), st.floats(0.01, 20))
def test_prices_are_projected_exactly(point: list[float], limit: float) -> None:
    """Optimality: x = max(0, v - mu) with mu >= 0, and mu > 0 only where the sum is at its limit."""
    before = np.array(point)
    after = before.copy()
    project(after, limit)
    assert optimal(before, after, limit)
    # the control: clipped and rescaled, which is feasible and not nearest
    rescaled = np.maximum(before, 0)
    if rescaled.sum() > limit and np.ptp(before) > 0.1 and (before > 0).all():
        assert not optimal(before, rescaled * limit / rescaled.sum(), limit)


def optimal(v: np.ndarray, x: np.ndarray, limit: float, tolerance: float = 1e-9) -> bool:
    if (x < 0).any() or x.sum() > limit + tolerance:
        return False
    shift = float((v - x)[x > 0].max(initial=0.0))  # the multiplier of the sum
    return (
        bool((np.abs(x - np.maximum(0, v - shift)) <= tolerance).all())
        and shift >= -tolerance
        and (shift <= tolerance or x.sum() >= limit - tolerance)
    )


def test_without_constraints_primal_dual_is_exp3_ix() -> None:
    problem = sf.Problem(4, [], 500)
    one, two = PrimalDual(problem, 3), sf.Exp3IX(problem, 3)
    rng = np.random.default_rng(0)
    for _ in range(500):
        loss = float(rng.random())
        one.tell(one.ask(), loss)
        two.tell(two.ask(), loss)
    assert (one.strategy == two.strategy).all()


def test_the_margin_must_come_from_somewhere() -> None:
    problem = sf.Problem(3, [0.5], 100)
    with pytest.raises(ValueError, match=r"problem must have a safe strategy for PrimalDual .*, got safe=None"):
        PrimalDual(problem)
    with pytest.raises(ValueError, match="margin must be in"):
        PrimalDual(problem, margin=0.0)
    policy = PrimalDual(problem, margin=0.25)
    assert policy._state.price_limit == 4.0
    safe = sf.Problem(3, [0.5], 100, safe=sf.SafeStrategy([1, 0, 0], [0.1]))
    with pytest.warns(UserWarning, match="the margin"):
        hair = sf.Problem(3, [1e-320], 100, safe=sf.SafeStrategy([1, 0, 0], [0.0]))
    assert PrimalDual(safe)._state.price_limit == 2.5
    strategy = PrimalDual(hair).strategy  # the inverse of the margin would be infinite
    assert np.isfinite(strategy).all()


def test_saved_prices_must_be_prices() -> None:
    policy = PrimalDual(sf.Problem(3, [0.5], 100), margin=0.25)
    data = policy.to_dict()
    data["state"]["duals"] = [5.0]
    with pytest.raises(ValueError, match=r"state.duals must sum to at most 1 / margin = 4, got a sum of 5"):
        PrimalDual.from_dict(data)
    data = QueuePrimalDual(sf.Problem(3, [0.5], 100)).to_dict()
    data["state"]["weights"] = [0.5, 0.1, 0.1]
    with pytest.raises(ValueError, match=r"state.weights must sum to 1, got a sum of 0.7"):
        QueuePrimalDual.from_dict(data)


@pytest.mark.parametrize("cls", [PrimalDual, QueuePrimalDual])
@pytest.mark.filterwarnings("ignore:the margin")
def test_nothing_overflows(cls: Any) -> None:
    """The largest losses, always on the same arm, at the least probability and an extreme rate."""
    safe = sf.SafeStrategy([0, 1], [0.0])
    for options in ({}, {"learning_rate": 1e6}, {"learning_rate": 1e-12}):
        policy = cls(sf.Problem(2, [1e-9], 10_000, safe=safe), **options)
        for _ in range(3000):
            policy.tell(sf.Decision(0, RAREST), 1.0, [1.0])
        assert np.isfinite(policy.strategy).all()
        assert policy.strategy.sum() == pytest.approx(1.0, abs=1e-12)
        assert cls.from_dict(policy.to_dict()).to_dict() == policy.to_dict()


def blind(problem: sf.Problem, seed: int) -> sf.Policy[Any]:
    return PrimalDual(problem, seed, dual_rate=1e-12)


def test_the_signed_violation_grows_sublinearly() -> None:
    """Its root mean square over 80 seeds, on a log-log scale: slopes, with controls that must be about 1.

    The false-alarm rate is below 1e-6: over 10 times 80 other seeds the slopes were 0.55 with a standard deviation
    of 0.04 for PrimalDual, 0.63 with 0.006 for QueuePrimalDual.
    """
    horizons = [2_000, 8_000, 32_000]
    policies: dict[str, Any] = {"pd": PrimalDual, "queue": QueuePrimalDual, "ix": sf.Exp3IX, "blind": blind}
    sizes: dict[str, list[float]] = {name: [] for name in policies}
    for horizon in horizons:
        scenario = sf.scenarios.make("three-arms-v1", horizon=horizon)
        run = sf.simulate(scenario, policies, seeds=80, checkpoints=[horizon], progress=False)
        for name, sums in signed_violations(run, scenario).items():
            sizes[name].append(float(np.sqrt((sums**2).mean())))
    slopes = {name: slope(horizons, np.array(size)) for name, size in sizes.items()}
    assert slopes["pd"] < 0.8
    assert slopes["queue"] < 0.8
    assert slopes["ix"] > 0.95
    assert slopes["blind"] > 0.95
