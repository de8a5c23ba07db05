"""Kernels against their slow twins, on whole trajectories with the arms forced."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.policies.mirror import MirrorDescent
from tests.reference.algorithms import Colb, Solb

# (K, T, thresholds, safe strategy, its costs, learning rate); costs around the thresholds, so that sets are tight
CASES = {
    "no constraint": (4, 80, [], [1, 0, 0, 0], [], 0.3),
    "one constraint": (4, 120, [0.5], [0, 0, 0, 1], [0.2], 0.2),
    "two constraints": (3, 120, [0.5, 0.6], [0.5, 0.5, 0], [0.3, 0.4], 0.1),
    "arms as many as rounds": (6, 6, [0.4], [0, 0, 0, 0, 0, 1], [0.1], 0.5),
    "a threshold of 1": (3, 60, [1.0, 0.3], [1, 0, 0], [0.5, 0.1], 0.2),
    "a threshold of 0": (3, 60, [0.0], None, None, 0.2),
}


def feedback(n_arms: int, n_constraints: int, horizon: int, seed: int) -> list[tuple[int, float, list[float]]]:
    """Arms, losses and costs; one arm is played a lot, so that its radius shrinks, and one is never safe."""
    rng = np.random.default_rng(seed)
    means = np.linspace(0.05, 0.95, n_arms)
    rounds = []
    for _ in range(horizon):
        arm = int(rng.choice([0, n_arms - 1, rng.integers(n_arms)]))
        rounds.append((arm, float(rng.random() < means[arm]), [float(rng.random() < means[arm])] * n_constraints))
    return rounds


@pytest.mark.parametrize("shrink", [1.0, 0.02], ids=["paper radius", "radius shrunk until the set is tight"])
@pytest.mark.parametrize("hard", [False, True], ids=["colb", "solb"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:the margin")
def test_kernels_follow_their_twins(name: str, hard: bool, shrink: float) -> None:
    n_arms, horizon, alpha, safe, theta, eta = CASES[name]
    if hard and safe is None:
        pytest.skip("no strategy is strictly safe under a threshold of 0")
    # delta enters through ln(T K m / delta) alone: a delta near 1 and beyond what a Problem takes shrinks the radius
    problem = sf.Problem(n_arms, alpha, horizon, 0.1, sf.SafeStrategy(safe, theta) if hard else None)
    policy: MirrorDescent = (sf.SOLB if hard else sf.COLB)(problem, seed=1, learning_rate=eta)
    known = policy._state.known
    policy._state = policy._state._replace(known=known._replace(scale=known.scale * shrink))
    policy._leaves = tuple(leaf * shrink if leaf is known.scale else leaf for leaf in policy._leaves)
    delta = horizon * n_arms * len(alpha) / np.exp(known.scale * shrink / 4) if alpha else 0.1

    twin_rng = np.random.Generator(np.random.PCG64(1))

    def scatter() -> np.ndarray:
        draws = twin_rng.standard_exponential(n_arms)
        return 1 / horizon + (1 - n_arms / horizon) * draws / draws.sum()

    arguments = (n_arms, horizon, alpha, delta, eta, scatter)
    twin = Solb(*arguments, safe, theta) if hard else Colb(*arguments)  # type: ignore[arg-type]
    increases = 0
    for arm, loss, costs in feedback(n_arms, len(alpha), horizon, seed=len(name)):
        propensity = float(policy.strategy[arm])
        if propensity < 1e-12:
            continue
        policy.tell(sf.Decision(arm, propensity), loss, costs)
        twin.round(arm, loss, costs)
        assert policy.strategy == pytest.approx(twin.played(), abs=5e-6)
        assert policy.proposal == pytest.approx(twin.x, abs=5e-6)
        assert policy.safe_weight == pytest.approx(getattr(twin, "gamma", 0.0), abs=5e-6)
        assert policy.lower_costs == pytest.approx(twin.g - twin.beta, abs=1e-12)
        assert policy.upper_costs == pytest.approx(twin.g + twin.beta, abs=1e-12)
        assert policy.learning_rates == pytest.approx(twin.eta, rel=1e-12)
        assert policy.inverse_caps == pytest.approx(twin.h, rel=1e-4)
        increases = int((policy.learning_rates > eta).sum())
    assert increases > 0 or n_arms == horizon  # the branch that raises rates was taken
