"""SOLB: hard guardrails (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

from surefoot.confidence import Betting, Confidence, Paper
from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import KnownCosts, bound_again, observe
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import COUNT, derived, saved
from surefoot.kernels.learner import Learner, descend
from surefoot.kernels.safety import mix, weight_needed
from surefoot.kernels.types import EMPTY, Floats
from surefoot.policies.base import Seed, plain
from surefoot.policies.estimates import Bounds, known_safe, least_safe_share
from surefoot.policies.guarded import Guarded, Method, MirrorDescent, refuse_of_paper
from surefoot.policies.led import FOLLOWER_SHARE, FollowInCompany
from surefoot.policies.practical import FollowAndPlan
from surefoot.policies.presets import Preset
from surefoot.problem import Problem
from surefoot.rules import SHARE, RuleError, choice


class State(NamedTuple):
    """The state of SOLB, including its safe strategy."""

    learner: Learner
    known: KnownCosts
    empty_rounds: Annotated[Floats, saved(1, rule=COUNT)]
    safe_weight: Annotated[Floats, saved(1, rule=SHARE)]  # gamma_{t-1}
    strategy: Annotated[Floats, derived("K")]  # x_t
    safe_strategy: Annotated[Floats, derived("K")]  # x^diamond
    safe_costs: Annotated[Floats, derived("m")]  # theta
    thresholds: Annotated[Floats, derived("m")]  # alpha
    weighted: Annotated[int, derived()]  # 1: a loss counts by the weight of the proposal in the draw


@merged
def update(state: State, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """Lines 8 to 27 of Algorithm 2, less line 24, which EMPTY calls for."""
    observe(state.known, arm, costs)  # line 8
    if state.weighted == 1:
        loss, weight = loss * weight, 1.0
    status = descend(state.learner, state.known, arm, loss / propensity, weight)  # lines 9 to 20
    if status != EMPTY:
        begin(state)
    else:
        state.safe_weight[0] = 1.0  # line 25
        mix_in(state)
    return status


@compiled
def begin(state: State) -> None:
    """Play the proposal with as much of the safe strategy as the bounds ask for: lines 3 and 4, and 21 and 27."""
    state.safe_weight[0] = weight_needed(state.learner.proposal, state.known.upper, state.thresholds, state.safe_costs)
    mix_in(state)


@compiled
def mix_in(state: State) -> None:
    """Play the mixture: lines 4 and 27."""
    mix(state.strategy, state.safe_weight[0], state.safe_strategy, state.learner.proposal)


@compiled
def restore(state: State) -> None:
    """Recompute the derived leaves from the saved ones."""
    bound_again(state.known)
    mix_in(state)


class HardMirror(MirrorDescent):
    """SOLB as in the paper."""

    algorithm = Algorithm(State, update, begin, restore)

    def start(self, state: Any) -> None:
        """Fill in the learner, what is known of the costs, and the safe strategy."""
        safe, thresholds = known_safe(self.problem, "SOLB"), self.problem.thresholds
        super().start(state)
        state.safe_strategy, state.safe_costs, state.thresholds = safe.strategy, safe.costs, thresholds
        state.weighted = self.options["estimator"] == "weighted"

    def rate_margin(self) -> float:
        """The margin of the safe strategy, as in Theorem 4."""
        return self.problem.margin

    def least_propensity(self) -> float:
        """The floor of the proposal times its least weight, or the least share of the safe strategy."""
        return min(super().least_propensity() * self.problem.margin, least_safe_share(self.problem))

    def check(self, state: Any, rounds: int) -> None:
        """Reject a loaded state whose leaves are inconsistent, or whose mixture is not safe."""
        super().check(state, rounds)
        weight = float(state.safe_weight[0])
        least = weight_needed(state.learner.proposal, state.known.upper, state.thresholds, state.safe_costs)
        if weight < least - 1e-12:
            raise RuleError("state.safe_weight", f"be at least {least:g} to be safe", weight)


class SOLB(Guarded):
    """Safe OMD with Log-Barrier: with probability at least 1 - delta, all rounds are safe. Losses may be adversarial.

    Conditions: each cost lies in [0, 1] and has a fixed mean given the past, the safe strategy costs at most what you
    state, and feedback is told once, within an arm in the order of asking. `tell` refuses decisions with a number that
    break the order; decisions without a number and `tell_many` are not checked.

    The proposal is COLB's. SOLB plays a mixture of it with the safe strategy, with just the weight that keeps every
    cost within its limit at the upper confidence bounds. The presets "led" and "practical" play the mean of such
    mixtures and of the solution of a linear program. Every preset makes the same promise of safety.

    The paper's regret bound (Theorem 4) is about the preset "paper". It is the sum of two parts: one depends on how
    much worse the safe strategy is, the other on the loss of the best safe strategy. Its published proof has a gap
    (docs/theory/weighted-estimator.md). For "led" and "guaranteed" a bound on the mean regret is proved, for losses
    fixed in advance, feedback that comes at once, delta = 1 / T and, for "led" with a single safe arm, costs of that
    arm that are exact. With a larger delta, such as the default of 0.05, up to 4 delta a round must be added to it.
    docs/choosing.md has all conditions.

    Parameters
    ----------
    problem
        The problem, with a safe strategy.
    seed
        Seed of the policy's random generator.
    preset
        "led": the same guarantee of safety as the paper's, less regret, and a bound on the mean regret
        (`surefoot.policies.led`); "practical": about the same regret, but nothing is proved about its regret
        (`surefoot.policies.practical`); "guaranteed": a smaller bound and more regret; "paper": the paper's algorithm,
        line by line.
    learning_rate
        A number, or for preset "paper" one of these names: "theory", its default, the value of Theorem 4; "practical",
        the same without the constants of the proof, ``min(1/2, sqrt(K ln T / L*))``; "doubling", for an unknown L*:
        start at 1/2, and begin again at half the rate from the analytic centre of the safe set whenever rate^2 times
        the sum of (1 - gamma) (proposal * loss estimate)^2 since has passed K ln T. Cost estimates are kept. The other
        presets tune their own rate if none is given.
    confidence
        The name of a bound: "paper" (the radius of Lemma 1), or a narrower one: "hoeffding", "bernstein", "kl-mixture",
        "eb-mixture" or "betting". To set parameters, pass an object of `surefoot.confidence`. By default "paper" in the
        preset of that name, and "betting" in the others; in "led" with ``sides="needed"``.
    benchmark_loss
        For preset "paper": the total loss L* of the best safe strategy, if known, for the rates "theory" and
        "practical"; else its worst case, the horizon.
    estimator
        For preset "paper", the input of mirror descent: "paper", its default, the loss estimate, or "weighted", the
        same times the weight 1 - gamma that the proposal had in the draw. The bandit complexity of the second does not
        depend on the margin (docs/theory/weighted-estimator.md).
    follower_share
        For preset "led": the least share of its follower in what is played, from 0.001 to 0.1. By default 0.05 if arms
        times guardrails are at most 8, else 0.01. A smaller share mostly loses less, but makes the bound on the mean
        regret larger (docs/theory/led.md).

    Notes
    -----
    How we read the pseudo-code, beyond the notes of `COLB`: mirror descent moves the proposal x~, not the mixture x
    that is played; loss estimates are divided by the probability of the mixture. The weight is the largest over
    *violated* guardrails (over all of them it could exceed 1), with the clipped cost in the test as in the ratio. If
    the safe set is empty the weight is 1: the safe strategy itself is played.

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

    name: ClassVar[str] = "solb"
    kind: ClassVar[str] = "hard"
    methods: ClassVar[Mapping[str, type[Method]]] = {
        "practical": FollowAndPlan, "led": FollowInCompany, "guaranteed": FollowAndPlan, "paper": HardMirror,
    }  # fmt: skip

    def __init__(
        self, problem: Problem, seed: Seed = None, *, preset: str = "led",
        learning_rate: float | str | None = None, confidence: Bounds = None, benchmark_loss: float | None = None,
        estimator: str | None = None, follower_share: float | None = None,
    ) -> None:  # fmt: skip
        if choice("preset", preset, tuple(self.methods)) != "paper":
            refuse_of_paper("estimator", estimator, preset)
        else:
            estimator = choice("estimator", "paper" if estimator is None else estimator, ("paper", "weighted"))
        options: dict[str, Any] = {"estimator": estimator}
        if follower_share is not None:
            if preset != "led":
                rule = f"be left out for preset {preset!r} (it belongs to preset 'led')"
                raise RuleError("follower_share", rule, follower_share)
            options["follower_share"] = plain("follower_share", follower_share, FOLLOWER_SHARE)
        self._begin_bounded(problem, seed, preset, learning_rate, confidence, benchmark_loss, **options)

    def _usual_bounds(self, preset: Preset) -> Confidence:
        if not preset.follows:
            return Paper()
        return Betting(sides="needed" if preset.name == "led" else "upper")
