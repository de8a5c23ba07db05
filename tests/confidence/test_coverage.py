"""How often the bounds miss the truth, at any time and for any arm: no more often than they may.

Nine laws at once, an arm and constraint each, in `RUNS` runs of up to `LENGTH` observations of each. A run misses if
ever any bound is on the wrong side of its mean, and may with probability delta = 0.5; a lower bound, or an upper one,
with 0.25. A bound is refused if more runs miss than would with probability `ALARM` if it just kept its promise: 1e-3
over all tests here.

The control is the same bound asking for less evidence: at thirty times its level or, for bounds that a union over time
makes far too careful, with a small part of the squared radius. Controls miss in 95 % of the runs or more; already one
that misses in 80 % would be caught with probability 0.999.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from surefoot.confidence import FAMILY
from surefoot.kernels.compile import compiled_apart
from surefoot.kernels.costs import PAPER, CostBound, KnownCosts, observe, unknown_costs
from surefoot.rules import Floats
from tests.confidence.streams import LAWS, problem_of

RUNS, LENGTH, DELTA = 150, 2000, 0.5
PROBLEM = problem_of(DELTA, horizon=3 * LENGTH, n_arms=3, n_constraints=3)
MEANS = np.reshape([mean for mean, _ in LAWS.values()], (3, 3))
ALARM = 1e-3 / (6 * len(FAMILY))


@compiled_apart
def misses(known: KnownCosts, costs: Floats, means: Floats, row: Floats, stop_at: float) -> int:
    """1 if a lower bound has ever missed, 2 if an upper bound has, 3 if both have.

    An arm is no longer observed once its first mean looks lucky: so many standard errors, of a coin, below the truth.
    """
    missed_low, missed_high = 0, 0
    for arm in range(means.shape[1]):
        for t in range(costs.shape[0]):
            for i in range(row.size):
                row[i] = costs[t, i, arm]
            observe(known, arm, row)
            for i in range(row.size):
                if known.lower[i, arm] > means[i, arm]:
                    missed_low = 1
                if known.upper[i, arm] < means[i, arm]:
                    missed_high = 2
            luck = (means[0, arm] - known.means[0, arm]) * np.sqrt(known.counts[arm])
            if luck > stop_at * np.sqrt(means[0, arm] * (1.0 - means[0, arm])) and t >= 10:
                break
    return missed_low + missed_high


def draw(rng: np.random.Generator) -> Floats:
    columns = [law(rng, LENGTH) for _, law in LAWS.values()]
    return np.ascontiguousarray(np.reshape(columns, (3, 3, LENGTH)).transpose(2, 0, 1))


def missing_runs(bound: CostBound, stop_at: float, seed: int = 0, runs: int = RUNS) -> tuple[int, int, int]:
    """In how many runs a bound, a lower bound, an upper bound has missed."""
    rng, row, found = np.random.default_rng(seed), np.zeros(3), []
    for _ in range(runs):
        fresh = unknown_costs(PROBLEM.n_arms, PROBLEM.n_constraints, bound)
        found.append(misses(fresh, draw(rng), MEANS, row, stop_at))
    return sum(one > 0 for one in found), sum(one & 1 for one in found), sum(one > 1 for one in found)


def weakened(bound: CostBound) -> CostBound:
    """The control: a bound that asks for less evidence."""
    if bound.shares.size:
        return bound._replace(shares=bound.shares + np.log(30.0))
    return bound._replace(scale=bound.scale / (100.0 if bound.kind == PAPER else 16.0))


def most_misses(share: float) -> int:
    """As many as there may be with that probability of a miss."""
    return int(binom.isf(ALARM, RUNS, share))


@pytest.mark.parametrize("stop_at", [math.inf, 1.5], ids=["all observed", "lucky arms dropped"])
@pytest.mark.parametrize("name", FAMILY)
def test_no_more_misses_than_delta(name: str, stop_at: float) -> None:
    missed, low, high = missing_runs(FAMILY[name]().bound(PROBLEM), stop_at)
    assert missed <= most_misses(DELTA)
    assert low <= most_misses(DELTA / 2)
    assert high <= most_misses(DELTA / 2)


@pytest.mark.parametrize("name", FAMILY)
def test_less_evidence_is_caught(name: str) -> None:
    missed, _, _ = missing_runs(weakened(FAMILY[name]().bound(PROBLEM)), math.inf)
    assert missed > most_misses(DELTA)
    assert missed >= 0.95 * RUNS
    assert binom.sf(most_misses(DELTA), RUNS, 0.8) > 0.999
