"""Thompson sampling: an arm is played as often as it is likely to be the best, blind to costs."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import COUNT, TOTAL, derived, saved
from surefoot.kernels.types import SOLVED, Floats
from surefoot.policies.base import WithoutOptions
from surefoot.rules import SUM_TOLERANCE, RuleError


class State(NamedTuple):
    """The losses of each arm, and the arm that the last sample has chosen."""

    lost: Annotated[Floats, saved("K", rule=TOTAL)]  # sums of loss
    gained: Annotated[Floats, saved("K", rule=TOTAL)]  # sums of 1 - loss
    drawn: Annotated[Floats, saved(1, rule=COUNT)]  # the arm of the least sample
    strategy: Annotated[Floats, derived("K")]  # all on that arm
    safe_weight: Annotated[Floats, derived(1)]  # 0


@merged
def update(state: State, generator: Any, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Take in a loss; the probability of the draw does not matter."""
    state.lost[arm] += loss
    state.gained[arm] += 1.0 - loss
    sample(state, generator)
    return SOLVED


@compiled
def sample(state: State, generator: Any) -> None:
    """Draw the mean loss of every arm from its posterior, and choose the arm with the least."""
    lowest = np.inf
    for a in range(state.lost.size):
        mean = generator.beta(1.0 + state.lost[a], 1.0 + state.gained[a])
        if mean < lowest:
            lowest, state.drawn[0] = mean, a
    put_all(state)


@compiled
def put_all(state: State) -> None:
    """Put all on the arm that was drawn."""
    for a in range(state.strategy.size):
        state.strategy[a] = 1.0 if a == state.drawn[0] else 0.0


class ThompsonSampling(WithoutOptions[State]):
    """Thompson sampling with Beta(1, 1) priors: regret of order ln(T) if losses are independent coin flips.

    After every round it draws a mean loss for each arm from the posterior, and plays the arm with the least. A loss
    between 0 and 1 counts in part on both sides, `loss` to the one and `1 - loss` to the other: for losses other than 0
    and 1 the posterior is a heuristic, with the right mean but wider than necessary.

    The arm is drawn when feedback arrives, not in `ask`: until the next feedback, `ask` answers with the same arm, at a
    propensity of 1.

    Parameters
    ----------
    problem
        The problem; its thresholds are ignored.
    seed
        Seed of the policy's random generator.

    References
    ----------
    Thompson, "On the likelihood that one unknown probability exceeds another in view of the evidence of two samples",
    Biometrika 1933. Agrawal, Goyal, "Analysis of Thompson sampling for the multi-armed bandit problem", COLT 2012; for
    losses other than 0 and 1, they flip a coin and count its result.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy = sf.ThompsonSampling(sf.Problem(n_arms=2, thresholds=[], horizon=1000), seed=7)
    >>> for _ in range(50):
    ...     decision = policy.ask()
    ...     policy.tell(decision, loss=[0.9, 0.1][decision.arm])
    >>> policy.ask()
    Decision(arm=1, propensity=1.0, proposal_weight=1.0, number=50)
    """

    name: ClassVar[str] = "thompson"
    kind: ClassVar[str] = "none"
    algorithm = Algorithm(State, update, sample, put_all, random=True)
    _endless = True

    def _check(self) -> None:
        state, n_arms = self._state, self.problem.n_arms
        seen = state.lost.sum() + state.gained.sum()
        if abs(seen - self._round) > SUM_TOLERANCE * max(1, self._round):
            raise RuleError("state.lost", f"sum to round = {self._round} with state.gained", seen)
        if state.drawn[0] >= n_arms:
            raise RuleError("state.drawn", f"be below n_arms = {n_arms}", float(state.drawn[0]))
