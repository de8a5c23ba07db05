"""Pessimistic queues and optimistic rewards: one arm a round (Liu et al. 2021)."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import PAPER, CostBound, KnownCosts, bound_again, observe, start_costs
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import derived, saved, sized
from surefoot.kernels.types import SOLVED, Floats
from surefoot.policies.base import Policy, Seed, optional
from surefoot.policies.estimates import MARGIN, check_costs, hoeffding_scale, known_margin
from surefoot.problem import Problem
from surefoot.rules import Range


class State(NamedTuple):
    """Estimates of losses and costs, and queues that run ahead of the costs."""

    known: Annotated[KnownCosts, sized(m="m + 1")]  # row 0 is the loss, row i + 1 the cost i
    queues: Annotated[Floats, saved("m", rule=Range(0, 1e16))]  # Q(t)
    strategy: Annotated[Floats, derived("K")]  # a single arm
    safe_weight: Annotated[Floats, derived(1)]  # 0
    thresholds: Annotated[Floats, derived("m")]  # alpha
    work: Annotated[Floats, derived("m + 1")]  # the loss and the costs of a round
    patience: Annotated[float, derived()]  # V_t / sqrt(t)
    tightness: Annotated[float, derived()]  # eps_t sqrt(t)
    tightest: Annotated[float, derived()]  # the largest eps_t


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Observe, and let the queues grow by the excess of what was observed and a little more."""
    state.work[0] = loss
    for i in range(costs.size):
        state.work[i + 1] = costs[i]
    observe(state.known, arm, state.work)
    tightening = min(state.tightest, state.tightness / math.sqrt(rounds_seen(state)))
    for i in range(costs.size):
        state.queues[i] = max(0.0, state.queues[i] + costs[i] - state.thresholds[i] + tightening)
    choose(state)
    return SOLVED


@compiled
def rounds_seen(state: State) -> int:
    """The number of rounds of feedback."""
    total = 0
    for a in range(state.known.counts.size):
        total += state.known.counts[a]
    return total


@compiled
def choose(state: State) -> None:
    """The arm with the least optimistic loss plus queued optimistic cost over V_t; the first one of equals."""
    lower, best, least = state.known.lower, 0, np.inf
    patience = state.patience * math.sqrt(rounds_seen(state) + 1.0)
    for a in range(state.strategy.size):
        index = max(0.0, lower[0, a])
        for i in range(state.queues.size):
            index += state.queues[i] * (max(0.0, lower[i + 1, a]) - state.thresholds[i]) / patience
        if index < least:
            best, least = a, index
        state.strategy[a] = 0.0
    state.strategy[best] = 1.0


@compiled
def restore(state: State) -> None:
    """Recompute the derived leaves from the saved ones."""
    bound_again(state.known)
    choose(state)


class PessimisticOptimistic(Policy[State]):
    """The arm with the least optimistic loss plus queued cost; queues run ahead of costs, so violations are paid back.

    Losses and costs are i.i.d. The policy controls the *signed* cumulative violation, the sum over rounds of
    ``g_i(a_t) - alpha_i``: after a while there is none left. It plays one arm at a time and alternates between costly
    and cheap ones. Where the best safe strategy mixes, the sum of positive parts that `simulate` calls ``violation``
    keeps growing.

    Parameters
    ----------
    problem
        The problem. The safe strategy's margin sets how far queues run ahead; the strategy itself is not played.
    seed
        Seed of the policy's random generator. It has no effect: the choice is deterministic.
    margin
        The margin of some safe strategy (rho), if the problem has no safe strategy or to override its margin. A number
        below the true one also works, at a price in regret.

    Notes
    -----
    The arm of round t minimises ``loss(a) + sum_i Q_i (cost_i(a) - alpha_i) / V_t``, with lower confidence bounds for
    loss and costs: ``mean - sqrt(ln(2 T K (m + 1) / delta) / (2 N))``, never below 0, and 0 for what was never played.
    They hold for all rounds at once with probability 1 - delta; they stand in for the published radius
    ``sqrt(2 ln t / N)``, which is wider after the first rounds. Ties go to the first arm. A queue then becomes
    ``[Q_i + observed cost - alpha_i + eps_t]^+``.

    ``V_t = rho m^(1/4) sqrt(2 t / 3)`` is quoted from memory. ``eps_t = min(rho / 2, m^(1/4) / sqrt(6 t))`` is derived,
    not published: queues settle where ``Q / V_t`` is the price of a guardrail, which is at most 1 / rho, hence below
    ``V_t / rho``; the sum of what was added must be as large, and its increments are those of
    ``m^(1/4) sqrt(2 t / 3)``. The cap leaves a strategy that is safe under the tightened thresholds, from the first
    round on. The published ``m^(3/4) sqrt(6 / t)``, as we remember it, capped in the same way, had 1.8 to 6.7 times the
    regret on five built-in scenarios at four horizons; neither left a signed violation on any.

    References
    ----------
    Liu, Li, Shi, Ying, "An efficient pessimistic-optimistic algorithm for stochastic linear bandits with general
    constraints", NeurIPS 2021.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(2, [0.5], horizon=1000, safe=sf.SafeStrategy([0, 1], costs=[0.1]))
    >>> policy, total = sf.PessimisticOptimistic(problem), 0.0
    >>> for _ in range(1000):
    ...     decision = policy.ask()
    ...     cost = [1.0, 0.1][decision.arm]
    ...     policy.tell(decision, loss=float(decision.arm), costs=[cost])
    ...     total += cost
    >>> round(total / 1000, 3), policy.queues.round(1)
    (0.486, array([11.]))
    """

    name: ClassVar[str] = "pessimistic-optimistic"
    kind: ClassVar[str] = "soft"
    algorithm = Algorithm(State, update, choose, restore)

    def __init__(self, problem: Problem, seed: Seed = None, *, margin: float | None = None) -> None:
        super().__init__(problem, seed, margin=optional("margin", margin, MARGIN))

    def _start(self, state: Any) -> None:
        problem, n_constraints = self.problem, self.problem.n_constraints
        margin = known_margin(problem, self._options["margin"], type(self).__name__)
        start_costs(state.known, CostBound(PAPER, hoeffding_scale(problem, n_constraints + 1)))
        state.thresholds = problem.thresholds
        state.patience = margin * n_constraints**0.25 * math.sqrt(2 / 3)
        state.tightness, state.tightest = n_constraints**0.25 / math.sqrt(6), margin / 2

    def _check(self) -> None:
        check_costs(self._round, self._state.known)

    @property
    def queues(self) -> Floats:
        """By how much each cost has been above its tightened threshold so far (Q(t))."""
        return self._shown(self._state.queues)
