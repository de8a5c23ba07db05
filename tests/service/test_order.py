"""Outcomes whose delay depends on them, over HTTP: bad news comes late, and safety does not suffer."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from surefoot.experiments.order import Order, Pending
from tests.service.conftest import Api

LIMIT, COSTS, QUALITY = 0.3, {"bold": 0.5, "base": 0.1}, {"bold": 0.9, "base": 0.2}
BATCH, LATE, CALLS = 20, 5, 100


def shares_over_the_limit(api: Api, monkeypatch: pytest.MonkeyPatch) -> float:
    """Play 2,000 rounds; a miss is reported 100 rounds late. The share of rounds whose mean cost is too high."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "urandom", lambda n: bytes(n))  # the draws are the same in every run
        api.create(
            name="order", arms=["bold", "base"], objective={"maximise": "quality"}, baseline="base",
            guardrails=[{"name": "miss", "at_most": LIMIT}], baseline_costs={"miss": COSTS["base"]},
        )  # fmt: skip
    generator, over = np.random.default_rng(5), 0
    late: list[list[dict[str, object]]] = [[] for _ in range(LATE)]
    for _ in range(CALLS):
        strategy = api.ok("GET", "/v1/experiments/order/strategy")["strategy"]
        over += sum(strategy[arm] * COSTS[arm] for arm in COSTS) > LIMIT + 1e-9
        now: list[dict[str, object]] = []
        late.append([])
        for decision in api.decide("order", count=BATCH):
            miss = bool(generator.random() < COSTS[decision["arm"]])
            item = {"id": decision["id"], "outcome": {"quality": QUALITY[decision["arm"]], "miss": miss}}
            (late[-1] if miss else now).append(item)
        items = now + late.pop(0)
        if items:
            taken = api.ok("POST", "/v1/feedback", {"items": items})["items"]
            assert {one.get("status") for one in taken} == {"accepted"}
    return over / CALLS


def test_bad_news_that_comes_late_does_not_mislead(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarms: none in 1 - delta of the runs, and this run is always the same one."""
    assert shares_over_the_limit(api, monkeypatch) == 0.0


def test_in_the_order_of_arrival_it_would(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: feedback is learnt when it comes. (The watch then holds the experiment, so this does not last.)"""

    def arrived(self: Order, arm: str) -> Iterator[Pending]:
        queue = self._queues[arm]
        for pending in [one for one in queue if one.settled]:
            queue.remove(pending)
            pending.queued = False
            yield pending

    monkeypatch.setattr(Order, "released", arrived)
    assert shares_over_the_limit(api, monkeypatch) > 0.05
