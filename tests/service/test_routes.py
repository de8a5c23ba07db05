"""Every route, as its caller sees it."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

import surefoot as sf
from surefoot.experiments.live import key_of
from surefoot.service import acts, learning
from surefoot.service import host as host_module
from surefoot.storage.database import transaction
from tests.servers import GOOD, ROUTING
from tests.service.conftest import Api, started


def test_an_experiment_is_created_read_and_listed(api: Api) -> None:
    created = api("POST", "/v1/experiments", ROUTING)
    assert created.status_code == 201
    assert created.headers["etag"] == '"0"'
    status = created.json()
    assert status == api.status()
    assert (status["state"], status["epoch"], status["rounds"], status["pending"]) == ("running", 0, 0, 0)
    assert sum(status["strategy"].values()) == pytest.approx(1.0)
    assert [one["name"] for one in status["guardrails"]] == ["spend", "answered"]
    assert status["guardrails"][0]["arms"]["fast"] == {"count": 0, "mean": None, "lower": 0.0, "upper": 2.0}
    assert status["experiment"] == sf.Experiment.from_dict(ROUTING).to_dict()
    listed = api.ok("GET", "/v1/experiments")["experiments"]
    assert listed == [{"name": "routing", "state": "running", "epoch": 0, "rounds": 0, "pending": 0, "alarms": 0}]
    status, problem = api.problem("POST", "/v1/experiments", ROUTING)
    assert (status, problem["type"]) == (409, "urn:surefoot:conflict")


def test_an_experiment_is_not_opened_while_it_is_created(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for experiments that nobody learns must not find one whose creation is about to be answered."""
    wait, opened = host_module.Host.durable, list[str]()

    async def wait_and_look(self: host_module.Host, *database: Any) -> None:
        await wait(self, *database)
        await self.learning.claim()

    monkeypatch.setattr(learning, "opened", lambda database, name: opened.append(name))
    monkeypatch.setattr(host_module.Host, "durable", wait_and_look)
    api.create()
    assert opened == []
    assert [api.report(one["id"]) for one in api.decide(count=2) + api.decide(count=2)] == ["accepted"] * 4


def test_a_dry_run_checks_and_forecasts_and_creates_nothing(api: Api) -> None:
    answer = api("POST", "/v1/experiments?dry_run=true", ROUTING)
    assert answer.status_code == 200
    forecast = answer.json()["forecast"]
    assert forecast["margin"] == pytest.approx(0.16)  # of spend: (0.4 - 0.08) / 2
    assert forecast["loose_after"] > forecast["safe_rounds"] > 0
    assert api.ok("GET", "/v1/experiments") == {"experiments": []}
    without = api.ok("POST", "/v1/experiments?dry_run=true", {**ROUTING, "guardrails": [], "baseline_costs": None})
    assert without["forecast"] is None
    status, problem = api.problem("POST", "/v1/experiments?dry_run=yes", ROUTING)
    assert (status, problem["parameter"]) == (422, "dry_run")
    status, problem = api.problem("POST", "/v1/experiments?dry_run=true", {**ROUTING, "options": {"speed": 1}})
    assert (status, problem["pointer"]) == (422, "/options")


def test_a_decision_and_its_feedback(routing: Api) -> None:
    decision = routing.decide()
    assert set(decision) == {"id", "arm", "propensity", "epoch", "mode", "due"}
    assert (decision["epoch"], decision["mode"], decision["due"]) == (0, "live", 1_600.0)
    assert routing.status()["pending"] == 1
    assert routing.report(decision["id"], {"quality": 0.8}) == "partial"
    assert routing.report(decision["id"]) == "accepted"
    assert routing.report(decision["id"]) == "replayed"
    status, problem = routing.problem(
        "PUT", f"/v1/decisions/{decision['id']}/feedback", {"outcome": {**GOOD, "quality": 0.1}}
    )
    assert (status, problem["type"]) == (409, "urn:surefoot:conflict")
    found = routing.status()
    assert (found["rounds"], found["pending"]) == (1, 0)
    assert found["guardrails"][0]["arms"][decision["arm"]]["count"] == 1


