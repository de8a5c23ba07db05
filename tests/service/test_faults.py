"""Processes that share a database, under attack: each test is a way to lose something that once worked."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from surefoot.experiments.live import Live
from surefoot.service import acts as acts_module
from surefoot.service import elsewhere as elsewhere_module
from surefoot.storage import inbox as inbox_module
from surefoot.storage.database import Database
from surefoot.storage.schema import events, snapshots
from tests.servers import GOOD, Postgres
from tests.service.conftest import Api
from tests.service.test_roles import DECIDE, Processes, started, until

FORGET = {"delta": 0.01, "reason": "new release", "keep": False}
"""A change that needs not read the log."""


@pytest.fixture
def processes(postgres: Postgres) -> Iterator[Processes]:
    """Processes on PostgreSQL."""
    with started(postgres.database(f"attack_{uuid.uuid4().hex}")) as found:
        yield found


def in_background(work: Any, *arguments: Any) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work(*arguments)))
    thread.start()
    return thread, found


def drawn_item(api: Api, id: str, **changes: Any) -> dict[str, Any]:
    """A decision that a client has drawn."""
    now = api.clock()
    return {
        "id": id, "arm": "in-house", "propensity": 1.0, "safe_weight": 1.0, "mode": "live", "epoch": 0, "at": now,
        "due": now + 600.0, **changes,
    }  # fmt: skip


def test_a_decider_that_has_created_experiments_is_no_learner(processes: Processes) -> None:
    """It once counted as one, so its share of the experiments was handed over and learnt by nobody."""
    learner, decider = processes.start("learner"), processes.start("decider")
    for i in range(4):
        decider.create(name=f"e{i}")
    time.sleep(2.5)  # two looks at the claims
    assert len(learner.host.lives) == 4


def test_a_hold_waits_for_decisions_that_were_checked_before_it(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decider looks at what is in force, stands still, and commits: it must not do so after the hold is answered."""
    learner, decider = processes.running()
    checked, held, real = threading.Event(), threading.Event(), inbox_module.in_force
    late: list[bool] = []

    def slow(connection: sa.Connection, rows: Any) -> Any:
        found = real(connection, rows)
        if any(row["drawn_in"] is not None for row in rows):
            checked.set()
            held.wait(1.5)
            late.append(held.is_set())
        return found

    monkeypatch.setattr(inbox_module, "in_force", slow)
    thread, decided = in_background(decider.decide)
    assert checked.wait(5.0)
    learner.ok("POST", "/v1/experiments/routing/hold", {"reason": "incident"})
    held.set()
    thread.join()
    assert decided[0]["mode"] == "live"
    assert late == [False]


def test_nobody_takes_ids_out_of_the_block_of_another(processes: Processes) -> None:
    """A client that logged the next id of a decider once made the decider's own decision a replay, logged nowhere."""
    learner, decider = processes.running()
    client = learner.new_key("decide")
    before = decider.decide()
    block, i = before["id"].rpartition("-")[2].split(".")
    forged = [drawn_item(learner, f"{before['id'].partition('-')[0]}-{block}.{int(i) + 1 + j}") for j in range(3)]
    for api in (learner, decider):
        api.host.read_keys()
        answer = api("POST", "/v1/experiments/routing/drawn", {"items": forged}, key=client).json()
        assert [one.get("status") for one in answer["items"]] == [None] * 3
        assert {one["problem"]["status"] for one in answer["items"]} == {404}
    assert decider.report(before["id"]) == "accepted"  # so all decisions were taken in
    made = learner.status()["decisions"]
    for one in decider.decide(count=3):
        assert decider.report(one["id"]) == "accepted"
    assert learner.status()["decisions"] == made + 3
    own = decider("POST", "/v1/experiments/routing/blocks", {}, key=client).json()
    item = drawn_item(learner, f"{own['prefix']}-{own['block']}.0")
    answer = learner("POST", "/v1/experiments/routing/drawn", {"items": [item]}, key=client).json()
    assert answer["items"][0]["status"] == "logged"


