"""SOLB: hard constraints, every round safe (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

import surefoot.policies.practical as practical
from surefoot.confidence import Betting, Confidence, Paper
from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import Costs, observe
from surefoot.kernels.dual import EMPTY, Floats, Integers, Workspace
from surefoot.kernels.episode import lives_by
from surefoot.kernels.learner import Learner, descend
from surefoot.kernels.safety import mix, weight_needed
from surefoot.policies.mirror import MirrorDescent, chosen_preset
from surefoot.problem import Problem, choice, shown


class State(NamedTuple):
    """What SOLB remembers, and the safe strategy it leans on."""

    learner: Learner
    known: Costs
    empty_rounds: Floats  # (1,)
    strategy: Floats  # (K,) x_t
    safe_weight: Floats  # (1,) gamma_{t-1}
    safe_strategy: Floats  # (K,) x^diamond
    safe_costs: Floats  # (m,) theta
    thresholds: Floats  # (m,) alpha
    weighted: float  # 1 if a loss counts by the weight of the proposal in the draw, else 0


@merged
def update(state: State, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """A round whose feedback comes at once: the weight of the proposal in the draw is today's."""
    return take_in(state, arm, propensity, loss * (1.0 - state.weighted * state.safe_weight[0]), costs)


@merged
def take_in(state: State, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """Lines 8 to 27 of Algorithm 2, less line 24, which EMPTY calls for."""
    observe(state.known, arm, costs)  # line 8
    weight = 1.0 - (1.0 - state.weighted) * state.safe_weight[0]
    status = descend(state.learner, state.known, arm, loss / propensity, weight)  # lines 9 to 20
    proposal = state.learner.proposal
    weight = 1.0  # line 25
    if status != EMPTY:
        weight = weight_needed(proposal, state.known.upper, state.thresholds, state.safe_costs)  # line 21
    state.safe_weight[0] = weight
    mix(state.strategy, weight, state.safe_strategy, proposal)  # line 27
    return status


@compiled
def learn(
    arm: int, propensity: float, loss: float, costs: Floats,
    proposal: Floats, rates: Floats, caps: Floats, limits: Floats, floor: float, growth: float,
    base_rate: Floats, spent: Floats, allowance: float, multipliers: Floats,
    arms: Floats, rows: Floats, factor: Floats, places: Integers,
    counts: Integers, means: Floats, lower: Floats, upper: Floats, scale: float, kind: int, settings: Floats,
    memory: Floats,
    empty_rounds: Floats, strategy: Floats, safe_weight: Floats, safe_strategy: Floats, safe_costs: Floats,
    thresholds: Floats, weighted: float,
) -> int:  # fmt: skip
    """`take_in`, as Python calls it: arrays one by one reach compiled code ten times faster than in a tuple."""
    work = Workspace(arms, rows, factor, places)
    learner = Learner(
        proposal, rates, caps, limits, floor, growth, base_rate, spent, allowance, multipliers, work
    )  # fmt: skip
    known = Costs(counts, means, lower, upper, scale, kind, settings, memory)
    state = State(learner, known, empty_rounds, strategy, safe_weight, safe_strategy, safe_costs, thresholds, weighted)
    return take_in(state, arm, propensity, loss, costs)


lives_by(State, update)


class SOLB(MirrorDescent):
    """Safe OMD with Log-Barrier: losses may be adversarial, and every round is safe with probability 1 - delta.

    The proposal is COLB's. What is played is a mixture of it with the safe strategy, with just the weight that keeps
    every cost under its threshold at the upper confidence bounds; in the preset "practical" the mean of such a mixture
    and of the plan of a linear program, as safe. Regret is safety complexity (how much worse the safe strategy is) plus
    bandit complexity (the loss of the best safe strategy): so say the theorems, which are about the preset "paper".
    Every preset is safe.

    Parameters
    ----------
    problem
        What is to be solved, with a safe strategy.
    seed
        Of the policy's own generator.
    preset
        "practical", the same guarantee of safety as the paper's at a fraction of the regret
        (`surefoot.policies.practical`); "guaranteed", what of it keeps the benchmark in the safe set; or "paper", the
        paper to the letter. If it is left out: "paper" if a learning rate, a benchmark loss or an estimator is given,
        else "practical".
    learning_rate
        Of mirror descent, for preset "paper": a number; "theory", its default, the value of Theorem 4; "practical", the
        same without the constants of the proof, ``min(1/2, sqrt(K ln T / L*))``; or "doubling" for an unknown L*: start
        at 1/2, and at half the rate again from the analytic centre of the safe set whenever rate^2 times the sum of
        (1 - gamma) (proposal * loss estimate)^2 since has passed K ln T. Cost estimates are kept. The other presets
        tune their own rate, but take a number.
    confidence
        "paper", the radius of Lemma 1, or a narrower bound by its name, "hoeffding", "bernstein", "kl-mixture",
        "eb-mixture" or "betting", or with parameters, an object of `surefoot.confidence`. By default "paper" in the
        preset of that name, and bets in the others.
    benchmark_loss
        The total loss L* of the best safe strategy, if known, for the "theory" and "practical" rates; else its worst
        case, the horizon.
    estimator
        What mirror descent is fed in preset "paper": "paper", its default, the loss estimate, or "weighted", the same
        times the weight 1 - gamma that the proposal had in the draw. The bandit complexity of the second is free of the
        margin (docs/theory/weighted-estimator.md).

    Notes
    -----
    Readings of the pseudo-code, beside those of `COLB`: mirror descent moves the proposal x~, not the mixture x that is
    played; loss estimates are divided by the probability of the mixture. The weight is the largest over *violated*
    constraints (over all of them it could exceed 1), with the clipped cost in the test as in the ratio. If the safe set
    is empty the weight is 1: the safe strategy itself is played.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", Algorithm 2, Theorems 3 and 4.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(
    ...     n_arms=4, thresholds=[0.5], horizon=50_000, delta=0.05,
    ...     safe=sf.SafeStrategy([0, 0, 0, 1], costs=[0.2]),
    ... )
    >>> policy = sf.SOLB(problem, seed=7)
    >>> policy.safe_weight, policy.strategy
    (0.6125, array([0.35  , 0.0125, 0.0125, 0.625 ]))
    >>> decision = policy.ask()
    >>> policy.tell(decision, loss=0.4, costs=[0.0])
    >>> restored = sf.SOLB.from_dict(policy.to_dict())
    >>> restored.ask() == policy.ask()
    True
    """

    kind: ClassVar[str] = "hard"

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        preset: str | None = None,
        learning_rate: float | str | None = None,
        confidence: str | Mapping[str, Any] | Confidence | None = None,
        benchmark_loss: float | None = None,
        estimator: str | None = None,
    ) -> None:
        preset = chosen_preset(preset, learning_rate, benchmark_loss, estimator)
        if estimator is None and preset == "paper":
            estimator = "paper"
        self._weighs = estimator is not None and choice("estimator", estimator, ("paper", "weighted")) == "weighted"
        if self._weighs and preset != "paper":
            raise ValueError(f"estimator must be 'paper' for preset {shown(preset)}, got {estimator!r}")
        super().__init__(
            problem,
            seed,
            preset=preset,
            learning_rate=learning_rate,
            confidence=confidence,
            benchmark_loss=benchmark_loss,
            estimator=estimator,
        )

    def _usual_bounds(self, preset: str) -> Confidence:
        return Paper() if preset == "paper" else Betting(sides="upper")

    def _start(self) -> State | practical.HardState:
        safe, thresholds = self.problem.safe, self.problem.thresholds
        if safe is None:
            raise ValueError("problem must have a safe strategy for SOLB, got safe=None")
        if not self._paper:
            return practical.new_hard(
                self.problem, self._options["preset"], self._new_costs(), self._fixed_rate(), safe
            )
        weight = max((1.0 - thresholds) / (1.0 - safe.costs), default=0.0)  # line 3
        state = State(
            learner=self._new_learner(self.problem.margin),
            known=self._new_costs(),
            empty_rounds=np.zeros(1),
            strategy=np.zeros(self.problem.n_arms),
            safe_weight=np.full(1, weight),
            safe_strategy=safe.strategy.copy(),
            safe_costs=safe.costs.copy(),
            thresholds=thresholds.copy(),
            weighted=float(self._weighs),
        )
        mix(state.strategy, weight, state.safe_strategy, state.learner.proposal)  # line 4
        return state

    def _restored(self) -> None:
        super()._restored()
        state = self._state
        if not self._paper:
            practical.restore_hard(state)
            return
        weight = self.safe_weight
        least = weight_needed(state.learner.proposal, state.known.upper, state.thresholds, state.safe_costs)
        if weight < least - 1e-12:
            raise ValueError(f"state.safe_weight must be at least {least:g} to be safe, got {weight:g}")
        mix(state.strategy, weight, state.safe_strategy, state.learner.proposal)

    def _learn(self, arm: int, propensity: float, loss: float, costs: Floats) -> None:
        door = learn if self._paper else practical.learn_hard
        if door(arm, propensity, loss, costs, *self._leaves) == EMPTY:
            self._recover()  # line 24
