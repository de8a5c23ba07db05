"""LinConTS: Thompson sampling with a linear program."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled
from surefoot.kernels.costs import Costs, observe, unknown_costs
from surefoot.kernels.dual import SOLVED, Floats
from surefoot.kernels.episode import lives_by
from surefoot.kernels.linear import Program, minimise, program
from surefoot.policies.base import DERIVED, Policy
from surefoot.policies.estimates import restore
from surefoot.problem import SUM_TOLERANCE, Problem


class State(NamedTuple):
    """What was seen, and the strategy that came of the last samples."""

    known: Costs
    lost: Costs  # (1, K)
    observed_loss: Floats  # (1,) scratch
    sampled: Floats  # (K,) the strategy
    task: Program
    strategy: Floats  # (K,)
    safe_weight: Floats  # (1,) 0


@compiled
def update(state: State, generator: Any, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Count what was seen; sample all losses and costs; solve the program."""
    observe(state.known, arm, costs)
    state.observed_loss[0] = loss
    observe(state.lost, arm, state.observed_loss)
    choose(state, generator)
    return SOLVED


@compiled
def sample(estimates: Costs, row: int, arm: int, generator: Any) -> float:
    """A draw from the posterior of a mean under a uniform prior, outcomes between 0 and 1 counted in parts."""
    count, total = estimates.counts[arm], estimates.counts[arm] * estimates.means[row, arm]
    drawn: float = generator.beta(1.0 + total, 1.0 + count - total)
    return drawn


@compiled
def choose(state: State, generator: Any) -> None:
    """The best strategy for one draw from the posterior."""
    task = state.task
    for a in range(state.strategy.size):
        task.losses[a] = sample(state.lost, 0, a, generator)
        for i in range(task.limits.size):
            task.costs[i, a] = sample(state.known, i, a, generator)
    minimise(task, state.sampled)  # whatever the status, this is a strategy
    for a in range(state.strategy.size):
        state.strategy[a] = state.sampled[a]


lives_by(State, update, random=True)


class LinConTS(Policy):
    """Thompson sampling with linear constraints: the best strategy for losses and costs drawn from the posterior.

    Soft constraints and stochastic losses. Both regret and violations are small in practice; that they grow like ln T
    is proved for a single constraint on the success rate.

    Parameters
    ----------
    problem
        What is to be solved. A safe strategy is not needed.
    seed
        Of the policy's own generator.

    Notes
    -----
    Uniform priors. Outcomes between 0 and 1 count in parts (a cost of 0.3 as 0.3 of a failure), which is a heuristic
    where they are not coin flips. If no strategy keeps the thresholds for the costs drawn, the one that comes closest
    is played; if rounding keeps the program from being solved, the single arm that comes closest.

    References
    ----------
    Saxena, Gonzalez, Jalden, "Thompson sampling for linearly constrained bandits", AISTATS 2020.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy = sf.LinConTS(sf.Problem(n_arms=3, thresholds=[0.4], horizon=5000), seed=1)
    >>> for _ in range(5000):
    ...     decision = policy.ask()
    ...     policy.tell(decision, loss=[0.1, 0.5, 0.9][decision.arm], costs=[[0.9, 0.3, 0.1][decision.arm]])
    >>> policy.strategy.round(1)
    array([0.2, 0.8, 0. ])
    """

    kind: ClassVar[str] = "soft"
    _endless = True
    _derived = DERIVED

    def __init__(self, problem: Problem, seed: int | np.random.SeedSequence | None = None) -> None:
        super().__init__(problem, seed)

    def _start(self) -> State:
        problem, n_arms = self.problem, self.problem.n_arms
        task = program(n_arms, problem.n_constraints)
        task.limits[:] = problem.thresholds
        known = unknown_costs(n_arms, problem.n_constraints, 0.0)
        lost, strategy = unknown_costs(n_arms, 1, 0.0), np.zeros(n_arms)
        state = State(known, lost, np.zeros(1), np.zeros(n_arms), task, strategy, np.zeros(1))
        choose(state, self._rng)
        return state

    def _restored(self) -> None:
        restore(self._round, self._state.known, self._state.lost)
        sampled = self._state.sampled
        if abs(sampled.sum() - 1.0) > SUM_TOLERANCE:
            raise ValueError(f"state.sampled must sum to 1, got a sum of {sampled.sum():.12g}")
        self._state.strategy[:] = sampled
