"""Outcomes whose delay depends on them, over HTTP: bad news comes late, and safety does not suffer.

`benchmarks/order_http.py` is the same with hundreds of runs.
"""

from __future__ import annotations

import pytest

from tests.service.conftest import Api
from tests.service.order import LATE, in_order_of_arrival, share_over_the_limit

RUNS, CALLS = 10, 10
DELTA = 0.01
"""So small that chance makes none of so few runs unsafe, one time in ten at most."""


def unsafe_runs(api: Api, late: int) -> int:
    return sum(share_over_the_limit(api, seed, CALLS, late, DELTA) > 0 for seed in range(RUNS))


@pytest.mark.parametrize("late", [0, LATE])
def test_bad_news_that_comes_late_does_not_mislead(api: Api, late: int) -> None:
    """No run is unsafe, whether misses are reported at once or late. The runs are always the same ones."""
    assert unsafe_runs(api, late) == 0


def test_in_the_order_of_arrival_it_would(api: Api) -> None:
    """The control: feedback is learnt when it comes, and all but every run is unsafe."""
    with in_order_of_arrival():
        assert unsafe_runs(api, LATE) >= RUNS - 1
