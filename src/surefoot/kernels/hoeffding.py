"""Hoeffding's radius and the paper's, which differ only in scale, and the rounding of radii."""

import math

from surefoot.kernels.compile import merged
from surefoot.kernels.dual import ROUNDING


@merged
def radius(scale: float, n: int) -> float:
    """The half-width after n observations: beta(a) of Lemma 1 for the paper's scale."""
    width: float = math.sqrt(scale / n)
    return width


@merged
def rounding(n: int) -> float:
    """An upper bound on the rounding error of a running mean of n numbers in [0, 1], or of a radius around it.

    The mean moves by (x - mean) / k in step k. Each step is off by 1.1e-16 at most, and is forgotten like 1 / k: in
    all, 1.1e-16 (n / 2 + 2).
    """
    return ROUNDING * (n + 16.0)
