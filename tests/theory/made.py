"""Policies made to order, paths of them, and claims about nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.environments.scenario import Scenario
from surefoot.policies.colb import COLB
from surefoot.policies.solb import SOLB
from surefoot.problem import Problem
from surefoot.theory.claims import Claim, Finding
from surefoot.theory.mutations import mutant
from surefoot.theory.trace import Trace, record
from tests.policies.constants import shrink_allowance, shrink_radius


def made(
    cls: type[COLB] | type[SOLB], *wrongs: Any, allowance: float = 1.0, radius: float = 1.0, **options: Any
) -> Any:
    """A factory. With a small allowance the doubling trick restarts within a few hundred rounds."""

    def make(problem: Problem, seed: int) -> Any:
        policy = (mutant(cls, *wrongs) if wrongs else cls)(problem, seed, preset="paper", **options)
        shrink_allowance(policy, allowance)
        shrink_radius(policy, radius**2)
        return policy

    return make


def cut(trace: Trace, rounds: int) -> Trace:
    """The first rounds of a path; the problem, and so T, stays what it is."""
    rows = {name: getattr(trace, name)[: rounds + 1] for name in ROWS}
    return trace._replace(losses=trace.losses[:rounds], arms=trace.arms[:rounds], **rows)


ROWS = ("proposals", "strategies", "safe_weights", "rates", "caps", "base_rates", "lower", "upper")
"""What a path has T + 1 of."""


def scrambled(scenario: Scenario, restarts: list[int], seed: int = 0) -> Trace:
    """A path that no policy would take: every number is random, so that no two terms of a formula cancel."""
    rng, problem = np.random.default_rng(seed), scenario.problem
    rows, n_arms = problem.rounds + 1, problem.n_arms
    plain = record(scenario, made(COLB, learning_rate=0.1), seed)
    steps = np.isin(np.arange(rows), np.array(restarts) + 1).cumsum()
    return plain._replace(
        arms=rng.integers(n_arms, size=rows - 1),
        losses=rng.random((rows - 1, n_arms)),
        proposals=rng.dirichlet(np.ones(n_arms), rows),
        strategies=rng.dirichlet(np.ones(n_arms), rows),
        safe_weights=rng.random(rows),
        rates=rng.random((rows, n_arms)) + 0.1,
        caps=10.0 * rng.random((rows, n_arms)) + 1.0,
        base_rates=0.5**steps,
        lower=plain.lower + 0.05 * rng.random(plain.lower.shape),
        upper=plain.upper + 0.05 * rng.random(plain.upper.shape),
    )


def surviving(mutation: Any, runs: int) -> Finding:
    """Hold what is not mutated; a mutation is the verdict of its own trial."""
    return Finding("held" if mutation is None else mutation, f"{mutation} in [{runs}]")


def made_up(name: str, trial: Any = surviving, runs: tuple[int, int] = (20, 800), **mutations: Any) -> Claim:
    """A claim with this trial."""
    return Claim(name, f"{name} is so.", "a family", "a path", "a test", trial, runs, mutations)
