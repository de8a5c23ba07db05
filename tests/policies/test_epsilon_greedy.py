"""EpsilonGreedy: its schedule against a twin, and what it is for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.policies.epsilon_greedy import EpsilonGreedy

GAP, HORIZON = 0.4, 4_000
PROBLEM = sf.Problem(3, [], HORIZON)
WORLD = sf.Scenario("mine-v1", PROBLEM, sf.losses.Bernoulli([0.7, 0.3, 0.7]), sf.costs.Bernoulli(np.zeros((0, 3))))


def follows(c: float, first: int) -> bool:
    """Whether the strategies are those of epsilon_t = min(1, c K / (gap^2 t)), rounds counted from `first`."""
    policy, rng = EpsilonGreedy(PROBLEM, 1, gap=GAP), np.random.default_rng(0)
    met: list[list[float]] = [[], [], []]
    leaders = set()
    for t in range(400):
        epsilon = min(1.0, c * 3 / (GAP**2 * max(1, t + first)))
        best = int(np.argmin([sum(losses) / max(1, len(losses)) for losses in met]))
        expected = [epsilon / 3 + (1 - epsilon) * (arm == best) for arm in range(3)]
        if policy.strategy.tolist() != pytest.approx(expected, abs=1e-12):
            return False
        arm, loss = int(rng.integers(3)), float(rng.random())
        policy.tell((arm, 0.4), loss)
        met[arm].append(loss)
        leaders.add(best)
    assert len(leaders) == 3
    return True


def test_strategies_are_those_of_the_formula() -> None:
    assert follows(6.0, first=1)
    assert not follows(5.9, first=1)  # the controls
    assert not follows(6.0, first=0)


class Restless(EpsilonGreedy):
    """Explores in every round."""

    def _start(self, state: Any) -> None:
        state.exploration = math.inf


class Greedy(EpsilonGreedy):
    """Explores in no round."""

    def _start(self, state: Any) -> None:
        state.exploration = 0.0


def regrets(cls: type[EpsilonGreedy], seeds: Any = 20) -> Any:
    policies = {"it": lambda problem, seed: cls(problem, seed, gap=GAP)}
    return np.array(sf.simulate(WORLD, policies, seeds, [HORIZON], 1).table["regret"].to_pylist())


def test_regret_is_what_exploring_costs() -> None:
    """Exploring costs 2/3 of the gap in a share epsilon of the rounds, and errors about the best arm hardly anything.

    Over 250 other groups of 20 seeds the mean of a group was 137.1 with a standard deviation of 1.34, so a false alarm
    is 8 standard deviations off. The greedy control is stuck with a bad arm in every other run.
    """
    exploring = sum(min(1.0, 18 / (GAP**2 * t)) for t in range(1, HORIZON + 1)) * 2 / 3 * GAP
    assert abs(regrets(EpsilonGreedy).mean() - exploring) < 11
    assert regrets(Restless).mean() > 5 * exploring  # the controls
    assert regrets(Greedy).max() > 5 * exploring


@pytest.mark.parametrize("gap", [0.0, -0.1, 1.1, math.nan, "0.5", None])
def test_bad_gaps_are_refused(gap: Any) -> None:
    with pytest.raises(sf.RuleError, match=r"^gap must be (a number )?in \[0.001, 1\], got"):
        EpsilonGreedy(PROBLEM, gap=gap)
