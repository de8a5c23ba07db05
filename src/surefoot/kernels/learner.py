"""Mirror descent with the log-barrier and increasing learning rates, on the truncated safe set (Section 3.2)."""

from typing import Annotated, Any, NamedTuple

from surefoot.kernels.compile import compiled, merged
from surefoot.kernels.costs import KnownCosts
from surefoot.kernels.dual import BASE, Workspace
from surefoot.kernels.layout import NOT_NEGATIVE, derived, saved
from surefoot.kernels.projection import project
from surefoot.kernels.types import EMPTY, Floats
from surefoot.rules import SHARE, Range

SLOWEST = 1e-11
"""No restart below this rate, whatever the feedback."""


class Learner(NamedTuple):
    """The state of mirror descent, and its constants."""

    proposal: Annotated[Floats, saved("K", rule=SHARE)]  # x~_t, also the centre of the next step
    learning_rates: Annotated[Floats, saved("K", rule=Range(1e-300, 1e15))]  # eta_t(a)
    inverse_caps: Annotated[Floats, saved("K", rule=Range(1, 1e100))]  # h_t(a): 1 / proposal(a) above it raises eta(a)
    base_rate: Annotated[Floats, saved(1, rule=Range(1e-300, 1e15))]  # eta, with which every arm starts
    spent: Annotated[Floats, saved(1, rule=NOT_NEGATIVE)]  # sum of weight (proposal * loss_estimate)^2 since a restart
    limits: Annotated[Floats, derived("m")]  # alpha_i + K / T
    floor: Annotated[float, derived()]  # 1 / T
    growth: Annotated[float, derived()]  # kappa
    allowance: Annotated[float, derived()]  # restart at half the rate once base_rate^2 * spent is above it
    multipliers: Annotated[Floats, derived("m")]  # of the last projection
    work: Workspace


def start_learner(
    learner: Any, n_arms: int, limits: Floats, learning_rate: float, floor: float, growth: float, allowance: float
) -> None:
    """Before the first round: the uniform proposal, caps of 2 K, one learning rate for all."""
    learner.proposal = 1.0 / n_arms
    learner.learning_rates = learner.base_rate = learning_rate
    learner.inverse_caps = 2.0 * n_arms
    learner.limits, learner.floor, learner.growth, learner.allowance = limits, floor, growth, allowance


@merged
def descend(learner: Learner, known: KnownCosts, arm: int, loss_estimate: float, weight: float) -> int:
    """One step of mirror descent for a loss estimate that is 0 except for one arm; EMPTY if the safe set is empty.

    When the rate has spent its allowance, the step is a restart instead: to the analytic centre of the safe set. The
    amount a step spends is multiplied by the weight of the proposal in the strategy played, as in the regret.
    """
    step, rate = learner.proposal[arm] * loss_estimate, learner.base_rate[0]
    learner.spent[0] = min(learner.spent[0] + weight * min(1e300, step * step), 1e300)
    anew = rate * rate * learner.spent[0] > learner.allowance and rate > SLOWEST
    if anew:
        restart(learner)
        loss_estimate = 0.0
    scores = learner.work.arms
    for a in range(learner.proposal.size):
        scores[BASE, a] = 1.0 / (learner.learning_rates[a] * learner.proposal[a])
    scores[BASE, arm] += loss_estimate
    status = project(
        learner.learning_rates, known.lower, learner.limits, learner.floor,
        learner.proposal, learner.multipliers, learner.work,
    )  # fmt: skip
    if status != EMPTY:
        if anew:
            raise_caps(learner)
        else:
            increase_rates(learner)
    return status


@compiled
def restart(learner: Learner) -> None:
    """Restart at half the rate, from the uniform proposal."""
    n_arms = learner.proposal.size
    learner.base_rate[0] *= 0.5
    learner.spent[0] = 0.0
    for a in range(n_arms):
        learner.proposal[a] = 1.0 / n_arms
        learner.learning_rates[a] = learner.base_rate[0]
        learner.inverse_caps[a] = 2.0 * n_arms


@compiled
def raise_caps(learner: Learner) -> None:
    """After a restart: caps of at least 2 / proposal, so that no rate grows before its arm has lost half its share."""
    for a in range(learner.proposal.size):
        learner.inverse_caps[a] = max(learner.inverse_caps[a], 2.0 / learner.proposal[a])


@compiled
def increase_rates(learner: Learner) -> None:
    """Raise the learning rate of every arm whose probability has fallen below its cap."""
    for a in range(learner.proposal.size):
        if learner.inverse_caps[a] * learner.proposal[a] < 1.0 - 1e-15:  # 1 / x > h, and not by rounding
            learner.inverse_caps[a] = 2.0 / learner.proposal[a]
            learner.learning_rates[a] *= learner.growth


@compiled
def scatter(learner: Learner, exponentials: Floats) -> None:
    """Make the proposal a uniform draw from the truncated simplex, out of K independent standard exponentials."""
    total = 0.0
    for a in range(exponentials.size):
        total += exponentials[a]
    free = 1.0 - exponentials.size * learner.floor
    for a in range(exponentials.size):
        learner.proposal[a] = learner.floor + free * exponentials[a] / total
