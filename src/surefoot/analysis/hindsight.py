"""The best strategy in hindsight for many losses and the same costs: the vertices of the safe set are found once.

The offline optimum is a linear program in which only the losses change from one checkpoint to the next. Where the safe
set has few enough vertices they are listed, and the optimum is the best of the list; if not, HiGHS solves each program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import combinations, islice

import numpy as np

from surefoot.analysis.optimum import Benchmark, offline_optimum
from surefoot.kernels.ledger import best_vertex
from surefoot.kernels.types import Integers
from surefoot.rules import Floats

MOST_NUMBERS = 2_000_000
"""Bases times arms up to which vertices are listed: faster than a linear program for each checkpoint."""
MORE_NUMBERS = 6_000_000
"""The same where the listing is needed at any rate: about five seconds."""
TOGETHER = 20_000
"""Bases tried at a time."""
TIED = 1e-12
"""Relative difference in loss up to which two vertices are equally good."""


class Hindsight:
    """The offline optimum of given costs and thresholds, for any losses.

    Examples
    --------
    >>> import numpy as np
    >>> hindsight = Hindsight(np.array([[0.9, 0.5, 0.1]]), np.array([0.6]))
    >>> hindsight.best(np.array([10.0, 20.0, 60.0]), np.zeros((3, 3))).strategy
    array([0.25, 0.75, 0.  ])
    """

    def __init__(self, mean_costs: Floats, thresholds: Floats, most: int = MOST_NUMBERS) -> None:
        self.mean_costs, self.thresholds, self._most = mean_costs, thresholds, most

    @cached_property
    def vertices(self) -> Floats | None:
        """The vertices of the safe set, one a row; None if there are too many to list, or the set is too thin."""
        listed = vertices(self.mean_costs, self.thresholds, self._most)
        return listed if listed is not None and len(listed) else None

    def best(self, total_losses: Floats, squares: Floats) -> Benchmark:
        """The best strategy for these losses; among equally good ones, the one with the least safety complexity.

        `squares` is as in `WorldSums`.
        """
        if self.vertices is None:
            return offline_optimum(total_losses, self.mean_costs, self.thresholds)
        tolerance = TIED * float(np.abs(total_losses).max())
        strategy = self.vertices[best_vertex(self.vertices, total_losses, squares, tolerance)]
        return Benchmark(strategy, float(strategy @ total_losses))


def vertices(mean_costs: Floats, thresholds: Floats, most: int = MOST_NUMBERS) -> Floats | None:
    """The vertices of {x >= 0, sum x = 1, mean_costs @ x <= thresholds}; None if there are too many bases to try.

    A vertex has a basis: as many of the arms and of the slacks as there are equations. `most` is bases times arms.

    Examples
    --------
    >>> import numpy as np
    >>> vertices(np.array([[0.9, 0.1]]), np.array([0.5]))
    array([[0. , 1. ],
           [0.5, 0.5]])
    """
    n_constraints, n_arms = mean_costs.shape
    if math.comb(n_arms + n_constraints, n_constraints + 1) * n_arms > most:
        return None
    equations = np.zeros((n_constraints + 1, n_arms + n_constraints))
    equations[0, :n_arms] = 1.0
    equations[1:, :n_arms] = mean_costs
    equations[1:, n_arms:] = np.eye(n_constraints)
    wanted = np.append(1.0, thresholds)
    bases = combinations(range(n_arms + n_constraints), n_constraints + 1)
    found = np.concatenate([points(equations, wanted, np.array(some)) for some in batched(bases, TOGETHER)])
    found = found[:, :n_arms] / found[:, :n_arms].sum(axis=1, keepdims=True)
    # nearly singular bases give points that are not vertices; those that are safe do no harm and are kept
    found = found[(found @ mean_costs.T <= thresholds + 1e-12).all(axis=1)]
    _, first = np.unique(found.round(12), axis=0, return_index=True)
    return np.asarray(found[first])


def points(equations: Floats, wanted: Floats, bases: Integers) -> Floats:
    """The solutions that have these bases and no part below 0."""
    systems = equations[:, bases].transpose(1, 0, 2)
    regular = np.linalg.det(systems) != 0.0
    bases, systems = bases[regular], systems[regular]
    parts = np.linalg.solve(systems, np.broadcast_to(wanted, (len(bases), wanted.size))[..., None])[..., 0]
    inside = (np.isfinite(parts) & (parts >= -1e-12)).all(axis=1)
    found = np.zeros((inside.sum(), equations.shape[1]))
    np.put_along_axis(found, bases[inside], np.maximum(parts[inside], 0.0), axis=1)
    return found


def batched(bases: Iterator[tuple[int, ...]], size: int) -> Iterator[list[tuple[int, ...]]]:
    """All of them, so many at a time."""
    while some := list(islice(bases, size)):
        yield some
