"""Entropy mirror descent over the optimistic safe set: SoftExp3, and SafeExp3 with a safe strategy mixed in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import KnownCosts, bound_again, observe, start_costs
from surefoot.kernels.entropy import Entropy, project_entropy
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import COUNT, derived, saved
from surefoot.kernels.safety import mix, weight_needed
from surefoot.kernels.types import EMPTY, SOLVED, Floats, Integers
from surefoot.policies.base import Seed, ShownLeaf, optional
from surefoot.policies.estimates import Bounds, WithConfidence, bounds_option, known_safe
from surefoot.policies.rates import RATE
from surefoot.problem import Problem
from surefoot.rules import SHARE, SUM_TOLERANCE, RuleError, numbers


class State(NamedTuple):
    """The proposal, the cost estimates, and the strategy played."""

    proposal: Annotated[Floats, saved("K", rule=SHARE)]  # x~_t
    known: KnownCosts
    empty_rounds: Annotated[Floats, saved(1, rule=COUNT)]
    gave_up: Annotated[Integers, saved(1, rule=COUNT)]  # 1 if the safe set was empty after the last round
    scores: Annotated[Floats, derived("K")]  # scratch: rate times the loss estimate
    work: Entropy
    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]
    safe_strategy: Annotated[Floats, derived("K")]
    safe_costs: Annotated[Floats, derived("m")]
    thresholds: Annotated[Floats, derived("m")]
    rate: Annotated[float, derived()]  # eta, and the bias of the loss estimates
    floor: Annotated[float, derived()]  # least share of an arm in the proposal
    mixing: Annotated[int, derived()]  # 1: mix in the safe strategy; 0: do not


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """A step of mirror descent in the safe set at the lower cost bounds; then the mixture."""
    observe(state.known, arm, costs)
    for a in range(state.scores.size):
        state.scores[a] = 0.0
    state.scores[arm] = state.rate * loss / (propensity + state.rate)
    status = project_entropy(
        state.proposal, state.scores, state.known.lower, state.thresholds, state.strategy, state.work
    )
    state.empty_rounds[0] += status == EMPTY
    total = 0.0
    for a in range(state.scores.size):
        state.proposal[a] = max(state.floor, state.strategy[a])
        total += state.proposal[a]
    for a in range(state.scores.size):
        state.proposal[a] /= total
    state.gave_up[0] = 1 if status == EMPTY else 0
    choose(state)
    return SOLVED


@compiled
def choose(state: State) -> None:
    """Mix the proposal with as much of the safe strategy as the upper cost bounds require, or play only the latter."""
    weight = 0.0
    if state.mixing == 1:
        weight = 1.0
        if state.gave_up[0] == 0:
            weight = weight_needed(state.proposal, state.known.upper, state.thresholds, state.safe_costs)
    state.safe_weight[0] = weight
    mix(state.strategy, weight, state.safe_strategy, state.proposal)


@compiled
def restore(state: State) -> None:
    """Recompute the derived leaves from the saved ones."""
    bound_again(state.known)
    choose(state)


class SoftExp3(WithConfidence[State]):
    """Soft guardrails, adversarial losses: exponential weights, projected onto the safe set at the lower cost bounds.

    Regret and total violation are of order sqrt(K T), for any loss of the best strategy.

    Parameters
    ----------
    problem
        The problem. It needs no safe strategy.
    seed
        Seed of the policy's random generator.
    learning_rate
        By default ``sqrt(ln(K / delta) / (K T))``; loss estimates are divided by the probability plus as much.
    confidence
        Replaces Hoeffding's bounds on the costs: a name or an object of `surefoot.confidence`.

    Notes
    -----
    The one-state case of the published algorithms, with exact Hoeffding radii. Shares of the proposal stay above
    1 / T^2, so that no arm is lost to rounding. When the safe set at the lower bounds is empty (which happens only when
    the bounds fail) the step ends where the multipliers have led it, and the round counts in `empty_rounds`.

    References
    ----------
    Stradi, Castiglioni, Marchesi, Gatti, "Learning adversarial MDPs with stochastic hard constraints", ICML 2025.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy = sf.SoftExp3(sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000), seed=7)
    >>> policy.tell(policy.ask(), loss=0.9, costs=[1.0])
    >>> policy.strategy.round(3)
    array([0.343, 0.343, 0.314])
    """

    name: ClassVar[str] = "soft-exp3"
    kind: ClassVar[str] = "soft"
    algorithm = Algorithm(State, update, choose, restore)
    mixes: ClassVar[bool] = False

    def __init__(
        self, problem: Problem, seed: Seed = None, *, learning_rate: float | None = None, confidence: Bounds = None
    ) -> None:  # fmt: skip
        rate = optional("learning_rate", learning_rate, RATE)
        super().__init__(problem, seed, learning_rate=rate, confidence=bounds_option(confidence))

    def _start(self, state: Any) -> None:
        problem, rate = self.problem, self._options["learning_rate"]
        if rate is None:
            rate = math.sqrt(math.log(problem.n_arms / problem.delta) / (problem.n_arms * problem.rounds))
        state.proposal = 1.0 / problem.n_arms
        start_costs(state.known, self._bound())
        state.thresholds, state.rate, state.floor = problem.thresholds, rate, 1.0 / problem.rounds**2
        if self.mixes:
            safe = known_safe(problem, type(self).__name__)
            state.safe_strategy, state.safe_costs, state.mixing = safe.strategy, safe.costs, 1

    def _set_added(self, tree: Mapping[str, Any]) -> None:
        weight = numbers("state.safe_weight", tree.get("safe_weight", 0.0), SHARE, 1)
        self._draft.gave_up = weight == 1.0  # no proposal needs all of the safe strategy

    def _check(self) -> None:
        proposal = self._state.proposal
        super()._check()
        if proposal.min() <= 0.0 or abs(proposal.sum() - 1.0) > SUM_TOLERANCE:
            raise RuleError("state.proposal", "be positive and sum to 1", proposal.tolist())

    proposal = ShownLeaf("proposal", "What mirror descent proposes, before the safe strategy is mixed in.")
    empty_rounds = ShownLeaf(
        "empty_rounds", "Number of rounds after which the safe set at the lower bounds was empty.", count=True
    )


class SafeExp3(SoftExp3):
    """Hard guardrails, adversarial losses: `SoftExp3`, with enough of the safe strategy mixed in.

    With probability at least 1 - delta, all rounds are safe, by the same mixture as in `SOLB`.

    Parameters
    ----------
    problem
        The problem, with a safe strategy.
    seed
        Seed of the policy's random generator.
    learning_rate
        By default ``sqrt(ln(K / delta) / (K T))``.
    confidence
        Replaces Hoeffding's bounds on the costs: a name or an object of `surefoot.confidence`.

    References
    ----------
    Stradi, Castiglioni, Marchesi, Gatti, "Learning adversarial MDPs with stochastic hard constraints", ICML 2025.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000, safe=sf.SafeStrategy([0, 0, 1], costs=[0.1]))
    >>> sf.SafeExp3(problem, seed=7).strategy.round(3)
    array([0.111, 0.111, 0.778])
    """

    name: ClassVar[str] = "safe-exp3"
    kind: ClassVar[str] = "hard"
    mixes: ClassVar[bool] = True
