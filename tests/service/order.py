"""Outcomes whose delay depends on them, over HTTP: how often is what is served over the limit?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from surefoot.experiments.order import Order, Pending
from tests.service.conftest import Api

LIMIT, COSTS, QUALITY = 0.3, {"bold": 0.5, "base": 0.1}, {"bold": 0.9, "base": 0.2}
BATCH = 50
"""Decisions in a call: all of them are drawn from one strategy."""
LATE = 2
"""Calls after which a miss is reported: 100 decisions later. A hit is reported at once."""


def share_over_the_limit(api: Api, seed: int, calls: int, late: int = LATE, delta: float = 0.05) -> float:
    """Run an experiment; return the share of calls whose strategy costs more than the limit in truth."""
    name = f"order-{seed}"
    drawn = np.random.default_rng([seed, 2])
    with mock.patch.object(os, "urandom", drawn.bytes):  # the key of the draws: the same run for the same seed
        api.create(
            name=name, arms=["bold", "base"], objective={"maximise": "quality"}, baseline="base",
            guardrails=[{"name": "miss", "at_most": LIMIT}], baseline_costs={"miss": COSTS["base"]}, delta=delta,
        )  # fmt: skip
    generator, over = np.random.default_rng([seed, 1]), 0
    coming: list[list[dict[str, Any]]] = [[] for _ in range(late)]
    for _ in range(calls):
        strategy = api.ok("GET", f"/v1/experiments/{name}/strategy")["strategy"]
        over += sum(strategy[arm] * COSTS[arm] for arm in COSTS) > LIMIT + 1e-9
        now: list[dict[str, Any]] = []
        coming.append([])
        for decision in api.decide(name, count=BATCH):
            miss = bool(generator.random() < COSTS[decision["arm"]])
            item = {"id": decision["id"], "outcome": {"quality": QUALITY[decision["arm"]], "miss": miss}}
            (coming[-1] if miss else now).append(item)
        api.clock.time += 1.0
        items = now + coming.pop(0)
        if items:
            taken = api.ok("POST", "/v1/feedback", {"items": items})["items"]
            assert {one.get("status") for one in taken} == {"accepted"}, taken
    api.ok("POST", f"/v1/experiments/{name}/stop", {"reason": "the run is over"})
    return over / calls


def arrived(self: Order, arm: str) -> Iterator[Pending]:
    """`Order.released` broken on purpose: feedback is learnt when it comes."""
    queue = self._queues[arm]
    for pending in [one for one in queue if one.settled]:
        queue.remove(pending)
        pending.queued = False
        yield pending


def in_order_of_arrival() -> Any:
    """Break the rule while this context lasts."""
    return mock.patch.object(Order, "released", arrived)
