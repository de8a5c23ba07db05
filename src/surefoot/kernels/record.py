"""A record of the losses met since they last changed, arm by arm, and a test that tells when they do.

The test compares the latest losses of an arm with those before. If losses are independent over time and their means
stay, the two differ by more than

    sqrt(2 v e (1/n + 1/n')) + e (1/n + 1/n') / 3,   e = ln(40 K T),

v the variance of a coin with the mean of all, with a probability of about 2 exp(-e) (Bernstein). It is tried after
every eighth loss of an arm, so a false alarm in T rounds has a probability of about 1 / (160 K) or less. Without a
horizon K + t takes the place of T, and the probability grows with the logarithm of t.
"""

import numpy as np

from surefoot.kernels.compile import compiled
from surefoot.kernels.dual import Floats

# Rows of a record:
SEEN, TOTAL, SQUARES = 0, 1, 2  # losses of an arm, their sum, and that of their squared distances from the mean before
LATE, LATE_TOTAL = 3, 4  # of these the latest, and their sum
ROWS = 5

FEWEST = 16  # latest losses that say something
EVERY = 8  # losses between two tests


@compiled
def enter(record: Floats, arm: int, loss: float, log_horizon: float) -> bool:
    """Enter a loss; whether the losses of its arm have changed."""
    error = loss - (0.5 + record[TOTAL, arm]) / (1.0 + record[SEEN, arm])
    record[SEEN, arm] += 1.0
    record[TOTAL, arm] += loss
    record[SQUARES, arm] += error * error
    record[LATE, arm] += 1.0
    record[LATE_TOTAL, arm] += loss
    late = record[LATE, arm]
    return late >= FEWEST and late % EVERY == 0.0 and has_changed(record, arm, log_horizon)


@compiled
def has_changed(record: Floats, arm: int, log_horizon: float) -> bool:
    """The test; if it tells nothing and the latest losses are many, they join those before."""
    seen, late = record[SEEN, arm], record[LATE, arm]
    before = seen - late
    if before > 0.0:
        apart = abs((record[TOTAL, arm] - record[LATE_TOTAL, arm]) / before - record[LATE_TOTAL, arm] / late)
        mean = (record[TOTAL, arm] + 1.0) / (seen + 2.0)
        evidence = (log_horizon + np.log(40.0 * record.shape[1])) * (1.0 / before + 1.0 / late)
        if apart > np.sqrt(2.0 * mean * (1.0 - mean) * evidence) + evidence / 3.0:
            return True
    if late >= max(2.0 * FEWEST, 0.5 * before):
        record[LATE, arm] = 0.0
        record[LATE_TOTAL, arm] = 0.0
    return False


@compiled
def optimistic(record: Floats, arm: int, evidence: float) -> float:
    """The mean loss of an arm less a radius after Bernstein; for guidance, at no stated level."""
    seen = record[SEEN, arm]
    if seen == 0.0:
        return -1.0
    radius = np.sqrt(2.0 * evidence * record[SQUARES, arm]) / seen + 0.5 * evidence / seen
    return float(record[TOTAL, arm] / seen - min(1.0, radius))