def test_feedback_after_the_time_out_is_late(routing: Api) -> None:
    decision = routing.decide()
    routing.clock.time += 600.0
    for _ in range(100):  # the service looks at the clock by itself
        if routing.status()["pending"] == 0:
            break
        time.sleep(0.05)
    assert routing.status()["rounds"] == 1
    assert routing.report(decision["id"]) == "late"
    line = routing("GET", "/v1/experiments/routing/rounds").text
    assert json.loads(line) == {
        "seq": 1, "id": decision["id"], "arm": decision["arm"], "propensity": decision["propensity"],
        "source": "timeout", "loss": 1.0, "costs": {"spend": 1.0, "answered": 1.0}, "epoch": 0, "at": 1_000.0,
    }  # fmt: skip


def test_many_decisions_at_once(routing: Api) -> None:
    decisions = routing.decide(count=100)
    assert len({one["id"] for one in decisions}) == 100
    items = [{"id": one["id"], "outcome": GOOD} for one in decisions]
    items += [{"id": "nowhere-1", "outcome": GOOD}, {"id": decisions[0]["id"], "outcome": {"spend": 9.0}}]
    taken = routing.ok("POST", "/v1/feedback", {"items": items})["items"]
    assert [one["id"] for one in taken] == [one["id"] for one in items]
    assert {one.get("status") for one in taken[:100]} == {"accepted"}
    assert [one["problem"]["status"] for one in taken[100:]] == [404, 422]
    assert taken[101]["problem"]["pointer"] == "/outcome/spend"
    assert routing.status()["rounds"] == 100


def test_a_call_with_the_same_key_makes_no_new_decision(routing: Api) -> None:
    path = "/v1/experiments/routing/decisions"
    first = routing("POST", path, {"count": 2}, Idempotency_Key="request 1")
    again = routing("POST", path, {"count": 2}, Idempotency_Key="request 1")
    assert (first.status_code, first.content) == (again.status_code, again.content)
    for decision in first.json()["decisions"]:
        routing.report(decision["id"])
    assert routing("POST", path, {"count": 2}, Idempotency_Key="request 1").content == first.content
    assert routing("POST", path, {"count": 2}, Idempotency_Key="request 2").content != first.content
    status, problem = routing.problem("POST", path, {"count": 3}, Idempotency_Key="request 1")
    assert (status, problem["parameter"]) == (422, "Idempotency-Key")
    assert routing.status()["decisions"] == 4
    assert routing.problem("POST", path, {}, Idempotency_Key="x" * 501)[0] == 422


def test_a_unit_keeps_its_decision_while_it_is_open(routing: Api) -> None:
    first = routing.decide(unit="user 1")
    assert routing.decide(unit="user 1") == first
    assert routing.decide(unit="user 2")["id"] != first["id"]
    routing.report(first["id"])
    assert routing.decide(unit="user 1")["id"] != first["id"]
    assert routing.problem("POST", "/v1/experiments/routing/decisions", {"unit": "u", "count": 2})[0] == 422


def test_arms_that_are_missing(routing: Api) -> None:
    assert {routing.decide(arms=["fast", "in-house"])["arm"] for _ in range(30)} <= {"fast", "in-house"}
    path = "/v1/experiments/routing/decisions"
    status, problem = routing.problem("POST", path, {"arms": ["fast"]})
    assert (status, problem["type"]) == (409, "urn:surefoot:unavailable")
    status, problem = routing.problem("POST", path, {"arms": ["slow"]})
    assert (status, problem["pointer"]) == (422, "/arms")


def test_cancelling(routing: Api) -> None:
    first, second = routing.decide(count=2)
    path = f"/v1/decisions/{first['id']}/cancel"
    assert routing("POST", path, {"reason": "withdrawn"}).status_code == 204
    assert routing("POST", path, {"reason": "withdrawn"}).status_code == 204
    assert routing.problem("PUT", f"/v1/decisions/{first['id']}/feedback", {"outcome": GOOD})[0] == 409
    routing.report(second["id"])
    assert routing.problem("POST", f"/v1/decisions/{second['id']}/cancel", {"reason": "bad"})[0] == 409
    assert routing.status()["rounds"] == 1
    noted = [one for one in routing.ok("GET", "/v1/audit")["entries"] if one["action"] == "cancel"]
    assert [one["detail"] for one in noted] == [{"decision": first["id"]}]  # the second call changed nothing


