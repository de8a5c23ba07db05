"""The record of losses: its test for change raises few false alarms, and finds changes; a lax one is caught."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from surefoot.kernels.layout import zeros
from surefoot.kernels.record import Record, enter, optimistic
from surefoot.kernels.types import Floats

HORIZON = 4000
STREAMS = 400


def alarms(losses: Floats, log_horizon: float = np.log(HORIZON)) -> int:
    """How many streams, one a row, raise an alarm."""
    raised = 0
    for stream in losses:
        record = zeros(Record, K=1)
        raised += any(enter(record, 0, loss, log_horizon) for loss in stream.tolist())
    return raised


@pytest.mark.parametrize("mean", [0.01, 0.1, 0.5, 0.9])
def test_losses_that_stand_still_raise_few_alarms(mean: float) -> None:
    """At most 1 % of streams by the docstring: refuted beyond the 1e-3 quantile of 400, which a lax test passes."""
    most = int(binom.isf(1e-3, STREAMS, 0.01))
    losses = (np.random.default_rng(11).random((STREAMS, HORIZON)) < mean).astype(float)
    assert alarms(losses) <= most
    if mean == 0.5:
        assert alarms(losses, log_horizon=-1.0) > most  # evidence of 2.7 in place of 12


def test_small_losses_of_any_kind_raise_few_alarms() -> None:
    losses = np.random.default_rng(12).beta(2.0, 5.0, (STREAMS, HORIZON))
    assert alarms(losses) <= int(binom.isf(1e-3, STREAMS, 0.01))


@pytest.mark.parametrize(("before", "after", "within"), [(0.2, 0.8, 200), (0.8, 0.5, 500), (0.05, 0.25, 500)])
def test_a_change_is_found_soon(before: float, after: float, within: int) -> None:
    """Of 100 streams with a change after 1,000 losses, 95 or more are found in time; none that stays the same."""
    means = np.r_[np.full(1000, before), np.full(within, after)]
    chance = np.random.default_rng(13).random((100, means.size))
    assert alarms((chance < means).astype(float)) >= 95
    assert alarms((chance < before).astype(float)) <= 2


def test_what_is_recorded() -> None:
    record = zeros(Record, K=2)
    losses = [0.3, 0.9, 0.0, 1.0]
    for loss in losses:
        assert not enter(record, 1, loss, 5.0)
    assert record.seen.tolist() == [0, 4]
    assert record.total[1] == pytest.approx(2.2)
    means = [0.5, 0.8 / 2, 1.7 / 3, 1.7 / 4]
    assert record.squares[1] == pytest.approx(sum((a - b) ** 2 for a, b in zip(losses, means, strict=True)))
    assert optimistic(record, 0, 3.0) == -1.0
    radius = np.sqrt(2 * 3.0 * record.squares[1]) / 4 + 3.0 / 8
    assert optimistic(record, 1, 3.0) == pytest.approx(0.55 - min(1.0, radius))
