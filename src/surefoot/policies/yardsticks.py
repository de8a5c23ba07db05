"""Two reference points: always playing the safe strategy, and learning with known costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import CostBound
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import derived
from surefoot.kernels.learner import descend
from surefoot.kernels.types import EMPTY, SOLVED, Floats
from surefoot.policies.base import Seed, WithoutOptions
from surefoot.policies.colb import SoftMirror, State
from surefoot.policies.estimates import known_safe
from surefoot.policies.guarded import Guarded, Method, show_proposal
from surefoot.problem import Problem
from surefoot.rules import SHARE, RuleError, numbers


class Still(NamedTuple):
    """A state that stores nothing."""

    strategy: Annotated[Floats, derived("K")]  # x^diamond
    safe_weight: Annotated[Floats, derived(1)]  # 1


@compiled
def stay(state: Still, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Learn nothing."""
    return SOLVED


class AlwaysSafe(WithoutOptions[Still]):
    """Plays the safe strategy in every round: the baseline of a user who takes no risk.

    Parameters
    ----------
    problem
        The problem, with a safe strategy.
    seed
        Seed of the policy's random generator.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000, safe=sf.SafeStrategy([0, 0.5, 0.5], costs=[0.2]))
    >>> sf.AlwaysSafe(problem, seed=7).strategy
    array([0. , 0.5, 0.5])
    """

    name: ClassVar[str] = "always-safe"
    kind: ClassVar[str] = "hard"
    algorithm = Algorithm(Still, stay)
    _endless = True

    def _start(self, state: Any) -> None:
        state.strategy, state.safe_weight = known_safe(self.problem, "AlwaysSafe").strategy, 1.0


@merged
def follow(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """A step of mirror descent in the true safe set."""
    state.known.counts[arm] += 1
    status = descend(state.learner, state.known, arm, loss / propensity, 1.0)
    show_proposal(state)
    return status


class Knowing(SoftMirror):
    """Mirror descent in the true safe set."""

    algorithm = Algorithm(State, follow, show_proposal)

    def new_bound(self) -> CostBound:
        """The costs are known."""
        return CostBound()

    def limits(self) -> Floats:
        """The thresholds themselves."""
        return self.problem.thresholds

    def start(self, state: Any) -> None:
        """Fill in the costs, and step from the uniform strategy into the safe set."""
        super().start(state)
        truth = numbers("mean_costs", self.options["mean_costs"], SHARE, *state.known.means.shape)
        state.known.means = state.known.lower = state.known.upper = truth
        opened = state.opened()
        if descend(opened.learner, opened.known, 0, 0.0, 1.0) == EMPTY:
            rule = "have a safe strategy in which every arm has a share of 1 / T"
            raise RuleError("problem", rule, self.problem, "one without")

    def recover(self, state: Any, rng: np.random.Generator) -> None:
        """If rounding makes the safe set look empty, step into it from the uniform strategy, as at the start."""
        state.learner.proposal[:] = 1.0 / self.problem.n_arms
        descend(state.learner, state.known, 0, 0.0, 1.0)
        show_proposal(state)
        state.empty_rounds[0] += 1

    def check(self, state: Any, rounds: int) -> None:
        """Reject a loaded state whose leaves are inconsistent."""
        truth = np.reshape(self.options["mean_costs"], state.known.means.shape)
        for leaf in ("means", "lower", "upper"):
            if (getattr(state.known, leaf) != truth).any():
                raise RuleError(f"state.known.{leaf}", "be the mean costs", getattr(state.known, leaf))
        super().check(state, rounds)


class Oracle(Guarded):
    """Log-barrier mirror descent on the true safe set: what is left to learn when the costs are known.

    Parameters
    ----------
    problem
        The problem. It needs no safe strategy.
    seed
        Seed of the policy's random generator.
    mean_costs
        The true costs, (m, K). In a study the scenario provides them.
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

    name: ClassVar[str] = "oracle"
    kind: ClassVar[str] = "hard"
    methods: ClassVar[Mapping[str, type[Method]]] = {"paper": Knowing}

    def __init__(
        self, problem: Problem, seed: Seed = None, *, mean_costs: ArrayLike, preset: str = "paper",
        learning_rate: float | str = "practical", benchmark_loss: float | None = None,
    ) -> None:  # fmt: skip
        truth = numbers("mean_costs", mean_costs, SHARE, None, None).tolist() if np.size(mean_costs) else []
        self._begin(problem, seed, preset, learning_rate, benchmark_loss, mean_costs=truth)