def test_hold_resume_and_stop(routing: Api) -> None:
    path = "/v1/experiments/routing"
    assert routing.ok("POST", f"{path}/hold", {"reason": "incident"})["state"] == "held"
    assert routing.decide()["mode"] == "safe"
    assert routing.status()["reason"] == "incident"
    assert routing.ok("POST", f"{path}/resume", {"reason": "over"})["state"] == "running"
    assert routing.problem("POST", f"{path}/resume", {"reason": "over"})[0] == 409
    assert routing.decide()["mode"] == "live"
    assert routing.ok("POST", f"{path}/stop", {"reason": "done"})["state"] == "stopped"
    status, problem = routing.problem("POST", f"{path}/decisions", {})
    assert (status, problem["type"]) == (410, "urn:surefoot:stopped")
    assert routing.problem("POST", f"{path}/hold", {"reason": "again"})[0] == 410


def test_shadow_mode(api: Api) -> None:
    api.ok("POST", "/v1/experiments?mode=shadow", ROUTING)
    decision = api.decide()
    assert (decision["arm"], decision["mode"]) == ("in-house", "shadow")
    assert decision["would"] in ROUTING["arms"]
    api.ok("POST", "/v1/experiments/routing/switch", {"mode": "live", "reason": "go"})
    assert api.decide()["mode"] == "live"


def test_hold_everything(routing: Api) -> None:
    routing.create(name="other")
    routing.create(name="over")
    routing.ok("POST", "/v1/experiments/over/stop", {"reason": "done"})
    assert routing.ok("POST", "/v1/hold", {"reason": "incident"}) == {"held": ["routing", "other"]}
    assert {routing.decide(name)["mode"] for name in ("routing", "other")} == {"safe"}


def test_a_change_begins_an_epoch(routing: Api) -> None:
    path = "/v1/experiments/routing"
    change = {"delta": 0.01, "reason": "more careful"}
    status, problem = routing.problem("PATCH", path, change)
    assert (status, problem["parameter"]) == (428, "If-Match")
    changed = routing("PATCH", path, change, If_Match='"0"')
    assert changed.json() == {"epoch": 1, "kept": True}
    assert changed.headers["etag"] == '"1"'
    assert routing.problem("PATCH", path, change, If_Match='"0"')[0] == 412
    assert routing.ok("PATCH", path, {"reason": "release", "keep": False}, If_Match="1") == {"epoch": 2, "kept": False}
    wrong = {"guardrails": [{"name": "spend", "at_most": 9.0, "high": 2.0}], "reason": "wrong"}
    assert routing.problem("PATCH", path, wrong, If_Match="2")[1]["pointer"] == "/guardrails/0/at_most"
    status, problem = routing.problem("PATCH", path, {"delta": 3.0, "reason": "wrong"}, If_Match="2")
    assert (status, problem["pointer"]) == (422, "/delta")
    assert routing.problem("PATCH", path, {"name": "new", "reason": "x"}, If_Match="2")[0] == 422
    assert routing.status()["experiment"]["delta"] == 0.01
    assert routing.status()["delta_spent"] == pytest.approx(0.07)
    noted = [one for one in routing.ok("GET", f"{path}/audit")["entries"] if one["action"] == "change"]
    assert [one["reason"] for one in noted] == ["more careful", "release"]
    assert routing.ok("PATCH", path, {"delta": 0.1}, If_Match="2")["epoch"] == 3  # the reason may be left out


def test_an_alarm_holds_and_resuming_begins_an_epoch(api: Api) -> None:
    api.create(alarm_every=100, baseline_costs={"spend": 0.08, "answered": 0.9})
    bad = {"quality": 0.5, "spend": 2.0, "answered": False}
    for _ in range(20):
        items = [{"id": one["id"], "outcome": bad} for one in api.decide(count=20)]
        api.ok("POST", "/v1/feedback", {"items": items})
    status = api.status()
    assert status["state"] == "held"
    alarms = api.ok("GET", "/v1/experiments/routing/alarms")["alarms"]
    assert alarms == status["alarms"]
    assert any(one["holds"] for one in alarms)
    after = {**ROUTING, "baseline_costs": None}
    resumed = api.ok("POST", "/v1/experiments/routing/resume", {"reason": "looked into it", "experiment": after})
    assert (resumed["state"], resumed["epoch"]) == ("measuring", 1)


