"""What a database must do, beside keeping logs: SQLite and PostgreSQL alike."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import surefoot as sf
from surefoot.experiments.fold import replay
from surefoot.storage.database import Database
from surefoot.storage.keys import audit_row
from surefoot.storage.listener import Listener
from surefoot.storage.log import SqlLog
from tests.servers import GOOD, ROUTING

EXPERIMENT = sf.Experiment.from_dict(ROUTING)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new database."""
    if request.param == "sqlite":
        return str(tmp_path / "surefoot.db")
    return str(request.getfixturevalue("postgres").database(f"tests_{uuid.uuid4().hex}"))


def test_threads_share_commits_and_lose_nothing(url: str) -> None:
    live = sf.Live.of(SqlLog(Database.open(url), EXPERIMENT.name), EXPERIMENT, seed=3)
    found: list[str] = []

    def call(caller: int) -> None:
        for i in range(20):
            decision = live.decide(now=0.0, unit=f"{caller} {i}")
            found.append(decision.id)
            assert live.feedback(decision.id, GOOD, now=0.0) == "accepted"

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 160
    state = live._fold.digest()
    live.close()
    again = sf.Live.of(SqlLog(Database.open(url), EXPERIMENT.name))
    assert again._fold.digest() == state == replay(again.log).digest()
    again.close()


def test_a_second_writer_is_refused_and_the_first_stands(url: str) -> None:
    first = sf.Live.of(SqlLog(Database.open(url), EXPERIMENT.name), EXPERIMENT, seed=1)
    second = sf.Live.of(SqlLog(Database.open(url), EXPERIMENT.name))
    kept = first.decide(now=0.0)
    with pytest.raises(sf.LogFailure, match="another process"):
        second.decide(now=0.0)
    assert first.feedback(kept.id, GOOD, now=0.0) == "accepted"
    again = sf.Live.of(SqlLog(Database.open(url), EXPERIMENT.name))
    assert again.status().rounds == 1
    for live in (first, second, again):
        live.close()


def test_the_audit_cannot_be_changed(url: str) -> None:
    database = Database.open(url)
    database.wait(database.add([audit_row(1.0, "me", "hold", None, "why", {})]))
    for statement in ("UPDATE audit SET who = 'you'", "DELETE FROM audit"):
        with pytest.raises(sa.exc.DBAPIError, match="never changed"), database.engine.begin() as connection:
            connection.exec_driver_sql(statement)
    rows = database.rows(sa.text("SELECT who FROM audit"))
    assert [tuple(row) for row in rows] == [("me",)]
    database.close()


def test_rows_that_cannot_be_written_do_not_stop_the_database_for_good(url: str) -> None:
    database = Database.open(url)
    database.add([audit_row(1.0, "lone \ud800", "hold", None, None, {})])
    with pytest.raises(sf.LogFailure):
        database.flush()
    database.close()
    again = Database.open(url)
    again.wait(again.add([audit_row(1.0, "me", "hold", None, None, {})]))
    again.close()


def test_a_writer_that_stands_still_does_not_hold_up_others_for_long(url: str) -> None:
    database = Database.open(url)
    database.wait(database.add([audit_row(0.0, "me", "try", None, None, {})]))
    limits = {"lock_timeout": "10s", "idle_in_transaction_session_timeout": "10s"}
    if database.engine.dialect.name == "postgresql":
        assert database._connection is not None
        for name, limit in limits.items():
            assert database._connection.execute(sa.text(f"SHOW {name}")).scalar() == limit
    database.close()


def opened(database: Database) -> list[Any]:
    """The connections of the driver, as they are made from now on."""
    found: list[Any] = []
    sa.event.listen(database.engine, "connect", lambda connection, _: found.append(connection))
    return found


def is_open(connection: Any) -> bool:
    """Whether a connection of the driver still is one."""
    if isinstance(connection, sqlite3.Connection):
        try:
            connection.total_changes  # noqa: B018
        except sqlite3.ProgrammingError:
            return False
        return True
    return not connection.closed


def test_a_read_that_outlives_the_database_leaves_no_connection(url: str) -> None:
    """A thread cannot be cancelled: the service closes its database while one still reads."""
    database = Database.open(url)
    connections, reading, go_on = opened(database), threading.Event(), threading.Event()
    read: list[Any] = []

    def slow(found: sa.CursorResult[Any]) -> Any:
        reading.set()
        assert go_on.wait(5.0)
        return found.all()

    thread = threading.Thread(target=lambda: read.append(database._read(sa.text("SELECT 1"), slow)))
    thread.start()
    assert reading.wait(5.0)
    database.close()
    assert [is_open(one) for one in connections] == [True]
    go_on.set()
    thread.join()
    assert [tuple(row) for row in read[0]] == [(1,)]
    assert [is_open(one) for one in connections] == [False]


def test_a_read_after_the_end_leaves_no_connection(url: str) -> None:
    database = Database.open(url)
    connections = opened(database)
    database.rows(sa.text("SELECT 1"))
    database.close()
    database.rows(sa.text("SELECT 1"))
    database.rows(sa.text("SELECT 1"))
    assert [is_open(one) for one in connections] == [False, False, False]


def test_nothing_is_claimed_in_a_database_that_is_closed(url: str) -> None:
    """Nobody would give it back, and the experiment would be refused to everybody else."""
    database = Database.open(url)
    connections = opened(database)
    database.claim("routing")
    database.close()
    with pytest.raises(sf.LogFailure, match="closed"):
        database.claim("routing")
    if database.engine.dialect.name == "postgresql":
        with pytest.raises(sf.LogFailure, match="closed"):
            database.check_claims()
    assert not any(map(is_open, connections))
    other = Database.open(url)
    other.claim("routing")
    other.close()


def test_a_listener_whose_news_nobody_takes_leaves_no_connection(request: pytest.FixtureRequest) -> None:
    """The loop that it tells may be closed already."""
    postgres = request.getfixturevalue("postgres")
    database = Database.open(postgres.database(f"tests_{uuid.uuid4().hex}"))
    connections, heard = opened(database), threading.Event()

    def closed(channel: str) -> None:
        heard.set()
        raise RuntimeError("the loop is closed")

    listener = Listener(database.engine, ["news"], closed)
    assert heard.wait(5.0)
    listener.close()
    assert [is_open(one) for one in connections] == [False]  # no other work is done on a connection that still listens
    database.close()
