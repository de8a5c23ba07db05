"""OPB: optimism for the reward, pessimism for the costs, in one linear program a round."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import KnownCosts, bound_again, observe, start_costs
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import derived, sized
from surefoot.kernels.linear import Program
from surefoot.kernels.safety import lose_least
from surefoot.kernels.types import SOLVED, Floats
from surefoot.policies.base import Seed, ShownLeaf, plain
from surefoot.policies.estimates import Bounds, WithConfidence, bound_on_losses, bounds_option, known_safe
from surefoot.problem import Problem
from surefoot.rules import SHARE


class State(NamedTuple):
    """Estimates of losses and costs, and the strategy computed from them."""

    known: KnownCosts
    lost: Annotated[KnownCosts, sized(m=1, bets=0, wealth=0, nodes=0)]  # the losses, as if they were a cost
    observed_loss: Annotated[Floats, derived(1)]  # scratch
    task: Annotated[Program, sized(K="K + 1")]  # over the arms, with the safe strategy as one more arm
    vertex: Annotated[Floats, derived("K + 1")]  # the solution of the program
    proposal: Annotated[Floats, derived("K")]  # the solution without the safe strategy
    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]  # the share of the safe strategy in the solution
    safe_strategy: Annotated[Floats, derived("K")]
    safe_costs: Annotated[Floats, derived("m")]


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Estimates of the played arm, then the program."""
    observe(state.known, arm, costs)
    state.observed_loss[0] = loss
    observe(state.lost, arm, state.observed_loss)
    choose(state)
    return SOLVED


@compiled
def optimistic_loss(lost: KnownCosts, arm: int) -> float:
    """The mean less the widened radius, not clipped, in units of the radius of one observation.

    In these units a program is as well scaled for a tiny margin as for a wide one. An arm that was never played counts
    as observed half a time, with a mean loss of 0: no other arm looks better.
    """
    loss: float = lost.means[0, arm] / math.sqrt(lost.scale) - 1.0 / math.sqrt(max(0.5, lost.counts[arm]))
    return loss


@compiled
def choose(state: State) -> None:
    """The least optimistic loss among strategies that are surely safe."""
    task = state.task
    for a in range(state.strategy.size):
        task.losses[a] = optimistic_loss(state.lost, a)
    lose_least(task, state.vertex, state.known.upper, state.safe_strategy, state.safe_costs, state.strategy)
    state.safe_weight[0] = state.vertex[state.strategy.size]
    total, n_arms = 0.0, state.strategy.size
    for a in range(n_arms):
        total += state.vertex[a]
    for a in range(n_arms):
        state.proposal[a] = state.vertex[a] / total if total > 0.0 else 1.0 / n_arms


@compiled
def restore(state: State) -> None:
    """Recompute the derived leaves from the saved ones."""
    bound_again(state.known)
    bound_again(state.lost)
    choose(state)


class OPB(WithConfidence[State]):
    """Optimistic-pessimistic bandit: hard guardrails, stochastic losses.

    Each round it plays the strategy with the best optimistic loss among those that keep the limits at the upper
    cost bounds. Losses need a wider radius than costs, so that optimism outweighs the pessimism of the guardrails.
    With probability at least 1 - delta, all rounds are safe. Regret is of order sqrt(K T) / margin when losses are
    independent over time; there is no guarantee for adversarial losses.

    Parameters
    ----------
    problem
        The problem, with a safe strategy, which may be a mixture.
    seed
        Seed of the policy's random generator.
    safe_loss
        The mean loss of the safe strategy, or a bound on it, if it is known.
    confidence
        Replaces Hoeffding's bounds on the costs: a name or an object of `surefoot.confidence`. The losses keep theirs.

    Notes
    -----
    The radius of the losses is ``1 + 2 safe_loss / margin`` times that of the costs, the published factor, with the
    worst case 1 for a loss that is not known. Radii are the exact ones of Hoeffding for [0, 1], half of the published
    ones. Neither they nor the optimistic losses are clipped to [0, 1], since the proof needs optimism beyond the range
    of losses. An arm that was never played has the radius of half an observation. The safe strategy, single arm or not,
    enters the program as one more arm, whose costs are known and whose optimistic loss is the mean of its arms'.

    References
    ----------
    Pacchiano, Ghavamzadeh, Bartlett, Jiang, "Stochastic bandits with linear constraints", AISTATS 2021.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000, safe=sf.SafeStrategy([0, 0, 1], costs=[0.1]))
    >>> policy = sf.OPB(problem, seed=7)
    >>> policy.strategy.round(3)
    array([0.333, 0.   , 0.667])
    """

    name: ClassVar[str] = "opb"
    kind: ClassVar[str] = "hard"
    algorithm = Algorithm(State, update, choose, restore)

    def __init__(
        self, problem: Problem, seed: Seed = None, *, safe_loss: float = 1.0, confidence: Bounds = None
    ) -> None:  # fmt: skip
        loss = plain("safe_loss", safe_loss, SHARE)
        super().__init__(problem, seed, safe_loss=loss, confidence=bounds_option(confidence))

    def _start(self, state: Any) -> None:
        problem, safe = self.problem, known_safe(self.problem, "OPB")
        start_costs(state.known, self._bound())
        widening = 1.0 + 2.0 * self._options["safe_loss"] / problem.margin
        start_costs(state.lost, bound_on_losses(problem, widening))
        state.task.limits, state.task.costs[:, problem.n_arms] = problem.thresholds, safe.costs
        state.safe_strategy, state.safe_costs = safe.strategy, safe.costs

    proposal = ShownLeaf("proposal", "The solution without the safe strategy; uniform if that is all of it.")
