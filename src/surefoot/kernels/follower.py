"""Follow the regularised leader, with the log-barrier and a rate that tunes itself, on an estimated safe set.

The proposal is the minimum of ``totals @ x + (1 / rate) sum(ln(1 / x))``: the projection with the cumulated loss
estimates for scores and no centre. Nothing has to be known of the losses. With less than full optimism they are
forgotten when they are found to have changed (`record.py`), and all that is learnt of them begins anew.

A proposal may lag behind. Steps are small, and most of them undone by the next: so the proposal is kept until the steps
since it was found, each relative to itself, add up to a squared length of `lag`^2, or the count of the arm just played
is one of those at which costs have to be looked at (`due`). With a lag of 0 it is found anew in every round.
"""

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import PAPER, Costs
from surefoot.kernels.dual import BASE, EMPTY, SOLVED, Floats, Workspace, workspace
from surefoot.kernels.projection import project
from surefoot.kernels.record import ROWS, enter
from surefoot.kernels.warm import resume

MOST = 1e150
"""Sums of estimates are kept within this: feedback on decisions with absurd propensities could overflow them."""

KEPT = 3
"""The status of a round that leaves the proposal as it is; beside SOLVED and EMPTY."""


class Follower(NamedTuple):
    """The state of the leader's follower, and its constants."""

    proposal: Floats  # (K,) x~_t
    learning_rates: Floats  # (K,) eta_t, the same for all arms
    inverse_caps: Floats  # (K,) infinity: no rate ever grows
    totals: Floats  # (K,) cumulated loss estimates, counted from the smallest
    spent: Floats  # (1,) sum of (proposal * loss estimate)^2
    found: Floats  # (1,) `spent` when the proposal was found; -1 if it has to be found again
    met: Floats  # (3,) rounds; those since losses last changed, and the sum of the losses met in them
    record: Floats  # (5, K) these losses, arm by arm
    rows: Floats  # (m, K) mean - optimism (mean - lower): the costs by which the safe set is built
    limits: Floats  # (m,) alpha_i + K / T
    thresholds: Floats  # (m,) alpha_i
    floor: float  # 1 / T, or tiny if there is no horizon
    log_horizon: float  # ln T, or 0 if there is no horizon
    fixed_rate: float  # 0: the rate tunes itself
    optimism: float  # share of the distance between mean and lower bound that is believed
    lag: float  # how far the proposal may be behind
    multipliers: Floats  # (m,) of the last projection
    work: Workspace


def new_follower(
    thresholds: Floats, n_arms: int, horizon: int | None, floor: float, fixed_rate: float, optimism: float, lag: float
) -> Follower:
    """The state before the first round: the uniform proposal, and nothing believed of the costs."""
    slack = 1.0 if horizon is None else n_arms / horizon
    return Follower(
        proposal=np.full(n_arms, 1.0 / n_arms),
        learning_rates=np.full(n_arms, fixed_rate or 1.0),
        inverse_caps=np.full(n_arms, np.inf),
        totals=np.zeros(n_arms),
        spent=np.zeros(1),
        found=np.zeros(1),
        met=np.zeros(3),
        record=np.zeros((ROWS, n_arms)),
        rows=np.zeros((thresholds.size, n_arms)),
        limits=thresholds + slack,
        thresholds=thresholds.copy(),
        floor=floor,
        log_horizon=0.0 if horizon is None else float(np.log(horizon)),
        fixed_rate=fixed_rate,
        optimism=optimism,
        lag=lag,
        multipliers=np.zeros(thresholds.size),
        work=workspace(n_arms, thresholds.size),
    )


