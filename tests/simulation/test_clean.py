"""The clean event in the Run table, against a slow twin that looks at every bound in every round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.analysis.clean import truncated
from surefoot.policies.guarded import Guarded
from surefoot.simulation.world import World, policy_seed
from tests.policies.constants import shrink_radius
from tests.simulation.players import always

HORIZON, SEEDS = 400, range(40, 52)  # a safe set is empty in some of them
PROBLEM = sf.Problem(3, [0.5, 0.6], HORIZON, 0.1, sf.SafeStrategy([0, 0, 1], [0.2, 0.3]))
SCENARIO = sf.Scenario(
    "clean-v1",
    PROBLEM,
    sf.losses.Bernoulli([0.1, 0.4, 0.8]),
    sf.costs.Bernoulli([[0.9, 0.4, 0.2], [0.3, 0.7, 0.3]]),
)


def shrunk(cls: Any, factor: float) -> Any:
    def make(problem: sf.Problem, seed: int) -> sf.Policy[Any]:
        policy: Guarded = cls(problem, seed, preset="paper", learning_rate=0.1)
        shrink_radius(policy, factor)
        return policy

    return make


def slowly(make: Any, seed: int, benchmark: list[float], rounds: int) -> tuple[bool, bool, int]:
    """Whether all bounds held, whether the benchmark's truncation stayed, how many sets were empty."""
    policy, world = make(PROBLEM, policy_seed(seed)), World(SCENARIO, seed)
    losses, costs = (np.concatenate(parts) for parts in zip(*[(a.copy(), b.copy()) for a, b in world.blocks(HORIZON)]))
    u, held, kept = truncated(np.array(benchmark), PROBLEM), True, True
    for t in range(rounds):
        decision = policy.ask()
        policy.tell(decision, float(losses[t, decision.arm]), costs[t, :, decision.arm].tolist())
        truth = SCENARIO.mean_costs
        held &= bool((policy.lower_costs <= truth).all() and (truth <= policy.upper_costs).all())
        kept &= bool((policy.lower_costs @ u <= PROBLEM.limits + 1e-12).all())
    return held, kept, policy.empty_rounds


@pytest.mark.parametrize("cls", [sf.SOLB, sf.COLB])
def test_columns_say_what_every_round_shows(cls: Any) -> None:
    makers = {f"{factor}": shrunk(cls, factor) for factor in (1.0, 0.05, 0.01, 0.001)}
    run = sf.simulate(SCENARIO, makers, seeds=SEEDS, checkpoints=[60, HORIZON], workers=2)
    found = set()
    for row in run.table.to_pylist():
        seen = row["clean"], row["benchmark_kept"], row["empty_rounds"]
        assert seen == slowly(makers[row["policy"]], row["seed"], row["benchmark"], row["round"])
        found.add((seen[0], seen[1], seen[2] > 0))
        if row["policy"] == "1.0":
            assert seen == (True, True, 0)
    # every combination that can be was met: clean; bounds missed with and without harm; and sets that were empty
    assert found == {(True, True, False), (False, True, False), (False, False, False), (False, False, True)}


def test_policies_without_bounds_and_problems_without_thresholds_say_nothing() -> None:
    plain = sf.Scenario(
        "plain-v1", sf.Problem(3, [], 100), sf.losses.Bernoulli([0.1, 0.4, 0.8]), sf.costs.Bernoulli(np.zeros((0, 3)))
    )
    run = sf.simulate(plain, {"colb": sf.COLB}, seeds=1, checkpoints=[100], workers=1)
    assert run.table.column("clean").to_pylist() == [None]
    run = sf.simulate(SCENARIO, {"exp3": sf.Exp3, "none": sf.LogBarrier}, seeds=1, checkpoints=[100], workers=1)
    assert run.table.column("clean").to_pylist() == [None, None]
    assert run.table.column("benchmark_kept").to_pylist() == [None, None]


def test_bounds_of_the_wrong_size_are_refused() -> None:
    shown = {"lower_costs": [[0.0, 0.0, 0.0]], "upper_costs": [[1.0, 1.0, 1.0]]}
    with pytest.raises(ValueError, match=r"lower_costs of odd must have the shape \(2, 3\), got \(1, 3\)"):
        sf.simulate(SCENARIO, {"odd": always([0, 0, 1], **shown)}, seeds=1, checkpoints=[10], workers=1)


@pytest.mark.parametrize(
    ("lower", "clean", "kept"),
    [
        ([[0.0] * 3] * 2, True, True),
        ([[np.nan] * 3] * 2, False, False),
        ([[0.99, 0.99, 0.0], [0.0] * 3], False, False),
        ([], None, None),
    ],
)
def test_every_bound_of_a_policy_from_outside_is_looked_at(lower: Any, clean: Any, kept: Any) -> None:
    """Its third arm alone is played, but bounds of others, and what is no number, count."""
    shown = {"lower_costs": lower, "upper_costs": [[1.0] * 3] * 2}
    run = sf.simulate(SCENARIO, {"odd": always([0, 0, 1], **shown)}, seeds=1, checkpoints=[50], workers=1)
    assert [(row["clean"], row["benchmark_kept"]) for row in run.table.to_pylist()] == [(clean, kept)]


def test_bounds_that_are_none_are_refused() -> None:
    shown = {"lower_costs": "low", "upper_costs": [[1.0] * 3] * 2}
    with pytest.raises(ValueError, match="lower_costs of odd must be an array of numbers, got 'low'"):
        sf.simulate(SCENARIO, {"odd": always([0, 0, 1], **shown)}, seeds=1, checkpoints=[10], workers=1)


def test_adaptive_worlds_are_watched_too() -> None:
    scenario = sf.scenarios.make("adaptive-v1", horizon=300)
    run = sf.simulate(
        scenario,
        {"colb": sf.COLB, "paper": shrunk(sf.COLB, 1.0), "tight": shrunk(sf.COLB, 0.001)},
        seeds=2,
        checkpoints=[300],
        workers=1,
    )
    by_policy = {row["policy"]: row["clean"] for row in run.table.to_pylist()}
    assert by_policy == {"colb": True, "paper": True, "tight": False}


def test_with_too_many_vertices_only_a_clean_run_is_sure_to_keep_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.simulation.episode.MOST_NUMBERS", 0)
    makers = {"paper": shrunk(sf.COLB, 1.0), "tight": shrunk(sf.COLB, 0.001)}
    run = sf.simulate(SCENARIO, makers, seeds=1, checkpoints=[HORIZON], workers=1)
    assert [(row["clean"], row["benchmark_kept"]) for row in run.table.to_pylist()] == [(True, True), (False, None)]
