"""A short soak; `python -m benchmarks.soak_http` is the long one."""

from __future__ import annotations

from pathlib import Path

from tests.service.soak import soak


def test_an_hour_in_ten_seconds(tmp_path: Path) -> None:
    found = soak(tmp_path, seconds=10.0, hours=1.0, restarts=2, seed=1)
    assert (found.lost, found.twice, found.mistaken, found.unsafe) == (0, 0, 0, 0)
    assert found.restarts == 2  # the second is a kill -9
    assert found.answers["accepted"] > 0
