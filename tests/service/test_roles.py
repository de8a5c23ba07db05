"""Processes that share a database: deciders draw from what learners publish."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import surefoot as sf
from surefoot.service import acts as acts_module
from surefoot.service import elsewhere as elsewhere_module
from surefoot.service.app import build
from surefoot.storage.database import Database
from surefoot.storage.keys import create_key, first_key, list_keys
from surefoot.storage.schema import keys
from tests.servers import GOOD, ROUTING, Postgres
from tests.service.conftest import Api, Clock

DECIDE = "/v1/experiments/routing/decisions"


def until(what: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What it returns, as soon as that is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it does not come to pass")


class Processes:
    """Processes of the service on one database; here they are threads with a loop each."""

    def __init__(self, db: str, stack: ExitStack) -> None:
        self.db, self._stack, self.clock = db, stack, Clock()
        database = Database.open(db)
        self._key = create_key(database, "tester", ["admin"], self.clock())
        database.close()

    def start(self, role: str) -> Api:
        app = build(self.db, clock=self.clock, role=role)
        api = Api(self._stack.enter_context(TestClient(app)), app, self.clock, self._key)
        api.wait_until_ready()
        return api

    def running(self) -> tuple[Api, Api]:
        """A learner and a decider, and an experiment that both know."""
        learner, decider = self.start("learner"), self.start("decider")
        learner.create()
        self.wait_for(decider)
        return learner, decider

    @staticmethod
    def wait_for(decider: Api) -> None:
        """Return when the decider draws from what the learner publishes, with one decision made and learnt."""
        until(lambda: decider("GET", "/v1/experiments/routing").is_success)
        logged = until(lambda: [one for one in [decider.decide()] if one["mode"] == "live"])[0]
        assert decider.report(logged["id"]) == "accepted"


@contextmanager
def started(db: str) -> Iterator[Processes]:
    with ExitStack() as stack:
        yield Processes(db, stack)


@pytest.fixture(params=["sqlite", "postgresql"])
def processes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Processes]:
    if request.param == "sqlite":
        db = str(tmp_path / "surefoot.db")
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        db = postgres.database(f"roles_{uuid.uuid4().hex}")
    with started(db) as found:
        yield found


def test_a_decider_decides_and_the_learner_learns(processes: Processes) -> None:
    learner, decider = processes.running()
    decisions = decider.decide(count=50)
    assert {one["mode"] for one in decisions} == {"live"}
    assert len({one["id"] for one in decisions}) == 50
    assert all("." in one["id"] for one in decisions)  # drawn by the decider, in a block of its own
    taken = decider.ok("POST", "/v1/feedback", {"items": [{"id": one["id"], "outcome": GOOD} for one in decisions]})
    assert {one["status"] for one in taken["items"]} == {"accepted"}
    assert decider.report(decisions[0]["id"]) == "replayed"
    assert learner.report(decisions[1]["id"]) == "replayed"
    assert learner.status()["decisions"] == learner.status()["rounds"] == 51
    until(lambda: decider.status() == learner.status())
    rounds = [
        decider("GET", "/v1/experiments/routing/rounds").text,
        learner("GET", "/v1/experiments/routing/rounds").text,
    ]
    assert rounds[0] == rounds[1]
    assert rounds[0].count("\n") == learner.status()["rounds"]


def test_what_only_the_learner_can_do_is_asked_of_it(processes: Processes) -> None:
    learner, decider = processes.running()
    kept = decider.ok("POST", DECIDE, {"count": 2}, Idempotency_Key="k")
    assert decider.ok("POST", DECIDE, {"count": 2}, Idempotency_Key="k") == kept
    assert learner.ok("POST", DECIDE, {"count": 2}, Idempotency_Key="k") == kept
    assert decider.problem("POST", DECIDE, {"count": 1}, Idempotency_Key="k")[0] == 422
    assert decider.decide(unit="u") == learner.decide(unit="u")
    assert decider.decide(arms=["in-house"])["arm"] == "in-house"
    status, problem = decider.problem("POST", DECIDE, {"arms": ["nothing"]})
    assert (status, problem["pointer"]) == (422, "/arms")
    assert learner.problem("POST", DECIDE, {"arms": ["nothing"]}) == (status, problem)
    decision = decider.decide()
    assert decider("POST", f"/v1/decisions/{decision['id']}/cancel", {"reason": "left"}).status_code == 204
    assert decider.problem("PUT", f"/v1/decisions/{decision['id']}/feedback", {"outcome": GOOD})[0] == 409
    items = [{"arm": "fast", "outcome": {"spend": 0.1, "answered": True}}] * 3
    assert decider.ok("POST", "/v1/experiments/routing/observations", {"items": items, "reason": "x"}) == {"count": 3}
    changed = decider.ok("PATCH", "/v1/experiments/routing", {"delta": 0.01, "reason": "careful"}, If_Match='"0"')
    assert changed == {"epoch": 1, "kept": True}
    assert decider.problem("PATCH", "/v1/experiments/routing", {"delta": 0.02}, If_Match='"0"')[0] == 412
    assert decider.decide()["epoch"] == learner.decide()["epoch"] == 1
    entries = decider.ok("GET", "/v1/experiments/routing/audit")["entries"]
    assert [one["action"] for one in entries] == ["create", "cancel", "observe", "change"]


def test_a_hold_is_in_force_when_it_is_answered(processes: Processes) -> None:
    """No decider can log a decision of the strategy after that, whatever it has heard."""
    learner, decider = processes.running()
    for operator, other in ((learner, decider), (decider, learner)):
        operator.ok("POST", "/v1/experiments/routing/hold", {"reason": "incident"})
        found = [one for _ in range(5) for one in other.decide(count=20)]
        assert {(one["mode"], one["arm"]) for one in found} == {("safe", "in-house")}
        assert all(not one["id"].startswith("unlogged") for one in found)
        other.ok("POST", "/v1/experiments/routing/resume", {"reason": "over"})
        assert operator.decide()["mode"] == "live"
    decider.ok("POST", "/v1/experiments/routing/stop", {"reason": "enough"})
    for one in (learner, decider):
        assert one.problem("POST", DECIDE, {})[0] == 410


def test_without_the_check_at_the_commit_a_hold_comes_late(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: a decider that has not heard of the hold, and a gate that lets everything pass."""
    from surefoot.storage.inbox import Gate

    learner, decider = processes.running()
    monkeypatch.setattr(Gate, "_admitted", lambda gate, connection, rows: rows)
    monkeypatch.setattr(elsewhere_module.View, "update", lambda view, row: None)
    learner.ok("POST", "/v1/experiments/routing/hold", {"reason": "incident"})
    assert decider.decide()["mode"] == "live"


