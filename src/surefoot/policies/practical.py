"""The presets "practical" and "guaranteed" of COLB and SOLB: the same guarantee of safety, a fraction of the regret.

Safety needs only upper confidence bounds that hold. It allows any proposal, at any rate, mixed with any strategy that
is certified safe, and the mean of two such mixtures (docs/theory/safety.md). The rest is free to minimise loss. In
both presets

* the proposal follows the regularised leader at a rate that tunes itself (`kernels/follower.py`);
* betting bounds the costs at all times; SOLB spends all of delta on the upper bounds, which safety depends on;
* the safe strategy's own costs are known, and are used for its share of the strategy played;
* the proposal's safe set is built from the means less `optimism` times their distance from the lower bounds.

"guaranteed" has an optimism of 1, which keeps the benchmark in the set, mixes with the safe strategy alone, and takes
no step that is too long; all this gives it a bound on the mean regret. "practical" is better on average, and has none:

* its optimism is 1/2;
* losses that have changed are forgotten (`kernels/record.py`);
* the proposal may lag a little behind the losses: upper bounds only fall, so an old mixture stays safe;
* SOLB mixes in the safe strategy or any arm that is certified safe by now, whichever costs less;
* SOLB plays the mean of that mixture and of the solution of a linear program, and follows the program while that
  performs at least as well (`kernels/plans.py`).

Without a horizon 1 / T is replaced by a tiny floor, K / T by K / (K + t) and ln T by ln(K + t).
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import PAPER, KnownCosts, bound_again, observe, start_costs
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.follower import Follower, believe_all, due, follow, mean_loss, start_follower
from surefoot.kernels.layout import COUNT, derived, saved
from surefoot.kernels.plans import (
    FOLLOWER,
    LEAST_SHARE,
    Plans,
    blend,
    compare,
    forget_comparison,
    set_share,
    solve_program,
    start_plans,
)
from surefoot.kernels.safety import mix_anchored, pessimistic_cost, safe_share
from surefoot.kernels.types import EMPTY, KEPT, SOLVED, Floats
from surefoot.policies.estimates import known_safe, least_safe_share
from surefoot.policies.guarded import Method, show_proposal
from surefoot.rules import SUM_TOLERANCE, RuleError

TINY = 1e-9
"""The floor of a proposal where no horizon gives one; numerics alone ask for it."""


class SoftState(NamedTuple):
    """The state of COLB."""

    learner: Follower
    known: KnownCosts
    empty_rounds: Annotated[Floats, saved(1, rule=COUNT)]
    strategy: Annotated[Floats, derived("K")]  # x_t: the proposal itself
    safe_weight: Annotated[Floats, derived(1)]  # 0


class HardState(NamedTuple):
    """The state of SOLB, including its safe strategy."""

    learner: Follower
    known: KnownCosts
    plans: Plans
    empty_rounds: Annotated[Floats, saved(1, rule=COUNT)]  # also those in which the program was not solved
    strategy: Annotated[Floats, derived("K")]  # x_t
    safe_weight: Annotated[Floats, derived(1)]  # of the safe strategy
    safe_strategy: Annotated[Floats, derived("K")]  # x^diamond
    safe_costs: Annotated[Floats, derived("m")]  # theta
    excess: Annotated[Floats, derived("m")]  # scratch
    mixes_anchors: Annotated[int, derived()]  # 1: arms that are certified safe may be mixed in
    plays_program: Annotated[int, derived()]  # 1: the solution of a linear program is played, too


@merged
def update_soft(state: SoftState, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """A round of COLB."""
    observe(state.known, arm, costs)
    followed = follow(state.learner, state.known, arm, propensity, loss, weight)
    if followed.status == EMPTY:
        state.empty_rounds[0] += 1.0
    show_proposal(state)
    return SOLVED


@compiled
def begin_soft(state: SoftState) -> None:
    """Set what follows from the estimates."""
    believe_all(state.learner, state.known)
    show_proposal(state)


@compiled
def restore_soft(state: SoftState) -> None:
    """Recompute the derived leaves from the saved ones."""
    bound_again(state.known)
    begin_soft(state)


@merged
def update_hard(state: HardState, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """A round of SOLB."""
    learner, known, plans = state.learner, state.known, state.plans
    observe(known, arm, costs)
    if state.plays_program == 1:
        compare(plans, arm, (loss - mean_loss(learner)) / propensity)
    followed = follow(learner, known, arm, propensity, loss, weight)
    failed = followed.status == EMPTY
    if followed.changed:
        forget_comparison(plans)
    ahead = state.plays_program == 1 and (followed.changed or known.kind == PAPER or due(int(learner.record.seen[arm])))
    if ahead and solve_program(plans, known, learner.record, state.safe_strategy, state.safe_costs) != SOLVED:
        failed = True
    if failed:
        state.empty_rounds[0] += 1.0
    if followed.status != KEPT:
        mix_proposal(state)
    if ahead or followed.status != KEPT:
        if state.plays_program == 1:
            set_share(plans)
        state.safe_weight[0] = blend(plans, state.strategy)
    return SOLVED


@merged
def mix_proposal(state: HardState) -> None:
    """Set the follower's plan: its proposal, mixed with what is certified safe."""
    learner, plans = state.learner, state.plans
    plans.safe_weights[FOLLOWER] = mix_anchored(
        plans.strategies[FOLLOWER], learner.proposal, learner.totals, max(1.0, learner.recent_rounds[0]),
        state.known.upper, learner.thresholds, state.safe_strategy, state.safe_costs, state.excess,
        state.mixes_anchors,
    )  # fmt: skip


