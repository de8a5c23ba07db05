"""Tsallis-INF: one algorithm that is optimal for random and for adversarial losses, blind to costs."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.dual import SOLVED, Floats
from surefoot.kernels.episode import lives_by
from surefoot.policies.base import DERIVED, Policy
from surefoot.problem import SUM_TOLERANCE, Problem, choice

LARGEST = 1e300  # the most a total may come to; feedback on a decision of that small a propensity would overflow it
CLOSE = 1e-8  # relative Newton step whose square is lost in rounding


class State(NamedTuple):
    """Estimated total losses, and the strategy they lead to."""

    totals: Floats  # (K,) estimated losses, less the smallest of them: nothing can overflow
    level: Floats  # (1,) -eta x, where x normalises the weights: the next search starts from it
    rounds: Floats  # (1,) of feedback, t - 1
    strategy: Floats  # (K,)
    safe_weight: Floats  # (1,) 0
    scale: float  # eta_t sqrt(t)
    baseline: float  # B, for arms that are likely enough; 0 for plain importance weighting


@merged
def update(state: State, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Take in an estimate of all losses, whose mean over the draw of the arm is the truth."""
    played = 0.0
    if state.baseline > 0.0:
        likely = state.scale * state.scale / (state.rounds[0] + 1.0)  # eta_t^2
        for a in range(state.totals.size):
            if state.strategy[a] >= likely:
                state.totals[a] += state.baseline
                if a == arm:
                    played = state.baseline
    state.totals[arm] += (loss - played) / propensity
    state.rounds[0] += 1.0
    choose(state)
    return SOLVED


@compiled
def choose(state: State) -> None:
    """Count the totals from their smallest, find the level at which the weights sum to 1, and play them.

    The sum of weights to the power -1/2 is concave and increasing in the level, and nearly linear: from the left of the
    root Newton approaches it monotonically, in a few steps; from the right the first step leads to the left. At level 2
    the arm of the smallest total alone has all the weight, so the root is not below.
    """
    least = np.inf
    for a in range(state.totals.size):
        least = min(least, state.totals[a])
    for a in range(state.totals.size):
        state.totals[a] = min(state.totals[a] - least, LARGEST)
    rate = state.scale / np.sqrt(state.rounds[0] + 1.0)
    level = state.level[0]
    for _ in range(100):
        total, slope = 0.0, 0.0
        for a in range(state.totals.size):
            root = 2.0 / (rate * state.totals[a] + level)
            total += root * root
            slope += root * root * root
        further = max(2.0, level + 2.0 * total * (np.sqrt(total) - 1.0) / slope)
        close = abs(further - level) <= CLOSE * level
        level = further
        if close:
            break
    state.level[0] = level
    weigh(state)


@compiled
def weigh(state: State) -> float:
    """Fill the strategy for totals and level as they are; return the sum of the weights before the last rounding."""
    rate = state.scale / np.sqrt(state.rounds[0] + 1.0)
    total = 0.0
    for a in range(state.totals.size):
        root = 2.0 / (rate * state.totals[a] + state.level[0])
        state.strategy[a] = root * root
        total += state.strategy[a]
    for a in range(state.totals.size):
        state.strategy[a] /= total
    return total


lives_by(State, update)


class TsallisINF(Policy):
    """Tsallis-INF: regret of order sqrt(K T) whatever the losses, and of order ln(T) if they are independent draws.

    It follows the regularised leader, with the Tsallis entropy of power 1/2 as the regulariser: the weight of an arm is
    ``4 / (eta_t (L - x))^2``, L its estimated total loss and x such that the weights sum to 1. It needs to know neither
    the horizon nor which kind of losses it meets.

    Parameters
    ----------
    problem
        What is to be solved; its thresholds are not looked at.
    seed
        Of the policy's own generator.
    estimator
        "importance": losses divided by the probability of the draw, ``eta_t = 2 / sqrt(t)``. "reduced-variance": what
        is divided is the difference to 1/2, for arms with a weight of at least eta_t^2, and ``eta_t = 4 / sqrt(t)``.
        Which arms those are is decided by the strategy at the time of `tell`. That is the strategy of the draw if
        feedback comes at once; if it comes late, the estimates are still right on average.

    References
    ----------
    Zimmert, Seldin, "Tsallis-INF: an optimal algorithm for stochastic and adversarial bandits", JMLR 2021.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy = sf.TsallisINF(sf.Problem(n_arms=3, thresholds=[], horizon=1000), seed=7)
    >>> policy.tell(sf.Decision(arm=0, propensity=1 / 3), loss=1.0)
    >>> policy.strategy.round(3)
    array([0.077, 0.461, 0.461])
    """

    kind: ClassVar[str] = "none"
    _endless = True
    _derived = DERIVED

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        estimator: str = "importance",
    ) -> None:
        super().__init__(problem, seed, estimator=choice("estimator", estimator, ("importance", "reduced-variance")))

    def _start(self) -> State:
        n_arms, reduced = self.problem.n_arms, self._options["estimator"] == "reduced-variance"
        state = State(
            totals=np.zeros(n_arms),
            level=np.array([2.0 * np.sqrt(n_arms)]),
            rounds=np.zeros(1),
            strategy=np.zeros(n_arms),
            safe_weight=np.zeros(1),
            scale=4.0 if reduced else 2.0,
            baseline=0.5 if reduced else 0.0,
        )
        choose(state)
        return state

    def _restored(self) -> None:
        if self._state.rounds[0] != self._round:
            raise ValueError(f"state.rounds must be round = {self._round}, got {self._state.rounds[0]:g}")
        total = weigh(self._state)
        if not abs(total - 1.0) <= SUM_TOLERANCE:
            raise ValueError(f"state.level must make the weights sum to 1, got a sum of {total:.12g}")
