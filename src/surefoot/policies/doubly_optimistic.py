"""Optimism in losses and in costs: one arm a round, by KL indices (Chen, Gangrade, Saligrama 2022)."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import COUNT, derived, saved
from surefoot.kernels.types import SOLVED, Floats, Integers
from surefoot.policies.base import WithoutOptions
from surefoot.policies.estimates import check_counts
from surefoot.rules import SHARE

PRECISION = 1e-10
"""To which an index is found."""


class State(NamedTuple):
    """How often each arm was observed, and its means."""

    counts: Annotated[Integers, saved("K", rule=COUNT)]
    means: Annotated[Floats, saved("m + 1", "K", rule=SHARE)]  # row 0 is the loss, row i + 1 the cost i
    strategy: Annotated[Floats, derived("K")]  # a single arm
    safe_weight: Annotated[Floats, derived(1)]  # 0
    thresholds: Annotated[Floats, derived("m")]  # alpha


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Update the means of the played arm."""
    state.counts[arm] += 1
    state.means[0, arm] += (loss - state.means[0, arm]) / state.counts[arm]
    for i in range(costs.size):
        state.means[i + 1, arm] += (costs[i] - state.means[i + 1, arm]) / state.counts[arm]
    choose(state)
    return SOLVED


@compiled
def divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence of coins, d(p, q), for q in (0, p]."""
    total = 0.0
    if p > 0.0:
        total += p * math.log(p / q)
    if p < 1.0:
        total += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return total


@compiled
def lower_index(mean: float, count: int, level: float) -> float:
    """The least q <= mean with count d(mean, q) <= level, by bisection and rounded down; 0 if nothing is known."""
    low, high = 0.0, mean
    if count == 0:
        high = 0.0
    while high - low > PRECISION:
        middle = 0.5 * (low + high)
        if count * divergence(mean, middle) <= level:
            high = middle
        else:
            low = middle
    return low


@compiled
def excess(mean: float, count: int, level: float, threshold: float) -> float:
    """By how much the lower index of a cost is above the threshold, or 0; mostly it is 0, and no index is needed."""
    if mean <= threshold or count == 0:
        return 0.0
    if threshold > 0.0 and count * divergence(mean, threshold) <= level:
        return 0.0
    return max(0.0, lower_index(mean, count, level) - threshold)


@compiled
def choose(state: State) -> None:
    """The arm with the least loss index among those that may be safe; if none may be, the least unsafe one."""
    rounds = 1
    for a in range(state.counts.size):
        rounds += state.counts[a]
    level = math.log(rounds) + 3.0 * math.log(max(1.0, math.log(rounds)))
    best, least_unsafe, least_loss = 0, np.inf, np.inf
    for a in range(state.strategy.size):
        unsafe = 0.0
        for i in range(state.thresholds.size):
            unsafe = max(unsafe, excess(state.means[i + 1, a], state.counts[a], level, state.thresholds[i]))
        if unsafe <= least_unsafe:
            loss = lower_index(state.means[0, a], state.counts[a], level)
            if unsafe < least_unsafe or loss < least_loss:
                best, least_unsafe, least_loss = a, unsafe, loss
        state.strategy[a] = 0.0
    state.strategy[best] = 1.0


class DoublyOptimistic(WithoutOptions[State]):
    """The arm with the least loss index, of those whose cost indices do not yet show that they are unsafe.

    Losses and costs are i.i.d. Arms are played one at a time, and the benchmark is the best single safe arm: regret
    against it, and the number of rounds in which an unsafe arm is played, grow as ln T. Where the best safe strategy
    mixes arms, regret against that one grows linearly.

    Parameters
    ----------
    problem
        The problem; its safe strategy, if any, is ignored.
    seed
        Seed of the policy's random generator. It has no effect: the choice is deterministic.

    Notes
    -----
    Indices are the least q below the mean with ``N d(mean, q) <= ln t + 3 ln ln t``, d the Kullback-Leibler divergence
    of coins, found by bisection to 1e-10; 0 for an arm that was never played. ``ln ln t`` counts as 0 until ln t is
    above 1. An arm may be safe while no cost index is above its threshold. If none may be, the arm whose largest excess
    is least is played. Ties go to the first arm. Nothing is tuned. The constant 3 is quoted from memory; it is the one
    with which KL-UCB is analysed. The published Bayesian variant is not implemented.

    References
    ----------
    Chen, Gangrade, Saligrama, "Strategies for safe multi-armed bandits with logarithmic regret and risk", ICML 2022.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy, plays = sf.DoublyOptimistic(sf.Problem(3, [0.5], horizon=1000)), [0, 0, 0]
    >>> for _ in range(1000):
    ...     decision = policy.ask()
    ...     plays[decision.arm] += 1
    ...     policy.tell(decision, loss=[0.1, 0.4, 0.9][decision.arm], costs=[[1.0, 0.4, 0.1][decision.arm]])
    >>> plays
    [19, 963, 18]
    """

    name: ClassVar[str] = "doubly-optimistic"
    kind: ClassVar[str] = "soft"
    algorithm = Algorithm(State, update, choose)
    _endless = True

    def _start(self, state: Any) -> None:
        state.thresholds = self.problem.thresholds

    def _check(self) -> None:
        check_counts(self._state.counts, self._round)
