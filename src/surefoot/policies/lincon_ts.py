"""LinConTS: Thompson sampling with a linear program."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

from surefoot.kernels.compile import compiled
from surefoot.kernels.costs import CostBound, KnownCosts, observe, start_costs
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import derived, saved, sized
from surefoot.kernels.linear import Program, minimise
from surefoot.kernels.types import SOLVED, Floats
from surefoot.policies.base import WithoutOptions
from surefoot.policies.estimates import check_costs, set_strategy
from surefoot.rules import SHARE, SUM_TOLERANCE, RuleError


class State(NamedTuple):
    """The observations, and the strategy computed from the last samples."""

    known: KnownCosts
    lost: Annotated[KnownCosts, sized(m=1)]  # the losses, as if they were a cost
    observed_loss: Annotated[Floats, derived(1)]  # scratch
    sampled: Annotated[Floats, saved("K", rule=SHARE)]  # the strategy
    task: Program
    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]  # 0


@compiled
def update(state: State, generator: Any, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Count what was seen; sample all losses and costs; solve the program."""
    observe(state.known, arm, costs)
    state.observed_loss[0] = loss
    observe(state.lost, arm, state.observed_loss)
    choose(state, generator)
    return SOLVED


@compiled
def sample(estimates: KnownCosts, row: int, arm: int, generator: Any) -> float:
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
    minimise(task, state.sampled)  # the result is a strategy for every status
    show(state)


@compiled
def show(state: State) -> None:
    """Play the strategy computed from the last samples."""
    set_strategy(state.strategy, state.sampled)


class LinConTS(WithoutOptions[State]):
    """Thompson sampling with guardrails: the best strategy for losses and costs drawn from the posterior.

    Soft guardrails and stochastic losses. Both regret and violations are small in practice. Growth like ln T is proved
    only for a single guardrail on the success rate.

    Parameters
    ----------
    problem
        The problem. It needs no safe strategy.
    seed
        Seed of the policy's random generator.

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

    name: ClassVar[str] = "lincon-ts"
    kind: ClassVar[str] = "soft"
    algorithm = Algorithm(State, update, choose, show, random=True)
    _endless = True

    def _start(self, state: Any) -> None:
        state.task.limits = self.problem.thresholds
        start_costs(state.known, CostBound())
        start_costs(state.lost, CostBound())

    def _check(self) -> None:
        check_costs(self._round, self._state.known)
        check_costs(self._round, self._state.lost, "lost")
        total = self._state.sampled.sum()
        if abs(total - 1.0) > SUM_TOLERANCE:
            raise RuleError("state.sampled", "sum to 1", total, f"a sum of {total:.12g}")
