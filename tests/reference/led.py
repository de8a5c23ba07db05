"""Slow twins of what the preset "led" does in a round; nothing of the package is used."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from tests.reference.practical import Diary, looks

Array = npt.NDArray[np.float64]

FIRST = np.array([0.05, 0.9, 0.05])


def shares(lost: Array, rate: float, most: float) -> Array:
    """The minimum of lost @ q + sum(q / s - 1 - ln(q / s)) / rate over shares q with q[1] <= most, by bisection."""
    heights = 1 / FIRST + rate * lost

    def solved(which: list[int], total: float) -> Array:
        rest = heights[which] - heights[which].min()
        price = brentq(
            lambda p: (1 / (rest + p)).sum() - total, 0.999 / total, 1.001 * len(which) / total, xtol=1e-14, rtol=1e-14
        )
        return np.asarray(1 / (rest + price))

    free = solved([0, 1, 2], 1.0)
    if free[1] <= most:
        return free
    first, third = solved([0, 2], 1 - most)
    return np.array([first, most, third])


def hoped(bounds: Array, means: Array, counts: Array, safe: Array) -> Array:
    """Losses of the program: at most the mean less twice the gain over the safe strategy over the root of the count."""
    gains = np.maximum(0, safe @ means - means)
    return np.minimum(bounds, means - 2 * gains / np.sqrt(np.maximum(1, counts)))


def foreseen(
    bounds: Array, upper: Array, means: Array, lower: Array, thresholds: Array, safe: Array, safe_costs: Array
) -> Array:
    """Losses of the program: gains over the safe strategy are raised where costs, once learnt, may allow much more."""
    margins, raised, own = np.maximum(1e-3, thresholds - safe_costs), bounds.copy(), float(safe @ bounds)

    def most(costs: Array) -> float:
        """The largest share of an arm beside the safe strategy."""
        over = costs - safe_costs
        return min((1.0, *(float(g / c) for g, c in zip(margins, over, strict=True) if c > g)))

    for a in np.flatnonzero(safe == 0):
        ratio = most((means[:, a] + lower[:, a]) / 2) / most(np.minimum(1, upper[:, a])) / 3
        if ratio > 1 and bounds[a] < own:
            raised[a] = own - ratio * (own - bounds[a])
    return raised


class Shares:
    """The shares of three plans, and what they are found from."""

    def __init__(self, log_rounds: float, most: float) -> None:
        self.bound, self.most = 11 + 2 * log_rounds, most
        self.restart()

    def restart(self) -> None:
        self.q, self.lost, self.steps, self.squares, self.rate = FIRST.copy(), np.zeros(3), np.zeros(3), 0.0, 0.25

    def weigh(self, plans: Array, played: float, arm: int, loss: float) -> None:
        more = (plans[:, arm] / played - 1) * loss
        self.lost, self.steps = self.lost + more, self.steps + self.q * more

    @property
    def far(self) -> bool:
        return bool(self.rate**2 * (self.steps**2).sum() >= 1 / 16)

    def set(self) -> None:
        self.squares, self.steps = self.squares + float((self.steps**2).sum()), np.zeros(3)
        self.rate = min(self.rate, math.sqrt(0.64 * self.bound / (1 + self.squares)))
        self.q = shares(self.lost, self.rate, self.most)


class Losses:
    """What the follower in company knows of the losses, and when its proposal is found again."""

    def __init__(self, n_arms: int, horizon: int) -> None:
        self.n_arms, self.horizon, self.restarts = n_arms, horizon, 0
        self.restart()
        self.begin_batch(np.full(n_arms, 1 / n_arms))

    def restart(self) -> None:
        self.totals, self.closed, self.rate = np.zeros(self.n_arms), 0.0, 1.0
        self.met, self.rounds = 0.0, 0
        self.diaries = [Diary() for _ in range(self.n_arms)]
        self.batch, self.kept = np.zeros(self.n_arms), 0

    def begin_batch(self, proposal: Array) -> None:
        self.proposal, self.batch, self.kept = proposal.copy(), np.zeros(self.n_arms), 0

    @property
    def mean(self) -> float:
        return self.met / max(1, self.rounds)

    def take_in(
        self, arm: int, loss: float, played: float, share: float, count: int, in_doubt: bool, fits: bool
    ) -> tuple[bool, bool]:  # fmt: skip
        """Whether losses have changed, and whether the proposal is kept, which it may be only if it fits the limits.

        A baseline that is cut makes steps of just 1/4, so rounding may decide; then the answer is the one given.
        """
        estimate = (loss - min(self.mean, share / (4 * self.rate))) / played
        self.met, self.rounds, self.kept = self.met + loss, self.rounds + 1, self.kept + 1
        self.totals[arm] += estimate
        self.batch[arm] += self.proposal[arm] * estimate
        if self.diaries[arm].has_changed(loss, self.n_arms, self.horizon) and self.restarts < math.floor(
            math.log(self.horizon)
        ):
            self.restarts += 1
            self.restart()
            return True, False
        length = self.rate**2 * float((self.batch**2).sum())
        short = in_doubt if abs(length - 1 / 16) < 1e-9 else length < 1 / 16
        if short and self.kept < 16 and not looks(count) and fits:
            return False, True
        self.closed += float((self.batch**2).sum())
        self.rate = min(self.rate, math.sqrt(self.n_arms * math.log(self.horizon) / (1 + self.closed)))
        return False, False


def mixtures(
    proposal: Array, upper: Array, thresholds: Array, safe: Array, safe_costs: Array, totals: Array, t: int
) -> tuple[Array, Array, Array, Array]:
    """The two plans with the proposal in them, the weight of the safe strategy, and that of the proposal, in each."""
    known = min(proposal[a] / safe[a] for a in range(safe.size) if safe[a] > 0)
    rest = proposal - known * safe
    costs = np.minimum(1, np.minimum(upper @ proposal, known * safe_costs + upper @ rest))

    def needed(its_costs: Array) -> float:
        return max(
            (float((c - a) / (c - g)) for c, a, g in zip(costs, thresholds, its_costs, strict=True) if c > a),
            default=0.0,
        )

    def price(weight: float, goal: Array) -> float:
        return weight * (float(totals @ (goal - proposal)) / t + 0.02)

    weight = needed(safe_costs)
    plan = (1 - weight) * proposal + weight * safe
    best = (price(weight, safe), weight, plan, weight)
    for k, arm in enumerate(np.eye(safe.size)):
        if weight > 0 and (upper[:, k] <= thresholds).all():
            other = needed(upper[:, k])
            if 1 - other >= (1 - weight) / 2 and price(other, arm) < best[0]:
                best = (price(other, arm), other, (1 - other) * proposal + other * arm, 0.0)
    return best[2], plan, np.array([best[3], weight]), np.array([1 - best[1], 1 - weight])
