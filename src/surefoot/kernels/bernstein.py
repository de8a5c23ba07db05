"""The empirical Bernstein radius of Maurer and Pontil."""

import math

import numpy as np

from surefoot.kernels.compile import merged
from surefoot.kernels.types import Floats


@merged
def radius(evidence: float, squares: Floats, i: int, arm: int, n: int, mean: float, cost: float) -> float:
    """The half-width after the n-th cost, which `mean` includes. `evidence` is ln(2 / level).

    `squares` holds the sums of squared deviations from the mean.
    """
    if n == 1:
        return np.inf
    squares[i, arm] += (cost - mean) * (cost - mean) * n / (n - 1)
    variance = squares[i, arm] / (n - 1)
    width: float = math.sqrt(2.0 * variance * evidence / n) + 7.0 * evidence / (3.0 * (n - 1))
    return width
