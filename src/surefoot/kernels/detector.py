"""Detecting that a mean has risen above a limit, at any time, with few false alarms (an e-detector).

For each bet, ``M <- (M + 1) (1 + bet (x - limit))``. While the mean of x given the past is at most the limit, the
expectation of M after n values is at most n, for each bet and for the mean over the bets. So if an alarm is raised when
that mean reaches A, it takes A values or more on average until a false one (Shin, Ramdas, Rinaldo, "E-detectors: a
nonparametric framework for sequential change detection", 2024).
"""

import numpy as np

from surefoot.kernels.compile import compiled
from surefoot.kernels.types import Floats, Integers

BETS = 7
"""Bets are 1/2, 1/4, ... of the largest one that cannot make M negative."""
SMALLEST_LIMIT = 1e-4
"""For limits below this the bets do not grow any more."""


def bets_against(limits: Floats) -> Floats:
    """The bets against each limit, (n, BETS)."""
    return np.outer(1.0 / np.maximum(limits, SMALLEST_LIMIT), 0.5 ** np.arange(1, BETS + 1))


@compiled
def detect_one(evidence: Floats, bets: Floats, limits: Floats, i: int, value: float, enough: float) -> bool:
    """Take in a value of quantity i; return whether its mean is found to be above its limit.

    Parameters
    ----------
    evidence
        M of each quantity and bet, (n, BETS). It starts at 0, and again after an alarm.
    enough
        The mean of M over the bets that raises an alarm (A).
    """
    total = 0.0
    for j in range(bets.shape[1]):
        evidence[i, j] = (evidence[i, j] + 1.0) * (1.0 + bets[i, j] * (value - limits[i]))
        total += evidence[i, j]
    if total < enough * bets.shape[1]:
        return False
    for j in range(bets.shape[1]):
        evidence[i, j] = 0.0
    return True


@compiled
def detect(evidence: Floats, bets: Floats, limits: Floats, values: Floats, enough: float) -> int:
    """Take in a value of every quantity; return the first whose mean is found to be above its limit, or -1."""
    found = -1
    for i in range(limits.size):
        if detect_one(evidence, bets, limits, i, values[i], enough) and found < 0:
            found = i
    return found


@compiled
def detect_rows(evidence: Floats, bets: Floats, limits: Floats, rows: Floats, enough: float) -> None:
    """Take in rows of values, each as `detect` does."""
    for t in range(len(rows)):
        detect(evidence, bets, limits, rows[t], enough)


@compiled
def detect_places(
    evidence: Floats, bets: Floats, limits: Floats, places: Integers, values: Floats, enough: float, found: Integers
) -> None:
    """Take in values of some quantities, each as `detect_one` does; count in `found` how often each has risen."""
    for t in range(len(places)):
        found[places[t]] += detect_one(evidence, bets, limits, places[t], values[t], enough)
