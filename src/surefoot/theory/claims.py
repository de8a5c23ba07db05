"""Claims: sentences of the paper, and how a simulation confirms them, refutes them or leaves them open.

A claim is tried on the unchanged policy, and on mutations of it that are wrong in one way each. A claim that survives
counts as held only if every mutation is refuted. Otherwise the trial is too weak, and nothing is decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import binom

from surefoot.analysis.statistics import mean_interval, share_interval

Verdict = Literal["held", "refuted", "not decided"]

LEVEL = 1e-3
"""The chance with which a test refutes a true claim; where a trial joins several tests, their chances add up."""


class Finding(NamedTuple):
    """The result of a trial."""

    verdict: Verdict
    figures: str


class Outcome(NamedTuple):
    """One run: smallest slack of what may fail by chance, whether it was clean, smallest slack of what that implies.

    A NaN slack is a failure.
    """

    slack: float
    clean: bool = True
    path: float = math.inf

    @property
    def fails(self) -> bool:
        """True if something that must hold does not."""
        return not (self.slack >= 0.0 and self.path >= 0.0)

    @property
    def breaks(self) -> bool:
        """True if the clean event held, but something that it implies did not."""
        return self.clean and not self.path >= 0.0


@dataclass(frozen=True)
class Claim:
    """A sentence, and its trial.

    Attributes
    ----------
    name, sentence
        Its place in the paper, and what it says, in plain words.
    family
        The scenarios on which it is tried.
    pathwise
        The form that holds on every path (of the clean event), or "" if there is none.
    test
        The statistical test: what is counted or fitted, and when the claim is refuted.
    trial
        Called with the policy classes' mutation (None for the unchanged policy) and the number of runs.
    runs
        How many for a quick trial, and for a full one.
    mutations
        The mutations that must be refuted, by their description.
    """

    name: str
    sentence: str
    family: str
    pathwise: str
    test: str
    trial: Callable[[Any, int], Finding]
    runs: tuple[int, int]
    mutations: Mapping[str, Any] = field(default_factory=dict)


def most_failures(runs: int, probability: float) -> int:
    """The largest number of failures that leaves "fails with at most this probability" standing, at `LEVEL`.

    Examples
    --------
    >>> [most_failures(n, 0.05) for n in (60, 100, 200, 500)]
    [9, 13, 21, 41]
    """
    return int(binom.isf(LEVEL, runs, probability))


def power(runs: int, probability: float) -> float:
    """The chance of refuting the claim if failures are twice as likely as it says.

    Examples
    --------
    >>> f"{power(500, 0.05):.2f}"
    '0.90'
    """
    return float(binom.sf(most_failures(runs, probability), runs, min(1.0, 2.0 * probability)))


def rarely(outcomes: Sequence[Outcome], probability: float) -> Finding:
    """Refute "fails with at most this probability"; one failure is enough for what the clean event implies.

    Held once the exact upper 95 % limit of the share of failures is below that probability.
    """
    runs, failures = len(outcomes), sum(outcome.fails for outcome in outcomes)
    clean = [outcome.path for outcome in outcomes if outcome.clean]
    broken, most = sum(outcome.breaks for outcome in outcomes), most_failures(runs, probability)
    figures = f"{failures} of {runs} runs fail (probability at most {probability:.2g}: refuted from {most + 1} on)"
    if broken:
        return Finding("refuted", f"{figures}; {broken} of {len(clean)} clean paths, by up to {-min(clean):.2g}")
    if failures > most:
        return Finding("refuted", figures)
    limit = share_interval(failures, runs, 0.9).high  # one-sided 95 %
    least = min(clean, default=math.nan)
    figures += f"; least slack of {len(clean)} clean paths {least:.2g}" if math.isfinite(least) else ""
    return Finding("held" if limit <= probability and clean else "not decided", figures)


def always(outcomes: Sequence[Outcome]) -> Finding:
    """Refute a statement about every clean path by a single failure."""
    clean = [outcome.slack for outcome in outcomes if outcome.clean]
    broken = sum(outcome.fails for outcome in outcomes if outcome.clean)
    if broken:
        return Finding("refuted", f"{broken} of {len(clean)} clean runs fail, by up to {-min(clean):.2g}")
    figures = f"0 of {len(clean)} clean runs fail; least slack {min(clean, default=math.nan):.2g}"
    return Finding("held" if clean else "not decided", figures)


def slope_within(places: Sequence[float], values: Any, low: float, high: float, what: str) -> Finding:
    """Fit log value = slope log place to each run (a row of values), and test whether the mean slope is in a range.

    By Student's interval at level 1 - `LEVEL` over the runs: held if inside, refuted if outside, else not decided.
    Where a value is not positive no slope can be fitted, and nothing is decided.
    """
    table = np.asarray(values, np.float64)
    if not (table > 0.0).all():
        return Finding("not decided", f"{what} is not positive: {table.min():.3g}")
    logs = np.log(np.asarray(places, np.float64))
    centred = logs - logs.mean()
    slopes = np.log(table) @ centred / (centred @ centred)
    found = mean_interval(slopes, 1.0 - LEVEL)
    figures = (
        f"slope of {what} {found.value:.3f}, interval [{found.low:.3f}, {found.high:.3f}], wanted [{low:g}, {high:g}]"
    )
    if low <= found.low and found.high <= high:
        return Finding("held", figures)
    return Finding("refuted" if found.high < low or found.low > high else "not decided", figures)


def at_most(values: Any, what: str) -> Finding:
    """Refute "the mean is at most 0", by Student's interval at level `LEVEL` over the runs."""
    found = mean_interval(values, 1.0 - 2.0 * LEVEL)
    figures = f"{what}: mean {found.value:.4g}, interval [{found.low:.4g}, {found.high:.4g}], wanted at most 0"
    if found.low > 0.0:
        return Finding("refuted", figures)
    return Finding("held" if found.high <= 0.0 else "not decided", figures)


def both(*findings: Finding) -> Finding:
    """Join several results: refuted if one is, held if all are."""
    figures = "; ".join(finding.figures for finding in findings)
    found = {finding.verdict for finding in findings}
    verdict: Verdict = "refuted" if "refuted" in found else "not decided" if "not decided" in found else "held"
    return Finding(verdict, figures)
