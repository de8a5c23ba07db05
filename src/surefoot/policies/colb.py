"""COLB: soft constraints, small-loss regret (Algorithm 1)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

import surefoot.policies.practical as practical
from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import Costs, observe
from surefoot.kernels.dual import EMPTY, Floats, Integers, Workspace
from surefoot.kernels.episode import lives_by
from surefoot.kernels.learner import Learner, descend
from surefoot.policies.mirror import MirrorDescent


class State(NamedTuple):
    """What COLB remembers."""

    learner: Learner
    known: Costs
    empty_rounds: Floats  # (1,)
    strategy: Floats  # (K,) x_t: the proposal itself
    safe_weight: Floats  # (1,) 0


@merged
def update(state: State, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Lines 6 to 18 of Algorithm 1; EMPTY calls for line 20."""
    observe(state.known, arm, costs)  # line 6
    return descend(state.learner, state.known, arm, loss / propensity, 1.0)  # lines 7 to 18


@compiled
def learn(
    arm: int, propensity: float, loss: float, costs: Floats,
    proposal: Floats, rates: Floats, caps: Floats, limits: Floats, floor: float, growth: float,
    base_rate: Floats, spent: Floats, allowance: float, multipliers: Floats,
    arms: Floats, rows: Floats, factor: Floats, places: Integers,
    counts: Integers, means: Floats, lower: Floats, upper: Floats, scale: float, kind: int, settings: Floats,
    memory: Floats,
    empty_rounds: Floats, strategy: Floats, safe_weight: Floats,
) -> int:  # fmt: skip
    """`update`, as Python calls it: arrays one by one reach compiled code ten times faster than in a tuple."""
    work = Workspace(arms, rows, factor, places)
    learner = Learner(
        proposal, rates, caps, limits, floor, growth, base_rate, spent, allowance, multipliers, work
    )  # fmt: skip
    known = Costs(counts, means, lower, upper, scale, kind, settings, memory)
    state = State(learner, known, empty_rounds, strategy, safe_weight)
    return update(state, arm, propensity, loss, costs)


lives_by(State, update)


class COLB(MirrorDescent):
    """Constrained OMD with Log-Barrier: losses may be adversarial, violations vanish on average.

    Each round it plays the point that mirror descent with the log-barrier finds in an optimistic estimate of the safe
    set. Regret is of order sqrt(K L*), L* the loss of the best safe strategy; total violation of order sqrt(K T). So
    say the theorems, which are about the preset "paper".

    Parameters
    ----------
    problem
        What is to be solved. A safe strategy is not needed.
    seed
        Of the policy's own generator.
    preset
        "practical", tighter bounds on the costs and a rate that tunes itself (`surefoot.policies.practical`);
        "guaranteed", what of it keeps the benchmark in the safe set; or "paper", the paper to the letter. If it is left
        out: "paper" if a learning rate or a benchmark loss is given, else "practical".
    learning_rate
        Of mirror descent, for preset "paper": a number; "theory", its default, the value of Theorem 2; "practical", the
        same without the constants of the proof, ``min(1/2, sqrt(K ln T / L*))``; or "doubling" for an unknown L*: start
        at 1/2, and at half the rate again from the analytic centre of the safe set whenever rate^2 times the sum of
        (proposal * loss estimate)^2 since has passed K ln T. Cost estimates are kept. The other presets tune their own
        rate, but take a number.
    confidence
        "paper", the radius of Lemma 1, or a narrower bound by its name, "hoeffding", "bernstein", "kl-mixture",
        "eb-mixture" or "betting", or with parameters, an object of `surefoot.confidence`. By default "paper" in the
        preset of that name, and bets in the others.
    benchmark_loss
        The total loss L* of the best safe strategy, if known, for the "theory" and "practical" rates; else its worst
        case, the horizon.

    Notes
    -----
    Readings of the pseudo-code, for preset "paper": the estimates it starts from (mean 0, radius 1) are those of time
    0. If the truncated safe set is empty, which happens only when the confidence bounds fail, the next proposal is a
    uniform draw from the truncated simplex, rates and caps stay as they are, and the round counts in `empty_rounds`.
    An arm at its cap to rounding is not below it. The other presets then propose the uniform strategy.

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
    Decision(arm=1, propensity=0.333..., proposal_weight=1.0)
    >>> policy.tell(decision, loss=0.9, costs=[0.0])
    >>> policy.strategy.round(3)
    array([0.403, 0.193, 0.403])
    """

    kind: ClassVar[str] = "soft"

    def _start(self) -> State | practical.SoftState:
        if not self._paper:
            return practical.new_soft(self.problem, self._options["preset"], self._new_costs(), self._fixed_rate())
        learner = self._new_learner()
        return State(learner, self._new_costs(), np.zeros(1), learner.proposal, np.zeros(1))

    def _restored(self) -> None:
        super()._restored()
        if self.safe_weight != 0.0:
            raise ValueError(f"state.safe_weight must be 0, got {self.safe_weight:g}")

    def _learn(self, arm: int, propensity: float, loss: float, costs: Floats) -> None:
        door = learn if self._paper else practical.learn_soft
        if door(arm, propensity, loss, costs, *self._leaves) == EMPTY:
            self._recover()  # line 20
