"""Follow the regularised leader, with the log-barrier and a rate that tunes itself, on an estimated safe set.

The proposal is the minimum of ``totals @ x + (1 / rate) sum(ln(1 / x))``: the projection with the cumulated loss
estimates for scores and no centre. It needs no knowledge of the losses. With less than full optimism it forgets them
when a test finds that they have changed (`record.py`), and learns them from the start.

A proposal may lag behind. Steps are small, and the next step undoes most of each, so the proposal is kept until the
relative steps since it was found add up to a squared length of `lag`^2, or until the count of the arm just played is
one at which costs must be checked (`due`). With a lag of 0 it is recomputed in every round.
"""

import math
from typing import Annotated, Any, NamedTuple

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import PAPER, KnownCosts
from surefoot.kernels.dual import BASE, Workspace
from surefoot.kernels.layout import COUNT, NOT_NEGATIVE, TOTAL, derived, saved
from surefoot.kernels.projection import project
from surefoot.kernels.record import Record, clear, enter
from surefoot.kernels.types import EMPTY, KEPT, SOLVED, Floats
from surefoot.kernels.warm import resume
from surefoot.rules import SHARE, Range

LARGEST_SUM = 1e150
"""Sums of estimates are kept within this: feedback on decisions with absurd propensities could overflow them."""


class Follower(NamedTuple):
    """The state of the follower of the regularised leader, and its constants."""

    proposal: Annotated[Floats, saved("K", rule=SHARE)]  # x~_t
    learning_rates: Annotated[Floats, saved("K", rule=Range(1e-300, 1e15))]  # eta_t, the same for all arms
    totals: Annotated[Floats, saved("K")]  # cumulated loss estimates, counted from the smallest
    spent: Annotated[Floats, saved(1, rule=NOT_NEGATIVE)]  # sum of (proposal * loss estimate)^2
    spent_then: Annotated[Floats, saved(1, rule=Range(-1, 1e300))]  # when the proposal was found; -1: find it again
    rounds: Annotated[Floats, saved(1, rule=COUNT)]  # of feedback
    recent_rounds: Annotated[Floats, saved(1, rule=COUNT)]  # since losses last changed
    recent_loss: Annotated[Floats, saved(1, rule=TOTAL)]  # sum of the losses met in those
    record: Record
    multipliers: Annotated[Floats, saved("m", rule=NOT_NEGATIVE)]  # of the last projection, where the next one starts
    believed: Annotated[Floats, derived("m", "K")]  # mean - optimism (mean - lower): what the safe set is built from
    limits: Annotated[Floats, derived("m")]  # alpha_i + K / T
    thresholds: Annotated[Floats, derived("m")]  # alpha_i
    floor: Annotated[float, derived()]  # 1 / T, or tiny if there is no horizon
    log_horizon: Annotated[float, derived()]  # ln T, or 0 if there is no horizon
    fixed_rate: Annotated[float, derived()]  # 0: the rate tunes itself
    optimism: Annotated[float, derived()]  # share of the distance between mean and lower bound that is believed
    lag: Annotated[float, derived()]  # how far the proposal may be behind
    forgets: Annotated[int, derived()]  # 1: losses that have changed are forgotten
    caps_baseline: Annotated[int, derived()]  # 1: losses count from at most weight / (2 rate)
    work: Workspace


class Followed(NamedTuple):
    """The result of a round."""

    status: int  # SOLVED, KEPT or EMPTY
    changed: bool  # whether losses were found to have changed, and forgotten


def start_follower(follower: Any, thresholds: Floats, n_arms: int, horizon: int | None, floor: float) -> None:
    """Before the first round: the uniform proposal, and no estimates of the costs."""
    follower.proposal = 1.0 / n_arms
    follower.learning_rates = follower.fixed_rate or 1.0
    follower.limits = thresholds + (1.0 if horizon is None else n_arms / horizon)
    follower.thresholds = thresholds
    follower.floor = floor
    follower.log_horizon = 0.0 if horizon is None else math.log(horizon)


