"""Primal-dual learning: EXP3-IX plays against prices for the guardrails (Castiglioni et al. 2022)."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import TOTAL, derived, saved
from surefoot.kernels.types import Floats
from surefoot.policies.base import Policy, Seed, optional
from surefoot.policies.estimates import MARGIN, known_margin, set_strategy
from surefoot.policies.exp3 import State as Primal
from surefoot.policies.exp3 import choose, usual_rate
from surefoot.policies.exp3 import update as take_in
from surefoot.policies.rates import RATE
from surefoot.problem import Problem
from surefoot.rules import RuleError


class State(NamedTuple):
    """EXP3-IX, and the prices of the guardrails."""

    primal: Primal
    duals: Annotated[Floats, saved("m", rule=TOTAL)]  # lambda_t
    strategy: Annotated[Floats, derived("K")]  # that of the primal
    safe_weight: Annotated[Floats, derived(1)]  # 0
    thresholds: Annotated[Floats, derived("m")]  # alpha
    dual_rate: Annotated[float, derived()]  # eta_D
    price_limit: Annotated[float, derived()]  # 1 / rho


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """A step of EXP3-IX on the Lagrangian, then a step of projected ascent on the prices."""
    duals, limit, lagrangian = state.duals, state.price_limit, loss
    for i in range(costs.size):
        excess = costs[i] - state.thresholds[i]
        lagrangian += duals[i] * excess
        duals[i] += state.dual_rate * excess
    project(duals, limit)
    status = take_in(state.primal, arm, propensity, weight, (lagrangian + limit) / (1.0 + 2.0 * limit), costs)
    set_strategy(state.strategy, state.primal.strategy)
    return status


@compiled
def project(duals: Floats, limit: float) -> None:
    """The nearest point of {x >= 0, sum x <= limit}: all coordinates less one number, but none below 0.

    The number is 0 or puts the sum at the limit. It is found by solving for the coordinates that are positive at the
    last guess: guesses only grow and coordinates only fall out, until none does.
    """
    guess, positive, before = 0.0, -1, -2
    while positive != before:
        total, before, positive = 0.0, positive, 0
        for i in range(duals.size):
            if duals[i] > guess:
                total += duals[i]
                positive += 1
        guess = max(guess, (total - limit) / positive) if positive > 0 else guess
    for i in range(duals.size):
        duals[i] = max(0.0, duals[i] - guess)


@compiled
def begin(state: State) -> None:
    """Set what follows from the totals of the primal."""
    choose(state.primal)
    set_strategy(state.strategy, state.primal.strategy)


class PrimalDual(Policy[State]):
    """EXP3-IX on losses plus priced costs, where prices rise with costs above their thresholds and fall below.

    Losses may be adversarial. The policy keeps the *signed* cumulative violation, the sum over rounds of
    ``g_i^T x_t - alpha_i``, at order sqrt(T): cheap rounds make up for costly ones. There is no guarantee for a single
    round, or for the sum of positive parts that `simulate` calls ``violation``.

    Parameters
    ----------
    problem
        The problem. The safe strategy's margin sets how high prices may rise; the strategy itself is not played.
    seed
        Seed of the policy's random generator.
    learning_rate
        Learning rate of EXP3-IX, by default ``sqrt(2 ln K / (T K))``; the implicit exploration is half of it.
    dual_rate
        Step of the prices; by default ``sqrt(2) / (margin sqrt(m T))``.
    margin
        The margin of some safe strategy (rho), if the problem has no safe strategy or to override its margin. A number
        below the true one also works, at a price in regret.

    Notes
    -----
    The prices live in ``{lambda >= 0, sum lambda <= 1 / rho}``, where the prices of the best safe strategy are; the
    projection is exact. The Lagrangian ``loss + sum_i lambda_i (cost_i - alpha_i)`` lies in ``[-1 / rho, 1 + 1 / rho]``
    and is moved and shrunk to [0, 1] before EXP3-IX sees it.

    Derived, not tuned: ``dual_rate`` is diameter over gradient times sqrt(T), the rate that gradient ascent's bound is
    least for (the diameter of the domain is sqrt(2) / rho, a gradient at most sqrt(m)). The learning rate is that of
    EXP3-IX for losses in [0, 1]. The published algorithm takes any learner with regret bounds that hold with high
    probability; EXP3-IX is our choice. An unknown margin, for which it has phases of play and recovery, is not
    implemented. Late feedback is priced at the prices of the round in which it arrives.

    References
    ----------
    Castiglioni, Celli, Marchesi, Romano, Gatti, "A unifying framework for online optimization with long-term
    constraints", NeurIPS 2022.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(2, [0.5], horizon=1000, safe=sf.SafeStrategy([0, 1], costs=[0.1]))
    >>> policy = sf.PrimalDual(problem, seed=7)
    >>> for _ in range(500):
    ...     decision = policy.ask()
    ...     policy.tell(decision, loss=float(decision.arm), costs=[[1.0, 0.1][decision.arm]])
    >>> policy.strategy.round(2), policy.duals.round(2)
    (array([0.47, 0.53]), array([1.]))
    """

    name: ClassVar[str] = "primal-dual"
    kind: ClassVar[str] = "soft"
    algorithm = Algorithm(State, update, begin)

    def __init__(
        self, problem: Problem, seed: Seed = None, *, learning_rate: float | None = None,
        dual_rate: float | None = None, margin: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            problem,
            seed,
            learning_rate=optional("learning_rate", learning_rate, RATE),
            dual_rate=optional("dual_rate", dual_rate, RATE),
            margin=optional("margin", margin, MARGIN),
        )

    def _start(self, state: Any) -> None:
        problem, options = self.problem, self._options
        margin = known_margin(problem, options["margin"], type(self).__name__)
        rate, dual_rate = options["learning_rate"], options["dual_rate"]
        state.primal.rate = usual_rate(problem) if rate is None else rate
        state.primal.bias = state.primal.rate / 2
        if dual_rate is None:
            dual_rate = math.sqrt(2 / max(1, problem.n_constraints) / problem.rounds) / margin
        state.thresholds, state.dual_rate = problem.thresholds, dual_rate
        state.price_limit = 1.0 / margin if problem.n_constraints else 0.0

    def _check(self) -> None:
        total, limit = float(self._state.duals.sum()), self._state.price_limit
        if total > limit * (1 + 1e-9):
            raise RuleError("state.duals", f"sum to at most 1 / margin = {limit:g}", total, f"a sum of {total:g}")

    @property
    def duals(self) -> Floats:
        """The prices of the guardrails (lambda_t)."""
        return self._shown(self._state.duals)
