"""The presets "practical" and "guaranteed" of COLB and SOLB: the same guarantee of safety, a fraction of the regret.

Safety needs upper confidence bounds that hold, and nothing else: any proposal will do, at any rate, mixed with any
strategy that is certified safe. So the rest is made to lose little:

* the proposal follows the regularised leader at a rate that tunes itself (`kernels/follower.py`);
* costs are bounded by bets, for all time, with all of delta on the upper bounds that safety rests on;
* the safe strategy's own costs are known, and count as such wherever it is part of what is played;
* what is mixed in is the safe strategy or, in "practical", any arm that is certified safe by now, whichever costs less;
* the proposal's safe set is built from the means less `optimism` times their distance from the lower bounds: 1/2 in
  "practical", which is better on average; 1 in "guaranteed", which keeps the benchmark in the set and, with steps that
  are never too long, a bound on the mean regret (docs/theory/practical.md);
* in "practical" the proposal may lag a little behind the losses: upper bounds only fall, so an old mixture stays safe.

Without a horizon 1 / T is replaced by a tiny floor, K / T by K / (K + t) and ln T by ln(K + t).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import Costs, observe
from surefoot.kernels.dual import EMPTY, SOLVED, Floats, Integers, Workspace
from surefoot.kernels.episode import lives_by
from surefoot.kernels.follower import KEPT, Follower, believe, follow, new_follower
from surefoot.kernels.safety import mix_anchored, pessimistic_cost, safe_share
from surefoot.problem import SUM_TOLERANCE, Problem, SafeStrategy

TINY = 1e-9
"""The floor of a proposal where no horizon gives one; numerics alone ask for it."""

DERIVED = frozenset({"rows", "inverse_caps", "excess"})
SAVED = {"soft": frozenset({"multipliers"}), "hard": frozenset({"multipliers", "strategy"})}
"""What follows from the rest of a state and is not saved, and what is: the next proposal is looked for from there."""

OPTIMISM = {"guaranteed": 1.0, "practical": 0.5}
"""How much of the distance between a mean and its lower bound each preset believes."""

LAG = {"guaranteed": 0.0, "practical": 0.25}
"""How far the proposal of each preset may be behind (`kernels/follower.py`)."""


class SoftState(NamedTuple):
    """What COLB remembers."""

    learner: Follower
    known: Costs
    empty_rounds: Floats  # (1,)
    strategy: Floats  # (K,) x_t: the proposal itself
    safe_weight: Floats  # (1,) 0


class HardState(NamedTuple):
    """What SOLB remembers, and the safe strategy it leans on."""

    learner: Follower
    known: Costs
    empty_rounds: Floats  # (1,)
    strategy: Floats  # (K,) x_t
    safe_weight: Floats  # (1,) of the safe strategy; 0 while an arm takes its place
    safe_strategy: Floats  # (K,) x^diamond
    safe_costs: Floats  # (m,) theta
    excess: Floats  # (m,) scratch
    anchors: float  # 1 if certified arms may be mixed in


@merged
def update_soft(state: SoftState, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """A round of COLB."""
    observe(state.known, arm, costs)
    if follow(state.learner, state.known, arm, propensity, loss, 1.0) == EMPTY:
        state.empty_rounds[0] += 1.0
    return SOLVED


@merged
def update_hard(state: HardState, arm: int, propensity: float, loss: float, costs: Floats) -> int:
    """A round of SOLB."""
    observe(state.known, arm, costs)
    status = follow(state.learner, state.known, arm, propensity, loss, 1.0 - state.safe_weight[0])
    if status == EMPTY:
        state.empty_rounds[0] += 1.0
    if status != KEPT:
        state.safe_weight[0] = play_safe(state)
    return SOLVED


@merged
def play_safe(state: HardState) -> float:
    """Set the strategy: the proposal, mixed with what is certified. The weight of the safe strategy in it."""
    learner = state.learner
    return mix_anchored(
        state.strategy, learner.proposal, learner.totals, max(1.0, learner.met[0]), state.known.upper,
        learner.thresholds, state.safe_strategy, state.safe_costs, state.excess, state.anchors,
    )  # fmt: skip


@compiled
def mix_again(state: HardState) -> float:
    """`play_safe`, as Python calls it."""
    return play_safe(state)


lives_by(SoftState, update_soft)
lives_by(HardState, update_hard)


@compiled
def learn_soft(
    arm: int, propensity: float, loss: float, costs: Floats,
    proposal: Floats, rates: Floats, caps: Floats, totals: Floats, spent: Floats, found: Floats, met: Floats,
    lines: Floats, limits: Floats, thresholds: Floats, floor: float, log_horizon: float, fixed_rate: float,
    optimism: float, lag: float, multipliers: Floats, arms: Floats, rows: Floats, factor: Floats, places: Integers,
    counts: Integers, means: Floats, lower: Floats, upper: Floats, scale: float, kind: int, settings: Floats,
    memory: Floats, empty_rounds: Floats, strategy: Floats, safe_weight: Floats,
) -> int:  # fmt: skip
    """`update_soft`, as Python calls it: arrays one by one reach compiled code ten times faster than in a tuple."""
    follower = Follower(
        proposal, rates, caps, totals, spent, found, met, lines, limits, thresholds, floor, log_horizon, fixed_rate,
        optimism, lag, multipliers, Workspace(arms, rows, factor, places),
    )  # fmt: skip
    known = Costs(counts, means, lower, upper, scale, kind, settings, memory)
    return update_soft(SoftState(follower, known, empty_rounds, strategy, safe_weight), arm, propensity, loss, costs)


@compiled
def learn_hard(
    arm: int, propensity: float, loss: float, costs: Floats,
    proposal: Floats, rates: Floats, caps: Floats, totals: Floats, spent: Floats, found: Floats, met: Floats,
    lines: Floats, limits: Floats, thresholds: Floats, floor: float, log_horizon: float, fixed_rate: float,
    optimism: float, lag: float, multipliers: Floats, arms: Floats, rows: Floats, factor: Floats, places: Integers,
    counts: Integers, means: Floats, lower: Floats, upper: Floats, scale: float, kind: int, settings: Floats,
    memory: Floats, empty_rounds: Floats, strategy: Floats, safe_weight: Floats, safe_strategy: Floats,
    safe_costs: Floats, excess: Floats, anchors: float,
) -> int:  # fmt: skip
    """`update_hard`, likewise."""
    follower = Follower(
        proposal, rates, caps, totals, spent, found, met, lines, limits, thresholds, floor, log_horizon, fixed_rate,
        optimism, lag, multipliers, Workspace(arms, rows, factor, places),
    )  # fmt: skip
    known = Costs(counts, means, lower, upper, scale, kind, settings, memory)
    state = HardState(
        follower, known, empty_rounds, strategy, safe_weight, safe_strategy, safe_costs, excess, anchors
    )  # fmt: skip
    return update_hard(state, arm, propensity, loss, costs)


def new_soft(problem: Problem, preset: str, known: Costs, fixed_rate: float) -> SoftState:
    """COLB before the first round."""
    follower = follower_of(problem, preset, fixed_rate)
    return SoftState(follower, known, np.zeros(1), follower.proposal, np.zeros(1))


def new_hard(problem: Problem, preset: str, known: Costs, fixed_rate: float, safe: SafeStrategy) -> HardState:
    """SOLB before the first round."""
    state = HardState(
        learner=follower_of(problem, preset, fixed_rate),
        known=known,
        empty_rounds=np.zeros(1),
        strategy=np.zeros(problem.n_arms),
        safe_weight=np.zeros(1),
        safe_strategy=safe.strategy.copy(),
        safe_costs=safe.costs.copy(),
        excess=np.zeros(problem.n_constraints),
        anchors=float(preset == "practical"),
    )
    state.safe_weight[0] = mix_again(state)
    return state


def believe_again(state: SoftState | HardState, rounds: int) -> None:
    """Set what follows from the bounds that were loaded, if the losses fit the number of rounds."""
    met = state.learner.met
    if met[0] != rounds or met[1] > rounds:
        raise ValueError(f"state.met must be round = {rounds} and at most as many losses, got {met.tolist()}")
    for arm in np.flatnonzero(state.known.counts):
        believe(state.learner, state.known, int(arm))


def restore_hard(state: HardState) -> None:
    """Refuse a strategy that is none, or not safe at the bounds that were loaded, or has not so much safe weight."""
    strategy, weight, safe = state.strategy, state.safe_weight[0], state.safe_strategy
    if abs(strategy.sum() - 1.0) > SUM_TOLERANCE:
        raise ValueError(f"state.strategy must sum to 1, got a sum of {strategy.sum():.12g}")
    share = safe_share(strategy, safe)
    for i, threshold in enumerate(state.learner.thresholds):
        cost = pessimistic_cost(i, strategy, state.known.upper, share, safe, state.safe_costs)
        if cost > threshold + 1e-12:
            raise ValueError(f"state.strategy must cost at most {threshold:g} at the upper bounds, got {cost:g}")
    if weight > share + 1e-12:
        raise ValueError(f"state.safe_weight must be at most {share:g} for this strategy, got {weight:g}")


def follower_of(problem: Problem, preset: str, fixed_rate: float) -> Follower:
    """The leader's follower for a problem."""
    floor = TINY if problem.horizon is None else 1.0 / problem.horizon
    shape = problem.thresholds, problem.n_arms, problem.horizon
    return new_follower(*shape, floor, fixed_rate, OPTIMISM[preset], LAG[preset])