@merged
def follow(follower: Follower, known: Costs, arm: int, propensity: float, loss: float, weight: float) -> int:
    """Take in a loss and the new bounds of its arm, and find the next proposal; EMPTY if there is none, KEPT if it is.

    Losses count from their mean so far, which moves no minimum and saves variance. With full optimism they count from
    at most weight / (2 rate), the weight being that of the proposal in what is played: if feedback comes at once, no
    step is then too long for the proof (docs/theory/practical.md).
    """
    baseline = mean_loss(follower)
    if follower.optimism >= 1.0:
        baseline = min(baseline, weight / (2.0 * follower.learning_rates[0]))
    estimate = (loss - baseline) / propensity
    follower.met[0] += 1.0
    follower.met[1] += 1.0
    follower.met[2] += loss
    follower.totals[arm] = min(MOST, max(-MOST, follower.totals[arm] + estimate))
    follower.spent[0] = min(follower.spent[0] + (follower.proposal[arm] * estimate) ** 2, MOST)
    believe(follower, known, arm)
    if follower.optimism < 1.0 and enter(follower.record, arm, loss, log_rounds(follower)):
        forget(follower)
    elif may_lag(follower, known, arm):
        return KEPT
    tune(follower)
    least = follower.totals[0]
    for a in range(follower.totals.size):
        least = min(least, follower.totals[a])
    for a in range(follower.totals.size):
        follower.totals[a] -= least
        follower.work.arms[BASE, a] = follower.totals[a]
    status = solve(follower, follower.rows)
    follower.found[0] = follower.spent[0] if status == SOLVED else -1.0
    if status == EMPTY and follower.optimism < 1.0:  # what is only half believed may leave nothing
        status = solve(follower, known.lower)
    if status == EMPTY:
        for a in range(follower.proposal.size):
            follower.proposal[a] = 1.0 / follower.proposal.size
    return status


@compiled
def mean_loss(follower: Follower) -> float:
    """The mean of the losses met since they last changed."""
    return float(follower.met[2] / max(1.0, follower.met[1]))


@compiled
def log_rounds(follower: Follower) -> float:
    """Ln T, or without a horizon ln(K + t)."""
    if follower.log_horizon > 0.0:
        return follower.log_horizon
    return float(np.log(follower.proposal.size + follower.met[0]))


@compiled
def forget(follower: Follower) -> None:
    """Begin anew as to the losses; what is known of the costs stays."""
    for a in range(follower.totals.size):
        follower.totals[a] = 0.0
        follower.learning_rates[a] = follower.fixed_rate if follower.fixed_rate > 0.0 else 1.0
        for row in range(ROWS):
            follower.record[row, a] = 0.0
    follower.spent[0] = 0.0
    follower.met[1] = 0.0
    follower.met[2] = 0.0


@compiled
def may_lag(follower: Follower, known: Costs, arm: int) -> bool:
    """Whether the proposal may stay; then totals are counted from the smallest, or from below it."""
    moved = follower.learning_rates[0] ** 2 * (follower.spent[0] - follower.found[0])
    if follower.found[0] < 0.0 or not moved < follower.lag**2 or known.kind == PAPER or due(known.counts[arm]):
        return False
    below = follower.totals[arm]
    if below < 0.0:
        for a in range(follower.totals.size):
            follower.totals[a] -= below
    return True


@compiled
def due(n: int) -> bool:
    """Whether n is a count at which costs are looked at: every one up to 16, then 8 from a power of 2 to the next."""
    spacing = 1
    while n >= 16 * spacing:
        spacing *= 2
    return n % spacing == 0


@compiled
def solve(follower: Follower, rows: Floats) -> int:
    """Set the proposal, from where the last one was or else from nowhere."""
    rates, work = follower.learning_rates, follower.work
    if resume(rates[0], rows, follower.limits, follower.floor, follower.proposal, follower.multipliers, work):
        return SOLVED
    return project(rates, rows, follower.limits, follower.floor, follower.proposal, follower.multipliers, work)


@compiled
def believe(follower: Follower, known: Costs, arm: int) -> None:
    """Set the costs of one arm by which the safe set is built, from its mean and lower bound."""
    for i in range(follower.rows.shape[0]):
        mean = known.means[i, arm]
        follower.rows[i, arm] = mean - follower.optimism * (mean - known.lower[i, arm])


@compiled
def tune(follower: Follower) -> None:
    """Set the rate, min(1, sqrt(K ln T / (1 + Q))), which never rises; with no horizon also the limits, K / (K + t)."""
    n_arms, rounds = follower.proposal.size, follower.met[0]
    if follower.log_horizon == 0.0:
        for i in range(follower.limits.size):
            follower.limits[i] = follower.thresholds[i] + n_arms / (n_arms + rounds)
    if follower.fixed_rate == 0.0:
        rate = min(follower.learning_rates[0], np.sqrt(n_arms * log_rounds(follower) / (1.0 + follower.spent[0])))
        for a in range(n_arms):
            follower.learning_rates[a] = rate
