"""Optimism for stochastic losses: each round the best strategy of a linear program at the confidence bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from surefoot.confidence import Confidence
from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import Costs, observe
from surefoot.kernels.dual import SOLVED, UNDECIDED, Floats
from surefoot.kernels.episode import lives_by
from surefoot.kernels.linear import Program, minimise, program
from surefoot.kernels.safety import mix, weight_needed
from surefoot.policies.base import snapshot
from surefoot.policies.estimates import EstimatesCosts, bounded_costs, bounds_option, hoeffding_losses, restore
from surefoot.problem import Problem


class State(NamedTuple):
    """Estimates of losses and costs, and what they lead to."""

    known: Costs
    lost: Costs  # (1, K) the losses, as if they were a cost
    observed_loss: Floats  # (1,) scratch
    task: Program
    vertex: Floats  # (K,) the solution of the program
    strategy: Floats  # (K,)
    safe_weight: Floats  # (1,)
    safe_strategy: Floats  # (K,)
    safe_costs: Floats  # (m,)
    thresholds: Floats  # (m,)
    mixing: float  # 1: mix in the safe strategy; 0: do not


@merged
def update(state: State, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Estimates of the played arm, then the program."""
    observe(state.known, arm, costs)
    state.observed_loss[0] = loss
    observe(state.lost, arm, state.observed_loss)
    choose(state)
    return SOLVED


@compiled
def choose(state: State) -> None:
    """The least lower bound of the loss among strategies that may be safe; then, if asked, enough of the safe one."""
    task = state.task
    for a in range(state.strategy.size):
        task.losses[a] = max(0.0, state.lost.lower[0, a])
        for i in range(state.thresholds.size):
            task.costs[i, a] = max(0.0, state.known.lower[i, a])
    status = minimise(task, state.vertex)
    weight = 0.0
    if state.mixing > 0.0:
        weight = weight_needed(state.vertex, state.known.upper, state.thresholds, state.safe_costs)
        if status == UNDECIDED:  # the safe strategy alone
            weight = 1.0
    state.safe_weight[0] = weight
    mix(state.strategy, weight, state.safe_strategy, state.vertex)


lives_by(State, update)


class OptimisticLP(EstimatesCosts):
    """Soft constraints and stochastic losses: the strategy that is best if losses and costs are at their lower bounds.

    Regret and total violation are of order sqrt(K T) when losses are independent over time; against adversarial losses
    nothing is promised.

    Parameters
    ----------
    problem
        What is to be solved. A safe strategy is not needed.
    seed
        Of the policy's own generator.
    confidence
        Bounds on the costs other than Hoeffding's: a name or an object of `surefoot.confidence`.

    Notes
    -----
    The bandit case of the tree algorithm, with exact Hoeffding radii for losses and costs, each at level delta. If no
    strategy keeps the thresholds at the lower bounds, the one that comes closest is played. If rounding keeps the
    program from being solved, the single arm that comes closest is played.

    References
    ----------
    Bernasconi, Cacciamani, Castiglioni, Marchesi, Gatti, Trovo, "Safe learning in tree-form sequential decision making:
    handling hard and soft constraints", ICML 2022.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy = sf.OptimisticLP(sf.Problem(n_arms=3, thresholds=[0.4], horizon=5000), seed=7)
    >>> for _ in range(5000):
    ...     decision = policy.ask()
    ...     policy.tell(decision, loss=[0.1, 0.5, 0.9][decision.arm], costs=[[0.9, 0.3, 0.1][decision.arm]])
    >>> policy.strategy.round(1)
    array([0.2, 0.8, 0. ])
    """

    kind: ClassVar[str] = "soft"
    mixes: ClassVar[bool] = False

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        confidence: str | Mapping[str, Any] | Confidence | None = None,
    ) -> None:
        super().__init__(problem, seed, confidence=bounds_option(confidence))

    def _start(self) -> State:
        problem, safe = self.problem, self.problem.safe
        if self.mixes and safe is None:
            raise ValueError(f"problem must have a safe strategy for {type(self).__name__}, got safe=None")
        n_arms, n_constraints = problem.n_arms, problem.n_constraints
        task = program(n_arms, n_constraints)
        task.limits[:] = problem.thresholds
        state = State(
            known=bounded_costs(problem, self._options["confidence"]),
            lost=hoeffding_losses(problem),
            observed_loss=np.zeros(1),
            task=task,
            vertex=np.zeros(n_arms),
            strategy=np.zeros(n_arms),
            safe_weight=np.zeros(1),
            safe_strategy=np.zeros(n_arms) if safe is None else safe.strategy.copy(),
            safe_costs=np.zeros(n_constraints) if safe is None else safe.costs.copy(),
            thresholds=problem.thresholds.copy(),
            mixing=float(self.mixes),
        )
        choose(state)
        return state

    def _restored(self) -> None:
        restore(self._round, self._state.known, self._state.lost)
        choose(self._state)

    @property
    def proposal(self) -> Floats:
        """The solution of the program, before the safe strategy is mixed in."""
        return snapshot(self._state.vertex)


class SafeOptimisticLP(OptimisticLP):
    """Hard constraints and stochastic losses: `OptimisticLP`, with enough of the safe strategy mixed in.

    Every round is safe with probability 1 - delta, by the same mixture as in `SOLB`. If rounding keeps the program from
    being solved, the safe strategy is played.

    Parameters
    ----------
    problem
        What is to be solved, with a safe strategy.
    seed
        Of the policy's own generator.
    confidence
        Bounds on the costs other than Hoeffding's: a name or an object of `surefoot.confidence`.

    References
    ----------
    Bernasconi, Cacciamani, Castiglioni, Marchesi, Gatti, Trovo, "Safe learning in tree-form sequential decision making:
    handling hard and soft constraints", ICML 2022.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000, safe=sf.SafeStrategy([0, 0, 1], costs=[0.1]))
    >>> sf.SafeOptimisticLP(problem, seed=7).safe_weight.__round__(3)
    0.667
    """

    kind: ClassVar[str] = "hard"
    mixes: ClassVar[bool] = True