def test_the_strategy_has_a_tag_and_can_be_waited_for(routing: Api) -> None:
    path = "/v1/experiments/routing/strategy"
    first = routing("GET", path)
    assert first.json()["strategy"] == routing.status()["strategy"]
    assert (first.json()["lease"], first.json()["lease_seconds"]) == (1_010.0, 10.0)
    tag = first.headers["etag"]
    assert routing("GET", path, If_None_Match=tag).status_code == 304
    assert routing("GET", f"{path}?wait=0.2", If_None_Match=tag).status_code == 304
    assert routing("GET", f"{path}?wait=5", If_None_Match='"other"').status_code == 200
    holding = threading.Timer(0.3, lambda: routing.ok("POST", "/v1/hold", {"reason": "incident"}))
    holding.start()
    changed = routing("GET", f"{path}?wait=30", If_None_Match=tag)
    holding.join()
    assert (changed.status_code, changed.json()["mode"]) == (200, "safe")
    assert routing.problem("GET", f"{path}?wait=31")[0] == 422


def test_observations_are_learnt_all_or_none(routing: Api) -> None:
    path = "/v1/experiments/routing/observations"
    good = {"arm": "fast", "outcome": {"spend": 0.1, "answered": True}}
    assert routing.ok("POST", path, {"items": [good] * 3, "reason": "the last test"}) == {"count": 3}
    assert routing.status()["guardrails"][0]["arms"]["fast"]["count"] == 3
    wrong = {"arm": "fast", "outcome": {"spend": 0.1}}
    assert routing.problem("POST", path, {"items": [good, wrong], "reason": "more"})[0] == 422
    assert routing.status()["guardrails"][0]["arms"]["fast"]["count"] == 3
    noted = [one for one in routing.ok("GET", "/v1/audit")["entries"] if one["action"] == "observe"]
    assert [one["detail"] for one in noted] == [{"count": 3}]
    line = routing("GET", "/v1/experiments/routing/rounds").text.splitlines()[0]
    assert json.loads(line)["source"] == "observation"


def test_rounds_come_in_pages(routing: Api) -> None:
    decisions = routing.decide(count=5)
    for one in decisions:
        routing.report(one["id"])
    path = "/v1/experiments/routing/rounds"
    answer = routing("GET", path)
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5]
    assert {line["id"] for line in lines} == {one["id"] for one in decisions}
    assert lines[0]["loss"] == pytest.approx(0.2)
    assert lines[0]["costs"] == {"spend": pytest.approx(0.155), "answered": 0.0}
    rest = [json.loads(line) for line in routing("GET", f"{path}?after=2&limit=2").text.splitlines()]
    assert rest == lines[2:4]
    assert routing("GET", f"{path}?after=9").text == ""
    assert routing.problem("GET", f"{path}?after=-1")[0] == 422


def test_openfeature(routing: Api) -> None:
    path = "/ofrep/v1/evaluate/flags/routing"
    found = routing.ok("POST", path, {"context": {"targetingKey": "user 1", "country": "CH"}})
    assert found["key"] == "routing"
    assert found["value"] == found["variant"] in ROUTING["arms"]
    assert found["reason"] == "SPLIT"
    assert routing.ok("POST", path, {"context": {"targetingKey": "user 1"}})["metadata"] == found["metadata"]
    assert routing.report(found["metadata"]["id"]) == "accepted"
    routing.ok("POST", "/v1/experiments/routing/hold", {"reason": "incident"})
    assert routing.ok("POST", path, {})["reason"] == "DEFAULT"
    for body, at, code in (
        ({"context": {"targetingKey": 7}}, path, "INVALID_CONTEXT"),
        ({"context": 7}, path, "PARSE_ERROR"),
        ({"context": {"targetingKey": ""}}, path, "INVALID_CONTEXT"),
        ({}, path.replace("routing", "nothing"), "FLAG_NOT_FOUND"),
    ):
        answer = routing("POST", at, body)
        assert answer.status_code == (404 if code == "FLAG_NOT_FOUND" else 400)
        assert answer.json()["errorCode"] == code
        assert answer.json()["errorDetails"]


def test_metrics(routing: Api) -> None:
    routing.report(routing.decide()["id"])
    text = routing.client.get("/metrics").text
    assert 'surefoot_rounds{experiment="routing"} 1.0' in text
    assert 'surefoot_feedback_total{experiment="routing",status="accepted"} 1.0' in text
    assert 'route="/v1/experiments/{name}/decisions",status="201"} 1.0' in text
    assert "surefoot_ready 1.0" in text
    assert "surefoot_commit_seconds_count" in text


