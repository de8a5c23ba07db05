import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from surefoot.analysis.statistics import Interval, mean_interval, share_interval

ALARM = 1e-6
"""False-alarm rate of the tests of coverage."""
LEVELS = [0.5, 0.9, 0.95, 0.999]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("trials", [1, 2, 7, 20, 59, 1000])
def test_shares_have_the_interval_of_clopper_and_pearson(trials: int, level: float) -> None:
    for successes in range(0, trials + 1, max(1, trials // 20)):
        wanted = stats.binomtest(successes, trials).proportion_ci(level, method="exact")
        found = share_interval(successes, trials, level)
        assert found.value == successes / trials
        assert found.low == pytest.approx(wanted.low, rel=1e-9, abs=1e-12)
        assert found.high == pytest.approx(wanted.high, rel=1e-9, abs=1e-12)


def test_the_level_is_95_percent_if_not_said() -> None:
    assert share_interval(3, 20) == share_interval(3, 20, 0.95)
    assert mean_interval([1, 2, 4]) == mean_interval([1, 2, 4], 0.95)


def test_shares_of_0_and_1_end_there() -> None:
    assert share_interval(0, 10).low == 0.0
    assert share_interval(10, 10).high == 1.0


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), level=st.sampled_from(LEVELS))
def test_means_have_the_interval_of_student(values: list[float], level: float) -> None:
    found = mean_interval(values, level)
    mean, error = np.mean(values), stats.sem(values)
    low, high = stats.t.interval(level, len(values) - 1, loc=mean, scale=error) if error else (mean, mean)
    assert found == pytest.approx((mean, low, high), rel=1e-9, abs=1e-6)


def test_a_single_value_has_no_interval() -> None:
    value, low, high = mean_interval([3.0])
    assert value == 3.0
    assert math.isnan(low)
    assert math.isnan(high)


# Coverage: how often an interval holds the truth. Each test fails for right intervals with probability ALARM over
# seeds, and must catch an interval that is too narrow.


def wald(successes: int, trials: int) -> Interval:
    """What textbooks have: far too narrow for rare events."""
    share = successes / trials
    half = 1.96 * math.sqrt(share * (1 - share) / trials)
    return Interval(share, share - half, share + half)


def normal(values: np.ndarray) -> Interval:
    """As if the variance were known."""
    half = 1.96 * values.std(ddof=1) / math.sqrt(values.size)
    return Interval(values.mean(), values.mean() - half, values.mean() + half)


def test_shares_are_covered() -> None:
    # at least 95 % of the time, so the test is one-sided
    counts = np.random.default_rng(1).binomial(20, 0.05, 4000)

    def p(interval: Callable[[int, int], Interval]) -> float:
        held = sum(one.low <= 0.05 <= one.high for one in (interval(int(count), 20) for count in counts))
        return float(stats.binomtest(held, len(counts), 0.95, alternative="less").pvalue)

    assert p(share_interval) > ALARM
    assert p(wald) < ALARM


@pytest.mark.parametrize("trials", [1, 10, 59])
def test_no_share_is_covered_less_than_told(trials: int) -> None:
    # exact: no chance in it
    intervals = [share_interval(count, trials) for count in range(trials + 1)]
    for share in np.linspace(0, 1, 201):
        held = [one.low <= share <= one.high for one in intervals]
        assert stats.binom.pmf(np.arange(trials + 1), trials, share)[held].sum() >= 0.95


def test_means_are_covered() -> None:
    # just 95 % of the time for normal values, so the test is two-sided
    samples = np.random.default_rng(2).normal(3.0, 2.0, (4000, 5))

    def p(interval: Callable[[np.ndarray], Interval]) -> float:
        held = sum(one.low <= 3.0 <= one.high for one in map(interval, samples))
        return float(stats.binomtest(held, len(samples), 0.95).pvalue)

    assert p(mean_interval) > ALARM
    assert p(normal) < ALARM
    assert p(lambda values: mean_interval(values, 0.99)) < ALARM  # nor may it be too wide