@merged
def follow(follower: Follower, known: KnownCosts, arm: int, propensity: float, loss: float, weight: float) -> Followed:
    """Take in a loss and the new bounds of its arm, and find the next proposal, unless the last may be kept.

    Losses count from their mean so far, which moves no minimum and saves variance. With `caps_baseline` they count from
    at most weight / (2 rate), the weight being that of the proposal in the draw: no step is then too long for the proof
    (docs/theory/practical.md). If no proposal is found (EMPTY) it is the uniform strategy.
    """
    baseline = mean_loss(follower)
    if follower.caps_baseline == 1:
        baseline = min(baseline, weight / (2.0 * follower.learning_rates[0]))
    estimate = (loss - baseline) / propensity
    follower.rounds[0] += 1.0
    follower.recent_rounds[0] += 1.0
    follower.recent_loss[0] += loss
    follower.totals[arm] = min(LARGEST_SUM, max(-LARGEST_SUM, follower.totals[arm] + estimate))
    step = follower.proposal[arm] * estimate
    follower.spent[0] = min(follower.spent[0] + step * step, LARGEST_SUM)
    believe(follower, known, arm)
    changed = follower.forgets == 1 and enter(follower.record, arm, loss, log_rounds(follower))
    if changed:
        forget(follower)
    elif may_lag(follower, known, arm):
        return Followed(KEPT, False)
    tune(follower)
    least = follower.totals[0]
    for a in range(follower.totals.size):
        least = min(least, follower.totals[a])
    for a in range(follower.totals.size):
        follower.totals[a] -= least
        follower.work.arms[BASE, a] = follower.totals[a]
    status = solve(follower, follower.believed)
    follower.spent_then[0] = follower.spent[0] if status == SOLVED else -1.0
    if status == EMPTY and follower.optimism < 1.0:  # with less than full optimism the set may be empty
        status = solve(follower, known.lower)
    if status == EMPTY:
        for a in range(follower.proposal.size):
            follower.proposal[a] = 1.0 / follower.proposal.size
    return Followed(status, changed)


@compiled
def mean_loss(follower: Follower) -> float:
    """The mean of the losses met since they last changed."""
    return float(follower.recent_loss[0] / max(1.0, follower.recent_rounds[0]))


@compiled
def log_rounds(follower: Follower) -> float:
    """Ln T, or without a horizon ln(K + t)."""
    if follower.log_horizon > 0.0:
        return follower.log_horizon
    return float(math.log(follower.proposal.size + follower.rounds[0]))


@compiled
def forget(follower: Follower) -> None:
    """Forget all losses; cost estimates are kept."""
    for a in range(follower.totals.size):
        follower.totals[a] = 0.0
        follower.learning_rates[a] = follower.fixed_rate if follower.fixed_rate > 0.0 else 1.0
    clear(follower.record)
    follower.spent[0] = 0.0
    follower.recent_rounds[0] = 0.0
    follower.recent_loss[0] = 0.0


@compiled
def may_lag(follower: Follower, known: KnownCosts, arm: int) -> bool:
    """True if the proposal may stay; then totals are counted from the smallest, or from below it."""
    rate = follower.learning_rates[0]
    moved = rate * rate * (follower.spent[0] - follower.spent_then[0])
    found = follower.spent_then[0] >= 0.0
    if (
        not found
        or not moved < follower.lag * follower.lag
        or known.kind == PAPER
        or due(known.counts[arm] - known.since[arm])
    ):
        return False
    below = follower.totals[arm]
    if below < 0.0:
        for a in range(follower.totals.size):
            follower.totals[a] -= below
    return True


@compiled
def due(n: int) -> bool:
    """True if costs are checked at count n: every count up to 16, then 8 from each power of 2 to the next."""
    return 16 * (n & -n) >= n  # the largest power of 2 that divides n is at least n / 16


@compiled
def solve(follower: Follower, rows: Floats) -> int:
    """Set the proposal, by Newton's method from the last one or, if that fails, from scratch."""
    rates, work = follower.learning_rates, follower.work
    if resume(rates[0], rows, follower.limits, follower.floor, follower.proposal, follower.multipliers, work):
        return SOLVED
    return project(rates, rows, follower.limits, follower.floor, follower.proposal, follower.multipliers, work)


@compiled
def believe(follower: Follower, known: KnownCosts, arm: int) -> None:
    """Set the costs of one arm by which the safe set is built, from its mean and lower bound."""
    for i in range(follower.believed.shape[0]):
        mean = known.means[i, arm]
        follower.believed[i, arm] = mean - follower.optimism * (mean - known.lower[i, arm])


@compiled
def believe_all(follower: Follower, known: KnownCosts) -> None:
    """Set the costs of all arms by which the safe set is built."""
    for a in range(known.counts.size):
        if known.counts[a] > 0:
            believe(follower, known, a)


@compiled
def set_limits(follower: Follower, rounds: float) -> None:
    """With no horizon, set the limits of the safe set after so many rounds: K / (K + t) more than the thresholds."""
    n_arms = follower.proposal.size
    if follower.log_horizon == 0.0:
        for i in range(follower.limits.size):
            follower.limits[i] = follower.thresholds[i] + n_arms / (n_arms + rounds)


@compiled
def tune(follower: Follower) -> None:
    """Set the rate, min(1, sqrt(K ln T / (1 + Q))), which never rises; and the limits."""
    n_arms = follower.proposal.size
    set_limits(follower, follower.rounds[0])
    if follower.fixed_rate == 0.0:
        rate = min(follower.learning_rates[0], math.sqrt(n_arms * log_rounds(follower) / (1.0 + follower.spent[0])))
        for a in range(n_arms):
            follower.learning_rates[a] = rate
