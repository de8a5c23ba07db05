"""The clean event: whether a policy's confidence bounds hold, and whether the benchmark is in its safe sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.analysis.hindsight import Hindsight
from surefoot.kernels.types import Integers
from surefoot.kernels.watch import watch
from surefoot.problem import Problem
from surefoot.rules import Floats


class CleanEvent:
    """Watches the bounds of one policy, and records whether they have held so far."""

    def __init__(self, problem: Problem, hindsight: Hindsight) -> None:
        self._vertices = hindsight.vertices
        listed = np.zeros((0, problem.n_arms)) if self._vertices is None else self._vertices
        self.eye = watch(hindsight.mean_costs, problem.limits, truncated(listed, problem))

    def columns(self, seen: Integers, benchmarks: Floats) -> dict[str, Any]:
        """Whether E(delta) held, and whether the benchmark's truncation was in every safe set, up to each checkpoint.

        `seen` has the counts of the eye at each checkpoint, (n, 3): rounds, missed, rounds above. A column is a pair:
        the answers, and whether they are known.
        """
        rounds, missed, above = seen.T
        known = rounds > 0  # not of a policy without bounds, or in a problem without thresholds
        kept, sure = np.ones(len(seen), bool), known.copy()
        for n in np.flatnonzero(above):
            if self._vertices is None:  # too many to check one by one
                sure[n] = False
            else:
                left = self.eye.left[(self._vertices == benchmarks[n]).all(axis=1)]
                kept[n] = not ((left > 0) & (left <= rounds[n])).any()
        return {"clean": (missed == 0, known), "benchmark_kept": (kept, sure)}


def truncated(strategies: Floats, problem: Problem) -> Floats:
    """Move strategies to the truncated simplex: (1 - K/T) x + 1/T."""
    return (1.0 - problem.n_arms * problem.floor) * strategies + problem.floor
