"""Slow twins of what the presets "practical" and "guaranteed" do in a round; nothing of the package is used."""

from __future__ import annotations

import math
import warnings

import cvxpy as cp
import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from tests.reference.polish import polished

Array = npt.NDArray[np.float64]


def leader(totals: Array, rate: float, rows: Array, limits: Array, floor: float) -> Array:
    """The minimum of totals @ x + (1 / rate) sum(ln(1 / x)) on the estimated safe set, by a conic solver."""
    x = cp.Variable(totals.size)
    constraints = [cp.sum(x) == 1, x >= floor, rows @ x <= limits]
    objective = cp.Minimize(rate * (totals - totals.min()) @ x - cp.sum(cp.log(x)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cp.Problem(objective, constraints).solve(solver=cp.CLARABEL)
    return polished(
        np.asarray(x.value),
        lambda y: totals - totals.min() - 1 / (rate * y),
        lambda y: 1 / (rate * y**2),
        rows,
        limits,
        floor,
    )


def looks(count: int) -> bool:
    """Whether a count is one at which an arm's costs are looked at: up to 16 all, up to 32 those even, and so on."""
    return any(count < 16 * 2**k and count % 2**k == 0 for k in range(60) if k == 0 or count >= 8 * 2**k)


class Diary:
    """The losses of one arm since they last changed, and whether the latest are unlike those before."""

    def __init__(self) -> None:
        self.before: list[float] = []
        self.late: list[float] = []
        self.squares = 0.0

    def has_changed(self, loss: float, n_arms: int, horizon: int) -> bool:
        all_losses = self.before + self.late
        self.squares += (loss - (0.5 + sum(all_losses)) / (1 + len(all_losses))) ** 2
        self.late.append(loss)
        n, late = len(self.before), len(self.late)
        if late < 16 or late % 8:
            return False
        if n:
            mean = (sum(self.before) + sum(self.late) + 1) / (n + late + 2)
            evidence = math.log(40 * n_arms * horizon) * (1 / n + 1 / late)
            if abs(np.mean(self.before) - np.mean(self.late)) > (
                math.sqrt(2 * mean * (1 - mean) * evidence) + evidence / 3
            ):
                return True
        if late >= 32 and late >= n / 2:
            self.before, self.late = self.before + self.late, []
        return False

    @property
    def mean(self) -> float:
        return (sum(self.before) + sum(self.late)) / max(1, len(self.before) + len(self.late))

    def optimistic(self, evidence: float) -> float:
        return self.mean - min(1, self.radius(evidence))

    def radius(self, evidence: float) -> float:
        n = len(self.before) + len(self.late)
        return math.sqrt(2 * evidence * self.squares) / n + evidence / (2 * n) if n else math.inf


def least_loss(losses: Array, upper: Array, thresholds: Array, safe: Array, safe_costs: Array) -> float:
    """The least loss of a strategy that is safe at the upper bounds, with the safe strategy as one arm more."""
    found = linprog(
        np.append(losses, losses @ safe),
        A_ub=np.column_stack((np.minimum(1, upper), safe_costs)),
        b_ub=thresholds,
        A_eq=np.ones((1, losses.size + 1)),
        b_eq=[1.0],
    )
    assert found.status == 0
    return float(found.fun)


def mixture(
    proposal: Array, upper: Array, thresholds: Array, safe: Array, safe_costs: Array, totals: Array, t: int, arms: bool
) -> tuple[Array, float]:
    """What is played, and the weight of the safe strategy in it: of all that is certified, what costs least."""
    known = min(proposal[a] / safe[a] for a in range(safe.size) if safe[a] > 0)
    rest = proposal - known * safe
    costs = np.minimum(1, np.minimum(upper @ proposal, known * safe_costs + upper @ rest))
    if (costs <= thresholds).all():
        return proposal, 0.0
    candidates = [(safe, safe_costs, True)]
    if arms:
        candidates += [(np.eye(safe.size)[a], upper[:, a], False) for a in range(safe.size)]
    best = None
    for goal, its_costs, is_safe in candidates:
        if (its_costs > thresholds).any():
            continue
        weight = max((c - a) / (c - g) for c, a, g in zip(costs, thresholds, its_costs, strict=True) if c > a)
        price = weight * ((totals @ goal - totals @ proposal) / t + 0.02)
        if best is None or price < best[0]:
            best = price, weight, goal, is_safe
    assert best is not None
    _, weight, goal, is_safe = best
    return (1 - weight) * proposal + weight * goal, weight if is_safe else 0.0
