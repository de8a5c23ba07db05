"""The presets "practical" and "guaranteed" of COLB and SOLB: the same guarantee of safety, a fraction of the regret.

Safety needs upper confidence bounds that hold, and nothing else: any proposal will do, at any rate, mixed with any
strategy that is certified safe, and so will the mean of two such mixtures (docs/theory/practical.md). So the rest is
made to lose little. In both presets

* the proposal follows the regularised leader at a rate that tunes itself (`kernels/follower.py`);
* costs are bounded by bets, for all time, in SOLB with all of delta on the upper bounds that safety rests on;
* the safe strategy's own costs are known, and count as such wherever it is part of what is played;
* the proposal's safe set is built from the means less `OPTIMISM` times their distance from the lower bounds.

"guaranteed" has an optimism of 1, which keeps the benchmark in the set, mixes with the safe strategy alone, and takes
no step that is too long; all this gives it a bound on the mean regret. "practical" is better on average, and has none:

* its optimism is 1/2;
* losses that are found to have changed are forgotten (`kernels/record.py`);
* the proposal may lag a little behind the losses: upper bounds only fall, so an old mixture stays safe;
* SOLB mixes in the safe strategy or any arm that is certified safe by now, whichever costs less;
* what SOLB plays is the mean of that mixture and of the plan of a linear program, which leads as long as it loses no
  more (`kernels/leader.py`).

Without a horizon 1 / T is replaced by a tiny floor, K / T by K / (K + t) and ln T by ln(K + t).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import PAPER, Costs, observe
from surefoot.kernels.dual import EMPTY, SOLVED, Floats, Integers, Workspace
from surefoot.kernels.episode import lives_by
from surefoot.kernels.follower import KEPT, Follower, believe, due, follow, mean_loss, new_follower
from surefoot.kernels.leader import FOLLOWER, Leader, blend, compare, new_leader, plan_ahead, start_even, weigh
from surefoot.kernels.linear import Program
from surefoot.kernels.record import SEEN
from surefoot.kernels.safety import mix_anchored, pessimistic_cost, safe_share
from surefoot.problem import SUM_TOLERANCE, Problem, SafeStrategy

TINY = 1e-9
"""The floor of a proposal where no horizon gives one; numerics alone ask for it."""

DERIVED = frozenset({"rows", "inverse_caps", "excess", "safe_weight"})
SAVED = frozenset({"multipliers"})
"""What follows from the rest of a state and is not saved, and what is: the next proposal is looked for from there."""

OPTIMISM = {"guaranteed": 1.0, "practical": 0.5}
"""How much of the distance between a mean and its lower bound each preset believes."""

LAG = {"guaranteed": 0.0, "practical": 0.3}
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
    empty_rounds: Floats  # (1,) also those in which the program was not solved
    strategy: Floats  # (K,) x_t
    safe_weight: Floats  # (1,) of the safe strategy
    safe_strategy: Floats  # (K,) x^diamond
    safe_costs: Floats  # (m,) theta
    excess: Floats  # (m,) scratch
    bold: float  # 1 if arms that are certified may be mixed in, and a linear program leads
    leader: Leader


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
    learner, leader = state.learner, state.leader
    observe(state.known, arm, costs)
    if state.bold > 0.0:
        compare(leader, arm, (loss - mean_loss(learner)) / propensity)
    status = follow(learner, state.known, arm, propensity, loss, 1.0 - state.safe_weight[0])
    failed = status == EMPTY
    changed = learner.met[1] == 0.0  # the follower has just forgotten the losses
    if changed:
        start_even(leader)
    plan = state.bold > 0.0 and (changed or state.known.kind == PAPER or due(int(learner.record[SEEN, arm])))
    if plan and plan_ahead(leader, state.known, learner.record, state.safe_strategy, state.safe_costs) != SOLVED:
        failed = True
    if failed:
        state.empty_rounds[0] += 1.0
    if status != KEPT:
        be_safe(state)
    if plan or status != KEPT:
        if state.bold > 0.0:
            weigh(leader)
        state.safe_weight[0] = blend(leader, state.strategy)
    return SOLVED


@merged
def be_safe(state: HardState) -> None:
    """Set the follower's plan: its proposal, mixed with what is certified."""
    learner, leader = state.learner, state.leader
    leader.plan_weights[FOLLOWER] = mix_anchored(
        leader.plans[FOLLOWER], learner.proposal, learner.totals, max(1.0, learner.met[1]), state.known.upper,
        learner.thresholds, state.safe_strategy, state.safe_costs, state.excess, state.bold,
    )  # fmt: skip


@compiled
def begin(state: HardState) -> None:
    """Set both plans, and what is played."""
    be_safe(state)
    if state.bold > 0.0:
        plan_ahead(state.leader, state.known, state.learner.record, state.safe_strategy, state.safe_costs)
    state.safe_weight[0] = blend(state.leader, state.strategy)


lives_by(SoftState, update_soft)
lives_by(HardState, update_hard)


