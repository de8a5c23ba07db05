"""The oracle: how far a claimed projection is from meeting the conditions of optimality."""

from typing import NamedTuple

import numpy as np

from surefoot.policies.projection import Projection
from tests.kernels.instances import Instance


class Residuals(NamedTuple):
    """Relative to the terms each is made of, but for the last three, which are absolute."""

    stationarity: float
    complementarity: float
    feasibility: float
    violation: float
    below_floor: float
    excess: float

    def worst(self) -> float:
        return max(self.stationarity, self.complementarity, self.feasibility)


def residuals(instance: Instance, answer: Projection) -> Residuals:
    """Evaluate the conditions in extended precision, for the best level (multiplier of the sum) there is."""
    center, rates, loss, lower, limits = (np.asarray(part, np.longdouble) for part in instance[:5])
    x, mu = (np.asarray(part, np.longdouble) for part in answer)
    assert np.isfinite(x).all()
    assert np.isfinite(mu).all()
    assert (mu >= 0).all()
    gradient = loss + (1 / center - 1 / x) / rates + mu @ lower
    terms = np.max([np.abs(loss), 1 / (rates * center), 1 / (rates * x), *(mu[:, None] * np.abs(lower))], axis=0)
    free = x > instance.floor
    # the level is best known from the arms whose terms are small; try a few
    shares = [free * 1.0, free / terms, free * rates * x * x, free * (terms == terms[free].min(initial=np.inf))]
    levels = [-(share @ gradient) / share.sum() for share in shares if share.sum() > 0] or [-gradient.min()]

    def stationarity(level: np.longdouble) -> float:
        off = gradient + level
        return float((np.where(free, np.abs(off), np.maximum(0, -off)) / np.maximum(terms, abs(level))).max())

    gaps = lower @ x - limits
    sizes = np.maximum(np.abs(lower) @ x + np.abs(limits), np.finfo(float).tiny)
    return Residuals(
        stationarity=min(map(stationarity, levels)),
        complementarity=float((np.abs(gaps) / sizes)[mu > 0].max(initial=0)),
        feasibility=float((np.maximum(gaps, 0) / sizes).max(initial=0)),
        violation=float(gaps.max(initial=0)),
        below_floor=float(np.maximum(0, instance.floor - x).max()),
        excess=float(abs(x.sum() - 1)),
    )
