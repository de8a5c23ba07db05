"""Drift plus penalty: mirror descent against queues of optimistic costs (Qiu et al. 2020)."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import Costs, observe, unknown_costs
from surefoot.kernels.dual import SOLVED, Floats
from surefoot.kernels.episode import lives_by
from surefoot.policies.base import DERIVED, Policy, optional, snapshot
from surefoot.policies.estimates import hoeffding_scale, restore
from surefoot.problem import SUM_TOLERANCE, Problem


class State(NamedTuple):
    """Weights of the arms, the queues that press on them, and what is known of the costs."""

    weights: Floats  # (K,) x_t
    queues: Floats  # (m,) Q(t)
    known: Costs
    strategy: Floats  # (K,) x_t, as it is played
    safe_weight: Floats  # (1,) 0
    thresholds: Floats  # (m,) alpha
    penalty: float  # V: what a unit of loss weighs, against a unit of queue times cost
    step: float  # alpha_md: what a step costs
    mixing: float  # lambda_mix: weight of the uniform strategy from which a step starts
    bias: float  # added to the probability by which a loss is divided


@merged
def update(state: State, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Step against penalty and queues, then let the queues grow by the excess at the new strategy."""
    observe(state.known, arm, costs)
    descend(state, arm, state.penalty * loss / (propensity + state.bias))
    for i in range(state.queues.size):
        cost = 0.0
        for a in range(state.weights.size):
            cost += max(0.0, state.known.lower[i, a]) * state.weights[a]
        state.queues[i] = max(0.0, state.queues[i] + cost - state.thresholds[i])
    return SOLVED


@compiled
def descend(state: State, arm: int, estimate: float) -> None:
    """Exponential weights on the mixed strategy, in logarithms, the largest at 0: nothing can overflow."""
    weights, largest, total = state.weights, -np.inf, 0.0
    for a in range(weights.size):
        pressure = estimate if a == arm else 0.0
        for i in range(state.queues.size):
            pressure += state.queues[i] * max(0.0, state.known.lower[i, a])
        mixed = (1.0 - state.mixing) * weights[a] + state.mixing / weights.size
        weights[a] = np.log(mixed) - pressure / state.step
        largest = max(largest, weights[a])
    for a in range(weights.size):
        weights[a] = np.exp(weights[a] - largest)
        total += weights[a]
    for a in range(weights.size):
        weights[a] /= total
        state.strategy[a] = weights[a]


lives_by(State, update)


class QueuePrimalDual(Policy):
    """Mirror descent on losses plus queued costs; a queue holds by how much a cost has been above its threshold so far.

    Losses may be adversarial, costs are i.i.d., and no safe strategy is needed. What is controlled is the *signed*
    cumulative violation, the sum over rounds of ``g_i^T x_t - alpha_i``, at order sqrt(T) up to logarithms: cheap
    rounds make up for dear ones. Nothing is promised of a single round, nor of the sum of positive parts that
    `simulate` calls ``violation``.

    Parameters
    ----------
    problem
        What is to be solved; a safe strategy is not looked at.
    seed
        Of the policy's own generator.
    learning_rate
        What a unit of loss moves (V / alpha); by default ``1 / sqrt(T)``. The implicit exploration is half of it.

    Notes
    -----
    As published: V = sqrt(T), alpha = T, and steps that start from a strategy mixed with 1 / T of the uniform one. The
    published algorithm sees all losses and costs at the end of a round. Here it sees those of the played arm, and so,
    our adaptation: losses are estimated with implicit exploration, by half the learning rate as in EXP3-IX; costs are
    replaced by lower confidence bounds, ``mean - sqrt(ln(2 T K m / delta) / (2 N))`` and never below 0, both in the
    step and in the queues. Another learning rate changes alpha and leaves V as it is.

    References
    ----------
    Qiu, Wei, Yang, Ye, Wang, "Upper confidence primal-dual reinforcement learning for CMDP with adversarial loss",
    NeurIPS 2020.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy = sf.QueuePrimalDual(sf.Problem(2, [0.5], horizon=1000), seed=7)
    >>> for _ in range(500):
    ...     decision = policy.ask()
    ...     policy.tell(decision, loss=float(decision.arm), costs=[[1.0, 0.1][decision.arm]])
    >>> policy.strategy.round(2), policy.queues.round(1)
    (array([0.38, 0.62]), array([35.7]))
    """

    kind: ClassVar[str] = "soft"
    _derived = DERIVED

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        learning_rate: float | None = None,
    ) -> None:
        rate = optional("learning_rate", learning_rate)
        super().__init__(problem, seed, learning_rate=rate)

    def _start(self) -> State:
        problem, rate = self.problem, self._options["learning_rate"]
        n_arms, n_constraints, penalty = problem.n_arms, problem.n_constraints, math.sqrt(problem.rounds)
        rate = 1.0 / penalty if rate is None else rate
        return State(
            weights=np.full(n_arms, 1.0 / n_arms),
            queues=np.zeros(n_constraints),
            known=unknown_costs(n_arms, n_constraints, hoeffding_scale(problem, n_constraints)),
            strategy=np.full(n_arms, 1.0 / n_arms),
            safe_weight=np.zeros(1),
            thresholds=problem.thresholds.copy(),
            penalty=penalty,
            step=penalty / rate,
            mixing=1.0 / problem.rounds,
            bias=rate / 2,
        )

    def _restored(self) -> None:
        weights = self._state.weights
        if abs(weights.sum() - 1.0) > SUM_TOLERANCE:
            raise ValueError(f"state.weights must sum to 1, got a sum of {weights.sum():.12g}")
        restore(self._round, self._state.known)
        self._state.strategy[:] = weights

    @property
    def queues(self) -> Floats:
        """By how much each cost has been above its threshold so far, by its lower bounds (Q(t))."""
        return snapshot(self._state.queues)
