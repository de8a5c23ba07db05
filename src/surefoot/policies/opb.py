"""OPB: optimism for the reward, pessimism for the costs, in one linear program a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from surefoot.confidence import Confidence
from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import Costs, observe
from surefoot.kernels.dual import SOLVED, Floats
from surefoot.kernels.episode import lives_by
from surefoot.kernels.linear import Program, program
from surefoot.kernels.safety import lose_least
from surefoot.policies.base import plain, snapshot
from surefoot.policies.estimates import EstimatesCosts, bounded_costs, bounds_option, hoeffding_losses, restore
from surefoot.problem import Problem


class State(NamedTuple):
    """Estimates of losses and costs, and what they lead to."""

    known: Costs
    lost: Costs  # (1, K)
    observed_loss: Floats  # (1,) scratch
    task: Program  # over the arms, and the safe strategy as one arm more
    vertex: Floats  # (K + 1,) the solution of the program
    strategy: Floats  # (K,)
    safe_weight: Floats  # (1,) the share of the safe strategy in the solution
    safe_strategy: Floats  # (K,)
    safe_costs: Floats  # (m,)


@merged
def update(state: State, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Estimates of the played arm, then the program."""
    observe(state.known, arm, costs)
    state.observed_loss[0] = loss
    observe(state.lost, arm, state.observed_loss)
    choose(state)
    return SOLVED


@compiled
def optimistic_loss(lost: Costs, arm: int) -> float:
    """The mean less the widened radius, nothing cut off, in units of the radius of one observation.

    In these units a program is as well scaled for a tiny margin as for a wide one. An arm that was never played counts
    as observed half a time, and as lossless: no other looks better.
    """
    loss: float = lost.means[0, arm] / np.sqrt(lost.scale) - 1.0 / np.sqrt(max(0.5, lost.counts[arm]))
    return loss


@compiled
def choose(state: State) -> None:
    """The least optimistic loss among strategies that are surely safe."""
    task = state.task
    for a in range(state.strategy.size):
        task.losses[a] = optimistic_loss(state.lost, a)
    lose_least(task, state.vertex, state.known.upper, state.safe_strategy, state.safe_costs, state.strategy)
    state.safe_weight[0] = state.vertex[state.strategy.size]


lives_by(State, update)


class OPB(EstimatesCosts):
    """Optimistic-pessimistic bandit: hard constraints, stochastic losses.

    Each round it plays the strategy with the best optimistic loss among those that keep the thresholds at the upper
    cost bounds. Losses need a wider radius than costs, so that optimism outweighs the pessimism of the constraints.
    Every round is safe with probability 1 - delta; regret is of order sqrt(K T) / margin when losses are independent
    over time; against adversarial losses nothing is promised.

    Parameters
    ----------
    problem
        What is to be solved, with a safe strategy; a mixed one will do.
    seed
        Of the policy's own generator.
    safe_loss
        The mean loss of the safe strategy, or a bound on it, if it is known.
    confidence
        Bounds on the costs other than Hoeffding's: a name or an object of `surefoot.confidence`. The losses keep
        theirs.

    Notes
    -----
    The radius of the losses is ``1 + 2 safe_loss / margin`` times that of the costs, the published factor, with the
    worst case 1 for a loss that is not known. Radii are the exact ones of Hoeffding for [0, 1], half of the published
    ones. Neither they nor the optimistic losses are cut to [0, 1], since the proof lives on optimism beyond what losses
    can be. An arm that was never played has the radius of half an observation. The safe strategy, single arm or not,
    enters the program as one arm more, whose costs are known and whose optimistic loss is the mean of its arms'.

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

    kind: ClassVar[str] = "hard"

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        safe_loss: float = 1.0,
        confidence: str | Mapping[str, Any] | Confidence | None = None,
    ) -> None:
        loss = plain("safe_loss", safe_loss)
        super().__init__(problem, seed, safe_loss=loss, confidence=bounds_option(confidence))

    def _start(self) -> State:
        problem, safe = self.problem, self.problem.safe
        if safe is None:
            raise ValueError("problem must have a safe strategy for OPB, got safe=None")
        n_arms = problem.n_arms
        task = program(n_arms + 1, problem.n_constraints)
        task.limits[:] = problem.thresholds
        task.costs[:, n_arms] = safe.costs
        state = State(
            known=bounded_costs(problem, self._options["confidence"]),
            lost=hoeffding_losses(problem, widening=1.0 + 2.0 * self._options["safe_loss"] / problem.margin),
            observed_loss=np.zeros(1),
            task=task,
            vertex=np.zeros(n_arms + 1),
            strategy=np.zeros(n_arms),
            safe_weight=np.zeros(1),
            safe_strategy=safe.strategy.copy(),
            safe_costs=safe.costs.copy(),
        )
        choose(state)
        return state

    def _restored(self) -> None:
        restore(self._round, self._state.known, self._state.lost)
        choose(self._state)

    @property
    def proposal(self) -> Floats:
        """The solution of the program without the safe strategy; uniform if that is all of it."""
        rest = self._state.vertex[:-1]
        return snapshot(rest / rest.sum() if rest.sum() > 0.0 else np.full(rest.size, 1.0 / rest.size))