def test_health_needs_no_key_and_readiness_waits(routing: Api) -> None:
    assert routing.client.get("/healthz").json() == {"status": "alive"}
    assert routing.client.get("/readyz").json() == {"status": "ready"}
    routing.host.ready = False
    for path in ("/readyz", "/v1/experiments"):
        answer = routing("GET", path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert routing.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b'{"count": NaN}', 400, "NaN"),
        (b'{"count": 1e400}', 400, "too large"),
        (b'{"count": 1, "count": 1}', 400, "twice"),
        (b'{"count": 1', 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b'{"unit": "\\ud800"}', 400, "not JSON"),
        (b'{"unit": "\\u0000"}', 422, "regex"),
        (b'{"count": true}', 422, "int"),
        (b'{"count": "1"}', 422, "int"),
        (b'{"count": 101}', 422, "100"),
        (b'{"count": 0}', 422, "1"),
        (b'{"number": 1}', 422, "unknown field"),
        (b"[]", 422, "object"),
        (b'{"arms": []}', 422, "length"),
    ],
)
def test_parsing_is_strict(routing: Api, body: bytes, status: int, words: str) -> None:
    found, problem = routing.problem("POST", "/v1/experiments/routing/decisions", body)
    assert found == status
    assert words in problem["detail"]
    assert routing.status()["decisions"] == 0


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"timeout": True}, "/timeout"),
        ({"timeout": "60"}, "/timeout"),
        ({"delta": 0}, "/delta"),
        ({"baseline": "nobody"}, "/baseline"),
        ({"arms": ["one"]}, "/arms"),
        ({"arms": [f"arm {i}" for i in range(1_001)]}, "/arms"),
        ({"guardrails": [{"name": f"g{i}", "at_most": 0.5} for i in range(33)]}, "/guardrails"),
        ({"guardrails": [{"name": "g", "at_most": 0.5, "at_least": 0.5}]}, "/guardrails/0"),
        ({"guardrails": [{"name": "g", "at_most": "0.3"}]}, "/guardrails/0/at_most"),
        ({"objective": {}}, "/objective"),
        ({"guardrails": [{"name": "g", "at_least": 0.5}, {"name": "spend", "at_most": 3}]}, "/guardrails/1/at_most"),
        ({"options": {"preset": "leed"}}, "/options/preset"),
        ({"options": {"preset": "leed"}, "baseline_costs": None}, "/options/preset"),
        ({"policy": "nonsense"}, "/policy"),
        ({"name": "a/b"}, "/name"),
    ],
)
def test_an_experiment_that_is_wrong_is_refused_with_a_pointer(api: Api, change: dict[str, Any], pointer: str) -> None:
    status, problem = api.problem("POST", "/v1/experiments", {**ROUTING, **change})
    assert (status, problem["pointer"]) == (422, pointer)


@pytest.mark.parametrize("value", ["0.3", None, [0.3], {}])
def test_an_outcome_has_numbers_and_truth_values(routing: Api, value: Any) -> None:
    id = routing.decide()["id"]
    status, problem = routing.problem("PUT", f"/v1/decisions/{id}/feedback", {"outcome": {"quality": value}})
    assert (status, problem["pointer"]) == (422, "/outcome")


def test_what_does_not_exist(routing: Api) -> None:
    assert routing.problem("GET", "/v1/experiments/nothing")[0] == 404
    assert routing.problem("POST", "/v1/experiments/nothing/decisions", {})[0] == 404
    assert routing.problem("PUT", "/v1/decisions/nothing-1/feedback", {"outcome": GOOD})[0] == 404
    assert routing.problem("GET", "/nothing")[0] == 404
    assert routing.problem("DELETE", "/v1/experiments/routing")[0] == 405


def test_a_body_may_not_be_too_large(routing: Api) -> None:
    path = "/v1/experiments/routing/decisions"
    assert routing.problem("POST", path, b" " * 1_000_001)[0] == 413
    assert routing("POST", path, b"{}" + b" " * 999_998).status_code == 201

    def chunks() -> Any:  # of unknown length
        for _ in range(30):
            yield b" " * 100_000

    answer = routing.client.post(path, content=chunks(), headers={"Authorization": f"Bearer {routing.key}"})
    assert answer.status_code == 413


