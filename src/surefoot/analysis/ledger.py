"""Exact accounting of a run: from running sums to regret, its two parts, violations and complexities.

Everything is an expectation over the policy's own draw, given its strategy; nothing is estimated from what was sampled.
With x* the best strategy in hindsight for the losses up to the checkpoint,

    regret           sum of l_t^T (x_t - x*)
    safety_regret    sum of gamma_{t-1} l_t^T (x^diamond - x*)
    learning_regret  sum of (1 - gamma_{t-1}) l_t^T (x~_t - x*)

and the first is the sum of the others.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from surefoot.analysis.hindsight import Hindsight
from surefoot.analysis.optimum import Benchmark
from surefoot.kernels.ledger import add_play, add_world, play_sums, squared_gap, world_sums
from surefoot.problem import Problem
from surefoot.rules import Floats


class Settled(NamedTuple):
    """Totals of the losses up to a checkpoint."""

    losses: Floats  # (K,) of each arm
    benchmark: Benchmark
    safety_complexity: float | None  # None without a safe strategy


class WorldLedger:
    """Sums of the losses, and the best strategy in hindsight."""

    def __init__(self, problem: Problem, hindsight: Hindsight) -> None:
        self._hindsight = hindsight
        self._sums = world_sums(problem.n_arms)
        self._safe = None if problem.safe is None else problem.safe.strategy.copy()
        self._anchor = np.zeros(problem.n_arms) if self._safe is None else self._safe

    def add(self, losses: Floats) -> None:
        """Add the losses of a block of rounds."""
        add_world(self._sums, losses, self._anchor)

    def settle(self) -> Settled:
        """Find the best strategy for the losses so far, and how far the safe one is from it."""
        losses, squares = self._sums.losses[0].copy(), self._sums.squares
        benchmark = self._hindsight.best(losses, squares)
        gap = math.sqrt(squared_gap(squares, benchmark.strategy))
        return Settled(losses, benchmark, None if self._safe is None else gap)


class PlayLedger:
    """Sums of what a policy played."""

    def __init__(self, problem: Problem) -> None:
        self._thresholds = problem.thresholds.copy()
        self._anchor = np.zeros(problem.n_arms) if problem.safe is None else problem.safe.strategy.copy()
        self._sums = play_sums(problem.n_arms, problem.n_constraints)
        self._last = 0

    def add(self, losses: Floats, mean_costs: Floats, strategies: Floats, safe_weights: Floats) -> None:
        """Add the strategies of a block of rounds, with their losses and mean costs, (1, m, K) or (n, m, K)."""
        add_play(self._sums, losses, strategies, safe_weights, mean_costs, self._thresholds, self._anchor)

    def entry(self, world: Settled) -> dict[str, Any]:
        """The account up to now; `allocation` is since the last one."""
        sums, benchmark, best = self._sums, world.benchmark, world.benchmark.strategy
        rounds, until_loose = int(sums.rounds[0]), int(sums.rounds_until_loose[0])
        weighted, violations = sums.weighted_losses[0], sums.violations[0]
        allocation = sums.allocation / (rounds - self._last)
        sums.allocation[:] = 0.0
        self._last = rounds
        return {
            "round": rounds,
            "loss": float(sums.loss[0, 0]),
            "regret": float(sums.loss[0, 0] - benchmark.value),
            "safety_regret": float(weighted @ (self._anchor - best)),
            "learning_regret": float(sums.learning_loss[0, 0] - (world.losses - weighted) @ best),
            "violation": float(violations.max(initial=0.0)),
            "violations": violations.tolist(),
            "rounds_in_violation": int(sums.rounds_over[0]),
            "worst_margin": float(sums.worst_margin[0]) if violations.size else None,
            "rounds_until_loose": until_loose if until_loose >= 0 else None,
            "bandit_complexity": benchmark.value,
            "safety_complexity": world.safety_complexity,
            "allocation": allocation.tolist(),
            "benchmark": best.tolist(),
        }
