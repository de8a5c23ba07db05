"""Entropy mirror descent over the optimistic safe set: SoftExp3, and SafeExp3 with a safe strategy mixed in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from surefoot.confidence import Confidence
from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import Costs, observe
from surefoot.kernels.dual import EMPTY, SOLVED, Floats
from surefoot.kernels.entropy import Entropy, entropy, project_entropy
from surefoot.kernels.episode import lives_by
from surefoot.kernels.safety import mix, weight_needed
from surefoot.policies.base import optional, snapshot
from surefoot.policies.estimates import EstimatesCosts, bounded_costs, bounds_option, restore
from surefoot.problem import SUM_TOLERANCE, Problem


class State(NamedTuple):
    """The proposal, what is known of the costs, and what is played."""

    proposal: Floats  # (K,) x~_t
    known: Costs
    empty_rounds: Floats  # (1,)
    scores: Floats  # (K,) scratch: rate times the loss estimate
    work: Entropy
    strategy: Floats  # (K,)
    safe_weight: Floats  # (1,)
    safe_strategy: Floats  # (K,)
    safe_costs: Floats  # (m,)
    thresholds: Floats  # (m,)
    rate: float  # eta, and the bias of the loss estimates
    floor: float  # least share of an arm in the proposal
    mixing: float  # 1: mix in the safe strategy; 0: do not


@merged
def update(state: State, arm: int, propensity: float, loss: float, costs: Floats) -> int:
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
    choose(state, status == EMPTY)
    return SOLVED


@compiled
def choose(state: State, empty: bool) -> None:
    """The proposal, with as much of the safe strategy as the upper cost bounds ask for, or all of it."""
    weight = 0.0
    if state.mixing > 0.0:
        weight = 1.0
        if not empty:
            weight = weight_needed(state.proposal, state.known.upper, state.thresholds, state.safe_costs)
    state.safe_weight[0] = weight
    mix(state.strategy, weight, state.safe_strategy, state.proposal)


lives_by(State, update)


class SoftExp3(EstimatesCosts):
    """Soft constraints, adversarial losses: exponential weights, projected onto the safe set at the lower cost bounds.

    Regret and total violation are of order sqrt(K T), whatever the loss of the best strategy.

    Parameters
    ----------
    problem
        What is to be solved. A safe strategy is not needed.
    seed
        Of the policy's own generator.
    learning_rate
        By default ``sqrt(ln(K / delta) / (K T))``; loss estimates are divided by the probability plus as much.
    confidence
        Bounds on the costs other than Hoeffding's: a name or an object of `surefoot.confidence`.

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
    array([0.343, 0.314, 0.343])
    """

    kind: ClassVar[str] = "soft"
    mixes: ClassVar[bool] = False

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        learning_rate: float | None = None,
        confidence: str | Mapping[str, Any] | Confidence | None = None,
    ) -> None:
        rate = optional("learning_rate", learning_rate)
        super().__init__(problem, seed, learning_rate=rate, confidence=bounds_option(confidence))

    def _start(self) -> State:
        problem, safe = self.problem, self.problem.safe
        if self.mixes and safe is None:
            raise ValueError(f"problem must have a safe strategy for {type(self).__name__}, got safe=None")
        n_arms, n_constraints, rate = problem.n_arms, problem.n_constraints, self._options["learning_rate"]
        if rate is None:
            rate = math.sqrt(math.log(n_arms / problem.delta) / (n_arms * problem.rounds))
        state = State(
            proposal=np.full(n_arms, 1.0 / n_arms),
            known=bounded_costs(problem, self._options["confidence"]),
            empty_rounds=np.zeros(1),
            scores=np.zeros(n_arms),
            work=entropy(n_constraints),
            strategy=np.zeros(n_arms),
            safe_weight=np.zeros(1),
            safe_strategy=np.zeros(n_arms) if safe is None else safe.strategy.copy(),
            safe_costs=np.zeros(n_constraints) if safe is None else safe.costs.copy(),
            thresholds=problem.thresholds.copy(),
            rate=rate,
            floor=1.0 / problem.rounds**2,
            mixing=float(self.mixes),
        )
        choose(state, False)
        return state

    def _restored(self) -> None:
        state, weight = self._state, self.safe_weight
        restore(self._round, state.known)
        if state.proposal.min() <= 0.0 or abs(state.proposal.sum() - 1.0) > SUM_TOLERANCE:
            raise ValueError(f"state.proposal must be positive and sum to 1, got {state.proposal.tolist()}")
        choose(state, self.mixes and weight == 1.0)
        if self.safe_weight != weight:
            raise ValueError(f"state.safe_weight must be {self.safe_weight:g}, got {weight:g}")

    @property
    def proposal(self) -> Floats:
        """What mirror descent proposes, before the safe strategy is mixed in."""
        return snapshot(self._state.proposal)

    @property
    def empty_rounds(self) -> int:
        """After how many rounds the safe set at the lower bounds was empty."""
        return int(self._state.empty_rounds[0])


class SafeExp3(SoftExp3):
    """Hard constraints, adversarial losses: `SoftExp3`, with enough of the safe strategy mixed in.

    Every round is safe with probability 1 - delta, by the same mixture as in `SOLB`.

    Parameters
    ----------
    problem
        What is to be solved, with a safe strategy.
    seed
        Of the policy's own generator.
    learning_rate
        By default ``sqrt(ln(K / delta) / (K T))``.
    confidence
        Bounds on the costs other than Hoeffding's: a name or an object of `surefoot.confidence`.

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

    kind: ClassVar[str] = "hard"
    mixes: ClassVar[bool] = True
