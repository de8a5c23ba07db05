"""Exponential weights: EXP3 and EXP3-IX, adversarial losses, blind to costs."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.dual import SOLVED, Floats
from surefoot.kernels.episode import lives_by
from surefoot.policies.base import DERIVED, Policy, optional
from surefoot.problem import Problem

LARGEST = 1e300
"""The most a total may come to: feedback on decisions with the smallest propensities could overflow it."""


class State(NamedTuple):
    """Estimated total losses, and the strategy they lead to."""

    totals: Floats  # (K,) estimated losses, less the smallest of them: nothing can overflow
    strategy: Floats  # (K,)
    safe_weight: Floats  # (1,) 0
    rate: float  # eta
    bias: float  # added to the probability by which a loss is divided
    exploration: float  # weight of the uniform strategy
    gains: float  # 1: estimate gains 1 - loss, as the first EXP3 did; 0: losses


@merged
def update(state: State, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Take in an importance-weighted estimate of the loss, or of the gain."""
    if state.gains > 0.0:
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
        state.strategy[a] = np.exp(-state.rate * state.totals[a])
        total += state.strategy[a]
    uniform = state.exploration / state.totals.size
    for a in range(state.totals.size):
        state.strategy[a] = (1.0 - state.exploration) * state.strategy[a] / total + uniform


lives_by(State, update)


class ExponentialWeights(Policy):
    """What EXP3 and EXP3-IX share."""

    kind: ClassVar[str] = "none"
    _derived = DERIVED

    def _weights(self, rate: float, bias: float = 0.0, exploration: float = 0.0, gains: float = 0.0) -> State:
        n_arms = self.problem.n_arms
        state = State(np.zeros(n_arms), np.zeros(n_arms), np.zeros(1), rate, bias, exploration, gains)
        choose(state)
        return state

    def _restored(self) -> None:
        choose(self._state)


class Exp3(ExponentialWeights):
    """EXP3: exponential weights on importance-weighted losses; regret of order sqrt(T K ln K) in expectation.

    Parameters
    ----------
    problem
        What is to be solved; its thresholds are not looked at.
    seed
        Of the policy's own generator.
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

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        learning_rate: float | None = None,
        exploration: float | None = None,
    ) -> None:
        if learning_rate is not None and exploration is not None:
            raise ValueError("exploration must be None when learning_rate is given: it sets the rate, got both")
        super().__init__(
            problem,
            seed,
            learning_rate=optional("learning_rate", learning_rate),
            exploration=optional("exploration", exploration),
        )

    def _start(self) -> State:
        n_arms, exploration = self.problem.n_arms, self._options["exploration"]
        if exploration is not None:
            return self._weights(exploration / n_arms, exploration=exploration, gains=1.0)
        rate = self._options["learning_rate"]
        return self._weights(math.sqrt(2 * math.log(n_arms) / (self.problem.rounds * n_arms)) if rate is None else rate)


class Exp3IX(ExponentialWeights):
    """EXP3-IX: losses divided by a little more than their probability, for regret bounds with high probability.

    Parameters
    ----------
    problem
        What is to be solved; its thresholds are not looked at.
    seed
        Of the policy's own generator.
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

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        learning_rate: float | None = None,
    ) -> None:
        rate = optional("learning_rate", learning_rate)
        super().__init__(problem, seed, learning_rate=rate)

    def _start(self) -> State:
        n_arms, rate = self.problem.n_arms, self._options["learning_rate"]
        rate = math.sqrt(2 * math.log(n_arms) / (self.problem.rounds * n_arms)) if rate is None else rate
        return self._weights(rate, bias=rate / 2)
