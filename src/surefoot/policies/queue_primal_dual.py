"""Drift plus penalty: mirror descent against queues of optimistic costs (Qiu et al. 2020)."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import PAPER, CostBound, KnownCosts, bound_again, observe, start_costs
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import derived, saved
from surefoot.kernels.types import SOLVED, Floats
from surefoot.policies.base import Policy, Seed, optional
from surefoot.policies.estimates import check_costs, hoeffding_scale, set_strategy
from surefoot.policies.rates import RATE
from surefoot.problem import Problem
from surefoot.rules import SHARE, SUM_TOLERANCE, Range, RuleError


class State(NamedTuple):
    """Weights of the arms, the queues that press on them, and what is known of the costs."""

    weights: Annotated[Floats, saved("K", rule=SHARE)]  # x_t
    queues: Annotated[Floats, saved("m", rule=Range(0, 1e16))]  # Q(t)
    known: KnownCosts
    strategy: Annotated[Floats, derived("K")]  # x_t
    safe_weight: Annotated[Floats, derived(1)]  # 0
    thresholds: Annotated[Floats, derived("m")]  # alpha
    penalty: Annotated[float, derived()]  # V: what a unit of loss weighs, against a unit of queue times cost
    step: Annotated[float, derived()]  # alpha_md: what a step costs
    mixing: Annotated[float, derived()]  # lambda_mix: weight of the uniform strategy from which a step starts
    bias: Annotated[float, derived()]  # added to the probability by which a loss is divided


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
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
        weights[a] = math.log(mixed) - pressure / state.step
        largest = max(largest, weights[a])
    for a in range(weights.size):
        weights[a] = math.exp(weights[a] - largest)
        total += weights[a]
    for a in range(weights.size):
        weights[a] /= total
        state.strategy[a] = weights[a]


@compiled
def restore(state: State) -> None:
    """Recompute the derived leaves from the saved ones."""
    bound_again(state.known)
    set_strategy(state.strategy, state.weights)


class QueuePrimalDual(Policy[State]):
    """Mirror descent on losses plus queued costs; a queue holds by how much a cost has been above its threshold so far.

    Losses may be adversarial, costs are i.i.d., and no safe strategy is needed. The policy keeps the
    *signed* cumulative violation, the sum over rounds of ``g_i^T x_t - alpha_i``, at order sqrt(T) up to logarithms:
    cheap rounds make up for costly ones. There is no guarantee for a single round, or for the sum of positive parts
    that `simulate` calls ``violation``.

    Parameters
    ----------
    problem
        The problem; its safe strategy, if any, is ignored.
    seed
        Seed of the policy's random generator.
    learning_rate
        Step per unit of loss (V / alpha); by default ``1 / sqrt(T)``. The implicit exploration is half of it.

    Notes
    -----
    As published: V = sqrt(T), alpha = T, and steps that start from a strategy mixed with 1 / T of the uniform one. The
    published algorithm sees all losses and costs at the end of a round. Here it sees only those of the played arm, so
    we adapt it: losses are estimated with implicit exploration, by half the learning rate as in EXP3-IX; costs are
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
    (array([0.34, 0.66]), array([36.4]))
    """

    name: ClassVar[str] = "queue-primal-dual"
    kind: ClassVar[str] = "soft"
    algorithm = Algorithm(State, update, restore)

    def __init__(self, problem: Problem, seed: Seed = None, *, learning_rate: float | None = None) -> None:
        super().__init__(problem, seed, learning_rate=optional("learning_rate", learning_rate, RATE))

    def _start(self, state: Any) -> None:
        problem, rate, penalty = self.problem, self._options["learning_rate"], math.sqrt(self.problem.rounds)
        rate = 1.0 / penalty if rate is None else rate
        state.weights = 1.0 / problem.n_arms
        start_costs(state.known, CostBound(PAPER, hoeffding_scale(problem, problem.n_constraints)))
        state.thresholds, state.penalty, state.step = problem.thresholds, penalty, penalty / rate
        state.mixing, state.bias = 1.0 / problem.rounds, rate / 2

    def _check(self) -> None:
        total = self._state.weights.sum()
        if abs(total - 1.0) > SUM_TOLERANCE:
            raise RuleError("state.weights", "sum to 1", total, f"a sum of {total:.12g}")
        check_costs(self._round, self._state.known)

    @property
    def queues(self) -> Floats:
        """By how much each cost has been above its threshold so far, by its lower bounds (Q(t))."""
        return self._shown(self._state.queues)
