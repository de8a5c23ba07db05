"""Where the random numbers of a world come from: NumPy's streams, as ever, or a counter; and compiled adversaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.environments.losses import Seen
from surefoot.rules import Floats
from surefoot.simulation.world import World
from tests.simulation.players import Disguised, quick

HORIZON, CHECKPOINTS = 600, [1, 7, 150, 599, 600]
SAFE = sf.SafeStrategy([0, 0, 1], [0.2, 0.3])
PROBLEM = sf.Problem(3, [0.5, 0.6], HORIZON, 0.1, SAFE)
MEANS = np.array([[0.9, 0.4, 0.2], [0.3, 0.7, 0.3]])
LATE = sf.Feedback(delay={"uniform": [0, 20]}, lost=0.1, repeated=0.5, timeout=40)
COINS, COSTS = sf.losses.Bernoulli([0.1, 0.4, 0.8]), sf.costs.Bernoulli(MEANS)
WORLDS: dict[str, dict[str, Any]] = {
    "coins": {"losses": COINS, "costs": COSTS},
    "Beta": {"losses": sf.losses.Drifting([0.1, 0.4, 0.8], [0.8, 0.4, 0.1]), "costs": sf.costs.Beta(MEANS, [20, 1])},
    "switching": {
        "losses": sf.losses.Switching([[0.1, 0.4, 0.8], [0.8, 0.4, 0.1]], 300),
        "costs": sf.costs.Switching([MEANS, MEANS * 0.9], 250),
    },
    "drifting": {"losses": COINS, "costs": sf.costs.Drifting(MEANS * 0.9, MEANS)},
    "late": {"losses": COINS, "costs": COSTS, "feedback": LATE},
    "by arrival": {"losses": COINS, "costs": COSTS, "feedback": sf.Feedback(delay=3, repeated=1, handling="arrival")},
    "of success": {"losses": sf.losses.OfSuccess([0.9, 0.5, 0.1]), "costs": COSTS},
    "given": {"losses": sf.losses.Fixed([0.1, 0.4, 0.8]), "costs": sf.costs.Fixed(MEANS)},
    "correlated": {"losses": COINS, "costs": sf.costs.Bernoulli(MEANS, correlation=0.5)},
    "adaptive": {"losses": sf.losses.RaiseMostPlayed([0.1, 0.4, 0.8]), "costs": COSTS},
    "punishing": {"losses": sf.losses.PunishProposal([0.1, 0.4, 0.8]), "costs": COSTS},
    "late and adaptive": {"losses": sf.losses.RaiseMostPlayed([0.1, 0.4, 0.8]), "costs": COSTS, "feedback": LATE},
}


def scenario(name: str, **changed: Any) -> sf.Scenario:
    return sf.Scenario(f"{name}-v1", PROBLEM, **{**WORLDS[name], **changed})


POLICY: dict[str, Any] = {"coins": quick(sf.SOLB), "Beta": quick(sf.SOLB)}
"""Elsewhere one that takes less time to compile: every combination of what may happen is compiled on its own."""


def disguised(make: Any) -> Any:
    return lambda problem, seed: Disguised(make(problem, seed))


def table(world: sf.Scenario, policies: dict[str, Any] | None = None, **options: Any) -> Any:
    options = {"seeds": 2, "checkpoints": CHECKPOINTS, "workers": 1, **options}
    return sf.simulate(world, policies or {"one": quick(sf.SOLB)}, **options).table


@pytest.mark.parametrize("random", ["numpy", "counter"])
@pytest.mark.parametrize("name", WORLDS)
def test_whole_episodes_in_compiled_code_equal_asking_and_telling(name: str, random: str) -> None:
    """The disguised policy is asked and told in Python, and meets a world whose costs are all drawn."""
    make = POLICY.get(name, sf.Exp3)
    compiled = table(scenario(name), {"one": make}, random=random)
    assert compiled.equals(table(scenario(name), {"one": disguised(make)}, random=random))


@pytest.mark.parametrize("name", ["coins", "Beta", "adaptive"])
def test_a_counter_makes_another_world_and_the_same_for_everyone(name: str) -> None:
    world, both = scenario(name), {"one": sf.Exp3, "two": disguised(sf.UCB1)}
    by_counter = table(world, both, random="counter", workers=2)
    assert not by_counter.equals(table(world, both))
    for policy, make in both.items():
        alone = table(world, {policy: make}, random="counter")
        assert by_counter.filter(np.array(by_counter.column("policy").to_pylist()) == policy).equals(alone)
    if name != "adaptive":
        complexity = by_counter.column("bandit_complexity").to_pylist()
        assert complexity[:10] == complexity[10:]  # of the same losses
    assert table(world, both, random="counter", seeds=[1]).slice(0, 5).equals(by_counter.slice(5, 5))


def test_where_a_counter_draws_nothing_the_world_is_the_same() -> None:
    for name in ("given", "correlated"):
        world, policies = scenario(name, losses=sf.losses.Fixed([0.1, 0.4, 0.8])), {"one": sf.Exp3}
        assert table(world, policies, random="counter").equals(table(world, policies))


def test_blocks_show_the_costs_that_are_drawn_when_an_arm_is_played() -> None:
    world = scenario("Beta").drawn_by("counter")
    (losses, costs), *_ = World(world, 3).blocks(HORIZON)
    assert np.isfinite(losses).all()
    assert ((costs > 0) & (costs < 1)).any()
    assert np.isfinite(costs).all()


def test_a_run_is_not_resumed_with_other_random_numbers() -> None:
    world = scenario("coins")
    before = sf.simulate(world, {"one": sf.Exp3}, 1, CHECKPOINTS, 1)
    assert before.provenance["simulations"][0]["scenario"]["random"] == "numpy"
    with pytest.warns(UserWarning, match="is not reused, because its scenario changed"):
        after = sf.simulate(world, {"one": sf.Exp3}, 1, CHECKPOINTS, 1, random="counter", resume=before)
    assert after.provenance["simulations"][0]["scenario"]["random"] == "counter"
    assert after.table.equals(table(world, {"one": sf.Exp3}, random="counter", seeds=1))


@pytest.mark.parametrize("random", ["philox", "", 3])
def test_other_random_numbers_are_refused(random: Any) -> None:
    with pytest.raises(ValueError, match="random must be 'numpy' or 'counter', got"):
        table(scenario("coins"), random=random)
    with pytest.raises(ValueError, match="random must be 'numpy' or 'counter', got"):
        scenario("coins", random=random)


# Adversaries: the classes say in Python what the kernel does


class Slow(sf.losses.RaiseMostPlayed):
    """The same adversary, which the simulation has to call round by round."""

    def respond(self, out: Floats, seen: Seen, rng: np.random.Generator) -> None:
        super().respond(out, seen, rng)


class SlowPunishing(sf.losses.PunishProposal):
    def respond(self, out: Floats, seen: Seen, rng: np.random.Generator) -> None:
        super().respond(out, seen, rng)


class Mild(sf.losses.RaiseMostPlayed):
    """An adversary with a target of its own."""

    def target(self, seen: Seen) -> int:
        return int(seen.counts.argmin())


@pytest.mark.parametrize(
    ("quick_one", "slow_one"), [(sf.losses.RaiseMostPlayed, Slow), (sf.losses.PunishProposal, SlowPunishing)]
)
@pytest.mark.parametrize(
    ("policy", "feedback"),
    [(quick(sf.SOLB), None), (sf.Exp3, LATE), (disguised(sf.Exp3), LATE), (sf.UCB1, None)],
    ids=["solb", "exp3, late", "exp3, told", "ucb1"],
)
def test_compiled_adversaries_are_those_in_python(policy: Any, quick_one: Any, slow_one: Any, feedback: Any) -> None:
    runs = [
        table(scenario("adaptive", losses=kind([0.1, 0.4, 0.8], 0.3), feedback=feedback), {"one": policy})
        for kind in (quick_one, slow_one)
    ]
    assert runs[0].equals(runs[1])


def test_only_adversaries_of_the_package_are_compiled() -> None:
    assert Slow([0.1, 0.4]).foe() is None
    assert Mild([0.1, 0.4]).foe() is None
    mild, usual = (
        table(scenario("adaptive", losses=kind([0.1, 0.4, 0.8])), {"one": sf.Exp3})
        for kind in (Mild, sf.losses.RaiseMostPlayed)
    )
    assert not mild.equals(usual)


# The stream of old: numbers of an earlier version. Across processors the last digits may differ, so not to the bit.

BEFORE = {
    ("stochastic-v1", "solb"): (1716.9627770511577, 643.4627770511579, 0.0),
    ("stochastic-v1", "colb"): (1337.303577977885, 263.8035779778852, 64.32767600165889),
    ("stochastic-v1", "ucb"): (429.0, -644.4999999999998, 1030.4),
    ("switching-v1", "solb"): (1844.9197876043008, 791.9197876043008, 0.0),
    ("switching-v1", "colb"): (1335.538149485834, 282.5381494858341, 63.54760949018897),
    ("late-misses-v1", "solb"): (1520.1019243040191, 299.1019243040191, 0.0),
    ("late-misses-v1", "colb"): (1215.1228003845772, -5.877199615422796, 5.826425983961535),
    ("adaptive-v1", "solb"): (1803.6061374727412, 1176.6061374727415, 0.0),
    ("adaptive-v1", "ucb"): (894.0, 1.0, 574.8),
    ("drifting-costs-v1", "solb"): (1501.559397096724, 132.05939709672407, 0.0),
    ("drifting-costs-v1", "colb"): (1214.8336284553914, -154.66637154460864, 24.179803532244367),
}
POLICIES: dict[str, Any] = {
    "solb": quick(sf.SOLB, learning_rate=0.05),
    "colb": lambda problem, seed: sf.COLB(problem, seed, preset="paper"),
    "ucb": sf.UCB1,
}


@pytest.mark.filterwarnings("ignore:learning_rate", "ignore:the margin")
@pytest.mark.parametrize(("id", "policy"), BEFORE)
def test_the_usual_stream_is_what_it_always_was(id: str, policy: str) -> None:
    world = sf.scenarios.make(id, horizon=3000)
    row = sf.simulate(world, {policy: POLICIES[policy]}, [1], [3000], 1).table.to_pylist()[0]
    assert (row["loss"], row["regret"], row["violation"]) == pytest.approx(BEFORE[id, policy], rel=1e-9, abs=1e-9)