@compiled
def learn_soft(
    arm: int, propensity: float, loss: float, costs: Floats,
    proposal: Floats, rates: Floats, caps: Floats, totals: Floats, spent: Floats, found: Floats, met: Floats,
    record: Floats, lines: Floats, limits: Floats, thresholds: Floats, floor: float, log_horizon: float,
    fixed_rate: float, optimism: float, lag: float,
    multipliers: Floats, arms: Floats, rows: Floats, factor: Floats, places: Integers,
    counts: Integers, means: Floats, lower: Floats, upper: Floats, scale: float, kind: int, settings: Floats,
    memory: Floats, empty_rounds: Floats, strategy: Floats, safe_weight: Floats,
) -> int:  # fmt: skip
    """`update_soft`, as Python calls it: arrays one by one reach compiled code ten times faster than in a tuple."""
    follower = Follower(
        proposal, rates, caps, totals, spent, found, met, record, lines, limits, thresholds, floor, log_horizon,
        fixed_rate, optimism, lag, multipliers, Workspace(arms, rows, factor, places),
    )  # fmt: skip
    known = Costs(counts, means, lower, upper, scale, kind, settings, memory)
    return update_soft(SoftState(follower, known, empty_rounds, strategy, safe_weight), arm, propensity, loss, costs)


@compiled
def learn_hard(
    arm: int, propensity: float, loss: float, costs: Floats,
    proposal: Floats, rates: Floats, caps: Floats, totals: Floats, spent: Floats, found: Floats, met: Floats,
    record: Floats, lines: Floats, limits: Floats, thresholds: Floats, floor: float, log_horizon: float,
    fixed_rate: float, optimism: float, lag: float,
    multipliers: Floats, arms: Floats, rows: Floats, factor: Floats, places: Integers,
    counts: Integers, means: Floats, lower: Floats, upper: Floats, scale: float, kind: int, settings: Floats,
    memory: Floats, empty_rounds: Floats, strategy: Floats, safe_weight: Floats, safe_strategy: Floats,
    safe_costs: Floats, excess: Floats, bold: float,
    plans: Floats, plan_weights: Floats, share: Floats, lead: Floats, task_losses: Floats, task_costs: Floats,
    task_limits: Floats, basis: Integers, pivots: Integers, matrix: Floats, vectors: Floats, vertex: Floats,
    evidence: float,
) -> int:  # fmt: skip
    """`update_hard`, likewise."""
    follower = Follower(
        proposal, rates, caps, totals, spent, found, met, record, lines, limits, thresholds, floor, log_horizon,
        fixed_rate, optimism, lag, multipliers, Workspace(arms, rows, factor, places),
    )  # fmt: skip
    known = Costs(counts, means, lower, upper, scale, kind, settings, memory)
    task = Program(task_losses, task_costs, task_limits, basis, pivots, matrix, vectors)
    leader = Leader(plans, plan_weights, share, lead, task, vertex, evidence)
    state = HardState(
        follower, known, empty_rounds, strategy, safe_weight, safe_strategy, safe_costs, excess, bold, leader
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
        bold=float(preset == "practical"),
        leader=new_leader(problem.thresholds, safe.strategy, safe.costs, problem.delta, preset == "practical"),
    )
    begin(state)
    return state


def believe_again(state: SoftState | HardState, rounds: int) -> None:
    """Set what follows from the bounds that were loaded, if the losses fit the number of rounds."""
    met, seen = state.learner.met, state.learner.record[SEEN].sum()
    if met[0] != rounds or met[1] > rounds or met[2] > met[1]:
        raise ValueError(f"state.met must be round = {rounds}, and at most as many losses, got {met.tolist()}")
    if state.learner.found[0] > state.learner.spent[0]:
        raise ValueError(f"state.found must be at most state.spent, got {state.learner.found[0]:g}")
    if state.learner.optimism < 1.0 and seen != met[1]:
        raise ValueError(f"state.record must hold {met[1]:g} losses, as state.met says, got {seen:g}")
    for arm in np.flatnonzero(state.known.counts):
        believe(state.learner, state.known, int(arm))


def restore_hard(state: HardState) -> None:
    """Set what is played; refuse plans that are none, or not safe at the bounds that were loaded, or not so safe."""
    leader, safe = state.leader, state.safe_strategy
    for plan, weight in zip(leader.plans, leader.plan_weights, strict=True):
        if abs(plan.sum() - 1.0) > SUM_TOLERANCE:
            raise ValueError(f"state.plans must sum to 1, got a sum of {plan.sum():.12g}")
        share = safe_share(plan, safe)
        for i, threshold in enumerate(state.learner.thresholds):
            cost = pessimistic_cost(i, plan, np.minimum(1.0, state.known.upper), share, safe, state.safe_costs)
            if cost > threshold + 1e-12:
                raise ValueError(f"state.plans must cost at most {threshold:g} at the upper bounds, got {cost:g}")
        if weight > share + 1e-12:
            raise ValueError(f"state.plan_weights must be at most {share:g} for these plans, got {weight:g}")
    state.safe_weight[0] = blend(leader, state.strategy)


def follower_of(problem: Problem, preset: str, fixed_rate: float) -> Follower:
    """The leader's follower for a problem."""
    floor = TINY if problem.horizon is None else 1.0 / problem.horizon
    shape = problem.thresholds, problem.n_arms, problem.horizon
    return new_follower(*shape, floor, fixed_rate, OPTIMISM[preset], LAG[preset])
