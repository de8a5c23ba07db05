"""COLB: soft guardrails, small-loss regret (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from surefoot.confidence import Betting, Confidence, Paper
from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import KnownCosts, bound_again, observe
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import COUNT, derived, saved
from surefoot.kernels.learner import Learner, descend
from surefoot.kernels.types import Floats
from surefoot.policies.base import Seed
from surefoot.policies.estimates import Bounds
from surefoot.policies.guarded import Guarded, Method, MirrorDescent, show_proposal
from surefoot.policies.practical import FollowLeader
from surefoot.policies.presets import Preset
from surefoot.problem import Problem


class State(NamedTuple):
    """The state of COLB."""

    learner: Learner
    known: KnownCosts
    empty_rounds: Annotated[Floats, saved(1, rule=COUNT)]
    strategy: Annotated[Floats, derived("K")]  # x_t: the proposal itself
    safe_weight: Annotated[Floats, derived(1)]  # 0


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Lines 6 to 18 of Algorithm 1; EMPTY calls for line 20."""
    observe(state.known, arm, costs)  # line 6
    status = descend(state.learner, state.known, arm, loss / propensity, 1.0)  # lines 7 to 18
    show_proposal(state)
    return status


@compiled
def restore(state: State) -> None:
    """Recompute the derived leaves from the saved ones."""
    bound_again(state.known)
    show_proposal(state)


class SoftMirror(MirrorDescent):
    """COLB as in the paper."""

    algorithm = Algorithm(State, update, show_proposal, restore)

    def recover(self, state: Any, rng: np.random.Generator) -> None:
        """Line 20: play a uniform draw from the truncated simplex."""
        super().recover(state, rng)
        show_proposal(state)


class COLB(Guarded):
    """Constrained OMD with Log-Barrier: the total violation grows like sqrt(T) (proved for preset "paper").

    Losses may be adversarial. Each round it plays the point that mirror descent with the log-barrier finds in an
    optimistic estimate of the safe set. The total violation is of order sqrt(K T), and regret of order sqrt(K L*),
    where L* is the loss of the best safe strategy. Both are proved for the preset "paper" alone.

    Parameters
    ----------
    problem
        The problem. It needs no safe strategy.
    seed
        Seed of the policy's random generator.
    preset
        "practical": narrower bounds on the costs and a rate that tunes itself (`surefoot.policies.practical`);
        "guaranteed": the same without the features that have no proof; or "paper": the paper's algorithm, line by
        line.
    learning_rate
        A number, or for preset "paper" one of these names: "theory", its default, the value of Theorem 2; "practical",
        the same without the constants of the proof, ``min(1/2, sqrt(K ln T / L*))``; "doubling", for an unknown L*:
        start at 1/2, and begin again at half the rate from the analytic centre of the safe set whenever rate^2 times
        the sum of (proposal * loss estimate)^2 since has passed K ln T. Cost estimates are kept. The other presets tune
        their own rate if none is given.
    confidence
        The name of a bound: "paper" (the radius of Lemma 1), or a narrower one: "hoeffding", "bernstein", "kl-mixture",
        "eb-mixture" or "betting". To set parameters, pass an object of `surefoot.confidence`. By default "paper" in the
        preset of that name, and "betting" in the others.
    benchmark_loss
        For preset "paper": the total loss L* of the best safe strategy, if known, for the rates "theory" and
        "practical"; else its worst case, the horizon.

    Notes
    -----
    How we read the pseudo-code, for preset "paper": the estimates it starts from (mean 0, radius 1) are those of time
    0. If the truncated safe set is empty, which happens only when the confidence bounds fail, the next proposal is a
    uniform draw from the truncated simplex, rates and caps stay as they are, and the round counts in `empty_rounds`. An
    arm that equals its cap up to rounding is not below it. If the set is empty, the other presets propose the uniform
    strategy.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", Algorithm 1, Theorems 1 and 2.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000)
    >>> policy = sf.COLB(problem, seed=7)
    >>> decision = policy.ask()
    >>> decision
    Decision(arm=2, propensity=0.333..., proposal_weight=1.0, number=0)
    >>> policy.tell(decision, loss=0.9, costs=[0.0])
    >>> policy.strategy.round(3)
    array([0.403, 0.403, 0.193])
    """

    name: ClassVar[str] = "colb"
    kind: ClassVar[str] = "soft"
    methods: ClassVar[Mapping[str, type[Method]]] = {
        "practical": FollowLeader, "guaranteed": FollowLeader, "paper": SoftMirror,
    }  # fmt: skip

    def __init__(
        self, problem: Problem, seed: Seed = None, *, preset: str = "practical",
        learning_rate: float | str | None = None, confidence: Bounds = None, benchmark_loss: float | None = None,
    ) -> None:  # fmt: skip
        self._begin_bounded(problem, seed, preset, learning_rate, confidence, benchmark_loss)

    def _usual_bounds(self, preset: Preset) -> Confidence:
        return Betting() if preset.follows else Paper()
