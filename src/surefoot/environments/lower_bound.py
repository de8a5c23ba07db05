"""The four instances nu_1 to nu_4 behind the paper's lower bound (proof of Theorem 5), for any number of arms from 3.

Arms beyond the third are padding, with loss 1 and cost 1.
"""

from __future__ import annotations

import math

import numpy as np

from surefoot.environments.costs import Costs
from surefoot.environments.losses import Losses
from surefoot.environments.scenario import Scenario
from surefoot.kernels.draws import SHARED, Drawn, flips
from surefoot.problem import Problem, SafeStrategy
from surefoot.rules import SHARE, Floats, Range, frozen, number

THRESHOLD = 0.5
MOST_ARMS = 10_000
"""Largest number of arms of a built-in scenario."""
BELOW_HALF = Range(0, 0.5, open_low=True, open_high=True)


class LowerBoundLosses(Losses):
    """Losses W/2, Y/2 and (W + Delta)/2, with W and Y coin flips of mean omega and omega + psi."""

    def __init__(self, instance: int, omega: float, shift: float, gap: float, n_arms: int) -> None:
        self.instance, self.omega, self.shift, self.gap, self.arms = instance, omega, shift, gap, n_arms

    @property
    def n_arms(self) -> int:
        return self.arms

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        flips = 0.5 * (rng.random((len(out), 2)) < (self.omega, self.omega + self.shift))
        lower, higher = flips.T
        out[:, 0] = lower if self.instance in (1, 2) else higher
        out[:, 1] = lower if self.instance in (1, 3) else higher
        out[:, 2] = lower + self.gap / 2
        out[:, 3:] = 1.0

    def drawn(self, seed: int, horizon: int) -> Drawn | None:
        if type(self).fill is not LowerBoundLosses.fill:
            return None
        higher = np.array([self.instance in (3, 4), self.instance in (2, 4)] + [False] * (self.arms - 2))
        coins = np.where(higher == higher[0], 0, 1)  # that of the first arm, and the other
        means = np.where(higher, self.omega + self.shift, self.omega)
        zeros = np.array([[0.0, 0.0, self.gap / 2] + [1.0] * (self.arms - 3)])
        ones = zeros + 0.5 * (np.arange(self.arms) < 3)
        return flips(seed, means[None, None])._replace(kind=SHARED, coins=coins, ones=ones, zeros=zeros)


class LowerBoundCosts(Costs):
    """One coin flip for the first two arms (mean 1/2, or 1/2 + epsilon in nu_1), one for the third (1/2 - rho)."""

    def __init__(self, risky: float, safe: float, n_arms: int) -> None:
        self.risky, self.safe = risky, safe
        self.means = frozen(np.array([[risky, risky, safe] + [1.0] * (n_arms - 3)]))

    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        flips = rng.random((len(out), 2)) < (self.risky, self.safe)
        out[:, 0, :2] = flips[:, :1]
        out[:, 0, 2] = flips[:, 1]
        out[:, 0, 3:] = 1.0

    def drawn(self, seed: int) -> Drawn | None:
        if type(self).fill is not LowerBoundCosts.fill:
            return None
        coins = np.array([0, 0, *range(2, self.means.shape[1])])
        zeros, ones = np.zeros(self.means.shape), np.ones(self.means.shape)
        return flips(seed, self.means[None])._replace(kind=SHARED, coins=coins, ones=ones, zeros=zeros)


def lower_bound(
    horizon: int = 10_000,
    instance: int = 2,
    omega: float = 0.1,
    gap: float = 0.2,
    margin: float = 0.2,
    n_arms: int = 3,
    delta: float = 0.05,
) -> Scenario:
    """One of the four instances that no safe algorithm can tell apart in time.

    Parameters
    ----------
    horizon, delta
        As for a `Problem`.
    instance
        1 to 4. In the first the two good arms are just above the threshold, in the others right on it.
    omega
        Twice the mean loss of the best arm, in (0, 1/2).
    gap
        Twice the loss of the safe arm beyond that of the best arm (Delta).
    margin
        Margin of the safe arm (rho), in (0, 1/2).
    n_arms
        At least 3.

    References
    ----------
    "Data-Dependent Regret Bounds for Constrained MABs", proof of Theorem 5.
    """
    instance = number("instance", instance, Range(1, 4, whole=True))
    n_arms = number("n_arms", n_arms, Range(3, MOST_ARMS, whole=True))
    number("omega", omega, BELOW_HALF)
    number("gap", gap, SHARE)
    number("margin", margin, BELOW_HALF)
    safe = SafeStrategy(np.eye(n_arms)[2], [THRESHOLD - margin])
    problem = Problem(n_arms, [THRESHOLD], horizon, delta, safe)
    shift = math.sqrt(omega * (1 - omega) / problem.rounds) / 4
    above = 1 / (6 * math.sqrt(problem.rounds)) if instance == 1 else 0.0  # epsilon
    where = "just above" if instance == 1 else "right on"
    return Scenario(
        "lower-bound-v1",
        problem,
        LowerBoundLosses(instance, omega, shift, gap, n_arms),
        LowerBoundCosts(THRESHOLD + above, THRESHOLD - margin, n_arms),
        about=f"Instance nu_{instance} of the paper's lower bound: two arms that differ by {shift / 2:.2g} in loss and "
        f"lie {where} the threshold, and a safe one that loses {gap / 2:g} more.",
        arms=("first", "second", "safe", *(f"padding {a}" for a in range(3, n_arms))),
        guardrails=("cost",),
    )
