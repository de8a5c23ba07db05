"""The empirical Bernstein radius of Maurer and Pontil."""

import numpy as np

from surefoot.kernels.compile import merged
from surefoot.kernels.dual import Floats

REMEMBERED = 1  # the sum of squared deviations from the mean


@merged
def radius(evidence: float, memory: Floats, i: int, arm: int, n: int, mean: float, cost: float) -> float:
    """The half-width after one more cost, the n-th; `mean` has it in it. `evidence` is ln(2 / level)."""
    if n == 1:
        return np.inf
    memory[i, arm, 0] += (cost - mean) * (cost - mean) * n / (n - 1)
    variance = memory[i, arm, 0] / (n - 1)
    width: float = np.sqrt(2.0 * variance * evidence / n) + 7.0 * evidence / (3.0 * (n - 1))
    return width
