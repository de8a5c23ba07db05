"""The problems that a contract is tested on, and what happens in them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from surefoot.problem import Decision, Problem, SafeStrategy
from surefoot.rules import Floats

SIZES: dict[str, tuple[int, list[float]]] = {
    "K=2 m=1": (2, [0.5]),
    "K=5 m=0": (5, []),
    "K=5 m=2": (5, [0.4, 0.7]),
    "K=10 m=12": (10, [0.5] * 12),
    "a limit of 1": (4, [1.0, 0.3]),
}

BINDING: dict[str, tuple[int, list[float]]] = {
    "K=2 m=1 binding": (2, [0.1]),
    "K=3 m=3 binding": (3, [0.1, 0.6, 0.15]),
}
"""Sizes at which limits bind: the arms with the least losses cost almost 1, and the limits are close to 0."""

Feedback = tuple[Decision, float, list[float]]


def make_problem(size: str, horizon: int | None = 300) -> Problem:
    """A problem of one of the named sizes; its safe strategy is the last arm, which costs half of every limit.

    Examples
    --------
    >>> make_problem("K=2 m=1").thresholds
    array([0.5])
    """
    n_arms, thresholds = (SIZES | BINDING)[size]
    safe = SafeStrategy(np.eye(n_arms)[-1], [limit / 2 for limit in thresholds])
    return Problem(n_arms, thresholds, horizon, 0.05, safe)


def true_costs(problem: Problem) -> Floats:
    """The mean costs of the arms in the contract's worlds, for a policy that has to be given them.

    In every other guardrail the first half of the arms breaks the limit by far. The last arm is the safe strategy.

    Examples
    --------
    >>> true_costs(make_problem("K=5 m=2"))
    array([[1.  , 1.  , 1.  , 0.1 , 0.2 ],
           [0.  , 0.  , 0.  , 0.  , 0.35]])
    """
    costs = np.zeros((problem.n_constraints, problem.n_arms))
    safe = np.zeros(problem.n_constraints) if problem.safe is None else problem.safe.costs
    dear = (problem.n_arms + 1) // 2
    costs[::2] = safe[::2, None] / 2
    costs[::2, :dear] = np.linspace(1.0, 0.9, problem.n_constraints)[::2, None]
    costs[:, -1] = safe
    return costs


def rounds(problem: Problem, seed: int) -> Iterator[tuple[float, list[float]]]:
    """Random losses and costs, the same for every arm."""
    rng = np.random.default_rng(seed)
    while True:
        yield float(rng.random()), [float(cost) for cost in rng.random(problem.n_constraints) < 0.5]


def binding_rounds(problem: Problem) -> Iterator[Feedback]:
    """Feedback on every arm in turn: arms that break a limit lose nothing, the others lose 1."""
    costs, share = true_costs(problem), 1.0 / problem.n_arms
    tempting = np.any(costs > problem.thresholds[:, None], axis=0).tolist()
    for t in range(problem.rounds):
        arm = t % problem.n_arms
        yield Decision(arm, share), float(not tempting[arm]), costs[:, arm].tolist()
