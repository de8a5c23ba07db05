"""UCB1: optimism about independent losses, blind to costs."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import COUNT, derived, saved
from surefoot.kernels.types import SOLVED, Floats, Integers
from surefoot.policies.base import WithoutOptions
from surefoot.policies.estimates import check_counts
from surefoot.rules import SHARE


class State(NamedTuple):
    """The losses of each arm, and the arm to play."""

    counts: Annotated[Integers, saved("K", rule=COUNT)]  # N(a)
    means: Annotated[Floats, saved("K", rule=SHARE)]  # mean losses
    strategy: Annotated[Floats, derived("K")]  # all on one arm
    safe_weight: Annotated[Floats, derived(1)]  # 0


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Take in a loss; the probability of the draw does not matter."""
    state.counts[arm] += 1
    state.means[arm] += (loss - state.means[arm]) / state.counts[arm]
    choose(state)
    return SOLVED


@compiled
def choose(state: State) -> None:
    """Put all weight on the arm with the lowest bound; ties go to the first."""
    rounds = 0
    for a in range(state.counts.size):
        rounds += state.counts[a]
    best, lowest = 0, np.inf
    for a in range(state.counts.size):
        state.strategy[a] = 0.0
        index = -np.inf
        if state.counts[a] > 0:
            index = state.means[a] - math.sqrt(2.0 * math.log(rounds) / state.counts[a])
        if index < lowest:
            best, lowest = a, index
    state.strategy[best] = 1.0


class UCB1(WithoutOptions[State]):
    """UCB1: the arm whose loss may be the lowest; regret of order ln(T) if losses are independent draws.

    This needs independent losses: if they change with time, they can mislead it for as long as it has seen them. It
    plays the arm with the least ``mean - sqrt(2 ln(t) / N)``, where t is the number of rounds of feedback and N that of
    the arm; arms without any come first, in order. Nothing is drawn at random, so `seed` has no effect on what it
    plays. It does not wait for late feedback: until feedback arrives, `ask` returns the same arm.

    Parameters
    ----------
    problem
        The problem; its thresholds are ignored.
    seed
        Seed of the policy's random generator.

    References
    ----------
    Auer, Cesa-Bianchi, Fischer, "Finite-time analysis of the multiarmed bandit problem", Machine Learning 2002; there
    for gains, which is the same with gain = 1 - loss.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy = sf.UCB1(sf.Problem(n_arms=3, thresholds=[], horizon=1000), seed=7)
    >>> for loss in (0.9, 0.2, 0.6):
    ...     policy.tell(policy.ask(), loss)
    >>> policy.ask()
    Decision(arm=1, propensity=1.0, proposal_weight=1.0, number=3)
    """

    name: ClassVar[str] = "ucb1"
    kind: ClassVar[str] = "none"
    algorithm = Algorithm(State, update, choose)
    _endless = True

    def _check(self) -> None:
        check_counts(self._state.counts, self._round)
