"""What COLB and SOLB promise with the preset "paper", in terms of what they show: beyond the contract of policies."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest

import surefoot as sf
from surefoot.testing import PolicyContract, make_problem
from surefoot.testing.worlds import binding_rounds, rounds


class MirrorDescentContract(PolicyContract):
    """Every step is `surefoot.project`, every mixture as safe as needed, and restarts come when the docstring says."""

    weighted = False  # whether the option estimator is "weighted"
    doubling = False  # whether the option learning_rate is "doubling"

    def test_every_step_is_the_projection(self, binding: sf.Problem) -> None:
        policy, steps = self.make(binding, 3), 0
        for (arm, propensity, *_), loss, costs in binding_rounds(binding):
            told = sf.Decision(arm, propensity / 2, 0.7)  # an arm that was drawn elsewhere
            center, rates, restarts = policy.proposal, policy.learning_rates, policy.restarts
            policy.tell(told, 0.1 + 0.8 * loss, costs)
            if policy.restarts > restarts or policy.round % 4 > 0:
                continue
            estimate = np.zeros(binding.n_arms)
            estimate[arm] = (0.1 + 0.8 * loss) / told.propensity * (0.7 if self.weighted else 1.0)
            step = sf.project(center, rates, estimate, policy.lower_costs, binding.limits, binding.floor)
            assert policy.proposal == pytest.approx(step.strategy, abs=1e-9)
            steps += bool(step.multipliers.any())
        assert steps >= 20, f"tested nothing: a limit was active in {steps} steps only"

    def test_the_mixture_has_the_weight_that_the_upper_bounds_need(self, binding: sf.Problem) -> None:
        policy = self.make(binding, 3)
        if policy.kind != "hard":
            pytest.skip("mixes nothing in")
        safe, mixed = binding.safe, 0
        assert safe is not None
        for feedback in binding_rounds(binding):
            policy.tell(*feedback)
            costs = np.minimum(1.0, policy.upper_costs @ policy.proposal)
            over = costs > binding.thresholds
            needed = max((costs - binding.thresholds)[over] / (costs - safe.costs)[over], default=0.0)
            assert policy.safe_weight == pytest.approx(needed, abs=1e-12)
            mixture = needed * safe.strategy + (1 - needed) * policy.proposal
            assert policy.strategy == pytest.approx(mixture, abs=1e-12)
            mixed += 0 < needed < 1
        assert mixed >= 50, f"tested nothing: there was a mixture in {mixed} rounds only"

    def test_restarts_come_when_the_rate_has_spent_its_allowance(self) -> None:
        if not self.doubling:
            pytest.skip("has no doubling rate")
        problem = make_problem("K=2 m=1", horizon=1_000)
        policy, rate, spent, restarts = self.make(problem, 3), 0.5, 0.0, 0
        for loss, costs in islice(rounds(problem, 0), problem.rounds):
            decision, proposal = policy.ask(), policy.proposal
            loss = 0.5 + loss / 2
            policy.tell(decision, loss, costs)
            fed = loss / decision.propensity * (decision.proposal_weight if self.weighted else 1.0)
            weight = 1.0 if self.weighted else decision.proposal_weight
            spent += weight * (proposal[decision.arm] * fed) ** 2
            if rate**2 * spent > problem.n_arms * math.log(problem.rounds):
                rate, spent, restarts = rate / 2, 0.0, restarts + 1
            assert policy.restarts == restarts
        assert restarts > 0, "tested nothing: the rate never spent its allowance"
