"""Paths: what is written down is what happened, and what `simulate` makes of the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.policies.colb import COLB
from surefoot.policies.exp3 import Exp3
from surefoot.policies.solb import SOLB
from surefoot.simulation import world
from surefoot.simulation.world import World, policy_seed
from surefoot.theory.families import boundary, inside, lopsided
from surefoot.theory.mutations import Unmixed
from surefoot.theory.trace import record
from tests.theory.made import made

CASES: dict[str, tuple[sf.Scenario, Any]] = {
    "COLB": (boundary(400, n_constraints=2), made(COLB, learning_rate=0.3)),
    "COLB, restarts": (inside(400, 0.5), made(COLB, allowance=0.2, learning_rate="doubling")),
    "SOLB": (lopsided(400), made(SOLB, learning_rate=0.3)),
    "SOLB, weighted, restarts": (
        inside(400, 0.5), made(SOLB, allowance=0.1, learning_rate="doubling", estimator="weighted"),
    ),
    "SOLB, sets empty": (boundary(400, 0.1, 2), made(SOLB, radius=1e-3, learning_rate=0.3)),
    "a mutation": (boundary(400), made(SOLB, Unmixed, learning_rate=0.3)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "BLOCK_NUMBERS", 600)  # so that a path has several


@pytest.mark.parametrize("name", CASES)
def test_a_path_is_what_asking_and_telling_shows(name: str) -> None:
    scenario, factory = CASES[name]
    trace, policy, t = record(scenario, factory, 7), factory(scenario.problem, policy_seed(7)), 0
    first = float(policy.learning_rates[0])

    def shown() -> dict[str, Any]:
        return {
            "proposals": policy.proposal, "strategies": policy.strategy, "safe_weights": policy.safe_weight,
            "rates": policy.learning_rates, "caps": policy.inverse_caps, "base_rates": first * 0.5**policy.restarts,
            "lower": policy.lower_costs, "upper": policy.upper_costs,
        }  # fmt: skip

    for losses, costs in World(scenario, 7).blocks(scenario.problem.rounds):
        for of_arms, of_costs in zip(losses, costs):
            for field, value in shown().items():
                assert np.array_equal(getattr(trace, field)[t], value), field
            decision = policy.ask()
            assert trace.arms[t] == decision.arm
            assert trace.losses[t].tolist() == of_arms.tolist()
            assert trace.weights[t] == decision.proposal_weight
            assert trace.loss_estimates[t] == of_arms[decision.arm] / decision.propensity
            assert trace.of_arms(trace.caps)[t] == policy.inverse_caps[decision.arm]
            policy.tell(decision, float(of_arms[decision.arm]), of_costs[:, decision.arm].tolist())
            t += 1
    assert all(np.array_equal(getattr(trace, field)[t], value) for field, value in shown().items())
    assert trace.rounds == t == scenario.problem.rounds
    assert trace.empty_rounds == policy.empty_rounds
    assert (policy.restarts > 0) == ("restarts" in name)
    assert (policy.empty_rounds > 0) == ("empty" in name)


@pytest.mark.parametrize("name", CASES)
def test_a_path_is_the_one_that_is_simulated(name: str) -> None:
    scenario, factory = CASES[name]
    assert scenario.problem.safe is not None
    run = sf.simulate(scenario, {"policy": factory}, seeds=4, checkpoints=[scenario.problem.rounds], workers=1)
    for row in run.table.to_pylist():
        trace = record(scenario, factory, row["seed"])
        losses, played, safe = trace.losses, trace.strategies[:-1], scenario.problem.safe.strategy
        margins = scenario.problem.thresholds - played @ trace.mean_costs.T
        over = np.maximum(0.0, -margins).sum(axis=0)
        at_safe, gamma = losses @ (safe - trace.benchmark), trace.safe_weights[:-1]
        learning = trace.weights * (losses * (trace.proposals[:-1] - trace.benchmark)).sum(axis=1)
        expected = {
            "loss": (losses * played).sum(),
            "regret": (losses * (played - trace.benchmark)).sum(),
            "safety_regret": gamma @ at_safe,
            "learning_regret": learning.sum(),
            "violation": over.max(),
            "violations": over,
            "worst_margin": margins.min(),
            "bandit_complexity": (losses @ trace.benchmark).sum(),
            "safety_complexity": np.sqrt((at_safe**2).sum()),
            "benchmark": trace.benchmark,
            "allocation": played.mean(axis=0),
            "strategy": trace.strategies[-1],
            "proposal": trace.proposals[-1],
            "safe_weight": trace.safe_weights[-1],
        }
        for column, value in expected.items():
            assert row[column] == pytest.approx(value, rel=1e-9, abs=1e-9), column
        assert (row["clean"], row["empty_rounds"]) == (trace.clean, trace.empty_rounds)


def test_radii_are_those_of_lemma_1() -> None:
    trace = record(boundary(300, n_constraints=2), made(COLB, learning_rate=0.3), 0)
    counts = np.zeros((301, 3))
    counts[1:] = (trace.arms[:, None] == np.arange(3)).cumsum(axis=0)
    scale = 4 * np.log(300 * 3 * 2 / 0.05)
    expected = np.where(counts == 0, 1.0, np.minimum(1.0, np.sqrt(scale / np.maximum(1, counts))))
    assert trace.radii == pytest.approx(expected, rel=1e-12)
    assert trace.radii.min() < 1.0


def test_one_bound_that_does_not_hold_is_enough() -> None:
    trace = record(boundary(300, n_constraints=2), made(COLB, learning_rate=0.3), 0)
    assert trace.clean
    for name, off in (("lower", 1e-6), ("upper", -1e-6)):
        rows = getattr(trace, name).copy()
        rows[170, 1, 2] = trace.mean_costs[1, 2] + off
        assert not trace._replace(**{name: rows}).clean


def test_of_equally_good_strategies_the_one_nearest_to_the_safe_one() -> None:
    """Two arms lose the same in all, and one of them 0.1 less than the safe one in every single round."""
    problem = sf.Problem(3, [0.9], 100, safe=sf.SafeStrategy([0, 0, 1], [0.1]))
    rounds = np.array([[1.0, 0.5, 0.6], [0.0, 0.5, 0.6]] * 50)
    for order in ([0, 1, 2], [1, 0, 2]):
        scenario = sf.Scenario("tie-v1", problem, sf.losses.Fixed(rounds[:, order]), sf.costs.Bernoulli([[0.1] * 3]))
        factory = made(COLB, learning_rate=0.1)
        row = sf.simulate(scenario, {"policy": factory}, seeds=1, checkpoints=[100], workers=1).table.to_pylist()[0]
        assert record(scenario, factory, 0).benchmark.tolist() == row["benchmark"] == np.eye(3)[order.index(1)].tolist()


def test_other_policies_have_no_such_path() -> None:
    with pytest.raises(ValueError, match="factory must make a COLB or SOLB of preset 'paper', got Exp3"):
        record(boundary(200), lambda problem, seed: Exp3(problem, seed), 0)
    with pytest.raises(ValueError, match="factory must make a COLB or SOLB of preset 'paper', got SOLB"):
        record(boundary(200), SOLB, 0)
