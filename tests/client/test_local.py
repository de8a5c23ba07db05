"""Drawing in the caller's process: from what, until when, logged in which order, and reported after that."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from surefoot.client import NoAnswer, ServiceError, Stopped
from surefoot.client.local import Drawer, Moment
from surefoot.client.protocol import Answer
from tests.client.conftest import Dropped, Fake, Make, eventually, problem
from tests.servers import GOOD, Server

SKEW = -5_000.0  # the clock of the fake service is slow


class Learner:
    """What a fake service knows of one experiment."""

    def __init__(self, fake: Fake) -> None:
        self.strategy: dict[str, float] = {"fast": 0.2, "balanced": 0.3, "in-house": 0.5}
        self.epoch, self.mode, self.lease, self.blocks = 0, "live", 60.0, 0
        self.dead = self.mute = False  # whether it answers nothing, or only does not take in decisions
        self.refused: set[str] = set()
        self.logged: list[dict[str, Any]] = []
        self.reported: list[str] = []
        self.too_early: list[str] = []
        fake.answer = self.answer

    def answer(self, method: str, path: str, body: Any) -> Any:
        if self.dead:
            raise Dropped
        path, _, query = path.partition("?")
        match path.split("/")[-1]:
            case "strategy":
                tag = f'"{self.epoch}-{self.mode}-{sorted(self.strategy.items())}"'
                if query and query.startswith("wait"):
                    time.sleep(0.05)
                    return 304, b"", {"ETag": tag}
                return 200, {"strategy": self.strategy, "safe_weight": 0.4, "epoch": self.epoch, "rounds": 7,
                             "mode": self.mode, "lease": time.time() + SKEW + self.lease,
                             "lease_seconds": self.lease}, {"ETag": tag}  # fmt: skip
            case "blocks":
                self.blocks += 1
                return 201, {"prefix": "5ca1ab1e", "block": self.blocks, "timeout": 600.0}
            case "drawn":
                if self.mute:
                    return 503, problem("busy", status=503), {"Retry-After": "0"}
                return 200, {"items": [self.take(item) for item in body["items"]]}
            case "feedback":
                ids = [path.split("/")[-2]] if method == "PUT" else [item["id"] for item in body["items"]]
                self.too_early += set(ids) - {one["id"] for one in self.logged}
                self.reported += ids
                taken = [{"id": id, "status": "accepted"} for id in ids]
                return 200, taken[0] if method == "PUT" else {"items": taken}
        return 200, {"experiment": {"baseline": "in-house"}}

    def take(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["id"] in self.refused:
            return {"id": item["id"], "problem": problem("invalid", "it is refused", 422)}
        if item["id"] in [one["id"] for one in self.logged]:
            return {"id": item["id"], "status": "replayed"}
        self.logged.append(item)
        return {"id": item["id"], "status": "logged"}


@pytest.fixture
def learner(fake: Fake) -> Learner:
    return Learner(fake)


def test_decisions_are_drawn_here_and_logged_in_order(fake: Fake, learner: Learner, make: Make) -> None:
    client = make(fake.address, local=True, flush_every=0.05)
    found = [client.decide("routing") for _ in range(500)] + client.decide("routing", n=1_500)
    assert [one.id for one in found] == [f"5ca1ab1e-1.{i}" for i in range(2_000)]
    drawn = Counter(one.arm for one in found)
    for arm, p in learner.strategy.items():
        assert abs(drawn[arm] - 2_000 * p) < 5 * (2_000 * p * (1 - p)) ** 0.5
    for one in reversed(found):
        client.feedback(one.id, GOOD)
    assert client.flush(30)
    assert [one["id"] for one in learner.logged] == [one.id for one in found], "not in the order of the outcomes"
    assert sorted(learner.reported) == sorted(str(one.id) for one in found)
    assert learner.too_early == []
    asked = [path for path in fake.paths() if path.endswith("/decisions")]
    assert asked == []
    entry, now = learner.logged[0], time.time() + SKEW
    assert set(entry) == {"id", "arm", "propensity", "safe_weight", "mode", "epoch", "at", "due"}
    assert entry["propensity"] == learner.strategy[entry["arm"]]
    assert (entry["safe_weight"], entry["mode"], entry["epoch"]) == (0.4, "live", 0)
    assert entry["due"] == found[0].due == pytest.approx(entry["at"] + 600.0)
    assert now - 60 < entry["at"] < now, "by the clock of the service"
    assert client.dropped == {}


def test_logging_is_not_brought_on_by_outcomes(fake: Fake, learner: Learner, make: Make) -> None:
    client = make(fake.address, local=True, flush_every=1.5)
    decision = client.decide("routing")
    for _ in range(1_000):  # a whole batch, which is sent at once as a rule
        client.feedback(decision.id, GOOD)
    assert not client.flush(0.1)
    assert not learner.logged
    assert not learner.reported
    assert client.report(client.decide("routing", n=2)[-1].id, GOOD) == "accepted"
    assert client.flush(20)
    assert len(learner.logged) == 3
    assert learner.too_early == []


def test_what_is_not_acknowledged_is_logged_again(fake: Fake, learner: Learner, make: Make) -> None:
    client = make(fake.address, local=True)
    client.decide("routing")
    learner.mute = True
    for decision in client.decide("routing", n=5):
        client.feedback(decision.id, GOOD)
    time.sleep(0.3)
    assert learner.reported == []
    learner.mute = False
    assert client.flush(20)
    assert [one["id"] for one in learner.logged] == [f"5ca1ab1e-1.{i}" for i in range(6)]
    assert len(learner.reported) == 5
    assert learner.too_early == []


def test_a_decision_that_could_not_be_logged_is_never_reported(fake: Fake, learner: Learner, make: Make) -> None:
    learner.refused = {"5ca1ab1e-1.1"}
    client = make(fake.address, local=True)
    decisions = client.decide("routing", n=3)
    for decision in decisions:
        client.feedback(decision.id, GOOD)
    assert client.flush(20)
    client.feedback(decisions[1].id, GOOD)
    assert client.flush(20)
    assert client.dropped == {"unlogged": 2}
    assert sorted(learner.reported) == ["5ca1ab1e-1.0", "5ca1ab1e-1.2"]
    with pytest.raises(ServiceError, match="could not be logged, so it is not reported"):
        client.report(decisions[1].id, GOOD)


def test_the_baseline_is_served_when_the_lease_is_over(fake: Fake, learner: Learner, make: Make) -> None:
    learner.lease = 0.5
    client = make(fake.address, local=True, timeout=0.3, retries=0)
    for _ in range(8):  # the lease is renewed for as long as the service answers
        assert client.decide("routing").logged
        time.sleep(0.1)
    assert client.flush(20)
    learner.dead = True
    eventually(lambda: not client.decide("routing").logged, 5)
    assert client.decide("routing") == (None, "in-house", 1.0, None, "safe", None, None, False)
    learner.dead = False
    eventually(lambda: bool(client.decide("routing").logged))


def test_nothing_was_ever_fetched(fake: Fake, learner: Learner, make: Make) -> None:
    learner.dead = True
    client = make(fake.address, local=True, retries=0, baselines={"routing": "in-house"})
    assert client.decide("routing").mode == "safe"
    with pytest.raises(NoAnswer):
        client.decide("other")


def test_a_new_epoch_and_a_hold_reach_those_who_draw(fake: Fake, learner: Learner, make: Make) -> None:
    client = make(fake.address, local=True)
    assert client.decide("routing").epoch == 0
    learner.epoch, learner.mode, learner.strategy = 1, "safe", {"fast": 0.0, "balanced": 0.0, "in-house": 1.0}
    learner.lease = 0.2

    def renewed() -> bool:
        client._core.drawers["routing"]._snapshot = None
        return bool(client.decide("routing").epoch == 1)

    eventually(renewed)
    decision = client.decide("routing")
    assert (decision.arm, decision.mode, decision.propensity) == ("in-house", "safe", 1.0)
    assert not decision.id.startswith("5ca1ab1e-1."), "ids of its own, as it may be due at another time"


@pytest.mark.parametrize("where", ["/drawn", "/strategy"])
def test_a_stopped_experiment_is_stopped_here_too(where: str, fake: Fake, learner: Learner, make: Make) -> None:
    client = make(fake.address, local=True)
    client.decide("routing")
    gone = (410, problem("stopped", "enough", 410))
    fake.answer = lambda method, path, body: gone if where in path else learner.answer(method, path, body)
    client.decide("routing")

    def stopped() -> bool:
        try:
            client.decide("routing")
        except Stopped:
            return True
        return False

    eventually(stopped)


@pytest.mark.parametrize(
    "garbage", [{}, {"strategy": {"fast": 2.0}}, {"strategy": {"fast": 0.5}}, {"strategy": {"fast": float("nan")}}]
)
def test_a_strategy_that_makes_no_sense_is_not_drawn_from(garbage: Any, fake: Fake, make: Make) -> None:
    whole = {"strategy": {"fast": 1.0}, "safe_weight": 0.0, "epoch": 0, "rounds": 0, "mode": "live",
             "lease": time.time() + 60, "lease_seconds": 60.0}  # fmt: skip
    block = (201, {"prefix": "5ca1ab1e", "block": 1, "timeout": 600.0})
    options: dict[str, Any] = {"local": True, "retries": 0, "baselines": {"routing": "in-house"}, "flush_every": 60.0}
    fake.answer = lambda method, path, body: (
        block if method == "POST" else (200, {**whole, **garbage} if garbage else {})
    )
    assert not make(fake.address, **options).decide("routing").logged
    fake.answer = lambda method, path, body: block if method == "POST" else (200, whole)
    assert make(fake.address, **options).decide("routing").logged, "the control"


def test_the_lease_counts_from_when_the_request_was_sent() -> None:
    body = b'{"strategy": {"a": 1}, "safe_weight": 0, "epoch": 0, "mode": "live", "lease": 99, "lease_seconds": 10}'
    drawer, now = Drawer(), Moment.now()
    drawer.take_block(Answer(201, {}, b'{"prefix": "5ca1ab1e", "block": 1, "timeout": 1}'), 0)
    for age, valid in ((9.0, True), (11.0, False)):
        drawer.take(Answer(200, {"etag": '"x"'}, body), now.after(-age))
        assert (drawer.draw(1) is not None) == valid
    drawer.take(Answer(304, {}, b""), now.after(-9.0))
    assert drawer.draw(1) is not None
    drawer.take(Answer(304, {}, b""), Moment(now.steady - 9.0, now.wall - 11.0))  # the machine slept for a while
    assert drawer.draw(1) is None


def test_the_service_itself(server: Server, name: str, make: Make) -> None:
    if "/v1/experiments/{name}/drawn" not in server.call("GET", "/openapi.json")["paths"]:
        pytest.skip("the service does not take in decisions that were drawn elsewhere")
    client = make(server.address, server.key, local=True)
    decisions = [client.decide(name) for _ in range(300)]
    assert all(one.logged for one in decisions)
    for one in decisions[:-1]:
        client.feedback(one.id, GOOD)
    assert client.flush(20)
    assert client.report(decisions[-1].id, GOOD) == "accepted"
    rounds = server.call("GET", f"/v1/experiments/{name}/rounds")
    assert sorted(one["id"] for one in rounds) == sorted(str(one.id) for one in decisions)
    assert client.dropped == {}
