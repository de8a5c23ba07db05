"""KnownCosts, and bounds that follow them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import surefoot as sf
from surefoot.confidence import Confidence
from surefoot.kernels.costs import KnownCosts, observe
from surefoot.rules import Floats

Draw = Callable[[np.random.Generator, int], Floats]


def coins(mean: float) -> Draw:
    return lambda rng, n: (rng.random(n) < mean).astype(float)


def betas(mean: float, concentration: float) -> Draw:
    return lambda rng, n: rng.beta(mean * concentration, (1 - mean) * concentration, n)


def two_values(low: float, high: float, share: float) -> Draw:
    return lambda rng, n: np.where(rng.random(n) < share, high, low)


def constant(value: float) -> Draw:
    return lambda rng, n: np.full(n, value)


# name: (mean, how to draw)
LAWS: dict[str, tuple[float, Draw]] = {
    "rare": (0.01, coins(0.01)),
    "coin": (0.5, coins(0.5)),
    "frequent": (0.99, coins(0.99)),
    "even": (0.3, betas(0.3, 20)),
    "low variance": (0.6, betas(0.6, 600)),
    "two values": (0.1 + 0.8 * 0.15, two_values(0.1, 0.9, 0.15)),
    "constant": (0.3, constant(0.3)),
    "never": (0.0, constant(0.0)),
    "always": (1.0, constant(1.0)),
}


def problem_of(delta: float = 0.1, horizon: int = 10_000, n_arms: int = 5, n_constraints: int = 1) -> sf.Problem:
    return sf.Problem(n_arms, [0.5] * n_constraints, horizon, delta)


def level_of(problem: sf.Problem, sides: str = "both") -> float:
    """The level of one bound, on one side."""
    return problem.delta / (problem.n_arms * problem.n_constraints * (2 if sides == "both" else 1))


def history(bound: Confidence, problem: sf.Problem, costs: Floats) -> tuple[Floats, Floats, KnownCosts]:
    """Lower and upper bounds on the mean of the first arm's first cost, after each observation."""
    known, found = bound.new_costs(problem), np.empty((2, len(costs)))
    for k, cost in enumerate(costs):
        observe(known, 0, np.full(problem.n_constraints, cost))
        found[:, k] = known.lower[0, 0], known.upper[0, 0]
    return found[0], found[1], known
