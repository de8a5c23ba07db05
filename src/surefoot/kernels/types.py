"""The types that kernels share, and the status codes they return."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SOLVED = 0  # there is a checked answer
EMPTY = 1  # there is no strategy that meets the constraints
UNDECIDED = 2  # rounding leaves it open
KEPT = 3  # the last answer is still good enough
CONTRADICTED = 4  # a lower bound is above its upper bound: the costs are not what the model says
