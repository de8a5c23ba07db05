"""A short soak; `python -m benchmarks.soak_http` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.soak import STEADY, Day, soak


def test_an_hour_in_ten_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control is a report that nobody sent, added to those that were acknowledged: that one alone is missed."""
    check = Day.check

    def checked(day: Day) -> None:
        day.made[STEADY]["nobody-1"], day.epochs["nobody-1"] = "taken", 1_000
        check(day)

    monkeypatch.setattr(Day, "check", checked)
    found = soak(tmp_path, seconds=10.0, hours=1.0, restarts=1, seed=1)
    assert (found.lost, found.twice, found.mistaken, found.unsafe) == (1, 0, 0, 0)
    assert found.restarts == 1  # a kill -9
    assert found.answers["accepted"] > 0
