"""Live experiments: what docs/theory/live.md says, and the trials of the claims about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.confidence import Betting
from surefoot.experiments.fold import replay
from surefoot.experiments.watch import Detector
from surefoot.kernels.costs import observe, unknown_costs
from surefoot.kernels.safety import weight_needed
from surefoot.rules import Floats
from surefoot.theory.catalogue import CLAIMS, claim
from surefoot.theory.live import World, live_through, misses_late, rounds_to_alarm


def experiment(**options: object) -> sf.Experiment:
    return sf.Experiment(
        "tried", arms=["dear", "base"], objective=sf.Maximise("gain"), guardrails=[sf.AtMost("cost", 0.3)],
        baseline="base", timeout=100.0, **options,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize("batch", [1, 7])
def test_rounds_that_end_the_measurement_of_the_baseline_are_learnt(batch: int) -> None:
    """The state is the fold of the log: learning begins with all rounds so far, those of the last report included."""
    live, rng = sf.Live(experiment(), seed=1), np.random.default_rng(0)
    for t in range(0, 3_000, batch):
        decisions = live.decide(now=float(t), n=batch)
        live.feedback_many([(one.id, {"gain": 0.5, "cost": float(rng.random() < 0.1)}) for one in decisions], float(t))
        if live.status().state == "running":
            break
    assert live.status().state == "running"
    again = replay(live._log)
    assert live._fold.policy.round == again.policy.round == live.status().rounds
    assert live._fold.digest() == again.digest()


def measured() -> sf.Live:
    """A live experiment whose baseline has been found to cost at most 0.18 and 0.45, in truth 0.05 and 0.3."""
    live, rng = sf.Live(limited(sf.AtMost("a", 0.5), sf.AtMost("b", 0.5)), seed=1), np.random.default_rng(0)
    for t in range(3_000):
        choice = live.decide(now=float(t))
        outcome = {"gain": 0.5, "a": float(rng.random() < 0.05), "b": float(rng.random() < 0.3)}
        live.feedback(choice.id, outcome, now=float(t))
        if live.status().state == "running":
            break
    assert live._fold.measured == pytest.approx([0.18, 0.45], abs=0.01)
    return live


def limited(*guardrails: sf.AtMost) -> sf.Experiment:
    return sf.Experiment(
        "two", arms=["dear", "base"], objective=sf.Maximise("gain"), guardrails=guardrails, baseline="base",
        timeout=100.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("guardrails", "costs"),
    [
        ((sf.AtMost("b", 0.5), sf.AtMost("a", 0.5)), [0.45, 0.18]),
        ((sf.AtMost("b", 0.5),), [0.45]),
        (
            (sf.AtMost("a", 0.5), sf.AtMost("b", 0.5, low=-1.0)),
            None,
        ),  # less than 10 % of the way from -1 to 0.5 is left
        ((sf.AtMost("a", 0.5), sf.AtMost("b", 0.5, high=2.0)), [0.18, 0.225]),
        ((sf.AtMost("a", 0.5), sf.AtMost("b", 0.4)), None),
    ],
)
def test_measured_costs_go_with_their_guardrail(guardrails: tuple[sf.AtMost, ...], costs: list[float] | None) -> None:
    """After a change they are in the new order and the new units; if a limit is too low, they are measured again."""
    live = measured()
    assert live.change(limited(*guardrails), "other guardrails")
    assert live._fold.digest() == replay(live._log).digest()
    if costs is None:
        assert live.status().state == "measuring"
    else:
        assert live._fold.policy.problem.safe.costs == pytest.approx(costs, abs=0.01)


def test_observations_are_left_out_by_a_policy_that_cannot_learn_them() -> None:
    live = sf.Live(experiment(baseline_costs={"cost": 0.1}), seed=1)
    live.observe("dear", {"cost": 0.2})
    assert live.status().guardrails["cost"].arms["dear"].count == 1
    assert live.change(experiment(baseline_costs={"cost": 0.1}, policy="opb", horizon=10_000), "another policy")
    assert live.status().guardrails["cost"].arms["dear"].count == 0
    assert live.change(experiment(baseline_costs={"cost": 0.1}), "back")
    assert live.status().guardrails["cost"].arms["dear"].count == 1


# The steps of docs/theory/live.md


def upper_bounds(costs: Any) -> Floats:
    """The upper bound of an arm after each of its costs."""
    known = unknown_costs(2, 1, Betting(sides="upper").bound(sf.Problem(2, [0.5], None, 0.05)))
    found = np.empty(len(costs))
    for n, cost in enumerate(costs):
        observe(known, 0, np.array([cost]))
        found[n] = known.upper[0, 0]
    return found


def test_time_outs_never_lower_a_bound_but_it_is_not_monotone() -> None:
    """Step 3 needs no monotone bound, and the one that is implemented is not; only by the 1.08 of its shortcut."""
    rng, lower = np.random.default_rng(0), []
    for _ in range(200):
        costs = rng.beta(1.0, 3.0, 300) * 0.8
        lost, more = costs.copy(), costs.copy()
        lost[rng.random(300) < 0.02] = 1.0
        more[rng.integers(300)] += 0.01
        bounds = upper_bounds(costs)
        assert (upper_bounds(lost) >= bounds - 1e-12).all()
        lower.append((bounds - upper_bounds(more)).max())
    assert 1e-4 < max(lower) < 3e-3
    assert sum(difference > 1e-12 for difference in lower) > 5


def test_a_bound_holds_for_costs_that_are_raised_by_what_comes_later() -> None:
    """Step 2. False alarms: 1e-3, of more than 21 failures in 200 paths at a level of 0.05; seeded."""
    rng, failures, selected = np.random.default_rng(1), 0, 0
    for _ in range(200):
        costs = (rng.random(300) < 0.4).astype(float)
        later = np.append(costs[5:], np.zeros(5))
        raised = np.where((costs == 0.0) & (later == 1.0) & (rng.random(300) < 0.05), 1.0, costs)
        failures += upper_bounds(raised)[-1] < 0.4
        selected += upper_bounds(costs[(costs == 0.0) | (rng.random(300) < 0.6)])[-1] < 0.4  # the control
    assert failures <= 21 < selected


def test_the_numbers_about_missing_arms() -> None:
    truth, upper = np.array([0.5, 0.02, 0.1]), np.array([[0.55, 0.05, 0.15]])
    strategy, base = np.array([0.55, 0.40, 0.05]), np.array([0.0, 0.0, 1.0])
    rest = np.array([0.55, 0.0, 0.05]) / 0.6
    weight = weight_needed(rest, upper, np.array([0.3]), np.array([0.1]))
    served = weight * base + (1.0 - weight) * rest
    assert [strategy @ truth, rest @ truth, served @ truth] == pytest.approx([0.288, 0.467, 0.276], abs=1e-3)
    assert [upper[0] @ rest, weight] == pytest.approx([0.517, 0.52], abs=1e-3)
    assert served == pytest.approx([0.44, 0.0, 0.56], abs=1e-2)


def alarms(mean: float, rounds: int, enough: float, runs: int, limit: float = 0.1) -> int:
    found, rng = 0, np.random.default_rng(2)
    for _ in range(runs):
        detector = Detector(np.array([limit]), enough)
        found += any(detector.see(value) >= 0 for value in (rng.random((rounds, 1)) < mean).astype(float))
    return found


def test_false_alarms_are_as_rare_as_proved() -> None:
    """Theorem W, n / A = 0.1. False alarms: 1e-3, of more than 34 in 200 runs; seeded. Control: a mean above."""
    assert alarms(0.1, 500, 5_000.0, 200) <= 34 < alarms(0.2, 500, 5_000.0, 200)


@pytest.mark.parametrize("mean", [0.2, 0.3, 0.6])
def test_a_drift_is_found_as_soon_as_proved(mean: float) -> None:
    """Theorem D, with probability 0.9. False alarms: 1e-3, of more than 20 of 100; seeded. Control: a twentieth."""
    rounds = rounds_to_alarm(mean, 0.1, 2e6, 0.1)
    assert 100 - alarms(mean, rounds, 2e6, 100) <= 20 < 100 - alarms(mean, rounds // 20, 2e6, 100)
    for bet in 0.5 ** np.arange(1, 8) / 0.1:  # the formula, at s = 1/2
        phi = mean / np.sqrt(1 + 0.9 * bet) + (1 - mean) / np.sqrt(1 - 0.1 * bet)
        assert np.sqrt(7 * 2e6) * phi ** (rounds - 1) > 0.1


def test_evidence_grows_with_every_cost() -> None:
    """What is missing may count as less, and no false alarm comes earlier."""
    rng = np.random.default_rng(3)
    costs = rng.random((300, 1))
    more, less = Detector(np.array([0.4]), 1e99), Detector(np.array([0.4]), 1e99)
    for cost in costs:
        more.see(cost)
        less.see(cost * (rng.random() < 0.9))
        assert (less.evidence <= more.evidence).all()


# Runs


def test_the_witness_sees_what_is_served() -> None:
    world = World(change=50, later=(0.9, 0.6))  # nothing is safe any more
    lived = live_through(world, 60, seed=1)
    assert lived.live.over == 10
    assert lived.live.excess >= 0.3
    before = live_through(World(), 60, seed=1)
    assert before.live.over == 0 > before.live.excess
    assert before.outcome.clean
    assert before.live.gain / 60 < 0.5  # at most half of arm 0, whose gain is 1, is safe


def test_a_run_whose_bounds_begin_again_is_not_clean() -> None:
    """A bound has failed, which delta allows for; the bounds at the end no longer show it."""
    lived = live_through(World(), 300, seed=655)
    assert lived.live.excess > 0.1
    assert (lived.live._fold.policy.upper_costs[0] >= lived.live.truth).all()
    assert not lived.outcome.clean
    assert not lived.outcome.breaks


def test_runs_are_what_the_world_says() -> None:
    lost = live_through(World(lost=(0.0, 1.0), timeout=5.0), 200, seed=0).live.status()
    assert lost.lost["baseline"] == pytest.approx(0.1, abs=0.06)
    late = live_through(World(delay=misses_late), 90, seed=0).live.status()
    assert late.pending > 0 == live_through(World(), 90, seed=0).live.status().pending
    again = live_through(World(copies=3), 90, seed=0).live.status()
    assert again == live_through(World(), 90, seed=0).live.status()
    none = live_through(World(missing=(0.0, 1.0)), 50, seed=0).live.status()
    assert none.decisions == 0  # the baseline is never there, and nothing else is known to be safe


@pytest.mark.parametrize("name", [tried.name for tried in CLAIMS if tried.name.startswith("Live")])
def test_claims_about_live_experiments(name: str) -> None:
    """Few runs decide little, but a mutation is refuted."""
    tried = claim(name)
    assert tried.trial(None, 10).verdict != "refuted"
    for mutation in tried.mutations.values():
        assert tried.trial(mutation, 20).verdict == "refuted"
