from typing import cast

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from surefoot.kernels.costs import CostBound, observe, unknown_costs
from surefoot.kernels.episode import draw
from surefoot.kernels.layout import layout_of
from surefoot.kernels.learner import Learner, descend, scatter, start_learner
from surefoot.rules import Floats

NO_LIMITS = np.zeros(0)


def new_learner(
    n_arms: int, rate: float, floor: float, growth: float, limits: Floats = NO_LIMITS, allowance: float = np.inf
) -> Learner:
    draft = layout_of(Learner).new(K=n_arms, m=limits.size)
    start_learner(draft, n_arms, limits, rate, floor, growth, allowance)
    return cast(Learner, draft.opened())


def test_draw_lays_the_shares_end_to_end() -> None:
    strategy = np.array([0.2, 0.0, 0.5, 0.3])
    for uniform, arm in ((0.0, 0), (0.19, 0), (0.21, 2), (0.69, 2), (0.71, 3), (1 - 1e-16, 3)):
        assert draw(strategy, uniform) == arm
    assert draw(np.array([1.0, 0.0]), 1 - 1e-17) == 0  # rounding never leads to an arm without a share
    assert draw(np.array([0.3, 0.3, 0.3, 0.0]), 0.95) == 2


def test_observe_keeps_means_and_bounds_of_the_played_arm_only() -> None:
    known = unknown_costs(3, 2, CostBound(scale=5.0))
    assert (known.lower == -1).all()
    assert (known.upper == 1).all()
    for cost in (0.2, 0.4, 0.9):
        observe(known, 1, np.array([cost, 0.0]))
    assert known.counts.tolist() == [0, 3, 0]
    assert known.means[:, 1] == pytest.approx([0.5, 0.0])
    assert known.upper[:, 1] == pytest.approx([1.5, 1.0])  # sqrt(5 / 3) is above 1: the radius is cut there
    for _ in range(497):
        observe(known, 1, np.array([0.5, 0.0]))
    assert known.upper[0, 1] - known.means[0, 1] == pytest.approx(np.sqrt(5 / 500))
    assert known.means[0, 1] - known.lower[0, 1] == pytest.approx(np.sqrt(5 / 500))
    assert (known.lower[:, [0, 2]] == -1).all()


def test_means_stay_exact_over_many_rounds() -> None:
    rng = np.random.default_rng(0)
    known, costs = unknown_costs(2, 1, CostBound(scale=1.0)), rng.random(100_000)
    for cost in costs:
        observe(known, 0, np.array([cost]))
    assert known.means[0, 0] == pytest.approx(costs.mean(), rel=1e-12)


def test_rates_grow_when_an_arm_falls_below_its_cap_and_only_then() -> None:
    learner, known = new_learner(4, 0.5, 1e-4, 1.2), unknown_costs(4, 0, CostBound(scale=1.0))
    increases = 0
    for _ in range(200):
        before = learner.learning_rates.copy(), learner.inverse_caps.copy()
        descend(learner, known, 0, 1.0 / learner.proposal[0], 1.0)
        for a in range(4):
            if 1 / learner.proposal[a] > before[1][a]:
                increases += 1
                assert learner.learning_rates[a] == before[0][a] * 1.2
                assert learner.inverse_caps[a] == 2 / learner.proposal[a]
            else:
                assert learner.learning_rates[a] == before[0][a]
                assert learner.inverse_caps[a] == before[1][a]
    assert increases >= 3


def uniformity(points: Floats, floor: float) -> float:
    """P-value: under the uniform law on the truncated simplex each free share is Beta(1, K - 1)."""
    n_arms = points.shape[1]
    free = (points - floor) / (1 - n_arms * floor)
    p_values = [kstest(free[:, a], "beta", args=(1, n_arms - 1)).pvalue for a in range(n_arms)]
    return float(chi2.sf(-2 * np.log(p_values).sum(), 2 * n_arms))  # Fisher; the shares are nearly independent


def test_scatter_draws_uniformly_from_the_truncated_simplex() -> None:
    # false alarm below 1e-4 (the p-values of the shares are slightly dependent, hence the margin to 1e-6)
    floor, rng = 0.02, np.random.default_rng(1)
    learner = new_learner(5, 0.1, floor, 1.1)
    points, wrong = [], []
    for _ in range(4000):
        scatter(learner, rng.standard_exponential(5))
        points.append(learner.proposal.copy())
        assert abs(learner.proposal.sum() - 1) < 1e-14
        scatter(learner, rng.random(5))  # the control: normalised uniforms are not uniform on the simplex
        wrong.append(learner.proposal.copy())
    assert np.min(points) >= floor
    assert uniformity(np.array(points), floor) > 1e-6
    assert uniformity(np.array(wrong), floor) < 1e-6


def test_an_absurd_estimate_of_no_weight_spends_nothing() -> None:
    """Its square is infinite, and infinity times 0 no number."""
    learner = new_learner(3, 0.1, 1e-3, 1.1, np.array([0.9]))
    descend(learner, unknown_costs(3, 1, CostBound(scale=5.0)), 0, 1e300, 0.0)
    assert learner.spent[0] == 0.0
    descend(learner, unknown_costs(3, 1, CostBound(scale=5.0)), 0, 1e300, 0.5)
    assert 0.0 < learner.spent[0] <= 1e300
