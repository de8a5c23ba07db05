"""A whole path: every strategy, bound and rate of every round, for statements about each of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from surefoot.analysis.hindsight import Hindsight
from surefoot.analysis.ledger import WorldLedger
from surefoot.environments.scenario import Scenario
from surefoot.policies.guarded import Guarded
from surefoot.problem import Problem
from surefoot.rules import Floats, RuleError
from surefoot.simulation.episode import Factory
from surefoot.simulation.world import World, policy_seed


class Trace(NamedTuple):
    """A recorded run of COLB or SOLB. In arrays with T + 1 rows, row t is the state before round t + 1.

    Use traces for thousands of rounds: one of a million rounds would be large.
    """

    problem: Problem
    mean_costs: Floats  # (m, K)
    benchmark: Floats  # (K,) x*, of the losses of these rounds
    losses: Floats  # (T, K)
    arms: Any  # (T,)
    proposals: Floats  # (T + 1, K) x~_t
    strategies: Floats  # (T + 1, K) x_t
    safe_weights: Floats  # (T + 1,) gamma_{t-1}
    rates: Floats  # (T + 1, K) eta_t
    caps: Floats  # (T + 1, K) h_t
    base_rates: Floats  # (T + 1,) eta, before any growth
    lower: Floats  # (T + 1, m, K)
    upper: Floats  # (T + 1, m, K)
    empty_rounds: int

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.losses)

    @property
    def weights(self) -> Floats:
        """The weight of the proposal in each round (1 - gamma_{t-1}), (T,)."""
        return 1.0 - self.safe_weights[:-1]

    @property
    def loss_estimates(self) -> Floats:
        """Of the arm that was played in each round, (T,); those of the others are 0."""
        played = np.arange(self.rounds), self.arms
        return np.asarray(self.losses[played] / self.strategies[:-1][played])

    def of_arms(self, rows: Floats) -> Floats:
        """The entry of the arm that was played, out of each of the first T rows."""
        return np.asarray(rows[: self.rounds][np.arange(self.rounds), self.arms])

    @property
    def clean(self) -> bool:
        """True if every true cost was within its bounds at all times."""
        return bool((self.lower <= self.mean_costs).all() and (self.mean_costs <= self.upper).all())

    @property
    def radii(self) -> Floats:
        """Half the distance between the bounds at all times, (T + 1, K): the same for all guardrails."""
        return np.asarray((self.upper - self.lower)[:, 0] / 2.0)


def record(scenario: Scenario, factory: Factory, seed: int) -> Trace:
    """Play a policy in the world of a seed, and record everything."""
    problem = scenario.problem
    n_rounds, n_arms, n_constraints = problem.rounds, problem.n_arms, problem.n_constraints
    if scenario.feedback is not None or len(scenario.costs.phases) > 1:
        raise RuleError("scenario", "have costs that do not change and feedback at once", scenario, scenario.id)
    policy: Any = factory(problem, policy_seed(seed))
    if not isinstance(policy, Guarded) or policy.preset.follows:
        raise RuleError("factory", "make a COLB or SOLB of preset 'paper'", policy)
    arms, losses, weights = np.empty(n_rounds, np.int64), np.empty((n_rounds, n_arms)), np.empty(n_rounds + 1)
    proposals, strategies, rates, caps = (np.empty((n_rounds + 1, n_arms)) for _ in range(4))
    lower, upper = (np.empty((n_rounds + 1, n_constraints, n_arms)) for _ in range(2))
    base_rates = np.empty(n_rounds + 1)

    def write(t: int) -> None:
        state = policy._state
        proposals[t], strategies[t], weights[t] = state.learner.proposal, state.strategy, state.safe_weight[0]
        rates[t], caps[t], base_rates[t] = (
            state.learner.learning_rates, state.learner.inverse_caps, state.learner.base_rate[0],
        )  # fmt: skip
        lower[t], upper[t] = state.known.lower, state.known.upper

    t = 0
    for some_losses, some_costs in World(scenario, seed).blocks(n_rounds):
        losses[t : t + len(some_losses)] = some_losses
        for of_arms, costs in zip(some_losses, some_costs, strict=True):
            write(t)
            decision = policy.ask()
            arms[t] = decision.arm
            policy.tell(decision, float(of_arms[decision.arm]), costs[:, decision.arm].tolist())
            t += 1
    write(t)
    ledger = WorldLedger(problem, Hindsight(scenario.mean_costs, problem.thresholds), [n_rounds])
    ledger.add(losses)
    best = ledger.settled().benchmarks[0]
    return Trace(
        problem, scenario.mean_costs, best, losses, arms, proposals, strategies, weights, rates, caps, base_rates,
        lower, upper, policy.empty_rounds,
    )  # fmt: skip
