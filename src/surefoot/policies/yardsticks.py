"""Two ends of a scale: playing the safe strategy for ever, and learning with the costs known."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import Costs, unknown_costs
from surefoot.kernels.dual import EMPTY, SOLVED, Floats
from surefoot.kernels.episode import lives_by
from surefoot.kernels.learner import Learner, descend
from surefoot.policies.base import DERIVED, Policy, optional, plain
from surefoot.policies.mirror import MirrorDescent
from surefoot.problem import Problem, choice, numbers


class Still(NamedTuple):
    """Nothing is remembered."""

    strategy: Floats  # (K,) x^diamond
    safe_weight: Floats  # (1,) 1


@compiled
def stay(state: Still, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Learn nothing."""
    return SOLVED


lives_by(Still, stay)


class AlwaysSafe(Policy):
    """Plays the safe strategy, round after round: what a user has who dares nothing.

    Parameters
    ----------
    problem
        With a safe strategy.
    seed
        Of the policy's own generator.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000, safe=sf.SafeStrategy([0, 0.5, 0.5], costs=[0.2]))
    >>> sf.AlwaysSafe(problem, seed=7).strategy
    array([0. , 0.5, 0.5])
    """

    kind: ClassVar[str] = "hard"
    _endless = True
    _derived = DERIVED

    def __init__(self, problem: Problem, seed: int | np.random.SeedSequence | None = None) -> None:
        super().__init__(problem, seed)

    def _start(self) -> Still:
        if self.problem.safe is None:
            raise ValueError("problem must have a safe strategy for AlwaysSafe, got safe=None")
        return Still(self.problem.safe.strategy.copy(), np.ones(1))

    def _restored(self) -> None:
        if self.safe_weight != 1.0:
            raise ValueError(f"state.safe_weight must be 1, got {self.safe_weight:g}")


class Knowing(NamedTuple):
    """Mirror descent, and the costs."""

    learner: Learner
    known: Costs
    empty_rounds: Floats  # (1,)
    strategy: Floats  # (K,) the proposal itself
    safe_weight: Floats  # (1,) 0


@merged
def follow(state: Knowing, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """A step of mirror descent in the true safe set."""
    state.known.counts[arm] += 1
    return descend(state.learner, state.known, arm, loss / propensity, 1.0)


lives_by(Knowing, follow)


class Oracle(MirrorDescent):
    """Log-barrier mirror descent on the true safe set: what is left to learn when the costs are known.

    Parameters
    ----------
    problem
        What is to be solved. A safe strategy is not needed.
    seed
        Of the policy's own generator.
    mean_costs
        The true costs, (m, K). In a study the scenario tells them.
    preset
        "paper": the increasing learning rates of the paper.
    learning_rate
        A number, "theory" or "practical".
    benchmark_loss
        The total loss L* of the best safe strategy, if known; else its worst case, the horizon.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000)
    >>> policy = sf.Oracle(problem, seed=7, mean_costs=[[0.9, 0.3, 0.1]])
    >>> policy.tell(policy.ask(), loss=0.9, costs=[1.0])
    >>> float(policy.strategy @ [0.9, 0.3, 0.1]) <= 0.4 + 1e-12
    True
    """

    kind: ClassVar[str] = "hard"

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        mean_costs: ArrayLike,
        preset: str = "paper",
        learning_rate: float | str = "practical",
        benchmark_loss: float | None = None,
    ) -> None:
        Policy.__init__(
            self,
            problem,
            seed,
            mean_costs=numbers("mean_costs", mean_costs, None, None).tolist() if np.size(mean_costs) else [],
            preset=choice("preset", preset, ("paper",)),
            learning_rate=learning_rate if isinstance(learning_rate, str) else plain("learning_rate", learning_rate),
            benchmark_loss=optional("benchmark_loss", benchmark_loss),
        )

    @property
    def _limits(self) -> Floats:
        return self.problem.thresholds.copy()

    def _new_costs(self) -> Costs:
        known = unknown_costs(self.problem.n_arms, self.problem.n_constraints, 0.0)
        truth = numbers("mean_costs", self._options["mean_costs"], *known.means.shape)
        for array in (known.means, known.lower, known.upper):
            array[...] = truth
        return known

    def _start(self) -> Knowing:
        learner = self._new_learner()
        state = Knowing(learner, self._new_costs(), np.zeros(1), learner.proposal, np.zeros(1))
        if descend(learner, state.known, 0, 0.0, 1.0) == EMPTY:  # from the uniform strategy into the safe set
            raise ValueError("problem must have a safe strategy in which every arm has a share of 1 / T, got none")
        return state

    def _recover(self) -> None:
        """Should rounding ever call the safe set empty: a step into it from the uniform strategy, as at the start."""
        learner = self._state.learner
        learner.proposal[:] = 1.0 / self.problem.n_arms
        descend(learner, self._state.known, 0, 0.0, 1.0)
        self._state.empty_rounds[0] += 1

    def _restored(self) -> None:
        truth = np.reshape(self._options["mean_costs"], self._state.known.means.shape)
        if (self._state.known.means != truth).any() or self.safe_weight != 0.0:
            raise ValueError("state.means must be the mean costs, and state.safe_weight 0, got others")
        super()._restored()
