"""The clean event: whether a policy's confidence bounds hold, and whether the benchmark is in its safe sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefoot.analysis.hindsight import Hindsight
from surefoot.kernels.types import Integers
from surefoot.kernels.watch import Watch, watch
from surefoot.problem import Problem
from surefoot.rules import Floats


class CleanEvent:
    """Watches the bounds of policies, and says afterwards whether they held."""

    def __init__(self, problem: Problem, hindsight: Hindsight) -> None:
        self._vertices, self._costs, self._limits = hindsight.vertices, hindsight.mean_costs, problem.limits
        listed = np.zeros((0, problem.n_arms)) if self._vertices is None else self._vertices
        self._comparators = truncated(listed, problem)

    def eye(self) -> Watch:
        """An observer of one policy in one world, before the first round."""
        return watch(self._costs, self._limits, self._comparators)

    def columns(self, seen: Integers, left: Sequence[Integers], benchmarks: Floats) -> dict[str, Any]:
        """Whether E(delta) held, and whether the benchmark's truncation was in every safe set, up to each checkpoint.

        `seen` has the counts of the eyes at each checkpoint, (n, 3): rounds, missed, rounds above. It has as many rows
        for each eye, and `left` is what each eye saw leave. A column is a pair: the answers, and whether they are
        known.
        """
        rounds, missed, above = seen.T
        known = rounds > 0  # not of a policy without bounds, or in a problem without thresholds
        kept, sure = np.ones(len(seen), bool), known.copy()
        for n in np.flatnonzero(above).tolist():
            if self._vertices is None:  # too many to check one by one
                sure[n] = False
            else:
                out = left[n * len(left) // len(seen)][(self._vertices == benchmarks[n]).all(axis=1)]
                kept[n] = not ((out > 0) & (out <= rounds[n])).any()
        return {"clean": (missed == 0, known), "benchmark_kept": (kept, sure)}


def truncated(strategies: Floats, problem: Problem) -> Floats:
    """Move strategies to the truncated simplex: (1 - K/T) x + 1/T."""
    return (1.0 - problem.n_arms * problem.floor) * strategies + problem.floor