def test_an_arm_that_cannot_be_written_down_is_refused(processes: Processes) -> None:
    """PostgreSQL has no text with a zero in it: once settled, such a decision could never be written."""
    learner, decider = processes.running()
    decider.ok("PATCH", "/v1/experiments/routing", {"delta": 0.01, "reason": "careful"}, If_Match='"0"')
    for api in (decider, learner):
        own = api.ok("POST", "/v1/experiments/routing/blocks", {})
        item = drawn_item(api, f"{own['prefix']}-{own['block']}.0", arm="a\0b", due=api.clock() + 1.0)
        answer = api("POST", "/v1/experiments/routing/drawn", {"items": [item]})
        assert answer.status_code == 422 or "problem" in answer.json()["items"][0], answer.text
    processes.clock.time += 5.0
    time.sleep(1.0)
    assert learner("GET", "/readyz").is_success
    assert learner.decide()["mode"] == "live"


def kill_writer(api: Api) -> None:
    """End the connection that commits; the next commit fails."""
    database = api.host.database
    assert database._connection is not None
    pid = database._connection.connection.driver_connection.info.backend_pid  # type: ignore[union-attr]
    with database.engine.begin() as connection:
        connection.execute(sa.select(sa.func.pg_terminate_backend(pid)))


def test_a_change_that_was_lost_is_not_published(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is opened again while a change is on its way: what it would have led to is forgotten."""
    learner, decider = processes.running()
    real, going, go_on = acts_module.Acts.change, threading.Event(), threading.Event()

    def slow(act: Any, **arguments: Any) -> Any:
        going.set()
        go_on.wait(20.0)
        return real(act, **arguments)

    monkeypatch.setattr(acts_module.Acts, "change", slow)
    thread, found = in_background(lambda: learner("PATCH", "/v1/experiments/routing", FORGET, If_Match='"0"'))
    assert going.wait(5.0)
    database = learner.host.database
    kill_writer(learner)
    until(lambda: learner.host.database is not database and learner.host.ready)
    go_on.set()
    thread.join()
    assert found[0].status_code == 503
    decisions, end = [], time.monotonic() + 1.5
    while time.monotonic() < end:
        decisions.append(decider.decide())
    logged = [one for one in decisions if not one["id"].startswith("unlogged")]
    until(lambda: "routing" in learner.host.lives)
    assert {one["epoch"] for one in decisions} == {0}
    for one in logged:
        assert decider.report(one["id"]) == "accepted"


def test_an_answer_is_lost_with_what_it_is_about(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for a change that came through the inbox, when it ends while the database is being opened again."""
    learner, decider = processes.running()
    real, going, go_on = acts_module.Acts.change, threading.Event(), threading.Event()

    def slow(act: Any, **arguments: Any) -> Any:
        if not go_on.is_set():
            going.set()
            go_on.wait(20.0)
        return real(act, **arguments)

    monkeypatch.setattr(acts_module.Acts, "change", slow)
    read_keys = learner.host.read_keys

    def slow_keys() -> None:
        if learner.host.database is not database:
            go_on.set()
            time.sleep(0.5)  # the new database is there, and the experiments are still the old ones
        read_keys()

    database = learner.host.database
    thread, found = in_background(lambda: decider("PATCH", "/v1/experiments/routing", FORGET, If_Match='"0"'))
    assert going.wait(5.0)
    learner.host.read_keys = slow_keys  # type: ignore[method-assign]
    kill_writer(learner)
    thread.join()
    until(lambda: "routing" in learner.host.lives and learner.host.ready)
    time.sleep(1.0)
    until(lambda: learner("GET", "/readyz").is_success, 5.0)
    if found[0].is_success:
        assert learner.status()["epoch"] == 1
    assert decider.report(until(lambda: [
        one for one in [decider.decide()] if not one["id"].startswith("unlogged")
    ])[0]["id"]) == "accepted"  # fmt: skip


def test_nobody_is_said_to_learn_what_cannot_be_opened(processes: Processes) -> None:
    """A learner that cannot read the log has written its name there; deciders must not take that for a sign of life."""
    learner, _ = processes.running()
    learner.client.portal.call(learner.host.stop)  # type: ignore[union-attr]
    database = Database.open(processes.db)
    with database.engine.begin() as connection:
        where = events.c.seq == sa.select(sa.func.max(events.c.seq)).scalar_subquery()
        connection.execute(events.update().where(where).values(kind="unheard"))
    database.close()
    again = processes.start("learner")
    assert again.host.lives == {}
    beats = []
    for _ in range(2):
        beats += [row[0] for row in again.host.database.rows(sa.select(snapshots.c.beat))]
        time.sleep(2.2)
    assert beats[0] == beats[1]


def test_an_experiment_that_is_handed_over_meanwhile(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request looks into the inbox first, and the experiment is learnt elsewhere when it comes back."""
    learner, _ = processes.running()
    learning = learner.host.learning
    real = learning.take_in

    async def released() -> None:
        await real()
        if "routing" in learner.host.lives and asyncio.current_task() is not learner.host._task:
            await learning.release("routing")

    monkeypatch.setattr(learning, "take_in", released)
    answer = learner("POST", DECIDE, {}, Idempotency_Key="k")
    assert answer.status_code in (201, 503), answer.text


def test_no_block_without_a_database(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    _, decider = processes.running()
    host = decider.host
    with host.database.engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE blocks RENAME TO blocks_gone"))
    answer = decider("POST", "/v1/experiments/routing/blocks", {})
    assert answer.status_code == 503, answer.text


def test_holding_all_goes_on_after_one_that_nobody_learns(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surefoot.service.host import Host
    from surefoot.service.problems import Problem

    learner, _ = processes.running()
    learner.create(name="second")
    real = Host.ask

    async def ask(host: Host, name: str, verb: str, *rest: Any, **arguments: Any) -> Any:
        if name == "routing":
            raise Problem(503, "busy", f"no process learns {name} now", retry_after=1)
        return await real(host, name, verb, *rest, **arguments)

    monkeypatch.setattr(elsewhere_module, "PATIENCE", 0.3)
    monkeypatch.setattr(Host, "ask", ask)
    assert learner("POST", "/v1/hold", {"reason": "incident"}).status_code == 503
    assert learner.status("second")["state"] == "held"


def test_what_deciders_logged_is_taken_in_by_whoever_serves_next(tmp_path: Path) -> None:
    """On SQLite, `serve` without a role once left the inbox unread."""
    with started(str(tmp_path / "surefoot.db")) as processes:
        learner, decider = processes.running()
        learner.client.portal.call(learner.host.stop)  # type: ignore[union-attr]
        decisions = decider.decide(count=5)
        assert not decisions[0]["id"].startswith("unlogged")
        decider.client.portal.call(decider.host.stop)  # type: ignore[union-attr]
        alone = processes.start("all")
        assert alone.report(decisions[0]["id"], GOOD) == "accepted"


def test_the_same_experiment_is_created_twice_at_once(processes: Processes) -> None:
    """One call succeeds, the other is told so; nothing else stops."""
    learner = processes.start("learner")
    database = learner.host.database
    real = database.flush

    def slow() -> None:
        time.sleep(0.3)
        real()

    learner.create(name="warm")
    database.flush = slow  # type: ignore[method-assign]
    from tests.servers import ROUTING

    calls = []
    for _ in range(3):
        calls.append(in_background(lambda: learner("POST", "/v1/experiments", ROUTING).status_code))
        time.sleep(0.15)
    for thread, _ in calls:
        thread.join()
    assert sorted(found[0] for _, found in calls) == [201, 409, 409]
    assert learner.host.database is database
    assert not database.failed


def test_a_decider_opens_the_database_again_after_a_commit_that_failed(processes: Processes) -> None:
    """Reading went on, so nobody noticed, and the baseline was served until somebody restarted the decider."""
    _, decider = processes.running()
    kill_writer(decider)
    assert decider.decide()["id"].startswith("unlogged")
    until(lambda: not decider.decide()["id"].startswith("unlogged"), 10.0)


def test_an_experiment_that_is_being_changed_is_not_handed_over(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The learner once waited for the end of the change to publish it, and answered nobody meanwhile."""
    learner = processes.start("learner")
    for name in ("routing", "second"):
        learner.create(name=name)
    real, going, go_on = Live._change, threading.Event(), threading.Event()

    def slow(live: Live, *arguments: Any) -> Any:
        going.set()
        go_on.wait(20.0)
        return real(live, *arguments)

    monkeypatch.setattr(Live, "_change", slow)
    thread, found = in_background(lambda: learner("PATCH", "/v1/experiments/second", FORGET, If_Match='"0"'))
    assert going.wait(5.0)
    asked, answered = in_background(processes.start, "learner")
    until(lambda: answered, 60.0)
    asked.join()
    time.sleep(1.5)  # a look at the claims
    health, alive = in_background(lambda: learner.client.get("/healthz").status_code)
    health.join(3.0)
    in_time = list(alive)
    go_on.set()
    thread.join()
    assert in_time == [200]
    assert found[0].is_success
    until(lambda: len(answered[0].host.lives) == len(learner.host.lives) == 1)


def test_a_commit_that_never_ends_holds_up_no_request_for_ever(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that stands still in a commit, while reading goes on."""
    _, decider = processes.running()
    go_on, database = threading.Event(), decider.host.database
    real, id = database.flush, decider.decide()["id"]

    def slow() -> None:
        go_on.wait(20.0)
        real()

    monkeypatch.setattr(elsewhere_module, "PATIENCE", 0.5)
    monkeypatch.setattr(database, "flush", slow)
    began = time.monotonic()
    decision = decider.decide()
    status, _ = decider.problem("PUT", f"/v1/decisions/{id}/feedback", {"outcome": GOOD})
    took = time.monotonic() - began
    go_on.set()
    assert decision["id"].startswith("unlogged")
    assert status == 503
    assert took < 10.0


class SlowReads:
    """A database that reads nothing until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on, read = threading.Event(), threading.Event(), Database._read

        def slow(database: Database, *arguments: Any) -> Any:
            self.begun.set()
            assert self.go_on.wait(5.0)
            return read(database, *arguments)

        monkeypatch.setattr(Database, "_read", slow)


def test_feedback_on_settled_decisions_keeps_nobody_waiting(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is read for it, which may take long. One process, so that decisions are made in the same event loop."""
    api.create()
    reported, late, cancelled = api.decide(count=3)
    assert api.report(reported["id"]) == "accepted"
    api("POST", f"/v1/decisions/{cancelled['id']}/cancel", {"reason": "left"})
    api.clock.time += 700.0
    assert api.decide()["mode"] == "live"  # times out the others
    slow = SlowReads(monkeypatch)
    sent = [{"id": one["id"], "outcome": GOOD} for one in (reported, late, cancelled, late)]
    thread, found = in_background(api.ok, "POST", "/v1/feedback", {"items": sent})
    cancelling, refused = in_background(api, "POST", f"/v1/decisions/{reported['id']}/cancel", {"reason": "left"})
    assert slow.begun.wait(5.0)
    assert [api.report(api.decide()["id"]) for _ in range(3)] == ["accepted"] * 3
    assert thread.is_alive()
    assert cancelling.is_alive()
    slow.go_on.set()
    thread.join()
    cancelling.join()
    answers = [one.get("status") or one["problem"]["status"] for one in found[0]["items"]]
    assert answers == ["replayed", "late", 409, "late"]
    assert refused[0].status_code == 409
    assert sum(one.__class__.__name__ == "Late" for _, one in api.host.lives["routing"].log.read()) == 1


def test_late_feedback_that_comes_twice_at_once_is_written_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both read the log before either writes."""
    api.create()
    decision = api.decide()
    api.clock.time += 700.0
    api.decide()
    slow = SlowReads(monkeypatch)
    sent = [in_background(api.report, decision["id"]) for _ in range(4)]
    assert slow.begun.wait(5.0)
    time.sleep(0.2)
    slow.go_on.set()
    for thread, found in sent:
        thread.join()
        assert found == ["late"]
    assert sum(one.__class__.__name__ == "Late" for _, one in api.host.lives["routing"].log.read()) == 1


def test_wrong_ids_keep_no_decider_waiting(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that nobody was given may be in the inbox; the learner looks there without making others wait."""
    learner, decider = processes.running()
    settled, gap = decider.decide(), decider.decide()
    assert decider.report(settled["id"]) == "accepted"
    wrong = [f"{gap['id'].rpartition('.')[0]}.{10**6 + i}" for i in range(50)]
    slow = SlowReads(monkeypatch)
    sent = [
        in_background(api, "POST", "/v1/feedback", {"items": [{"id": id, "outcome": GOOD} for id in ids]})
        for api in (learner, decider)
        for ids in (wrong, [settled["id"]])
    ]
    assert slow.begun.wait(5.0)
    began = time.monotonic()
    assert [learner.client.get("/healthz").status_code for _ in range(5)] == [200] * 5
    assert time.monotonic() - began < 2.0
    slow.go_on.set()
    for thread, _ in sent:
        thread.join()
    answers = [found[0].json()["items"] for _, found in sent]
    assert [len([one for one in some if one["problem"]["status"] == 404]) for some in answers[::2]] == [50, 50]
    assert [some[0]["status"] for some in answers[1::2]] == ["replayed", "replayed"]
