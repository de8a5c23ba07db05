"""Epsilon-greedy: mostly the arm that has lost least on average, blind to costs."""

from typing import Annotated, Any, NamedTuple

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import COUNT, derived, saved
from surefoot.kernels.types import SOLVED, Floats, Integers
from surefoot.policies.base import Policy, Seed, plain
from surefoot.problem import Problem
from surefoot.rules import SHARE, Range


class State(NamedTuple):
    """The mean loss of each arm, and the strategy played."""

    counts: Annotated[Integers, saved("K", rule=COUNT)]
    means: Annotated[Floats, saved("K", rule=SHARE)]  # mean losses; 0 for an arm that was never played
    exploration: Annotated[float, derived()]  # c K / d^2
    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]  # 0


@compiled
def choose(state: State) -> None:
    """Share epsilon equally among all arms; the first arm with the least mean loss gets the rest."""
    epsilon = min(1.0, state.exploration / (1 + state.counts.sum()))
    state.strategy.fill(epsilon / state.strategy.size)
    state.strategy[state.means.argmin()] += 1.0 - epsilon


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Take in a loss."""
    state.counts[arm] += 1
    state.means[arm] += (loss - state.means[arm]) / state.counts[arm]
    choose(state)
    return SOLVED


class EpsilonGreedy(Policy[State]):
    """A random arm with probability min(1, 6 K / (gap^2 t)) in round t, else the one with the least mean loss so far.

    Regret is of order ln T if losses are independent draws and all other arms lose at least `gap` more than the best
    (Auer, Cesa-Bianchi, Fischer, "Finite-time analysis of the multiarmed bandit problem", 2002, Theorem 3 with c = 6).

    Examples
    --------
    >>> import surefoot as sf
    >>> sf.EpsilonGreedy(sf.Problem(n_arms=4, thresholds=[], horizon=1000), seed=7, gap=0.3).ask()
    Decision(arm=3, propensity=0.25, proposal_weight=1.0, number=0)
    """

    name, kind, algorithm, _endless = "epsilon-greedy", "none", Algorithm(State, update, choose), True

    def __init__(self, problem: Problem, seed: Seed = None, *, gap: float = 0.5) -> None:
        super().__init__(problem, seed, gap=plain("gap", gap, Range(1e-3, 1)))

    def _start(self, state: Any) -> None:
        state.exploration = 6.0 * self.problem.n_arms / self._options["gap"] ** 2
