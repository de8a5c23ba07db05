"""The doubling trick, weighted estimates with late feedback, and the warning about rates that move nothing."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.kernels.costs import CostBound, observe, unknown_costs
from surefoot.kernels.safety import weight_needed
from surefoot.policies.rates import Motionless, Sized, comparators_log, shortest_moving, weighted_rate
from tests.policies.constants import shrink_allowance, shrink_radius

SAFE = sf.SafeStrategy([0, 0, 0, 1], [0.2])
PROBLEM = sf.Problem(4, [0.5], 4000, 0.05, SAFE)
SIZES = Sized(4, 1, 4000, 0.05)
MEANS, COSTS = np.array([0.2, 0.5, 0.6, 0.9]), np.array([0.8, 0.5, 0.3, 0.2])


def play(policy: Any, n_rounds: int, seed: int) -> Any:
    """Rounds with Bernoulli losses and costs; what each decision was, before and after feedback."""
    rng = np.random.default_rng(seed)
    for _ in range(n_rounds):
        decision = policy.ask()
        loss, cost = float(rng.random() < MEANS[decision.arm]), float(rng.random() < COSTS[decision.arm])
        restarts = policy.restarts
        policy.tell(decision, loss, [cost])
        yield decision, cost, policy.restarts > restarts


@pytest.mark.parametrize("estimator", ["paper", "weighted"])
def test_a_restart_leaves_what_is_known_of_the_costs_and_safety_untouched(estimator: str) -> None:
    policy = sf.SOLB(PROBLEM, 3, preset="paper", learning_rate="doubling", estimator=estimator)
    shrink_radius(policy, 0.02)
    shrink_allowance(policy, 0.1)
    state = policy._state
    twin = unknown_costs(4, 1, CostBound(scale=state.known.scale))
    thresholds, safe_costs = PROBLEM.thresholds.copy(), SAFE.costs.copy()
    seen = 0
    for decision, cost, restarted in play(policy, 4000, 1):
        observe(twin, decision.arm, np.array([cost]))
        seen += restarted
        if restarted:
            assert (policy.learning_rates == 0.5**policy.restarts / 2).all()
            assert policy.inverse_caps == pytest.approx(np.maximum(8.0, 2 / policy.proposal), rel=1e-15)
            # the analytic centre: no other point of the safe set has a larger product of shares
            centre, rng = policy.proposal, np.random.default_rng(seen)
            others = PROBLEM.floor + (1 - 4 * PROBLEM.floor) * rng.dirichlet(np.ones(4), 4000)
            others = others[(others @ twin.lower.T <= PROBLEM.limits).all(axis=1)]
            assert len(others) > 10
            assert (np.log(others).sum(axis=1) <= np.log(centre).sum() + 1e-12).all()
        # costs are counted on, and the mixture is the one they ask for, restart or not
        assert (state.known.counts == twin.counts).all()
        assert (policy.upper_costs == twin.upper).all()
        assert (policy.lower_costs == twin.lower).all()
        assert policy.safe_weight == weight_needed(policy.proposal.copy(), twin.upper, thresholds, safe_costs)
        mixture = policy.safe_weight * SAFE.costs + (1 - policy.safe_weight) * np.minimum(
            1, twin.upper @ policy.proposal
        )
        assert (mixture <= thresholds + 1e-12).all()
    assert seen >= 2


def test_doubling_restarts_when_the_rate_has_spent_its_allowance_and_not_before() -> None:
    policy = sf.COLB(sf.Problem(4, [], 3000), 3, preset="paper", learning_rate="doubling")
    allowance, spent, rate, when = 4 * math.log(3000), 0.0, 0.5, []
    for t in range(3000):
        decision = policy.ask()
        loss = 0.3 + 0.7 * (t % 2)
        policy.tell(decision, loss)
        spent += loss**2
        if rate**2 * spent > allowance:
            spent, rate = 0.0, rate / 2
            when.append(t)
        assert policy.restarts == len(when)
        assert policy._state.learner.base_rate[0] == rate
    assert len(when) >= 2
    assert rate >= math.sqrt(allowance / 3000) / 2  # never slower than half of what the horizon asks for


def test_absurd_feedback_cannot_drive_the_rate_to_nothing() -> None:
    policy = sf.COLB(sf.Problem(4, [], 300), 3, preset="paper", learning_rate="doubling")
    for _ in range(200):
        policy.tell(sf.Decision(0, policy._least_propensity()), 1.0)
    assert policy.learning_rates.min() >= 1e-12
    assert np.isfinite(policy.strategy).all()
    assert sf.COLB.from_dict(json.loads(json.dumps(policy.to_dict()))).to_dict() == policy.to_dict()


def test_doubling_pays_little_for_not_knowing_the_benchmark_loss() -> None:
    """Unconstrained, K = 4, T = 3000: regret of at most 3 times that of the tuned rate, and of order sqrt(K L* ln T).

    Means over 20 seeds, with room for three standard errors. The control: a rate stuck at the worst case.
    """
    problem = sf.Problem(4, [], 3000)
    for best in (0.01, 0.05, 0.1):
        scenario = sf.Scenario(
            "plain-v1", problem, sf.losses.Bernoulli([best, 0.5, 0.6, 0.7]), sf.costs.Bernoulli(np.zeros((0, 4)))
        )
        total = best * 3000
        makers = {
            "doubling": lambda problem, seed: sf.COLB(problem, seed, preset="paper", learning_rate="doubling"),
            "tuned": lambda problem, seed: sf.COLB(
                problem, seed, preset="paper", learning_rate="practical", benchmark_loss=total
            ),
            "theory": lambda problem, seed: sf.COLB(problem, seed, preset="paper"),
        }
        run = sf.simulate(scenario, makers, seeds=20, checkpoints=[3000], workers=2).summary().to_pylist()
        regret = {row["policy"]: row["regret"] for row in run}
        assert regret["doubling"] <= 3 * regret["tuned"] + 10
        assert regret["doubling"] <= 2 * math.sqrt(4 * total * math.log(3000))
        assert regret["theory"] > 2 * math.sqrt(4 * total * math.log(3000))


def test_late_feedback_counts_by_the_weight_it_was_drawn_with() -> None:
    def fresh() -> sf.SOLB:
        policy = sf.SOLB(PROBLEM, 3, preset="paper", learning_rate=0.2, estimator="weighted")
        shrink_radius(policy, 0.02)
        return policy

    policy, drawn_now, unweighted = fresh(), fresh(), fresh()
    late = sf.Decision(*fresh().ask()[:3])  # without its number: later decisions of its arm are told first
    assert late.proposal_weight == 1 - policy.safe_weight
    for one in (policy, drawn_now, unweighted):
        for _ in play(one, 300, 2):
            pass
    assert policy.safe_weight < 1 - late.proposal_weight
    before = policy.proposal
    policy.tell(late, 1.0, [1.0])
    drawn_now.tell(late._replace(proposal_weight=1 - drawn_now.safe_weight), 1.0, [1.0])
    unweighted.tell((late.arm, late.propensity), 1.0, [1.0])  # for an arm chosen elsewhere the whole loss counts
    moved = [abs(one.proposal - before).max() for one in (policy, drawn_now, unweighted)]
    assert moved[0] < moved[1] < moved[2]


def test_weighted_is_paper_where_nothing_is_mixed_in() -> None:
    problem = sf.Problem(4, [1.0], 500, safe=sf.SafeStrategy([0, 0, 0, 1], [0.2]))
    one, two = (sf.SOLB(problem, 3, preset="paper", learning_rate=0.2, estimator=e) for e in ("paper", "weighted"))
    for policy in (one, two):
        for _ in play(policy, 500, 1):
            pass
    assert one.to_dict()["state"] == two.to_dict()["state"]


@pytest.mark.parametrize("weight", [-0.1, 1.1, math.nan, "1", None, True])
def test_a_proposal_weight_that_is_none_is_refused(weight: Any) -> None:
    policy = sf.SOLB(PROBLEM, 3, preset="paper", estimator="weighted")
    before = policy.to_dict()
    with pytest.raises(ValueError, match=r"proposal_weight must be .*in \[0, 1\], got"):
        policy.tell((0, 0.5, weight), 0.5, [0.5])
    assert policy.to_dict() == before


def test_the_cap_of_weighted_estimates_knows_no_margin() -> None:
    rates = []
    for cost in (0.1, 0.45):
        problem = sf.Problem(4, [0.5], 4000, 0.05, sf.SafeStrategy([0, 0, 0, 1], [cost]))
        rates.append(sf.SOLB(problem, preset="paper", estimator="weighted").learning_rates[0])
    iota = math.log((13 + 2) * math.comb(5, 2) / 0.05)  # 2^13 is the first power of 2 from 8000 on
    assert comparators_log(SIZES) == pytest.approx(iota * math.log(4000))
    assert rates[0] == rates[1] == weighted_rate(SIZES, 4000)
    assert weighted_rate(SIZES, 0) == pytest.approx(1 / (40 * math.log(4000) * iota))


def test_rates_that_move_nothing_are_said_so() -> None:
    with pytest.warns(
        Motionless, match=r"learning_rate = 'theory' \(.*\) leaves .* for 4,000 rounds: .* about [\d.e+]+$"
    ):
        sf.SOLB(PROBLEM, preset="paper")
    with pytest.warns(Motionless, match=r"learning_rate = 0.001 \(0.001\) leaves .* it would need about 4.3e\+04"):
        sf.COLB(PROBLEM, preset="paper", learning_rate=0.001)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rate in (0.01, "practical", "doubling"):
            sf.COLB(PROBLEM, preset="paper", learning_rate=rate)


@pytest.mark.parametrize("options", [{}, {"estimator": "weighted"}, {"learning_rate": 1e-4}])
def test_the_rounds_that_would_be_needed(options: dict[str, Any]) -> None:
    """A policy for that horizon gives no warning, one for 10 % less does."""
    with pytest.warns(Motionless) as caught:
        sf.SOLB(PROBLEM, preset="paper", **options)
    needed = float(str(caught[0].message).split()[-1])
    for factor, moves in ((1.1, True), (0.9, False)):
        problem = sf.Problem(4, [0.5], int(factor * needed), 0.05, PROBLEM.safe)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            sf.SOLB(problem, preset="paper", **options)
        assert bool(said) is not moves


def test_a_horizon_that_is_never_enough_ends_the_search() -> None:
    assert shortest_moving(5, 1000, lambda horizon: 1 / horizon**2) >= 1e30
