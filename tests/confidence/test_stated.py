"""Costs of a safe arm that are known leave the union bound: levels, bounds, saved states, attacks with a control."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surefoot as sf
from surefoot.analysis.statistics import share_interval
from surefoot.confidence import FAMILY, Betting
from surefoot.confidence.base import OneSided

ONE_SIDED = [name for name, cls in FAMILY.items() if issubclass(cls, OneSided)]


def problem_of(K: int = 3, m: int = 2, safe: Any = None, delta: float = 0.05) -> sf.Problem:
    strategy = np.eye(K)[K - 1] if safe is None else np.array(safe, float)
    return sf.Problem(K, [0.5] * m, 1000, delta, sf.SafeStrategy(strategy, [0.2] * m))


@pytest.mark.parametrize("name", ONE_SIDED)
def test_the_safe_arm_has_no_part_of_delta(name: str) -> None:
    needed, upper = FAMILY[name](sides="needed"), FAMILY[name](sides="upper")  # type: ignore[call-arg]
    assert isinstance(needed, OneSided)
    assert isinstance(upper, OneSided)
    problem = problem_of()
    assert np.exp(-needed.evidence(problem)) == pytest.approx(0.05 / (2 * 2))  # the other two arms, two constraints
    assert np.exp(-upper.evidence(problem)) == pytest.approx(0.05 / (3 * 2))
    assert upper.bound(problem).exempt == -1
    for other in (problem_of(safe=[0, 0.5, 0.5]), sf.Problem(3, [0.5], 1000)):  # not an arm; not given
        assert needed.bound(other).exempt == -1
        assert needed.evidence(other) == upper.evidence(other)


@pytest.mark.parametrize("name", ONE_SIDED)
def test_its_upper_bounds_are_its_costs_whatever_is_observed(name: str) -> None:
    policy = sf.SOLB(problem_of(), 3, confidence={"name": name, "sides": "needed"})
    for cost in (0.0, 1.0):
        for _ in range(200):
            policy.tell((2, 0.5), loss=0.5, costs=[cost, cost])
            policy.tell((0, 0.5), loss=0.5, costs=[0.1, 0.2])
            assert (policy.upper_costs[:, 2] == 0.2).all()
    assert (policy.upper_costs[:, 0] < 0.5).all()
    assert (policy.upper_costs[:, 1] == 1).all()
    assert (policy.lower_costs[:, 2] > 0.2).all()  # feedback that was lost would look the same
    assert not policy.contradicted
    restored = sf.SOLB.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert restored.to_dict() == policy.to_dict()
    data = policy.to_dict()
    upper = np.array(data["state"]["known"]["upper"])
    upper[0, 2] = 0.1
    data["state"]["known"]["upper"] = upper.tolist()
    with pytest.raises(sf.RuleError, match=r"state\.known\.upper must be as stated for arm 2, which is safe"):
        sf.SOLB.from_dict(data)


def test_other_arms_contradict_themselves_as_before() -> None:
    policy = sf.SOLB(problem_of(m=1), 3, confidence=Betting(sides="needed"))
    policy.quiet = True
    for cost in (0.0, 1.0):
        for _ in range(400):
            policy.tell((0, 0.5), loss=0.5, costs=[cost])
    assert policy.contradicted
    assert policy.upper_costs[0, 0] == 1.0
    assert (policy.lower_costs[0] == 0.0).tolist() == [False, True, True]


def unsafe(sides: str, preset: str, runs: int, K: int = 2, theta: float = 0.45, delta: float = 0.5) -> tuple[int, int]:
    """Runs with a violation, and those in which the safe arm's upper bound was below its cost by then.

    The other arms cost 0.9 every time, so their bounds are soon narrow; the safe arm is a coin.
    """
    costs, losses, found, through = np.full(K, 0.9), np.full(K, 0.2), 0, 0
    costs[-1], losses[-1] = theta, 0.8
    for seed in range(runs):
        problem = sf.Problem(K, [0.5], 800, delta, sf.SafeStrategy(np.eye(K)[-1], [theta]))
        policy = sf.SOLB(problem, seed, preset=preset, confidence=Betting(sides=sides))
        policy.quiet = True
        rng = np.random.default_rng([7, seed])
        worst, lowest = 0.0, 1.0
        for _ in range(800):
            worst = max(worst, float(policy.strategy @ costs))
            lowest = min(lowest, float(policy.upper_costs[0, -1]))
            decision = policy.ask()
            cost = 0.9 if decision.arm < K - 1 else float(rng.random() < theta)
            policy.tell(decision, float(losses[decision.arm]), [cost])
        found += worst > 0.5 + 1e-12
        through += worst > 0.5 + 1e-12 and lowest < theta
    return found, through


@pytest.mark.parametrize("preset", ["practical", "led"])
def test_no_run_is_unsafe_through_the_safe_arm(preset: str) -> None:
    """At delta 0.5 its own bound makes one run in seven unsafe, or so, where none need be.

    False alarms: 1e-3 for the level (the exact binomial quantile); the second line is about every path.
    """
    runs = 60
    found, through = unsafe("needed", preset, runs)
    assert found <= int(binom.isf(1e-3, runs, 0.5))
    assert found == through == 0
    control, through = unsafe("upper", preset, runs)
    assert control == through >= 3
    assert share_interval(control, runs).low > 0.01


# The attacks of tests/policies/test_led.py, for what is new: delta is shared by one arm less.


@pytest.mark.filterwarnings("ignore::surefoot.policies.base.Contradiction", "ignore:the margin")
@pytest.mark.parametrize(("K", "m"), [(2, 1), (3, 2), (10, 1)])
@pytest.mark.parametrize("limit", [0.5, 0.05])
def test_all_of_delta_is_enough(limit: float, K: int, m: int) -> None:
    """Attractive arms just above the limit. Refuted beyond the 1e-3 quantile: six cells, false alarms 6e-3 at most."""
    costs, losses = np.full((m, K), 1.04 * limit), np.linspace(0.1, 0.5, K)
    costs[:, -1], losses[-1] = 0.96 * limit, 1.0
    problem = sf.Problem(K, [limit] * m, 1500, 0.5, sf.SafeStrategy(np.eye(K)[-1], costs[:, -1]))
    scenario = sf.Scenario("attack-v1", problem, sf.losses.Bernoulli(losses), sf.costs.Bernoulli(costs))
    makers = {
        preset: lambda p, s, preset=preset: sf.SOLB(p, s, preset=preset, confidence=Betting(sides="needed"))
        for preset in ("practical", "led")
    }
    rows = sf.simulate(scenario, makers, range(300, 400), [1500], workers=2).table.to_pylist()
    for preset in makers:
        unsafe_runs = sum(row["rounds_in_violation"] > 0 for row in rows if row["policy"] == preset)
        assert unsafe_runs <= int(binom.isf(1e-3, 100, 0.5))