def test_an_experiment_can_be_created_anywhere(processes: Processes) -> None:
    learner, decider = processes.start("learner"), processes.start("decider")
    created = decider.create()
    assert created["state"] == "running"
    assert decider.decide()["mode"] == "live"
    assert decider.problem("POST", "/v1/experiments", ROUTING)[0] == 409
    assert learner.problem("POST", "/v1/experiments", ROUTING)[0] == 409
    until(lambda: learner.status()["decisions"] == 1)
    names = [one["name"] for one in decider.ok("GET", "/v1/experiments")["experiments"]]
    assert names == ["routing"]


def test_without_a_learner_the_baseline_is_served(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and nothing is learnt from it."""
    monkeypatch.setattr(elsewhere_module, "LEASE", 1.5)
    learner, decider = processes.running()
    monkeypatch.setattr(elsewhere_module, "PATIENCE", 0.3)
    logged = decider.decide()
    learner.client.portal.call(learner.host.stop)  # type: ignore[union-attr]
    found = until(lambda: [one for one in [decider.decide()] if one["id"].startswith("unlogged")])[0]
    assert (found["arm"], found["mode"], found["propensity"]) == ("in-house", "safe", 1.0)
    assert decider.decide(arms=["in-house", "fast"])["mode"] == "safe"
    assert decider.problem("POST", DECIDE, {"arms": ["fast"]})[0] == 503
    status, problem = decider.problem("PUT", f"/v1/decisions/{found['id']}/feedback", {"outcome": GOOD})
    assert (status, problem["type"]) == (404, "urn:surefoot:unknown")
    assert decider.problem("GET", "/v1/experiments/routing/strategy")[0] == 503
    status, problem = decider.problem("PUT", f"/v1/decisions/{logged['id']}/feedback", {"outcome": GOOD})
    assert (status, problem["type"]) == (503, "urn:surefoot:busy")
    assert "surefoot_unlogged_total" in decider.client.get("/metrics").text
    monkeypatch.setattr(elsewhere_module, "PATIENCE", 10.0)
    again = processes.start("learner")  # takes over, with what was sent meanwhile
    until(lambda: decider.decide()["id"].startswith(again.host.lives["routing"].prefix))
    path = f"/v1/decisions/{logged['id']}/feedback"
    answer = until(lambda: [one for one in [decider("PUT", path, {"outcome": GOOD})] if one.is_success])[0]
    assert answer.json() == {"status": "replayed"}


def test_a_decision_is_not_made_after_its_caller_has_gone(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would time out as the worst case. Everything else that was sent meanwhile is carried out."""
    learner, decider = processes.running()
    made = learner.status()["decisions"]
    monkeypatch.setattr(elsewhere_module, "PATIENCE", 0.3)
    learner.client.portal.call(learner.host.stop)  # type: ignore[union-attr]
    for body in ({"unit": "u"}, {"arms": ["in-house"]}):
        status, problem = decider.problem("POST", DECIDE, body)
        assert (status, problem["detail"]) == (503, "no process learns routing now; the request to decide is dropped")
    status, problem = decider.problem("POST", "/v1/experiments/routing/hold", {"reason": "incident"})
    assert (status, "kept and may still be carried out" in problem["detail"]) == (503, True)
    processes.clock.time += 0.5
    monkeypatch.setattr(elsewhere_module, "PATIENCE", 10.0)
    again = processes.start("learner")
    until(lambda: again.status()["state"] == "held")  # the last of what was in the inbox
    assert again.status()["decisions"] == made
    assert decider.decide(unit="u")["mode"] == "safe"


def test_live_is_not_opened_while_the_inbox_has_decisions(processes: Processes) -> None:
    """It would not know decisions that were answered, and would learn later ones before them."""
    learner, decider = processes.running()
    learner.client.portal.call(learner.host.stop)  # type: ignore[union-attr]
    decision = until(lambda: [one for one in [decider.decide()] if not one["id"].startswith("unlogged")])[0]
    decider.client.portal.call(decider.host.stop)  # type: ignore[union-attr]
    with pytest.raises(sf.LogFailure, match=r"left \d+ decisions or requests that routing has not taken in: stop"):
        sf.Live.open(processes.db)
    again = processes.start("learner")  # the claim was given back
    until(lambda: "routing" in again.host.lives and again.host.lives["routing"].knows(decision["id"]))
    again.client.portal.call(again.host.stop)  # type: ignore[union-attr]
    with sf.Live.open(processes.db) as live:
        assert live.feedback(decision["id"], GOOD, processes.clock()) == "accepted"


def test_a_clock_that_is_wrong_does_not_stop_decisions(processes: Processes) -> None:
    """The learner's clock is far ahead: it looks into the inbox all the time, so it knows that requests are new."""
    learner, decider = processes.running()
    learner.host.now = lambda: processes.clock() + 300.0
    assert [decider.decide(unit=f"u{i}")["mode"] for i in range(3)] == ["live"] * 3


def test_clients_may_draw_by_themselves(processes: Processes) -> None:
    learner, decider = processes.running()
    for api in (learner, decider):
        block = api.ok("POST", "/v1/experiments/routing/blocks", {})
        strategy = api.ok("GET", "/v1/experiments/routing/strategy")
        assert block["timeout"] == 600.0
        now = processes.clock()
        drawn = {"arm": "in-house", "propensity": strategy["strategy"]["in-house"], "at": now, "due": now + 600.0}
        drawn |= {name: strategy[name] for name in ("safe_weight", "mode", "epoch")}
        items = [{"id": f"{block['prefix']}-{block['block']}.{i}", **drawn} for i in range(3)]
        late = {**items[0], "id": f"{block['prefix']}-{block['block']}.9", "due": now + 1e6}
        taken = api.ok(
            "POST", "/v1/experiments/routing/drawn", {"items": [*items, items[0], {**items[0], "id": "x-1.0"}, late]}
        )
        assert [one.get("status") for one in taken["items"]] == ["logged"] * 3 + ["replayed", None, None]
        assert [one["problem"]["status"] for one in taken["items"][4:]] == [404, 422]
        assert api.report(items[0]["id"]) == "accepted"


def test_drawn_decisions_are_refused_while_too_many_wait(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, _ = processes.running()
    block = learner.ok("POST", "/v1/experiments/routing/blocks", {})
    now = processes.clock()
    drawn = {"arm": "in-house", "propensity": 1.0, "safe_weight": 1.0, "mode": "live", "epoch": 0}
    items = [{"id": f"{block['prefix']}-{block['block']}.{i}", **drawn, "at": now, "due": now + 9.0} for i in range(3)]
    monkeypatch.setattr(acts_module, "MOST_PENDING", 2)
    status, problem = learner.problem("POST", "/v1/experiments/routing/drawn", {"items": items})
    assert (status, problem["detail"]) == (429, "0 decisions wait for feedback, and 2 may")
    assert len(learner.ok("POST", "/v1/experiments/routing/drawn", {"items": items[:2]})["items"]) == 2


def test_learners_share_experiments(processes: Processes) -> None:
    """Each takes its share; one that comes later is handed some; when one goes, another takes over."""
    one = processes.start("learner")
    if one.host.database.engine.dialect.name == "sqlite":
        pytest.skip("on SQLite there is one learner")
    for i in range(12):
        one.create(name=f"e{i}")
    assert len(one.host.lives) == 12
    two = processes.start("learner")
    until(lambda: len(one.host.lives) == len(two.host.lives) == 6)
    assert set(one.host.lives) | set(two.host.lives) == {f"e{i}" for i in range(12)}
    for name in list(two.host.lives):
        decision = until(lambda name=name: [  # type: ignore[misc]
            found for found in [one.decide(name)] if not found["id"].startswith("unlogged")
        ])[0]  # fmt: skip
        assert one.report(decision["id"]) == "accepted"
    two.client.portal.call(two.host.stop)  # type: ignore[union-attr]
    until(lambda: len(one.host.lives) == 12)


def test_two_learners_of_one_experiment_do_no_harm(processes: Processes) -> None:
    """The second takes over although the first does not know: the first can write nothing more, and gives up."""
    learner, decider = processes.running()
    decisions = decider.decide(count=10)
    thief = Database.open(processes.db)
    thief.owner = "thief"
    from surefoot.storage.snapshots import take_over

    take_over(thief, 1)
    answer = learner("PUT", f"/v1/decisions/{decisions[0]['id']}/feedback", {"outcome": GOOD})
    assert answer.status_code == 503
    thief.close()
    until(lambda: learner("GET", "/readyz").is_success)
    until(lambda: learner("PUT", f"/v1/decisions/{decisions[0]['id']}/feedback", {"outcome": GOOD}).is_success)
    rounds = learner("GET", "/v1/experiments/routing/rounds").text.splitlines()
    assert len(rounds) == 2


def test_the_learner_knows_what_a_decider_has_just_answered(processes: Processes) -> None:
    """Feedback may reach the learner before it has looked into the inbox."""
    learner, decider = processes.running()
    for _ in range(20):
        first, second, third = decider.decide(count=3)
        assert learner.report(first["id"]) == "accepted"
        assert learner("POST", f"/v1/decisions/{second['id']}/cancel", {"reason": "left"}).status_code == 204
        items = [{"id": one["id"], "outcome": GOOD} for one in (first, third)]
        taken = learner.ok("POST", "/v1/feedback", {"items": items})["items"]
        assert [one["status"] for one in taken] == ["replayed", "accepted"]


def test_openfeature_through_a_decider(processes: Processes) -> None:
    """Errors of the learner have the codes that they have where it learns."""
    learner, decider = processes.running()
    path = "/ofrep/v1/evaluate/flags/routing"
    for api in (learner, decider):
        answer = api("POST", path, {"context": {"targetingKey": " "}})
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "INVALID_CONTEXT")
        answer = api("POST", path.replace("routing", "nothing"), {})
        assert (answer.status_code, answer.json()["errorCode"]) == (404, "FLAG_NOT_FOUND")
    learner.ok("POST", "/v1/experiments/routing/stop", {"reason": "done"})
    for api in (learner, decider):
        answer = api("POST", path, {"context": {"targetingKey": "u"}})
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "GENERAL")


def test_processes_that_start_at_once_make_one_key(processes: Processes) -> None:
    with closing(Database.open(processes.db)) as database, database.engine.begin() as connection:
        connection.execute(keys.delete())
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: begin(processes.db), range(4)))
    assert len([key for key in made if key is not None]) == 1
    with closing(Database.open(processes.db)) as database:
        assert len(list_keys(database)) == 1


def begin(db: str) -> str | None:
    with closing(Database.open(db)) as database:
        return first_key(database, 0.0)
