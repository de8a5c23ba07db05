"""Exponential weights: EXP3 and EXP3-IX, adversarial losses, blind to costs."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import NOT_NEGATIVE, derived, saved
from surefoot.kernels.types import SOLVED, Floats
from surefoot.policies.base import Policy, Seed, optional
from surefoot.policies.rates import RATE
from surefoot.problem import Problem
from surefoot.rules import Range, RuleError

LARGEST = 1e300
"""The most a total may come to: feedback on decisions with the smallest propensities could overflow it."""


class State(NamedTuple):
    """Estimated total losses, and the strategy they lead to."""

    totals: Annotated[Floats, saved("K", rule=NOT_NEGATIVE)]  # estimated, less the smallest of them
    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]  # 0
    rate: Annotated[float, derived()]  # eta
    bias: Annotated[float, derived()]  # added to the probability by which a loss is divided
    exploration: Annotated[float, derived()]  # weight of the uniform strategy
    gains: Annotated[int, derived()]  # 1: estimate gains 1 - loss, as the first EXP3 did; 0: losses


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Take in an importance-weighted estimate of the loss, or of the gain."""
    if state.gains == 1:
        state.totals[arm] -= (1.0 - loss) / propensity
    else:
        state.totals[arm] += loss / (propensity + state.bias)
    choose(state)
    return SOLVED


@compiled
def choose(state: State) -> None:
    """Weights exp(-rate total), mixed with the uniform strategy."""
    least, total = np.inf, 0.0
    for a in range(state.totals.size):
        least = min(least, state.totals[a])
    for a in range(state.totals.size):
        state.totals[a] = min(state.totals[a] - least, LARGEST)
        state.strategy[a] = math.exp(-state.rate * state.totals[a])
        total += state.strategy[a]
    uniform = state.exploration / state.totals.size
    for a in range(state.totals.size):
        state.strategy[a] = (1.0 - state.exploration) * state.strategy[a] / total + uniform


class ExponentialWeights(Policy[State]):
    """What EXP3 and EXP3-IX share."""

    kind: ClassVar[str] = "none"
    algorithm = Algorithm(State, update, choose)


def usual_rate(problem: Problem) -> float:
    """The rate that minimises the regret bounds, sqrt(2 ln K / (T K))."""
    return math.sqrt(2 * math.log(problem.n_arms) / (problem.rounds * problem.n_arms))


class Exp3(ExponentialWeights):
    """EXP3: exponential weights on importance-weighted losses; regret of order sqrt(T K ln K) in expectation.

    Parameters
    ----------
    problem
        The problem; its thresholds are ignored.
    seed
        Seed of the policy's random generator.
    learning_rate
        By default ``sqrt(2 ln K / (T K))``.
    exploration
        If given, the algorithm as it was first published: it estimates gains 1 - loss, mixes in the uniform strategy
        with this weight gamma, and learns at the rate gamma / K.

    References
    ----------
    Auer, Cesa-Bianchi, Freund, Schapire, "The nonstochastic multiarmed bandit problem", SIAM J. Comput. 2002.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy = sf.Exp3(sf.Problem(n_arms=3, thresholds=[], horizon=1000), seed=7)
    >>> policy.tell(sf.Decision(arm=0, propensity=1 / 3), loss=1.0)
    >>> policy.strategy.round(3)
    array([0.316, 0.342, 0.342])
    """

    name: ClassVar[str] = "exp3"

    def __init__(
        self, problem: Problem, seed: Seed = None, *, learning_rate: float | None = None,
        exploration: float | None = None,
    ) -> None:  # fmt: skip
        if learning_rate is not None and exploration is not None:
            raise RuleError("exploration", "be left out if learning_rate is given, since it sets the rate", exploration)
        super().__init__(
            problem,
            seed,
            learning_rate=optional("learning_rate", learning_rate, RATE),
            exploration=optional("exploration", exploration, Range(0, 1, open_low=True)),
        )

    def _start(self, state: Any) -> None:
        rate, exploration = self._options["learning_rate"], self._options["exploration"]
        if exploration is None:
            state.rate = usual_rate(self.problem) if rate is None else rate
        else:
            state.rate, state.exploration, state.gains = exploration / self.problem.n_arms, exploration, 1


class Exp3IX(ExponentialWeights):
    """EXP3-IX: losses divided by a little more than their probability, for regret bounds with high probability.

    Parameters
    ----------
    problem
        The problem; its thresholds are ignored.
    seed
        Seed of the policy's random generator.
    learning_rate
        By default ``sqrt(2 ln K / (T K))``; the implicit exploration is half of it.

    References
    ----------
    Neu, "Explore no more: improved high-probability regret bounds for non-stochastic bandits", NIPS 2015.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy = sf.Exp3IX(sf.Problem(n_arms=3, thresholds=[], horizon=1000), seed=7)
    >>> policy.tell(sf.Decision(arm=0, propensity=1 / 3), loss=1.0)
    >>> policy.strategy.round(3)
    array([0.316, 0.342, 0.342])
    """

    name: ClassVar[str] = "exp3-ix"

    def __init__(self, problem: Problem, seed: Seed = None, *, learning_rate: float | None = None) -> None:
        super().__init__(problem, seed, learning_rate=optional("learning_rate", learning_rate, RATE))

    def _start(self, state: Any) -> None:
        rate = self._options["learning_rate"]
        state.rate = usual_rate(self.problem) if rate is None else rate
        state.bias = state.rate / 2