def test_too_many_pending_decisions(routing: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acts, "MOST_PENDING", 10)
    decisions = routing.decide(count=10)
    answer = routing("POST", "/v1/experiments/routing/decisions", {})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    routing.report(decisions[0]["id"])
    routing.decide()


def test_a_rate_for_each_key(db: str) -> None:
    for api in started(db, rate=5.0):
        other = api.new_key("read")
        api.clock.time += 60.0
        answers = [api("GET", "/v1/experiments") for _ in range(12)]
        assert [one.status_code for one in answers] == [200] * 10 + [429] * 2
        assert answers[-1].headers["retry-after"] == "1"
        assert api("GET", "/v1/experiments", key=other).status_code == 200
        api.clock.time += 1.0
        assert api("GET", "/v1/experiments").status_code == 200


def test_everything_is_there_after_a_restart(db: str) -> None:
    for api in started(db):
        api.create()
        for one in api.decide(count=20):
            api.report(one["id"])
        pending, before = api.decide(unit="user"), api.status()
    for api in started(db):
        assert api.status() == before
        assert api.decide(unit="user") == pending


def test_an_experiment_that_cannot_be_opened_does_not_stop_the_others(db: str) -> None:
    for api in started(db):
        api.create()
        api.create(name="other")
    with transaction(db) as connection:
        connection.exec_driver_sql("UPDATE events SET body = '{}' WHERE experiment = 1")
    for api in started(db):
        assert api.problem("GET", "/v1/experiments/routing")[0] == 503
        assert api.decide("other")["mode"] == "live"
        assert api.problem("POST", "/v1/experiments", ROUTING)[0] == 409


def test_requests_wait_while_an_experiment_is_changed(routing: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that takes a second: other requests are answered after it, in the new epoch."""
    change = sf.Live.change

    def slow(self: sf.Live, *arguments: Any) -> bool:
        begun.set()
        time.sleep(1.0)
        return change(self, *arguments)

    monkeypatch.setattr(sf.Live, "change", slow)
    routing.create(name="other")
    changed: list[Any] = []
    begun = threading.Event()
    body = {"delta": 0.01, "reason": "more careful"}
    thread = threading.Thread(
        target=lambda: changed.append(routing.ok("PATCH", "/v1/experiments/routing", body, If_Match="0"))
    )
    thread.start()
    begun.wait()
    assert routing.decide("other")["epoch"] == 0  # at once
    assert not changed
    assert routing.decide()["epoch"] == 1
    thread.join()
    monkeypatch.setattr(host_module, "PATIENCE", 0.1)
    begun.clear()
    thread = threading.Thread(target=lambda: routing.ok("PATCH", "/v1/experiments/routing", body, If_Match="1"))
    thread.start()
    begun.wait()
    assert routing.problem("POST", "/v1/experiments/routing/decisions", {})[0] == 503
    thread.join()


def test_a_broken_experiment_is_opened_again(routing: Api) -> None:
    """An error that leaves the state half changed: the service reads it from the log again."""
    decision = routing.decide()
    live = routing.host.lives["routing"]
    live._broken = ValueError("on purpose")
    assert routing.problem("GET", "/v1/experiments/routing")[0] == 503
    for _ in range(200):
        if routing.host.ready and routing.host.lives["routing"] is not live:
            break
        time.sleep(0.05)
    assert routing.report(decision["id"]) == "accepted"


def test_ids_of_two_experiments_never_begin_alike(routing: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed whose key begins as that of another experiment is drawn again; else feedback would go to the wrong one."""
    prefix = routing.host.lives["routing"].prefix
    tried: list[int] = []

    def often_the_same(seed: int) -> str:
        tried.append(seed)
        return prefix + "0" * 24 if len(tried) < 4 else key_of(seed)

    monkeypatch.setattr(host_module, "key_of", often_the_same)
    routing.create(name="second")
    assert len(tried) == 4
    assert routing.host.lives["second"].prefix != prefix
    monkeypatch.setattr(host_module, "key_of", lambda seed: prefix + "0" * 24)
    assert routing.problem("POST", "/v1/experiments", {**ROUTING, "name": "third"})[0] == 503
    assert "third" not in routing.host.lives
