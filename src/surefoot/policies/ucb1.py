"""UCB1: optimism about independent losses, blind to costs."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.dual import SOLVED, Floats, Integers
from surefoot.kernels.episode import lives_by
from surefoot.policies.base import DERIVED, Policy
from surefoot.policies.estimates import check_counts
from surefoot.problem import Problem


class State(NamedTuple):
    """What was seen of each arm, and the one to play."""

    counts: Integers  # (K,) N(a)
    means: Floats  # (K,) mean losses
    strategy: Floats  # (K,) all on one arm
    safe_weight: Floats  # (1,) 0


@merged
def update(state: State, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Take in a loss; with what probability it came to be seen does not matter."""
    state.counts[arm] += 1
    state.means[arm] += (loss - state.means[arm]) / state.counts[arm]
    choose(state)
    return SOLVED


@compiled
def choose(state: State) -> None:
    """Put all on the arm that may be the best of all; the first of several."""
    rounds = 0
    for a in range(state.counts.size):
        rounds += state.counts[a]
    best, lowest = 0, np.inf
    for a in range(state.counts.size):
        state.strategy[a] = 0.0
        index = -np.inf
        if state.counts[a] > 0:
            index = state.means[a] - np.sqrt(2.0 * np.log(rounds) / state.counts[a])
        if index < lowest:
            best, lowest = a, index
    state.strategy[best] = 1.0


lives_by(State, update)


class UCB1(Policy):
    """UCB1: the arm whose loss may be the lowest; regret of order ln(T) if losses are independent draws.

    Only then: losses that change with time can deceive it for as long as it has seen them. It plays the arm with the
    least ``mean - sqrt(2 ln(t) / N)``, where t is the number of rounds of feedback and N that of the arm; arms without
    any come first, in order. Nothing is drawn at random, so `seed` has no effect on what it plays. It does not wait for
    late feedback: until that comes, it asks for the same arm again.

    Parameters
    ----------
    problem
        What is to be solved; its thresholds are not looked at.
    seed
        Of the policy's own generator.

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
    Decision(arm=1, propensity=1.0, proposal_weight=1.0)
    """

    kind: ClassVar[str] = "none"
    _endless = True
    _derived = DERIVED

    def __init__(self, problem: Problem, seed: int | np.random.SeedSequence | None = None) -> None:
        super().__init__(problem, seed)

    def _start(self) -> State:
        n_arms = self.problem.n_arms
        state = State(np.zeros(n_arms, np.int64), np.zeros(n_arms), np.zeros(n_arms), np.zeros(1))
        choose(state)
        return state

    def _restored(self) -> None:
        check_counts(self._state.counts, self._round)
        choose(self._state)
