"""Kernels against their slow twins, on whole trajectories with the arms forced."""

from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.policies.base import generator
from surefoot.policies.guarded import Guarded
from tests.policies.constants import shrink_allowance, shrink_radius
from tests.reference.algorithms import Colb, Solb

# (K, T, thresholds, safe strategy, its costs, learning rate)
CASES: dict[str, Any] = {
    "no constraint": (4, 80, [], [1, 0, 0, 0], [], 0.3),
    "one constraint": (4, 120, [0.5], [0, 0, 0, 1], [0.2], 0.2),
    "two constraints": (3, 120, [0.5, 0.6], [0.5, 0.5, 0], [0.3, 0.4], 0.1),
    "arms as many as rounds": (6, 6, [0.4], [0, 0, 0, 0, 0, 1], [0.1], 0.5),
    "a threshold of 1": (3, 60, [1.0, 0.3], [1, 0, 0], [0.5, 0.1], 0.2),
    "a threshold of 0": (3, 60, [0.0], None, None, 0.2),
    "nothing is safe": (3, 60, [0.3], [0, 0, 1], [0.1], 0.2),
}
TIGHT = {"one constraint", "two constraints", "a threshold of 0"}  # here constraints become active ...
EMPTY = {"nothing is safe"}  # ... and here sets become empty, once the radius is small


def feedback(
    n_arms: int, n_constraints: int, horizon: int, seed: int, least_cost: float
) -> list[tuple[int, float, list[float]]]:
    """Arms, losses and costs. The better an arm, the costlier: mirror descent is driven into the constraints."""
    rng = np.random.default_rng(seed)
    means = np.linspace(0.05, 0.95, n_arms)
    rounds = []
    for _ in range(horizon):
        arm = int(rng.integers(n_arms))
        costs = [float(rng.random() < max(least_cost, np.roll(means[::-1], i)[arm])) for i in range(n_constraints)]
        rounds.append((arm, float(rng.random() < means[arm]), costs))
    return rounds


@pytest.mark.parametrize("shrink", [1.0, 0.002], ids=["paper radius", "radius shrunk until sets are tight"])
@pytest.mark.parametrize(
    "kind", ["colb", "solb", "colb doubling", "solb doubling", "solb weighted", "solb weighted doubling"]
)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:the margin")
def test_kernels_follow_their_twins(name: str, kind: str, shrink: float) -> None:
    n_arms, horizon, alpha, safe, theta, eta = CASES[name]
    hard, doubling, weighted = "solb" in kind, "doubling" in kind, "weighted" in kind
    if hard and safe is None:
        pytest.skip("no strategy is strictly safe under a threshold of 0")
    problem = sf.Problem(n_arms, alpha, horizon, 0.1, sf.SafeStrategy(safe, theta) if hard else None)
    eta = 0.5 if doubling else eta
    options: dict[str, Any] = {"estimator": "weighted"} if weighted else {}
    rate = "doubling" if doubling else eta
    policy: Guarded = (sf.SOLB if hard else sf.COLB)(problem, 1, preset="paper", learning_rate=rate, **options)
    scale = shrink_radius(policy, shrink)
    # K ln T is more than so few rounds can spend
    allowance = shrink_allowance(policy, 0.02 if hard else 0.15) if doubling else np.inf
    # the twin knows the radius as 4 ln(T K m / delta): a delta that no Problem would take shrinks it
    delta = horizon * n_arms * len(alpha) / np.exp(scale / 4) if alpha else 0.1

    twin_rng = generator(1)

    def scatter() -> np.ndarray:
        draws = twin_rng.standard_exponential(n_arms)
        return np.asarray(1 / horizon + (1 - n_arms / horizon) * draws / draws.sum())

    arguments = (n_arms, horizon, alpha, delta, eta, scatter)
    twin = Solb(*arguments, safe, theta, allowance, weighted) if hard else Colb(*arguments, allowance)
    active = increases = 0
    for arm, loss, costs in feedback(n_arms, len(alpha), horizon, len(name), 0.8 if name in EMPTY else 0.0):
        propensity = float(policy.strategy[arm])
        if propensity < 1e-12:
            continue
        policy.tell(sf.Decision(arm, propensity, 1 - policy.safe_weight), loss, costs)
        twin.round(arm, loss, costs)
        assert policy.strategy == pytest.approx(twin.played(), abs=1e-9)
        assert policy.proposal == pytest.approx(twin.x, abs=1e-9)
        assert policy.safe_weight == pytest.approx(getattr(twin, "gamma", 0.0), abs=1e-9)
        assert policy.lower_costs == pytest.approx(twin.g - twin.beta, abs=1e-12)
        assert policy.upper_costs == pytest.approx(twin.g + twin.beta, abs=1e-12)
        assert policy.learning_rates == pytest.approx(twin.eta, rel=1e-12)
        assert policy.inverse_caps == pytest.approx(twin.h, rel=1e-8)
        assert getattr(policy, "restarts", 0) == twin.restarts
        increases += bool((policy.learning_rates > 1.0001 * policy._state.learner.base_rate[0]).any())
        active += bool((policy._state.learner.multipliers > 0).any())
    # the branches were taken
    assert increases > 0 or n_arms == horizon or name in EMPTY or doubling  # restarts undo them
    assert twin.restarts > 0 or not doubling or n_arms == horizon
    if shrink < 1:
        assert active >= 5 or name not in TIGHT
        assert policy.empty_rounds >= 5 or name not in EMPTY