@compiled
def begin_hard(state: HardState) -> None:
    """Set both plans, and what is played."""
    believe_all(state.learner, state.known)
    mix_proposal(state)
    if state.plays_program == 1:
        solve_program(state.plans, state.known, state.learner.record, state.safe_strategy, state.safe_costs)
    state.safe_weight[0] = blend(state.plans, state.strategy)


@compiled
def restore_hard(state: HardState) -> None:
    """Recompute the derived leaves from the saved ones."""
    bound_again(state.known)
    believe_all(state.learner, state.known)
    state.safe_weight[0] = blend(state.plans, state.strategy)


class FollowLeader(Method):
    """COLB by following the regularised leader."""

    algorithm = Algorithm(SoftState, update_soft, begin_soft, restore_soft)

    def start(self, state: Any) -> None:
        """Fill in the follower and what is known of the costs."""
        problem, preset, follower = self.problem, self.preset, state.learner
        follower.optimism, follower.lag = preset.optimism, preset.lag
        follower.forgets, follower.caps_baseline = preset.forgets, preset.caps_baseline
        follower.fixed_rate = self.options["learning_rate"] or 0.0
        start_follower(follower, problem.thresholds, problem.n_arms, problem.horizon, self.floor())
        start_costs(state.known, self.bound)

    def floor(self) -> float:
        """The smallest share of an arm in a proposal."""
        return TINY if self.problem.horizon is None else 1.0 / self.problem.horizon

    def least_propensity(self) -> float:
        """The floor of the proposal."""
        return self.floor() * (1 - 1e-9)

    def check(self, state: Any, rounds: int) -> None:
        """Reject a loaded state whose leaves are inconsistent."""
        super().check(state, rounds)
        learner = state.learner
        met, recent, loss = learner.rounds[0], learner.recent_rounds[0], learner.recent_loss[0]
        if met != rounds:
            raise RuleError("state.learner.rounds", f"be round = {rounds}", float(met))
        if recent > rounds:
            raise RuleError("state.learner.recent_rounds", f"be at most round = {rounds}", float(recent))
        if loss > recent:
            raise RuleError("state.learner.recent_loss", f"be at most {recent:g}, one a round", float(loss))
        if learner.spent_then[0] > learner.spent[0]:
            raise RuleError(
                "state.learner.spent_then", "be at most state.learner.spent", float(learner.spent_then[0])
            )  # fmt: skip
        seen = learner.record.seen.sum()
        if self.preset.forgets and seen != recent:
            raise RuleError(
                "state.learner.record.seen", f"sum to state.learner.recent_rounds = {recent:g}", float(seen)
            )  # fmt: skip


class FollowAndPlan(FollowLeader):
    """SOLB by following the regularised leader and, in "practical", a linear program."""

    algorithm = Algorithm(HardState, update_hard, begin_hard, restore_hard)

    def start(self, state: Any) -> None:
        """Fill in the follower, the plans and the safe strategy."""
        super().start(state)
        problem, safe = self.problem, known_safe(self.problem, "SOLB")
        state.safe_strategy, state.safe_costs = safe.strategy, safe.costs
        state.mixes_anchors, state.plays_program = self.preset.mixes_anchors, self.preset.plays_program
        start_plans(
            state.plans, problem.thresholds, safe.strategy, safe.costs, problem.delta, self.preset.plays_program
        )  # fmt: skip

    def least_propensity(self) -> float:
        """The floor of the proposal in what is played, or the least share of the safe strategy."""
        margin = self.problem.margin
        mixed = super().least_propensity() * LEAST_SHARE * margin / (1.0 + margin)
        return min(mixed, least_safe_share(self.problem))

    def check(self, state: Any, rounds: int) -> None:
        """Reject plans that are not distributions, break a limit at the upper bounds, or claim too much safe weight."""
        super().check(state, rounds)
        check_plans("plans", state.plans, state)


def check_plans(name: str, plans: Any, state: Any) -> None:
    """Reject plans that are not distributions, break a limit at the upper bounds, or claim too much safe weight."""
    safe, upper = state.safe_strategy, np.minimum(1.0, state.known.upper)
    for plan, weight in zip(plans.strategies, plans.safe_weights, strict=True):
        if abs(plan.sum() - 1.0) > SUM_TOLERANCE:
            raise RuleError(f"state.{name}.strategies", "sum to 1", plan, f"a sum of {plan.sum():.12g}")
        share = safe_share(plan, safe)
        for i, threshold in enumerate(state.learner.thresholds):
            cost = pessimistic_cost(i, plan, upper, share, safe, state.safe_costs)
            if cost > threshold + 1e-12:
                raise RuleError(
                    f"state.{name}.strategies", f"cost at most {threshold:g} at the upper bounds", cost
                )  # fmt: skip
        if weight > share + 1e-12:
            raise RuleError(f"state.{name}.safe_weights", f"be at most {share:g} for these plans", float(weight))
