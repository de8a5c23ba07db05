"""Mutations alter what they say, and nothing else."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import surefoot as sf
from surefoot.policies.colb import COLB
from surefoot.policies.solb import SOLB
from surefoot.rules import Floats
from surefoot.theory import mutations
from surefoot.theory.mutations import mutant
from tests.theory.made import made

COSTS = np.array([[0.9, 0.55, 0.2], [0.05, 0.1, 0.2]])
SAFE = sf.SafeStrategy([0, 0, 1], [0.2, 0.2])
PROBLEM = sf.Problem(3, [0.5, 0.5], 400, 0.1, SAFE)


class Told(NamedTuple):
    decision: sf.Decision
    loss: float
    costs: list[float]


def feedback(rounds: int = 200) -> list[Told]:
    """The better an arm the costlier, and the safe one is the worst."""
    rng = np.random.default_rng(0)
    told = []
    for arm in rng.integers(3, size=rounds).tolist():
        decision = sf.Decision(arm, float(rng.uniform(0.2, 1.0)), 1.0)
        costs = (rng.random(2) < COSTS[:, arm]).astype(float).tolist()
        told.append(Told(decision, float(rng.random() < (0.2, 0.4, 0.7)[arm]), costs))
    return told


class Seen(NamedTuple):
    """What a policy shows before each of its rounds, and after the last."""

    proposals: Floats
    strategies: Floats
    weights: Floats
    lower: Floats
    upper: Floats
    rates: Floats


def seen(policy: Any, told: list[Told]) -> Seen:
    rows = []
    for round_ in [*told, None]:
        shown = policy.lower_costs, policy.upper_costs, policy.learning_rates
        rows.append((policy.proposal, policy.strategy, policy.safe_weight, *shown))
        if round_ is not None:
            policy.tell(*round_)
    return Seen(*(np.array(column) for column in zip(*rows)))


def lived(cls: Any, *wrongs: Any, told: list[Told] | None = None, radius: float = 0.1) -> Seen:
    """With a narrow radius, so that thresholds and upper bounds are felt."""
    return seen(made(cls, *wrongs, radius=radius, learning_rate=0.3)(PROBLEM, 0), told or feedback())


def mixtures(weights: Floats, proposals: Floats) -> Floats:
    return np.asarray(weights[:, None] * SAFE.strategy + (1.0 - weights[:, None]) * proposals)


def same(first: Seen, second: Seen, *but: str) -> bool:
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in Seen._fields if name not in but)


@pytest.mark.parametrize("cls", [COLB, SOLB])
def test_a_mutation_that_alters_nothing_is_the_policy(cls: Any) -> None:
    assert same(lived(cls), lived(cls, mutations.Altered))


@pytest.mark.parametrize("cls", [COLB, SOLB])
def test_narrow_radius_is_a_tenth(cls: Any) -> None:
    wide, narrow = lived(cls, radius=1.0), lived(cls, mutations.NarrowRadius, radius=1.0)
    counts = np.array([round_.decision.arm for round_ in feedback()])[:, None] == np.arange(3)
    scale = 4 * math.log(400 * 3 * 2 / 0.1) / np.maximum(1, counts.cumsum(axis=0))
    for found, factor in ((wide, 1.0), (narrow, 0.1)):
        radii = (found.upper - found.lower)[1:, 0] / 2
        seen_before = counts.cumsum(axis=0) > 0
        assert radii[seen_before] == pytest.approx(np.minimum(1.0, factor * np.sqrt(scale))[seen_before])
    assert (wide.upper + wide.lower) == pytest.approx(narrow.upper + narrow.lower)  # means are the same


def test_unprojected_is_the_policy_without_thresholds() -> None:
    free = made(COLB, learning_rate=0.3)(sf.Problem(3, [], 400, 0.1), 0)
    alone = seen(free, [Told(decision, loss, []) for decision, loss, _ in feedback()])
    assert lived(COLB, mutations.Unprojected).proposals == pytest.approx(alone.proposals, abs=1e-12)
    assert np.abs(lived(COLB).proposals - alone.proposals).max() > 0.05


@pytest.mark.parametrize("cls", [COLB, SOLB])
def test_stuck_stays_uniform(cls: Any) -> None:
    found = lived(cls, mutations.Stuck)
    assert found.proposals == pytest.approx(np.full((201, 3), 1 / 3))
    assert found.strategies == pytest.approx(mixtures(found.weights, found.proposals))
    assert np.array_equal(found.lower, lived(cls).lower)
    assert (found.weights > 0).any() == (cls is SOLB)


@pytest.mark.parametrize("cls", [COLB, SOLB])
def test_fed_twice_is_told_half_the_propensity(cls: Any) -> None:
    halved = [Told(sf.Decision(d.arm, d.propensity / 2), loss, costs) for d, loss, costs in feedback()]
    assert same(lived(cls, mutations.FedTwice), lived(cls, told=halved))
    assert not same(lived(cls, mutations.FedTwice), lived(cls))


def test_divided_by_proposal_is_told_that_share() -> None:
    policy, told = made(SOLB, radius=0.1, learning_rate=0.3)(PROBLEM, 0), []
    for (arm, *_), loss, costs in feedback():
        told.append(Told(sf.Decision(arm, float(policy.proposal[arm])), loss, costs))
        policy.tell(*told[-1])
    assert same(lived(SOLB, mutations.DividedByProposal), lived(SOLB, told=told))
    assert not same(lived(SOLB, mutations.DividedByProposal), lived(SOLB))


def reweighed(wrong: Any, radius: float = 0.1) -> tuple[Seen, Floats]:
    """What SOLB shows, and the weights of a mutation after the first round; all else is as it should be."""
    right, found = lived(SOLB, radius=radius), lived(SOLB, wrong, radius=radius)
    assert same(right, found, "weights", "strategies")
    assert found.weights[0] == right.weights[0] == 0.625
    assert found.strategies == pytest.approx(mixtures(found.weights, found.proposals), abs=1e-15)
    assert np.abs(found.weights - right.weights).max() > 0.05
    return right, found.weights[1:]


def test_unmixed_plays_the_proposal() -> None:
    assert not reweighed(mutations.Unmixed)[1].any()


def test_mixed_by_lower_uses_lower_bounds() -> None:
    right, weights = reweighed(mutations.MixedByLower)
    for lower, proposal, weight in zip(right.lower[1:], right.proposals[1:], weights):
        costs = np.minimum(1.0, lower @ proposal)
        ratios = [(c - 0.5) / (c - 0.2) for c in costs if c > 0.5]
        assert weight == pytest.approx(max(ratios, default=0.0))


def test_literal_maximum_is_over_all_constraints() -> None:
    right, weights = reweighed(mutations.LiteralMaximum, radius=0.01)
    misled = met = 0
    for upper, proposal, weight in zip(right.upper[1:], right.proposals[1:], weights):
        costs = np.minimum(1.0, upper @ proposal)
        ratios = [(c - 0.5) / (c - 0.2) for c in costs]
        assert weight == pytest.approx(min(1.0, max(ratios)) if max(costs) > 0.5 else 0.0)
        misled += max(costs) > 0.5 and min(costs) < 0.2
        met += max(costs) <= 0.5
    assert misled > 20
    assert met > 0


def test_gives_up_as_the_safe_arm_loses() -> None:
    right, weights = reweighed(mutations.GivesUp)
    safe, others = [0.0], [0.0]
    for told, needed, weight in zip(feedback(), right.weights[1:], weights):
        (safe if told.decision.arm == 2 else others).append(told.loss)
        behind = sum(safe) / max(1, len(safe) - 1) - sum(others) / max(1, len(others) - 1)
        assert weight == pytest.approx(needed * math.exp(-10 * max(0.0, behind)))


def test_always_safe_plays_the_safe_strategy() -> None:
    found = lived(SOLB, mutations.AlwaysSafe)
    assert (found.weights[1:] == 1.0).all()


def test_restarts_can_be_too_few_and_too_many() -> None:
    problem = sf.Problem(3, [], 400, 0.1)
    restarts = []
    for wrong in (mutations.NeverRestarts, None, mutations.RestartsEarly):
        policy = (COLB if wrong is None else mutant(COLB, wrong))(problem, 3, preset="paper", learning_rate="doubling")
        for _ in range(400):
            policy.tell(policy.ask(), 0.9)
        restarts.append(policy.restarts)
    assert restarts[0] == 0 < restarts[1] < restarts[2]


def test_mutations_can_be_combined_and_are_named() -> None:
    both = mutant(COLB, mutations.FedTwice, mutations.NarrowRadius)
    assert both.__name__ == "FedTwiceNarrowRadiusCOLB"
    assert issubclass(both, COLB)
    found = lived(COLB, mutations.FedTwice, mutations.NarrowRadius, radius=1.0)
    halved = [Told(sf.Decision(d.arm, d.propensity / 2), loss, costs) for d, loss, costs in feedback()]
    assert same(found, lived(COLB, mutations.NarrowRadius, told=halved, radius=1.0))


# Live experiments

AT_ONCE = [
    mutations.ArrivalOrder, mutations.DropsTimeouts, mutations.LearnsAgain, mutations.ScalesUp,
    mutations.NeverAlarms, mutations.NeverHolds, mutations.WatchesReleased,
]  # fmt: skip


def live(cls: Any, arms: int = 2) -> Any:
    names = [f"arm {k}" for k in range(arms)]
    experiment = sf.Experiment(
        "mutated", arms=names, objective=sf.Maximise("gain"), guardrails=[sf.AtMost("cost", 0.4)],
        baseline={name: 1 / arms for name in names}, baseline_costs={"cost": 0.2}, timeout=10.0,
    )  # fmt: skip
    return cls(experiment, seed=3)


def report(running: Any, choice: Any, cost: float = 0.0, now: float = 0.0) -> None:
    running.feedback(choice.id, {"gain": 0.5, "cost": cost}, now=now)


@pytest.mark.parametrize("wrong", AT_ONCE)
def test_mutations_of_live_are_right_if_feedback_comes_at_once_and_all_is_well(wrong: Any) -> None:
    states = []
    for cls in (sf.Live, wrong):
        running, rng = live(cls), np.random.default_rng(0)
        for t in range(200):
            choice = running.decide(now=float(t))
            report(running, choice, float(rng.random() < 0.2), float(t))
        status = replace(running.status(), watch=[])  # which one of them does without
        states.append((running._fold.policy.to_bytes(), running._fold.watch.seen, status))
    assert states[0] == states[1]


def test_arrival_order_does_not_wait() -> None:
    for cls, learnt in ((sf.Live, 0), (mutations.ArrivalOrder, 3)):
        running = live(cls)
        first, *others = [one for one in running.decide(now=0.0, n=20) if one.arm == "arm 0"][:4]
        for choice in others:
            report(running, choice)
        assert running.status().rounds == learnt
        report(running, first)
        assert running.status().rounds == 4


def test_dropped_timeouts_are_not_learnt() -> None:
    for cls, learnt in ((sf.Live, 20), (mutations.DropsTimeouts, 0)):
        running = live(cls)
        running.decide(now=0.0, n=20)
        assert running.expire(now=10.0) == 20
        assert running.status().rounds == learnt


def test_what_is_learnt_again_counts_again() -> None:
    for cls, learnt in ((sf.Live, 1), (mutations.LearnsAgain, 4)):
        running = live(cls)
        choice = running.decide(now=0.0)
        for _ in range(4):
            report(running, choice)
        assert running._fold.policy.round == learnt


def test_scaling_up_keeps_the_ratios() -> None:
    running = live(mutations.ScalesUp, arms=3)
    whole = running._narrowed(None).strategy
    part = running._narrowed(["arm 0", "arm 2"]).strategy
    assert part == pytest.approx(np.array([whole[0], 0.0, whole[2]]) / (whole[0] + whole[2]))
    with pytest.raises(sf.Unavailable):
        live(sf.Live, arms=3).decide(now=0.0, arms=["arm 0", "arm 2"])


def test_nobody_watches_and_nothing_holds() -> None:
    found = {}
    for cls in (sf.Live, mutations.NeverAlarms, mutations.NeverHolds):
        running = live(cls)
        for t in range(60):
            report(running, running.decide(now=float(t)), 1.0, float(t))
        found[cls] = {alarm.kind for alarm in running.status().alarms}, running.status().state
    assert found[sf.Live] == ({"served", "baseline"}, "held")
    assert found[mutations.NeverAlarms] == (set(), "running")
    assert found[mutations.NeverHolds] == ({"served"}, "running")


def test_watching_what_is_released_passes_open_decisions() -> None:
    for cls, seen in ((sf.Live, 0), (mutations.WatchesReleased, 3)):
        running = live(cls)
        choices = running.decide(now=0.0, n=20)
        for choice in [one for one in choices if one.arm != choices[0].arm][:3]:
            report(running, choice)
        assert running.status().rounds == 3
        assert running._fold.watch.seen == seen


def lengths(cls: Any, preset: str) -> tuple[float, Floats]:
    """The shortest step of a follower of the leader against its own baseline, and the last strategy."""
    problem = sf.Problem(3, [0.5], 2000, 0.1, sf.SafeStrategy([0, 0, 1], [0.2]))
    policy, rng, least = cls(problem, 1, preset=preset), np.random.default_rng(1), 0.0
    for _ in range(300):
        decision, learner = policy.ask(), policy._state.learner
        before, rate, share = learner.totals.copy(), learner.learning_rates[0], learner.proposal[decision.arm]
        policy.tell(decision, float(rng.random() < 0.7), [float(rng.random() < COSTS[0, decision.arm])])
        moved = learner.totals - before
        least = min(least, float(rate * share * (moved[decision.arm] - np.delete(moved, decision.arm).max())))
    return least, policy.strategy


@pytest.mark.parametrize("preset", ["guaranteed", "led"])
def test_a_baseline_that_is_not_cut_makes_steps_too_long(preset: str) -> None:
    limit = -0.5 if preset == "guaranteed" else -0.25
    assert lengths(SOLB, preset)[0] >= limit - 1e-9
    assert lengths(mutant(SOLB, mutations.BaselineNotCut), preset)[0] < 2 * limit


def test_a_program_that_takes_all_leaves_the_proposal_next_to_nothing() -> None:
    policy = mutant(SOLB, mutations.ProgramTakesAll)(
        sf.Problem(3, [0.5], 400, 0.1, sf.SafeStrategy([0, 0, 1], [0.2])), 1, preset="led"
    )
    for _ in range(50):
        policy.tell(policy.ask(), 0.5, [0.1])
        trio = policy._state.trio
        assert trio.shares.tolist() == [0.0005, 0.999, 0.0005]
        assert policy.strategy == pytest.approx(trio.shares @ trio.strategies)


def test_every_mutation_is_tested_here() -> None:
    here = Path(__file__).read_text()
    made_here = [found for found in vars(mutations).values() if getattr(found, "__module__", "") == mutations.__name__]
    classes = [found.__name__ for found in made_here if isinstance(found, type)]
    assert len(classes) == 22
    assert all(f"mutations.{name}" in here for name in classes)
