"""The preset "led", SOLB's default: much of what "practical" does, with a bound on the mean regret.

Three plans are played at a time: the proposal of a follower of the regularised leader mixed with what costs least, the
solution of a linear program, and the proposal mixed with the safe strategy (`kernels/trio.py`). Their shares are found
with a log-barrier, so regret against the third plan is bounded, and that plan is the one of preset "guaranteed" in
company: it has at least `follower_share` of the play together with the first, a twentieth or, with many arms or
guardrails, a hundredth (`usual_share`). docs/theory/led.md has the theorem.

Beside "practical"

* the safe set is built from the lower bounds themselves (an optimism of 1), which keeps the benchmark in it;
* losses count from a baseline that no step is too long for;
* the proposal lags behind by batches of at most `MOST_KEPT` rounds, whose sums count as one step;
* losses that have changed are forgotten at most `most_restarts` times;
* the program tries arms that gain much and may turn out to be cheap (`hope` and `foresee` in `kernels/trio.py`).
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import PAPER, KnownCosts, bound_again, observe
from surefoot.kernels.dual import BASE
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.follower import (
    LARGEST_SUM,
    Followed,
    Follower,
    due,
    forget,
    log_rounds,
    may_lag,
    mean_loss,
    set_limits,
    solve,
    tune,
)
from surefoot.kernels.layout import COUNT, derived, saved
from surefoot.kernels.plans import LEAST_SHARE, PROGRAM, be_optimistic, lead
from surefoot.kernels.record import enter
from surefoot.kernels.trio import (
    LEAST_KEPT,
    SMALL,
    Trio,
    because_of_guardrails,
    blend_trio,
    foresee,
    forget_trio,
    hope,
    mix_twice,
    proposal_share,
    set_shares,
    start_trio,
    stepped,
    weigh,
)
from surefoot.kernels.types import EMPTY, KEPT, SOLVED, Floats
from surefoot.policies.estimates import known_safe, least_safe_share
from surefoot.policies.practical import FollowLeader, check_plans
from surefoot.rules import SUM_TOLERANCE, Range, RuleError

FOLLOWER_SHARE = Range(0.001, LEAST_SHARE)
"""What the option `follower_share` may be."""

FEW = 8
"""Up to this many arms times guardrails the follower has `FEW_SHARE` of the play at least; beyond, `MANY_SHARE`."""

FEW_SHARE, MANY_SHARE = 0.05, 0.01
"""Least share of the follower if none is given; with many arms or guardrails it plays too many of them for long."""

MOST_KEPT = 16.0
"""A proposal is found again after this many rounds at the latest."""

WITHIN = 1e-10
"""A proposal that is over a limit by no more than this is still in the set: what projections leave."""


def usual_share(n_arms: int, n_constraints: int) -> float:
    """The least share of the follower if none is given.

    Examples
    --------
    >>> usual_share(8, 1), usual_share(3, 3)
    (0.05, 0.01)
    """
    return FEW_SHARE if n_arms * max(1, n_constraints) <= FEW else MANY_SHARE


class LedState(NamedTuple):
    """The state of SOLB with preset "led", including its safe strategy."""

    learner: Follower
    known: KnownCosts
    trio: Trio
    batch: Annotated[Floats, saved("K")]  # sums of proposal * loss estimate since the proposal was found
    batch_rounds: Annotated[Floats, saved(1, rule=COUNT)]  # how many rounds that was ago
    empty_rounds: Annotated[Floats, saved(1, rule=COUNT)]  # also those in which the program was not solved
    strategy: Annotated[Floats, derived("K")]  # x_t
    safe_weight: Annotated[Floats, derived(1)]  # of the safe strategy
    safe_strategy: Annotated[Floats, derived("K")]  # x^diamond
    safe_costs: Annotated[Floats, derived("m")]  # theta
    excess: Annotated[Floats, derived("m")]  # scratch


@merged
def update(state: LedState, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    """A round."""
    learner, known, trio = state.learner, state.known, state.trio
    observe(known, arm, costs)
    weigh(trio, arm, propensity, loss - mean_loss(learner))
    followed = follow_in_company(state, arm, propensity, loss)
    failed = followed.status == EMPTY
    if followed.changed:
        forget_trio(trio)
    ahead = followed.changed or known.kind == PAPER or due(int(learner.record.seen[arm]))
    if ahead and solve_program(state) != SOLVED:
        failed = True
    if failed:
        state.empty_rounds[0] += 1.0
    if followed.status != KEPT:
        mix_proposal(state)
    if ahead or followed.status != KEPT or trio.rate[0] ** 2 * stepped(trio) >= SMALL**2:
        set_shares(trio, log_rounds(learner))
        state.safe_weight[0] = blend_trio(trio, state.strategy)
    return SOLVED


@merged
def follow_in_company(state: LedState, arm: int, propensity: float, loss: float) -> Followed:
    """Take in a loss, and find the next proposal, unless the last may be kept (`follow` in `kernels/follower.py`)."""
    follower, known = state.learner, state.known
    baseline = min(mean_loss(follower), SMALL * proposal_share(state.trio) / follower.learning_rates[0])
    estimate = (loss - baseline) / propensity
    follower.rounds[0] += 1.0
    follower.recent_rounds[0] += 1.0
    follower.recent_loss[0] += loss
    follower.totals[arm] = min(LARGEST_SUM, max(-LARGEST_SUM, follower.totals[arm] + estimate))
    before = state.batch[arm]
    state.batch[arm] = min(1e75, max(-1e75, before + follower.proposal[arm] * estimate))
    spent = follower.spent[0] + (state.batch[arm] - before) * (state.batch[arm] + before)
    follower.spent[0] = min(LARGEST_SUM, max(0.0, max(follower.spent_then[0], spent)))
    state.batch_rounds[0] += 1.0
    logarithm = log_rounds(follower)
    changed = enter(follower.record, arm, loss, logarithm) and state.trio.restarts[0] < most_restarts(logarithm)
    if changed:
        forget(follower)
    elif state.batch_rounds[0] < MOST_KEPT and may_lag(follower, known, arm) and keeps_limits(follower, known):
        return Followed(KEPT, False)
    state.batch_rounds[0] = 0.0
    tune(follower)
    least = follower.totals[0]
    for a in range(follower.totals.size):
        state.batch[a] = 0.0
        least = min(least, follower.totals[a])
    for a in range(follower.totals.size):
        follower.totals[a] -= least
        follower.work.arms[BASE, a] = follower.totals[a]
    status = solve(follower, known.lower)
    follower.spent_then[0] = follower.spent[0] if status == SOLVED else -1.0
    if status == EMPTY:
        for a in range(follower.proposal.size):
            follower.proposal[a] = 1.0 / follower.proposal.size
    return Followed(status, changed)


@compiled
def keeps_limits(follower: Follower, known: KnownCosts) -> bool:
    """True if the proposal is in the set at the lower bounds, which may have risen since it was found."""
    for i in range(known.lower.shape[0]):
        cost = 0.0
        for a in range(follower.proposal.size):
            cost += known.lower[i, a] * follower.proposal[a]
        if cost > follower.limits[i] + WITHIN:
            return False
    return True


@compiled
def most_restarts(log_rounds: float) -> int:
    """How often losses may be forgotten: ln T times, or without a horizon ln(K + t)."""
    return math.floor(log_rounds)


@compiled
def solve_program(state: LedState) -> int:
    """Set the plan of the program; return the status of its solution."""
    be_optimistic(state.trio, state.known, state.learner.record)
    hope(state.trio, state.known, state.learner.record, state.safe_strategy)
    foresee(state.trio, state.known, state.safe_strategy, state.safe_costs)
    status = lead(state.trio, state.known, state.safe_strategy, state.safe_costs)
    if status == SOLVED:
        state.trio.safe_weights[PROGRAM] = because_of_guardrails(state.trio, state.learner.record, state.safe_strategy)
    return status


@merged
def mix_proposal(state: LedState) -> None:
    """Set the two plans with the proposal in them."""
    learner = state.learner
    mix_twice(
        state.trio, learner.proposal, learner.totals, max(1.0, learner.recent_rounds[0]), state.known.upper,
        learner.thresholds, state.safe_strategy, state.safe_costs, state.excess,
    )  # fmt: skip


@compiled
def begin(state: LedState) -> None:
    """Set all plans, and what is played."""
    mix_proposal(state)
    solve_program(state)
    state.safe_weight[0] = blend_trio(state.trio, state.strategy)


@compiled
def restore(state: LedState) -> None:
    """Recompute the derived leaves from the saved ones; the limits are those of the round that found the proposal."""
    bound_again(state.known)
    set_limits(state.learner, state.learner.rounds[0] - state.batch_rounds[0])
    state.safe_weight[0] = blend_trio(state.trio, state.strategy)


class FollowInCompany(FollowLeader):
    """SOLB by following the regularised leader in the company of a linear program."""

    algorithm = Algorithm(LedState, update, begin, restore)

    def start(self, state: Any) -> None:
        """Fill in the follower, the plans and the safe strategy."""
        super().start(state)
        problem, safe = self.problem, known_safe(self.problem, "SOLB")
        state.safe_strategy, state.safe_costs = safe.strategy, safe.costs
        start_trio(
            state.trio, problem.thresholds, safe.strategy, safe.costs, problem.delta, self.follower_share()
        )  # fmt: skip

    def follower_share(self) -> float:
        """The least share of the follower's two plans."""
        share = self.options.get("follower_share")
        return usual_share(self.problem.n_arms, self.problem.n_constraints) if share is None else float(share)

    def least_propensity(self) -> float:
        """The floor of the proposal in what is played, or the least share of the safe strategy."""
        margin = self.problem.margin
        mixed = super().least_propensity() * self.follower_share() * LEAST_KEPT * margin / (1.0 + margin)
        return min(mixed, least_safe_share(self.problem))

    def check(self, state: Any, rounds: int) -> None:
        """Reject plans that are not safe, shares that are none, and batches that are too long."""
        super().check(state, rounds)
        trio, proposal = state.trio, state.learner.proposal
        check_plans("trio", trio, state)
        for plan, weight in zip(trio.strategies, trio.proposal_weights, strict=True):
            most = float((plan / proposal).min())
            if weight > most + 1e-9:
                raise RuleError("state.trio.proposal_weights", f"be at most {most:g} for these plans", float(weight))
        if abs(trio.shares.sum() - 1.0) > SUM_TOLERANCE:
            raise RuleError("state.trio.shares", "sum to 1", trio.shares, f"a sum of {trio.shares.sum():.12g}")
        most = trio.most_of_program
        if trio.shares[PROGRAM] > most:
            raise RuleError("state.trio.shares", f"leave the program at most {most:g}", float(trio.shares[PROGRAM]))
        if state.batch_rounds[0] >= MOST_KEPT:
            raise RuleError("state.batch_rounds", f"be less than {MOST_KEPT:g}", float(state.batch_rounds[0]))
