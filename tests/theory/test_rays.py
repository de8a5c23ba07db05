"""The proposition of docs/theory/together.md on rays: one bound of each arm must hold, not m."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from surefoot.rules import Floats


def ray_ends(upper: Floats, thresholds: Floats, theta: Floats) -> Floats:
    """For each arm the largest share beside the safe strategy by these costs."""
    over = (upper - theta[:, None]) / (thresholds - theta)[:, None]
    return np.asarray(1 / np.maximum(1.0, over.max(axis=0)))


def test_where_one_bound_of_each_arm_holds_the_hull_of_the_rays_is_safe() -> None:
    """All other bounds fail as they like. Controls: the bound that is first fails; the program over all mixtures."""
    rng, without_it, program = np.random.default_rng(1), 0, 0
    for _ in range(500):
        K, m = int(rng.integers(2, 6)), int(rng.integers(2, 6))
        theta = rng.uniform(0.1, 0.4, m)
        thresholds = theta + rng.uniform(0.02, 0.3, m)
        costs = rng.random((m, K))  # of the arms that are not safe; the safe strategy is one more
        first = ((costs - theta[:, None]) / (thresholds - theta)[:, None]).argmax(axis=0)
        upper = costs * rng.random((m, K))  # all of them too small
        failing = upper.copy()
        upper[first, np.arange(K)] = costs[first, np.arange(K)]
        weights = rng.dirichlet(np.full(K + 1, 0.3), size=20)[:, :K]
        for bounds in (upper, failing):
            shares = weights * ray_ends(bounds, thresholds, theta)  # of the arms, in the hull
            total = shares @ costs.T + (1 - shares.sum(axis=1))[:, None] * theta
            if bounds is upper:
                assert (total <= thresholds + 1e-12).all()
            else:
                without_it += bool((total > thresholds + 1e-12).any())
        best = linprog(-rng.random(K), (upper - theta[:, None]), thresholds - theta, bounds=(0, 1)).x
        if best.sum() <= 1:
            program += bool((best @ (costs - theta[:, None]).T > thresholds - theta + 1e-9).any())
    assert without_it > 100
    assert program > 20
