"""Tsallis-INF: one algorithm that is optimal for random and for adversarial losses, blind to costs."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import COUNT, NOT_NEGATIVE, derived, saved
from surefoot.kernels.types import SOLVED, Floats
from surefoot.policies.base import Policy, Seed
from surefoot.policies.exp3 import LARGEST
from surefoot.problem import Problem
from surefoot.rules import SUM_TOLERANCE, Range, RuleError, choice

CLOSE = 1e-8  # relative Newton step whose square is lost in rounding


class State(NamedTuple):
    """Estimated total losses, and the strategy they lead to."""

    totals: Annotated[Floats, saved("K", rule=NOT_NEGATIVE)]  # estimated, less the smallest of them
    level: Annotated[Floats, saved(1, rule=Range(2, 1e15))]  # -eta x, x such that the weights sum to 1
    rounds: Annotated[Floats, saved(1, rule=COUNT)]  # of feedback, t - 1
    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]  # 0
    scale: Annotated[float, derived()]  # eta_t sqrt(t)
    baseline: Annotated[float, derived()]  # B, for arms that are likely enough; 0 for plain importance weighting


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Take in an unbiased estimate of all losses."""
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
    rate = state.scale / math.sqrt(state.rounds[0] + 1.0)
    level = state.level[0]
    for _ in range(100):
        total, slope = 0.0, 0.0
        for a in range(state.totals.size):
            root = 2.0 / (rate * state.totals[a] + level)
            total += root * root
            slope += root * root * root
        further = max(2.0, level + 2.0 * total * (math.sqrt(total) - 1.0) / slope)
        close = abs(further - level) <= CLOSE * level
        level = further
        if close:
            break
    state.level[0] = level
    weigh(state)


@compiled
def weigh(state: State) -> float:
    """Fill the strategy for totals and level as they are; return the sum of the weights before the last rounding."""
    rate = state.scale / math.sqrt(state.rounds[0] + 1.0)
    total = 0.0
    for a in range(state.totals.size):
        root = 2.0 / (rate * state.totals[a] + state.level[0])
        state.strategy[a] = root * root
        total += state.strategy[a]
    for a in range(state.totals.size):
        state.strategy[a] /= total
    return total


class TsallisINF(Policy[State]):
    """Tsallis-INF: regret of order sqrt(K T) for any losses, and of order ln(T) if they are independent draws.

    It follows the regularised leader, with the Tsallis entropy of power 1/2 as the regulariser: the weight of an arm is
    ``4 / (eta_t (L - x))^2``, L its estimated total loss and x such that the weights sum to 1. It needs to know neither
    the horizon nor which kind of losses it meets.

    Parameters
    ----------
    problem
        The problem; its thresholds are ignored.
    seed
        Seed of the policy's random generator.
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

    name: ClassVar[str] = "tsallis-inf"
    kind: ClassVar[str] = "none"
    algorithm = Algorithm(State, update, choose, weigh)
    _endless = True

    def __init__(self, problem: Problem, seed: Seed = None, *, estimator: str = "importance") -> None:
        super().__init__(problem, seed, estimator=choice("estimator", estimator, ("importance", "reduced-variance")))

    def _start(self, state: Any) -> None:
        reduced = self._options["estimator"] == "reduced-variance"
        state.level = 2.0 * math.sqrt(self.problem.n_arms)
        state.scale, state.baseline = (4.0, 0.5) if reduced else (2.0, 0.0)

    def _check(self) -> None:
        if self._state.rounds[0] != self._round:
            raise RuleError("state.rounds", f"be round = {self._round}", float(self._state.rounds[0]))
        total = weigh(self._state)
        if not abs(total - 1.0) <= SUM_TOLERANCE:
            raise RuleError("state.level", "make the weights sum to 1", total, f"a sum of {total:.12g}")
