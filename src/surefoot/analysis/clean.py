"""The clean event: whether a policy's confidence bounds hold, and whether the benchmark is in its safe sets."""

from __future__ import annotations

import numpy as np

from surefoot.analysis.hindsight import Hindsight
from surefoot.analysis.optimum import Benchmark
from surefoot.kernels.watch import watch
from surefoot.problem import Problem
from surefoot.rules import Floats


class CleanEvent:
    """Watches the bounds of one policy, and records whether they have held so far."""

    def __init__(self, problem: Problem, hindsight: Hindsight) -> None:
        self._vertices = hindsight.vertices
        listed = np.zeros((0, problem.n_arms)) if self._vertices is None else self._vertices
        self.eye = watch(hindsight.mean_costs, problem.limits, truncated(listed, problem))

    def entry(self, benchmark: Benchmark) -> dict[str, bool | None]:
        """Whether E(delta) held, and whether the benchmark's truncation was in every safe set; None if not known."""
        if self.eye.rounds[0] == 0:  # a policy without bounds, or a problem without thresholds
            return {"clean": None, "benchmark_kept": None}
        if self.eye.rounds_above[0] == 0:
            kept: bool | None = True
        elif self._vertices is None:  # too many to check one by one
            kept = None
        else:
            which = (self._vertices == benchmark.strategy).all(axis=1)
            kept = not bool(self.eye.left[which].any())
        return {"clean": bool(self.eye.missed[0] == 0), "benchmark_kept": kept}


def truncated(strategies: Floats, problem: Problem) -> Floats:
    """Move strategies to the truncated simplex: (1 - K/T) x + 1/T."""
    return (1.0 - problem.n_arms * problem.floor) * strategies + problem.floor
