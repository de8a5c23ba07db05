"""Optimism for stochastic losses: each round the best strategy of a linear program at the confidence bounds."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import KnownCosts, bound_again, observe, start_costs
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import derived, sized
from surefoot.kernels.linear import Program, minimise
from surefoot.kernels.safety import mix, weight_needed
from surefoot.kernels.types import SOLVED, UNDECIDED, Floats
from surefoot.policies.base import Seed, ShownLeaf
from surefoot.policies.estimates import Bounds, WithConfidence, bound_on_losses, bounds_option, known_safe
from surefoot.problem import Problem


class State(NamedTuple):
    """Estimates of losses and costs, and the strategy computed from them."""

    known: KnownCosts
    lost: Annotated[KnownCosts, sized(m=1, bets=0, wealth=0, nodes=0)]  # the losses, as if they were a cost
    observed_loss: Annotated[Floats, derived(1)]  # scratch
    task: Program
    vertex: Annotated[Floats, derived("K")]  # the solution of the program
    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]
    safe_strategy: Annotated[Floats, derived("K")]
    safe_costs: Annotated[Floats, derived("m")]
    thresholds: Annotated[Floats, derived("m")]
    mixing: Annotated[int, derived()]  # 1: mix in the safe strategy; 0: do not


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Estimates of the played arm, then the program."""
    observe(state.known, arm, costs)
    state.observed_loss[0] = loss
    observe(state.lost, arm, state.observed_loss)
    choose(state)
    return SOLVED


@compiled
def choose(state: State) -> None:
    """Minimise the lower bound of the loss over strategies that may be safe; mix in the safe strategy if asked."""
    task = state.task
    for a in range(state.strategy.size):
        task.losses[a] = max(0.0, state.lost.lower[0, a])
        for i in range(state.thresholds.size):
            task.costs[i, a] = max(0.0, state.known.lower[i, a])
    status = minimise(task, state.vertex)
    weight = 0.0
    if state.mixing == 1:
        weight = weight_needed(state.vertex, state.known.upper, state.thresholds, state.safe_costs)
        if status == UNDECIDED:  # the safe strategy alone
            weight = 1.0
    state.safe_weight[0] = weight
    mix(state.strategy, weight, state.safe_strategy, state.vertex)


@compiled
def restore(state: State) -> None:
    """Recompute the derived leaves from the saved ones."""
    bound_again(state.known)
    bound_again(state.lost)
    choose(state)


class OptimisticLP(WithConfidence[State]):
    """Soft guardrails and stochastic losses: the strategy that is best if losses and costs are at their lower bounds.

    Regret and total violation are of order sqrt(K T) when losses are independent over time; there is no guarantee for
    adversarial losses.

    Parameters
    ----------
    problem
        The problem. It needs no safe strategy.
    seed
        Seed of the policy's random generator.
    confidence
        Replaces Hoeffding's bounds on the costs: a name or an object of `surefoot.confidence`.

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

    name: ClassVar[str] = "optimistic-lp"
    kind: ClassVar[str] = "soft"
    algorithm = Algorithm(State, update, choose, restore)
    mixes: ClassVar[bool] = False

    def __init__(self, problem: Problem, seed: Seed = None, *, confidence: Bounds = None) -> None:
        super().__init__(problem, seed, confidence=bounds_option(confidence))

    def _start(self, state: Any) -> None:
        problem = self.problem
        start_costs(state.known, self._bound())
        start_costs(state.lost, bound_on_losses(problem))
        state.task.limits = state.thresholds = problem.thresholds
        if self.mixes:
            safe = known_safe(problem, type(self).__name__)
            state.safe_strategy, state.safe_costs, state.mixing = safe.strategy, safe.costs, 1

    proposal = ShownLeaf("vertex", "The solution of the program, before the safe strategy is mixed in.")


class SafeOptimisticLP(OptimisticLP):
    """Hard guardrails and stochastic losses: `OptimisticLP`, with enough of the safe strategy mixed in.

    With probability at least 1 - delta, all rounds are safe, by the same mixture as in `SOLB`. If rounding
    keeps the program from being solved, the safe strategy is played.

    Parameters
    ----------
    problem
        The problem, with a safe strategy.
    seed
        Seed of the policy's random generator.
    confidence
        Replaces Hoeffding's bounds on the costs: a name or an object of `surefoot.confidence`.

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

    name: ClassVar[str] = "safe-optimistic-lp"
    kind: ClassVar[str] = "hard"
    mixes: ClassVar[bool] = True
