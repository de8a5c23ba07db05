"""The presets "practical" and "guaranteed": against slow twins, for safety with a control, without a horizon."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surefoot as sf
from surefoot.theory.mutations import Altered
from tests.reference.practical import Diary, leader, least_loss, looks, mixture

MEANS = np.array([0.1, 0.4, 0.6, 0.8])
COSTS = np.array([[0.9, 0.55, 0.3, 0.2], [0.2, 0.6, 0.35, 0.3]])
SAFES = {"an arm": [0, 0, 0, 1], "a mixture": [0, 0, 0.5, 0.5]}


def problem_of(safe: str, horizon: int | None = 3000) -> sf.Problem:
    strategy = np.array(SAFES[safe], float)
    return sf.Problem(4, [0.5, 0.5], horizon, 0.05, sf.SafeStrategy(strategy, COSTS @ strategy))


def play(policy: Any, n_rounds: int, seed: int, change: int | None = None) -> Any:
    """Rounds in a world whose losses are turned round after `change` of them."""
    rng = np.random.default_rng(seed)
    for t in range(n_rounds):
        decision = policy.ask()
        means = MEANS if change is None or t < change else MEANS[::-1]
        loss = float(rng.random() < means[decision.arm])
        policy.tell(decision, loss, (rng.random(2) < COSTS[:, decision.arm]).astype(float).tolist())
        yield decision, loss


@pytest.mark.parametrize("safe", SAFES)
@pytest.mark.parametrize("preset", ["practical", "guaranteed"])
def test_rounds_follow_their_twins(preset: str, safe: str) -> None:
    problem, bold = problem_of(safe), preset == "practical"
    policy = sf.SOLB(problem, 5, preset=preset)
    optimism, lag = {"practical": (0.5, 0.3), "guaranteed": (1.0, 0.0)}[preset]
    totals, spent, found, losses, eta, since = np.zeros(4), 0.0, 0.0, 0.0, 1.0, 0
    diaries, ahead, squares, evidence = [Diary() for _ in range(4)], 0.0, 0.0, math.log(4 * 2 / 0.05)
    share, weights, before, safe_strategy = 0.1 if bold else 1.0, [policy.safe_weight], policy.proposal, problem.safe
    plan, programmed = policy._state.plans.strategies.copy()
    plans_weight, programs_weight = policy._state.plans.safe_weights.tolist()
    assert safe_strategy is not None
    active, by_arm, cut, kept, changes, moved, solved = 0, 0, 0, 0, 0, 0, 0
    for t, (decision, loss) in enumerate(play(policy, 3000, 3, change=2000), start=1):
        arm, known, upper = decision.arm, policy._state.known, policy.upper_costs
        baseline = losses / max(1, since)
        if bold:
            more = (plan - programmed)[arm] * (loss - baseline) / decision.propensity
            ahead, squares = ahead + more, squares + more**2
        else:
            cut += baseline > (1 - weights[-1]) / (2 * eta)
            baseline = min(baseline, (1 - weights[-1]) / (2 * eta))
        estimate = (loss - baseline) / decision.propensity
        losses, since = losses + loss, since + 1
        totals[arm] += estimate
        spent += (before[arm] * estimate) ** 2
        changed = bold and diaries[arm].has_changed(loss, 4, 3000)
        if changed:
            totals, spent, losses, since, ahead, squares, eta = np.zeros(4), 0.0, 0.0, 0, 0.0, 0.0, 1.0
            diaries, changes = [Diary() for _ in range(4)], changes + 1
        keeps = not changed and eta**2 * (spent - found) < lag**2 and not looks(int(known.counts[arm]))
        seen = len(diaries[arm].before) + len(diaries[arm].late)
        plans_anew = bold and (changed or looks(seen))
        plans = policy._state.plans
        if plans_anew:
            programmed, programs_weight = plans.strategies[1].copy(), float(plans.safe_weights[1])
            bounds = np.array([diary.optimistic(evidence) for diary in diaries])
            bounds -= 0.25 * (np.minimum(1, upper) - known.means).max(axis=0)
            wanted_loss = least_loss(bounds, upper, problem.thresholds, safe_strategy.strategy, safe_strategy.costs)
            assert bounds @ programmed == pytest.approx(wanted_loss, abs=1e-9)
            rest = programmed - programs_weight * safe_strategy.strategy
            assert (rest >= -1e-12).all()
            assert (upper @ rest + programs_weight * safe_strategy.costs <= problem.thresholds + 1e-12).all()
        assert (plans.strategies[1] == programmed).all() or not bold
        if keeps:
            kept += 1
            assert (policy.proposal == before).all()
        else:
            eta, found = min(eta, math.sqrt(4 * math.log(3000) / (1 + spent))), spent
            before, solved = policy.proposal, solved + 1
            assert policy.learning_rates == pytest.approx(np.full(4, eta), rel=1e-9)
            rows = known.means - optimism * (known.means - known.lower)
            if solved % 60 == 0 or t < 10 or changed or (kept and solved % 10 == 0):
                wanted = leader(totals, eta, rows, problem.limits, problem.floor)
                assert policy.proposal == pytest.approx(wanted, abs=1e-9)
                active += bool((rows @ wanted > problem.limits - 1e-6).any())
            plan, plans_weight = mixture(
                policy.proposal, upper, problem.thresholds, safe_strategy.strategy, safe_strategy.costs,
                totals, max(1, since), bold,
            )  # fmt: skip
        if bold and (plans_anew or not keeps):
            share = max(0.1, 1 / (1 + 9 * math.exp(2 * ahead / math.sqrt(1 + squares))))
        assert policy.strategy == pytest.approx(share * plan + (1 - share) * programmed, abs=1e-9)
        weights.append(share * plans_weight + (1 - share) * programs_weight)
        assert policy.safe_weight == pytest.approx(weights[-1], abs=1e-9)
        by_arm += bool(plans_weight == 0 and (plan != policy.proposal).any())
        moved += bool(0.1 < share < 1)
    # the branches were taken
    assert active >= 3
    assert cut > 10 or bold
    assert (kept > 1000) == bold
    assert bool(changes) == bold
    assert (moved > 3) == bold
    assert max(weights) > 0.3
    assert by_arm > 100 or preset == "guaranteed" or safe == "an arm"
    assert policy.empty_rounds == 0


def test_lagging_plans_are_saved_and_checked() -> None:
    """What is played is not what would be mixed anew; it comes back as it was, if it is safe."""
    policy = sf.SOLB(problem_of("a mixture"), 5, preset="practical")
    lagging = 0
    for t, _ in enumerate(play(policy, 600, 3), start=1):
        if t % 20 == 0:
            restored = sf.SOLB.from_dict(json.loads(json.dumps(policy.to_dict())))
            assert restored.to_dict() == policy.to_dict()
            assert (restored.strategy == policy.strategy).all()
            assert restored.safe_weight == policy.safe_weight
            lagging += bool(policy._state.learner.spent_then[0] < policy._state.learner.spent[0])
    assert lagging > 5
    data = policy.to_dict()
    safe = [0, 0, 0.5, 0.5]
    assert policy.upper_costs[0, 0] > 0.5
    for field, value, message in (
        ("strategies", [safe, [1.0, 0, 0, 0]], "state.plans.strategies must cost at most 0.5 at the upper bounds, got"),
        ("strategies", [[0, 0, 0, 0.9], safe], "state.plans.strategies must sum to 1, got a sum of 0.9"),
        ("safe_weights", [0.99, 0.99], "state.plans.safe_weights must be at most .* for these plans, got 0.99"),
    ):
        plans = {**data["state"]["plans"], field: value}
        with pytest.raises(ValueError, match=message):
            sf.SOLB.from_dict({**data, "state": {**data["state"], "plans": plans}})


def test_bounds_that_move_both_ways_allow_no_lag() -> None:
    policy = sf.SOLB(problem_of("an arm"), 5, preset="practical", confidence="paper")
    for _ in play(policy, 300, 3):
        assert policy._state.learner.spent_then[0] == policy._state.learner.spent[0]


class Careless(Altered):
    """Takes the means for upper bounds."""

    def _alter(self) -> None:
        known = self._state.known
        seen = known.counts > 0
        known.upper[:, seen] = known.means[:, seen]


def violating(cls: Any, runs: int, safe: str, **options: Any) -> int:
    problem = problem_of(safe, 2000)
    scenario = sf.Scenario("tight-v1", problem, sf.losses.Bernoulli(MEANS), sf.costs.Bernoulli(COSTS))
    run = sf.simulate(scenario, {"it": lambda p, s: cls(p, s, **options)}, runs, [2000], workers=2)
    rows = run.table.to_pylist()
    assert all(row["empty_rounds"] == 0 for row in rows) or cls is not sf.SOLB
    return sum(row["rounds_in_violation"] > 0 for row in rows)


@pytest.mark.filterwarnings("ignore::surefoot.policies.base.Contradiction")  # the sign of a bound that has failed
@pytest.mark.parametrize("safe", SAFES)
@pytest.mark.parametrize("confidence", [None, "eb-mixture", "kl-mixture", "hoeffding"])
def test_every_round_is_safe_with_the_promised_probability(confidence: str | None, safe: str) -> None:
    """At most delta = 0.05 of 200 runs may have any violation: refuted beyond the 1e-3 quantile."""
    most = int(binom.isf(1e-3, 200, 0.05))
    assert violating(sf.SOLB, 200, safe, preset="practical", confidence=confidence) <= most
    if confidence is None:
        careless = type("Careless", (Careless, sf.SOLB), {})
        assert violating(careless, 40, safe, preset="practical") > int(binom.isf(1e-3, 40, 0.05))


def test_regret_is_a_fraction_of_the_papers() -> None:
    """T = 20,000, other seeds than any it was looked at with."""
    scenario = sf.scenarios.make("stochastic-v1", horizon=20_000)
    makers = {
        preset: lambda p, s, preset=preset: sf.SOLB(p, s, preset=preset)
        for preset in ("paper", "practical", "guaranteed")
    }
    rows = sf.simulate(scenario, makers, range(500, 510), [20_000], workers=2).summary().to_pylist()
    regret = {row["policy"]: row for row in rows}
    assert regret["practical"]["regret_high"] < regret["paper"]["regret_low"] / 4
    assert regret["guaranteed"]["regret_high"] < regret["paper"]["regret_low"] / 2


def test_colb_violates_less() -> None:
    scenario = sf.scenarios.make("stochastic-v1", horizon=20_000)
    makers = {
        "paper": lambda p, s: sf.COLB(p, s, preset="paper", learning_rate="practical"),
        "practical": lambda p, s: sf.COLB(p, s, preset="practical"),
    }
    rows = sf.simulate(scenario, makers, range(500, 510), [20_000], workers=2).summary().to_pylist()
    violation = {row["policy"]: row for row in rows}
    assert violation["practical"]["violation_high"] < violation["paper"]["violation_low"] / 3


@pytest.mark.parametrize("cls", [sf.SOLB, sf.COLB])
def test_without_a_horizon_it_goes_on_and_stays_safe(cls: Any) -> None:
    policy = cls(problem_of("an arm", None), 5, preset="practical")
    for _ in play(policy, 5000, 3):
        if cls is sf.SOLB:
            assert (COSTS @ policy.strategy <= 0.5 + 1e-12).all()  # a seed on which the bounds hold
    assert policy.round == 5000
    assert policy.empty_rounds == 0
    assert policy.safe_weight < 0.3
    restored = cls.from_dict(json.loads(json.dumps(policy.to_dict())))
    for (one, _), (two, _) in zip(play(policy, 50, 9), play(restored, 50, 9), strict=True):
        assert one == two


def test_what_needs_a_horizon_says_so() -> None:
    endless = problem_of("an arm", None)
    with pytest.raises(ValueError, match="problem must have a horizon for preset 'paper', got horizon=None"):
        sf.SOLB(endless, preset="paper")
    with pytest.raises(ValueError, match="problem must have a horizon for confidence 'hoeffding', got horizon=None"):
        sf.SOLB(endless, preset="practical", confidence="hoeffding")


def test_a_rate_may_be_given() -> None:
    policy = sf.COLB(problem_of("an arm"), 5, preset="practical", learning_rate=0.07)
    for _ in play(policy, 100, 3):
        assert (policy.learning_rates == 0.07).all()


@pytest.mark.parametrize(("n_arms", "m"), [(2, 0), (2, 1), (6, 5), (10, 12)])
def test_solvers_find_something_in_every_round(n_arms: int, m: int) -> None:
    """Also where constraints come twice, and thresholds are 1 and almost 0; the control asks for what there is not."""
    rng = np.random.default_rng([n_arms, m])
    costs = rng.uniform(0.1, 0.9, (m, n_arms))
    costs[:, -1] = 0.1
    thresholds = np.full(m, 0.4)
    if m > 4:
        costs[1], costs[2, -1], thresholds[2], thresholds[3] = costs[0], 0.0, 0.03, 1.0
    safe = sf.SafeStrategy(np.eye(n_arms)[-1], costs[:, -1])
    scenario = sf.Scenario(
        "many-v1", sf.Problem(n_arms, thresholds, 5000, 0.05, safe), sf.losses.Bernoulli(rng.uniform(0, 1, n_arms)),
        sf.costs.Bernoulli(costs),
    )  # fmt: skip
    run = sf.simulate(scenario, {"it": lambda p, s: sf.SOLB(p, s, preset="practical")}, range(10), [5000], workers=1)
    rows = run.table.to_pylist()
    assert [row["empty_rounds"] for row in rows] == [0] * 10
    if m:
        policy = sf.SOLB(scenario.problem, 1, preset="practical")
        policy._state.plans.program.limits[:] = -1.0
        policy.tell(policy.ask(), 0.5, [0.0] * m)
        assert policy.empty_rounds == 1
        assert policy._state.plans.safe_weights[1] == 1.0


def test_the_least_propensities_leave_a_strategy_and_lesser_ones_are_refused() -> None:
    policy = sf.SOLB(problem_of("an arm"), 5, preset="practical")
    least = policy._least_propensity()
    for arm in (0, 1, 0, 3):
        before = policy.to_dict()
        with pytest.raises(ValueError, match=r"^propensity must be in \[.*, 1\], got"):
            policy.tell(sf.Decision(arm, 0.999 * least), 1.0, [1.0, 1.0])
        assert policy.to_dict() == before
        policy.tell(sf.Decision(arm, least), 1.0, [1.0, 1.0])
        assert np.isfinite(policy.strategy).all()
        assert abs(policy.strategy.sum() - 1) < 1e-9
        restored = sf.SOLB.from_dict(json.loads(json.dumps(policy.to_dict())))
        assert restored.to_dict() == policy.to_dict()
