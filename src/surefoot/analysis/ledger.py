"""Exact accounting of a run: from running sums to regret, its two parts, violations and complexities.

Everything is an expectation over the policy's own draw, given its strategy; nothing is estimated from what was sampled.
With x* the best strategy in hindsight for the losses up to the checkpoint,

    regret           sum of l_t^T (x_t - x*)
    safety_regret    sum of gamma_{t-1} l_t^T (x^diamond - x*)
    learning_regret  sum of (1 - gamma_{t-1}) l_t^T (x~_t - x*)

and the first is the sum of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from surefoot.analysis.hindsight import TIED, Hindsight
from surefoot.kernels.ledger import (
    Account,
    PlayRows,
    WorldRows,
    add_play,
    add_world,
    play_rows,
    play_sums,
    squared_gap,
    world_rows,
    world_sums,
)
from surefoot.kernels.types import Integers
from surefoot.problem import Problem
from surefoot.rules import Floats

NO_COSTS = np.zeros((1, 0, 0))


class Settled(NamedTuple):
    """Totals of the losses up to each of n checkpoints, of one world or of several, one after the other."""

    losses: Floats  # (n, K) of each arm
    benchmarks: Floats  # (n, K) the best strategy
    values: Floats  # (n,) its loss
    safety_complexity: Floats | None  # (n,); None without a safe strategy


class WorldLedger:
    """Sums of the losses, and the best strategy in hindsight, at the checkpoints."""

    def __init__(self, problem: Problem, hindsight: Hindsight, checkpoints: Sequence[int] | Integers) -> None:
        self._hindsight = hindsight
        self._sums = world_sums(problem.n_arms)
        self._rows = world_rows(np.array(checkpoints, np.int64), problem.n_arms)
        self._vertices = np.zeros((0, problem.n_arms)) if hindsight.vertices is None else hindsight.vertices
        self._has_safe = problem.safe is not None
        self._anchor = anchor(problem)
        self._solved: list[Floats] = []  # where vertices are not listed

    @classmethod
    def of(cls, problem: Problem, hindsight: Hindsight, rows: WorldRows) -> WorldLedger:
        """The ledger of a world whose checkpoints are all settled."""
        ledger = cls.__new__(cls)  # without the sums that it would need to go on
        ledger._rows, ledger._hindsight, ledger._has_safe = rows, hindsight, problem.safe is not None
        ledger._vertices = np.zeros((0, problem.n_arms)) if hindsight.vertices is None else hindsight.vertices
        return ledger

    def add(self, losses: Floats) -> None:
        """Add the losses of a block of rounds."""
        if self._hindsight.vertices is not None:
            self._add(losses)
            return
        before, rows = int(self._sums.rounds[0]), self._rows
        inside = [int(stop) - before for stop in rows.stops if before < stop <= before + len(losses)]
        for begin, end in zip([0, *inside], [*inside, len(losses)], strict=True):
            self._add(losses[begin:end])
            if end in inside and len(self._solved) < rows.taken[0]:
                self._solve(len(self._solved))

    def _add(self, losses: Floats) -> None:
        add_world(self._sums, self._rows, losses, self._anchor, self._vertices, TIED)

    def _solve(self, n: int) -> None:
        best = self._hindsight.best(self._rows.losses[n], self._sums.squares).strategy
        self._rows.squared_gaps[n] = squared_gap(self._sums.squares, best)
        self._solved.append(best)

    def settled(self) -> Settled:
        """The totals at all checkpoints, when all blocks have been added."""
        return settled([self])

    @property
    def _best(self) -> Floats:
        return np.array(self._solved) if self._hindsight.vertices is None else self._vertices[self._rows.best]


def settled(worlds: Sequence[WorldLedger]) -> Settled:
    """The totals of several worlds with the same checkpoints: at once, because small arrays are slow."""
    losses = np.concatenate([one._rows.losses for one in worlds])
    best = np.concatenate([one._best for one in worlds])
    squared_gaps = np.concatenate([one._rows.squared_gaps for one in worlds])
    complexity = np.sqrt(squared_gaps) if worlds[0]._has_safe else None
    return Settled(losses, best, dots(best, losses), complexity)


class PlayLedger:
    """Sums of what a policy played, at the checkpoints."""

    def __init__(self, problem: Problem, checkpoints: Sequence[int] | Integers) -> None:
        sums = play_sums(problem.n_arms, problem.n_constraints)
        self.rows: PlayRows = play_rows(np.array(checkpoints, np.int64), problem.n_arms, problem.n_constraints)
        self.account = Account(sums, self.rows, NO_COSTS, problem.thresholds.copy(), anchor(problem))

    def add(self, losses: Floats, mean_costs: Floats, strategies: Floats, safe_weights: Floats) -> None:
        """Add the strategies of a block of rounds, with their losses and mean costs, (1, m, K) or (n, m, K)."""
        add_play(self.account._replace(mean_costs=mean_costs), losses, strategies, safe_weights)


def columns(plays: Sequence[PlayRows], world: Settled, safe_strategy: Floats) -> dict[str, Any]:
    """The accounts of a policy in several worlds, up to each checkpoint; `allocation` is since the one before."""
    stops, best = plays[0].stops, world.benchmarks
    rows = PlayRows(*map(np.concatenate, zip(*plays, strict=True)))
    weighted, violations = rows.weighted_losses, rows.violations
    return {
        "round": rows.stops,
        "loss": rows.loss,
        "baseline_loss": None if world.safety_complexity is None else dots(world.losses, alike(safe_strategy, world)),
        "regret": rows.loss - world.values,
        "safety_regret": dots(weighted, safe_strategy - best),
        "learning_regret": rows.learning_loss - dots(world.losses - weighted, best),
        "violation": violations.max(axis=1, initial=0.0),
        "violations": violations,
        "rounds_in_violation": rows.rounds_over,
        "worst_margin": rows.worst_margin if violations.shape[1] else None,
        "rounds_until_loose": (rows.rounds_until_loose, rows.rounds_until_loose >= 0),
        "bandit_complexity": world.values,
        "safety_complexity": world.safety_complexity,
        "allocation": rows.allocation / np.tile(np.diff(stops, prepend=0), len(plays))[:, None],
        "benchmark": best,
    }


def alike(strategy: Floats, world: Settled) -> Floats:
    """The strategy in a row for each row of the totals."""
    return np.tile(strategy, (len(world.losses), 1))


def anchor(problem: Problem) -> Floats:
    """The safe strategy; zeros if there is none."""
    return np.zeros(problem.n_arms) if problem.safe is None else problem.safe.strategy.copy()


def dots(one: Floats, two: Floats) -> Floats:
    """The scalar products of the rows, each as ``one[n] @ two[n]`` to the bit."""
    return np.asarray(np.matmul(one[:, None, :], two[:, :, None])[:, 0, 0])
