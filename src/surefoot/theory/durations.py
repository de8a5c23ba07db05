"""How long the trials of claims will take, before they start."""

from __future__ import annotations

import os
import statistics
import time
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from surefoot.policies.rates import Motionless
from surefoot.theory.catalogue import claim
from surefoot.theory.claims import Claim
from surefoot.theory.verify import runs_of

YARDSTICK, RUNS, SECONDS = "Lemma 1", 30, 0.6
"""The trial whose time is measured: so many runs of it, again and again for so many seconds."""

WEIGHTS = {
    "Lemma 1": 12,
    "Lemma 2": 14,
    "Theorem 1": 33,
    "Theorem 1, growth": 16,
    "Lemma 5": 8,
    "Theorem 2": 28,
    "Theorem 2, small losses": 6,
    "Remark 3": 32,
    "Theorem 3": 64,
    "Algorithm 2, line 21": 14,
    "Lemma 3": 139,
    "Safety regret, ours": 218,
    "Lemma 3, gap": 236,
    "Lemma 4": 42,
    "Weighted estimates": 56,
    "Theorem 4": 26,
    "Corollary": 50,
    "Theorem 5": 234,
    "Theorem R, ours": 46,
    "Theorem L, follower": 45,
    "Theorem L, shares": 15,
    "Theorem L, squares": 13,
    "Theorem H, chance": 2,
    "Live, late": 100,
    "Live, lost": 116,
    "Live, repeated": 204,
    "Live, unavailable": 42,
    "Live, alarms": 80,
    "Live, false alarms": 67,
}
"""Processor time of the quick trials of each claim, mutations included, in units of the yardstick.

Measured on 2026-11-18, in one process, with the yardstick before and after each claim.
"""
START = 2.5
"""Seconds until a new process has loaded what it needs."""
OFF = 2.0
"""By which factor the forecast may be off: other programs use the machine too, and trials do not divide evenly."""


class Duration(NamedTuple):
    """A forecast of how long trials take."""

    seconds: float
    low: float
    high: float
    workers: int


def yardstick() -> float:
    """Seconds that the yardstick takes on this machine now: the median, so other programs count, but no hiccup."""
    trial = claim(YARDSTICK).trial
    found: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Motionless)
        trial(None, RUNS)  # loads what it needs
        while sum(found) < SECONDS:
            start = time.perf_counter()
            trial(None, RUNS)
            found.append(time.perf_counter() - start)
    return statistics.median(found)


def weight(tried: Claim, full: bool) -> float:
    """How many yardsticks the trials of a claim take; one that was never measured is taken for an average one."""
    known = WEIGHTS.get(tried.name, sum(WEIGHTS.values()) / len(WEIGHTS))
    each = (None, *tried.mutations)
    runs = [sum(runs_of(tried, mode, mutation) for mutation in each) for mode in (full, False)]
    return known * runs[0] / runs[1]


def estimate(claims: Sequence[Claim], full: bool, workers: int | None = None, unit: float | None = None) -> Duration:
    """How long the trials of claims take.

    Parameters
    ----------
    claims, full, workers
        As for `verify`.
    unit
        Seconds that the yardstick takes; measured, if not given.

    Examples
    --------
    >>> found = estimate([claim("Lemma 1"), claim("Lemma 2")], full=False, workers=1, unit=0.05)
    >>> 0.5 < found.seconds < 10, found.low < found.seconds < found.high
    (True, True)
    """
    unit = yardstick() if unit is None else unit
    trials = sum(1 + len(tried.mutations) for tried in claims)
    used = min(workers or os.cpu_count() or 1, 10**6)
    weights = [weight(tried, full) for tried in claims]
    longest = max((one / (1 + len(tried.mutations)) for one, tried in zip(weights, claims, strict=True)), default=0.0)
    seconds = unit * max(sum(weights) / min(used, trials), longest) + (START if used > 1 else 0.0)
    return Duration(seconds, seconds / OFF, seconds * OFF, used)
