"""A record of the losses met since they last changed, arm by arm, and a test that detects a change.

The test compares the latest losses of an arm with those before. If losses are independent over time and their means
stay, the two differ by more than

    sqrt(2 v e (1/n + 1/n')) + e (1/n + 1/n') / 3,   e = ln(40 K T),

v the variance of a coin with the mean of all, with a probability of about 2 exp(-e) (Bernstein). It is tried after
every eighth loss of an arm, so a false alarm in T rounds has a probability of about 1 / (160 K) or less. Without a
horizon K + t takes the place of T, and the probability grows with the logarithm of t.
"""

import math
from typing import Annotated, NamedTuple

from surefoot.kernels.compile import compiled
from surefoot.kernels.layout import COUNT, TOTAL, saved
from surefoot.kernels.types import Floats

FEWEST = 16  # fewest latest losses that are tested
EVERY = 8  # losses between two tests


class Record(NamedTuple):
    """The losses of each arm since they last changed."""

    seen: Annotated[Floats, saved("K", rule=COUNT)]  # how many
    total: Annotated[Floats, saved("K", rule=TOTAL)]  # their sum
    squares: Annotated[Floats, saved("K", rule=TOTAL)]  # sum of their squared distances from the mean before
    late: Annotated[Floats, saved("K", rule=COUNT)]  # how many are among the latest
    late_total: Annotated[Floats, saved("K", rule=TOTAL)]  # the sum of those


@compiled
def enter(record: Record, arm: int, loss: float, log_horizon: float) -> bool:
    """Enter a loss; True if the losses of its arm have changed."""
    error = loss - (0.5 + record.total[arm]) / (1.0 + record.seen[arm])
    record.seen[arm] += 1.0
    record.total[arm] += loss
    record.squares[arm] += error * error
    record.late[arm] += 1.0
    record.late_total[arm] += loss
    late = record.late[arm]
    return late >= FEWEST and late % EVERY == 0.0 and has_changed(record, arm, log_horizon)


@compiled
def has_changed(record: Record, arm: int, log_horizon: float) -> bool:
    """True if the test finds a change; if it does not and the latest losses are many, they join those before."""
    seen, late = record.seen[arm], record.late[arm]
    before = seen - late
    if before > 0.0:
        apart = abs((record.total[arm] - record.late_total[arm]) / before - record.late_total[arm] / late)
        mean = (record.total[arm] + 1.0) / (seen + 2.0)
        evidence = (log_horizon + math.log(40.0 * record.seen.size)) * (1.0 / before + 1.0 / late)
        if apart > math.sqrt(2.0 * mean * (1.0 - mean) * evidence) + evidence / 3.0:
            return True
    if late >= max(2.0 * FEWEST, 0.5 * before):
        record.late[arm] = 0.0
        record.late_total[arm] = 0.0
    return False


@compiled
def clear(record: Record) -> None:
    """Forget all losses."""
    for a in range(record.seen.size):
        record.seen[a] = 0.0
        record.total[a] = 0.0
        record.squares[a] = 0.0
        record.late[a] = 0.0
        record.late_total[a] = 0.0


@compiled
def mean_of(record: Record, arm: int) -> float:
    """The mean loss of an arm, or 0 if none was met."""
    return float(record.total[arm] / max(1.0, record.seen[arm]))


@compiled
def optimistic(record: Record, arm: int, evidence: float) -> float:
    """The mean loss of an arm less a radius after Bernstein; for guidance, at no stated level."""
    seen = record.seen[arm]
    if seen == 0.0:
        return -1.0
    return mean_of(record, arm) - min(1.0, radius(record, arm, evidence))


@compiled
def radius(record: Record, arm: int, evidence: float) -> float:
    """A radius after Bernstein around the mean loss of an arm that was seen; of 1 or more if nothing is known."""
    seen = record.seen[arm]
    return float(math.sqrt(2.0 * evidence * record.squares[arm]) / seen + 0.5 * evidence / seen)
