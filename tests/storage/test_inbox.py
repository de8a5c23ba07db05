"""Decisions share a row of the inbox, in their order."""

from __future__ import annotations

from typing import Any

from msgspec.json import decode

from surefoot.storage.inbox import DECIDED, IN_ONE_ROW, REQUEST, call, together


def row(experiment: int, body: Any, kind: str = DECIDED, key: str | None = None) -> dict[str, Any]:
    return call(experiment, 1, 0, kind, 0.0, body, (0, "live"), key)[1]


def test_decisions_that_follow_one_another_share_a_row() -> None:
    rows = [
        row(1, [1]),
        row(1, [2, 3]),
        row(2, [4]),
        row(1, [5]),
        row(1, {}, REQUEST),
        row(1, [6]),
        row(1, [7], key="k"),
    ]
    written = together(rows)
    assert [decode(one["body"]) for one in written] == [[1, 2, 3], [4], [5], {}, [6], [7]]
    assert [one["key"] for one in written] == [None] * 5 + ["k"]
    assert rows[0]["body"] == [1], "what callers are answered with is left alone"
    assert all("drawn_in" not in one for one in written)


def test_a_row_does_not_grow_for_ever() -> None:
    assert len(together([row(1, [i]) for i in range(IN_ONE_ROW + 1)])) == 2
