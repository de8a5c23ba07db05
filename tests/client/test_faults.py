"""Both clients when things go wrong: nothing answers, nonsense is answered, answers are lost, the service is killed."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Any

import pytest

from surefoot.client import NoAnswer, ServiceError, Stopped
from surefoot.client.fallback import SHORTEST
from tests.client.conftest import Dropped, Fake, Make, dead_port, decided, eventually, problem
from tests.servers import GOOD, ROUTING, Server

BUSY = (503, problem("busy", "the service is starting", 503), {"Retry-After": "0"})


def in_turn(*answers: Any) -> Any:
    """Answers of a fake, one after the other; the last one for ever."""
    left = list(answers)

    def answer(method: str, path: str, body: Any) -> Any:
        found = left.pop(0) if len(left) > 1 else left[0]
        if found is Dropped:
            raise Dropped
        return found

    return answer


def taking(method: str, path: str, body: Any) -> Any:
    """Take all feedback."""
    return 200, {"items": [{"id": item["id"], "status": "accepted"} for item in body["items"]]}


# Deciding.


def test_a_dead_port_costs_little_and_serves_the_baseline(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    client = make(dead_port(), retries=1, baselines={"routing": "in-house", "mix": {"a": 0.25, "b": 0.75}})
    assert client.decide("routing") == (None, "in-house", 1.0, None, "safe", None, None, False)
    assert [one.arm for one in client.decide("routing", n=3)] == ["in-house"] * 3
    drawn = Counter(one.arm for one in client.decide("mix", n=2_000))
    assert 400 < drawn["a"] < 600  # five standard deviations
    assert {one.propensity for one in client.decide("mix", n=50) if one.arm == "a"} == {0.25}
    started = time.perf_counter()
    for _ in range(200):
        client.decide("routing")
    assert time.perf_counter() - started < 0.4
    with pytest.raises(NoAnswer, match="no baseline of other is known"):
        client.decide("other")
    with pytest.raises(NoAnswer, match="arms must include 'b', which the baseline of mix needs"):
        client.decide("mix", arms=["a"])
    assert "sf_key" not in caplog.text


def test_a_service_that_is_slow_is_not_waited_for_on_each_call(fake: Fake, make: Make) -> None:
    def slow(method: str, path: str, body: Any) -> Any:
        time.sleep(0.5)
        return 201, decided()

    fake.answer = slow
    client = make(fake.address, timeout=0.1, retries=1, baselines={"routing": "in-house"})
    assert not client.decide("routing").logged
    asked = len(fake.seen)
    assert asked == 2
    assert not client.decide("routing").logged
    assert len(fake.seen) == asked, "the breaker is open"


def test_the_breaker_lets_one_call_probe(fake: Fake, make: Make) -> None:
    fake.answer = in_turn(BUSY)
    client = make(fake.address, retries=0, baselines={"routing": "in-house"})
    assert not client.decide("routing").logged
    fake.answer = in_turn((201, decided()))
    assert not client.decide("routing").logged
    eventually(lambda: bool(client.decide("routing").logged), 10 * SHORTEST)
    assert client.decide("routing").logged
    assert client.decide("other").logged, "each experiment has its own"


@pytest.mark.parametrize("trouble", [BUSY, (429, problem("too-many"), {"Retry-After": "0"}), Dropped, (502, b"<html>")])
def test_trouble_and_then_an_answer(trouble: Any, fake: Fake, make: Make) -> None:
    fake.answer = in_turn(trouble, trouble, (201, decided("5ca1ab1e-7")))
    client = make(fake.address, baselines={"routing": "in-house"})
    assert client.decide("routing").id == "5ca1ab1e-7"
    keys = {one["idempotency-key"] for one in fake.headers}
    assert len(keys) == 1, "repetitions share their key"
    client.decide("routing")
    client.decide("routing", key="mine")
    assert len({one["idempotency-key"] for one in fake.headers}) == 3
    assert fake.headers[-1]["idempotency-key"] == "mine"


def test_the_service_says_when_to_come_back(fake: Fake, make: Make) -> None:
    fake.answer = in_turn((503, problem("busy"), {"Retry-After": "0.3"}), (201, decided()))
    client = make(fake.address, baselines={"routing": "in-house"})
    started = time.perf_counter()
    assert client.decide("routing").logged
    assert 0.3 <= time.perf_counter() - started < 5
    fake.answer = in_turn((503, problem("busy"), {"Retry-After": "3600"}), (201, decided()))
    started = time.perf_counter()
    assert not client.decide("routing").logged, "longer than the caller would wait"
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    "garbage",
    [
        b"", b"not json", b"[]", b"null", b'{"decisions": []}', b'{"decisions": [{"id": 3}]}', b"\xff\xfe",
        b'{"decisions": 7}',
        b'{"decisions": [{"id": "", "arm": "a", "propensity": 1, "epoch": 0, "mode": "", "due": 1}]}',
        b'{"decisions": [{"id": "a-1", "arm": "a", "propensity": 3, "epoch": 0, "mode": "live", "due": 1}]}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_garbage_is_no_answer(garbage: bytes, fake: Fake, make: Make) -> None:
    fake.answer = in_turn((201, garbage))
    client = make(fake.address, retries=1, baselines={"routing": "in-house"})
    assert not client.decide("routing").logged
    assert len(fake.seen) == 2


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "malformed"), (401, "unauthorised"), (404, "unknown"), (409, "unavailable"), (422, "invalid")],
)
def test_a_refusal_is_not_repeated(status: int, kind: str, fake: Fake, make: Make) -> None:
    fake.answer = in_turn((status, problem(kind, "it is so") | {"pointer": "/arms/0"}))
    client = make(fake.address, baselines={"routing": "in-house"})
    with pytest.raises(ServiceError, match="it is so") as caught:
        client.decide("routing")
    error = caught.value
    assert (error.status, error.type, error.detail, error.pointer) == (status, kind, "it is so", "/arms/0")
    assert len(fake.seen) == 1
    fake.answer = in_turn((status, b"<html>"))
    with pytest.raises(ServiceError, match=f"the answer {status} does not come from the service"):
        client.decide("routing")
    fake.answer = in_turn((410, problem("stopped")))
    with pytest.raises(Stopped):
        client.decide("routing")


def test_the_baseline_is_learnt_and_learnt_again(fake: Fake, make: Make) -> None:
    state: dict[str, Any] = {"epoch": 0, "baseline": "in-house", "dead": False}

    def answer(method: str, path: str, body: Any) -> Any:
        if state["dead"]:
            return BUSY
        if method == "GET":
            return 200, {"experiment": {"baseline": state["baseline"]}}
        return 201, decided(epoch=state["epoch"])

    fake.answer = answer
    client = make(fake.address, retries=0)
    for _ in range(3):
        client.decide("routing")
    assert len(fake.paths("GET")) == 1
    state.update(epoch=1, baseline={"fast": 1.0})
    client.decide("routing")
    assert len(fake.paths("GET")) == 2
    state["dead"] = True
    assert client.decide("routing").arm == "fast"


def test_what_may_have_been_carried_out_is_not_repeated(fake: Fake, make: Make) -> None:
    fake.answer = in_turn(Dropped, (201, {"name": "routing"}))
    client = make(fake.address)
    with pytest.raises(NoAnswer, match="it may have been carried out"):
        client.create(ROUTING)
    assert len(fake.seen) == 1
    fake.answer = in_turn(BUSY, (201, {"name": "routing"}))
    assert client.create(ROUTING) == {"name": "routing"}
    fake.answer = in_turn(Dropped, (200, {"name": "routing", "state": "held", "epoch": 0}))
    assert client.hold("routing", "twice is as good as once")["state"] == "held"


# Feedback.


def test_feedback_on_what_was_not_logged_is_counted(make: Make) -> None:
    client = make(dead_port(), baselines={"routing": "in-house"})
    decision = client.decide("routing")
    client.feedback(decision.id, GOOD)
    client.feedback(decision, GOOD)
    assert client.dropped == {"unlogged": 2}
    assert client.flush(0)


@pytest.mark.parametrize(
    "trouble",
    [BUSY, Dropped, (502, b"<html>"), (404, b"<html>"), (200, b"{}"), (200, {"items": []}), (200, b"[" * 9_999)],
)
def test_feedback_outlives_trouble(trouble: Any, fake: Fake, make: Make) -> None:
    answers = in_turn(trouble, trouble, taking)

    def answer(method: str, path: str, body: Any) -> Any:
        found = answers(method, path, body)
        return found(method, path, body) if callable(found) else found

    fake.answer = answer
    client = make(fake.address)
    for i in range(3):
        client.feedback(f"5ca1ab1e-{i}", GOOD)
    assert client.flush(20)
    assert client.dropped == {}
    assert {item["id"] for item in fake.seen[-1][2]["items"]} <= {f"5ca1ab1e-{i}" for i in range(3)}
    assert len(fake.seen) >= 3


def test_items_that_cannot_be_taken_now_are_sent_again(fake: Fake, make: Make) -> None:
    def answer(method: str, path: str, body: Any) -> Any:
        shut = len(fake.seen) < 3
        busy = {"problem": problem("busy", "the experiment is being changed", 503)}
        return 200, {
            "items": [
                {"id": item["id"], **(busy if shut and item["id"] == "b-1" else {"status": "accepted"})}
                for item in body["items"]
            ]
        }

    fake.answer = answer
    client = make(fake.address, flush_every=0.2)
    for id in ("a-1", "b-1", "c-1"):
        client.feedback(id, GOOD)
    assert client.flush(20)
    sent = Counter(item["id"] for _, _, body in fake.seen for item in body["items"])
    assert sent == {"a-1": 1, "b-1": 3, "c-1": 1}
    assert client.dropped == {}


def test_batches_are_as_large_as_the_service_takes_them(fake: Fake, make: Make) -> None:
    fake.answer = taking
    client = make(fake.address, flush_every=0.1)
    for i in range(2_500):
        client.feedback(f"5ca1ab1e-{i}", GOOD)
    assert client.flush(20)
    sizes = [len(body["items"]) for _, _, body in fake.seen]
    assert sum(sizes) == 2_500
    assert max(sizes) <= 1_000
    fake.seen.clear()
    for i in range(8):
        client.feedback(f"5ca1ab1e-{i}", {"note": "x" * 400_000})
    assert client.flush(20)
    assert [len(body["items"]) for _, _, body in fake.seen] == [2, 2, 2, 2]


def test_late_feedback_and_a_full_queue_are_counted(
    fake: Fake, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("surefoot.client.outbox.MOST_WAITING", 5)
    fake.answer = in_turn(BUSY)
    client = make(fake.address, flush_every=5.0)
    for i in range(8):
        client.feedback(f"5ca1ab1e-{i}", GOOD)
    assert client.dropped == {"full": 3}
    late = {"id": "5ca1ab1e-0", "status": "late"}
    fake.answer = lambda method, path, body: (200, {"items": [late, *taking(method, path, body)[1]["items"][1:]]})
    assert client.flush(20)
    assert client.dropped == {"full": 3, "late": 1}
    assert [item["id"] for item in fake.seen[-1][2]["items"]] == [f"5ca1ab1e-{i}" for i in range(5)]
    assert len([one for one in caplog.records if "(full" in one.message]) == 1


def test_closing_gives_up_after_a_while_and_says_so(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    client = make(dead_port(), flush_every=0.05)
    client.feedback("5ca1ab1e-0", GOOD)
    started = time.perf_counter()
    assert not client.flush(0.1)
    client.close(0.3)
    assert time.perf_counter() - started < 5
    assert client.dropped == {"closed": 1}
    assert any("closed" in one.message for one in caplog.records)


def test_a_dead_service_is_not_hammered_while_flushing(fake: Fake, make: Make) -> None:
    fake.answer = in_turn((500, b""))
    client = make(fake.address)
    client.feedback("5ca1ab1e-0", GOOD)
    assert not client.flush(1.0)
    assert 2 <= len(fake.seen) <= 20


def test_on_problem_that_fails_harms_nothing(fake: Fake, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    def broken(id: str | None, problem: Any) -> None:
        raise RuntimeError("the callback is wrong")

    client = make("http://127.0.0.1:9")
    client.on_problem = broken
    client.feedback(None, GOOD)
    client.feedback(None, GOOD)
    assert client.dropped == {"unlogged": 2}
    assert "on_problem failed" in caplog.text


def test_the_key_is_never_logged(fake: Fake, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    fake.answer = in_turn(BUSY, Dropped, (201, b"garbage"), (401, problem("unauthorised")))
    client = make(fake.address, "sf_secret", baselines={"routing": "in-house"}, retries=0)
    for name in "abcd":
        with pytest.raises(ServiceError):
            client.decide(name)
    client.feedback("a-1", GOOD)
    assert client.flush(20)
    assert client.dropped == {"unauthorised": 1}
    assert caplog.records
    assert "sf_secret" not in caplog.text


# The service is killed.


def test_the_service_is_killed_in_mid_flight(server: Server, name: str, make: Make) -> None:
    """Nothing that was acknowledged is lost, nothing is learnt twice, and all feedback arrives."""
    client = make(server.address, server.key, timeout=5.0, retries=0)
    found, safe = [], 0
    for i in range(40):
        if i == 20:
            server.process.kill()  # answers and batches may be on their way
        decision = client.decide(name)
        client.feedback(decision.id, GOOD)
        client.feedback(decision.id, GOOD)
        if decision.logged:
            found.append(decision.id)
        else:
            safe += 1
        if i == 30:
            server._ended()
            server.start()
            eventually(lambda: bool(client.decide(name).logged))
    assert client.flush(30)
    assert safe >= 10
    assert len(set(found)) == len(found) >= 20
    rounds = [one["id"] for one in server.call("GET", f"/v1/experiments/{name}/rounds")]
    assert len(set(rounds)) == len(rounds)
    for id in found:
        assert client.report(id, GOOD) == "replayed"
    assert client.dropped == {"unlogged": 2 * safe}
