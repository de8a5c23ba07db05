"""Migrations lead from nothing to the tables of the schema, in SQLite and PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import surefoot as sf
from surefoot.storage import schema
from surefoot.storage import upgrade as upgrade_module
from surefoot.storage.database import Database, transaction
from surefoot.storage.log import SqlLog
from surefoot.storage.upgrade import upgrade
from tests.experiments.worlds import GOOD, make
from tests.storage.test_databases import url

__all__ = ["url"]
LATER = {"rounds", "snapshots", "inbox", "answers", "blocks", "histories", "sessions"}
"""The tables that came after version 0001."""


def differences(url: str, metadata: sa.MetaData = schema.metadata) -> list[Any]:
    with transaction(url) as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        return list(compare_metadata(context, metadata))


def made(url: str) -> list[Any]:
    """Everything that the database says it has made, by name."""
    with transaction(url) as connection:
        if connection.dialect.name == "sqlite":
            query = "SELECT type, name, tbl_name FROM sqlite_master WHERE name NOT LIKE '%alembic%' ORDER BY 1, 2"
        else:
            query = (
                "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal "
                "UNION SELECT indexname, indexdef FROM pg_indexes "
                "WHERE schemaname = 'public' AND indexname NOT LIKE '%alembic%' ORDER BY 1"
            )
        return [tuple(row) for row in connection.execute(sa.text(query))]


def test_migrating_from_nothing_gives_the_schema(url: str) -> None:
    assert upgrade(url) == (None, schema.HEAD, {})
    assert upgrade(url) == (schema.HEAD, schema.HEAD, {})
    assert differences(url) == []
    migrated = made(url)
    with transaction(url) as connection:
        connection.execute(sa.text("DROP TABLE alembic_version"))
        schema.metadata.drop_all(connection)
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("DROP FUNCTION audit_is_final"))
    Database.open(url).close()
    assert made(url) == migrated
    assert upgrade(url) == (schema.HEAD, schema.HEAD, {})


def busy(url: str) -> list[Any]:
    """A database with every kind of event; its rounds."""
    live = sf.Live.open(url, make(), seed=1)
    choices = live.decide(0.0, n=6)
    for choice in choices[:4]:
        live.feedback(choice.id, GOOD, 1.0)
    live.cancel(choices[4].id)
    live.observe("a", {"spend": 0.1, "answered": True})
    live.expire(20.0)
    live.feedback(choices[5].id, GOOD, 21.0)
    live.change(make(delta=0.01), "careful")
    live.feedback(live.decide(22.0).id, GOOD, 23.0)
    rounds = list(live.log.rounds())
    live.close()
    return rounds


def test_rounds_of_an_older_database_are_filled_in(url: str) -> None:
    rounds = busy(url)
    assert len({one.epoch for one in rounds}) == 2
    with transaction(url) as connection:
        as_in_0001(connection)
    assert upgrade(url) == ("0001", schema.HEAD, {})
    assert differences(url) == []
    live = sf.Live.open(url)
    assert list(live.log.rounds()) == rounds
    live.close()


@pytest.mark.parametrize(("version", "broken"), [
    ("0001", {"body": "{"}), ("0001", {"kind": "unheard"}), ("0001", {"body": '{"number": 0}'}),
    ("0002", {"body": "{"}),
])  # fmt: skip
def test_a_log_that_cannot_be_read_does_not_stop_the_others(url: str, version: str, broken: dict[str, str]) -> None:
    """Once it is mended, a further upgrade fills what was left out."""
    other = sf.Experiment.from_dict({**make().to_dict(), "name": "broken"})
    with sf.Live.open(url, other, seed=2) as live:
        live.feedback(live.decide(0.0).id, GOOD, 1.0)
        live.decide(2.0)
        expected = list(live.log.rounds())
    rounds = busy(url)
    of_it = sa.and_(schema.events.c.experiment == 1, schema.events.c.seq == 2)
    with transaction(url) as connection:
        good = connection.execute(sa.select(schema.events.c.kind, schema.events.c.body).where(of_it)).one()._mapping
        (as_in_0001 if version == "0001" else as_before_0003)(connection)
        connection.execute(schema.events.update().where(of_it).values(**broken))
    kept = [] if version == "0001" else expected
    for before in (version, schema.HEAD):
        upgraded = upgrade(url)
        assert (upgraded.before, upgraded.after) == (before, schema.HEAD)
        assert list(upgraded.unfilled) == ["broken"]
        database = Database.open(url)
        assert list(SqlLog(database, "broken").rounds()) == kept
        assert list(SqlLog(database, make().name).rounds()) == rounds
        database.close()
    with transaction(url) as connection:
        connection.execute(schema.events.update().where(of_it).values(**good))
    assert upgrade(url).unfilled == {}
    with sf.Live.open(url, other) as live:
        assert list(live.log.rounds()) == expected
        assert live.log.decided(1) is not None


def as_in_0001(connection: sa.Connection) -> None:
    """Undo what versions 0002 and 0003 have changed."""
    later = [table for table in schema.metadata.tables.values() if table.name in LATER]
    for view in schema.VIEWS:
        connection.exec_driver_sql(f"DROP VIEW {view}")
    as_before_0003(connection)
    for table in later:
        table.drop(connection, checkfirst=True)
    connection.execute(schema.version.update().values(version_num="0001"))


def as_before_0003(connection: sa.Connection) -> None:
    """Undo what version 0003 has changed; of the checkpoints, the newest stays."""
    newest = connection.execute(sa.text("SELECT experiment, seq, state FROM checkpoints ORDER BY seq DESC")).first()
    schema.histories.drop(connection)
    schema.sessions.drop(connection)
    schema.checkpoints.drop(connection)
    old = sa.Table(
        "checkpoints", sa.MetaData(),
        sa.Column("experiment", sa.Integer, sa.ForeignKey(schema.experiments.c.id), primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )  # fmt: skip
    old.create(connection)
    if newest is not None:
        connection.execute(old.insert().values(**newest._mapping))
    connection.execute(sa.text("DROP INDEX events_milestones"))
    connection.execute(sa.text("UPDATE events SET decision = NULL WHERE kind = 'decided'"))
    connection.execute(schema.version.update().values(version_num="0002"))


def test_the_checkpoint_and_the_decisions_of_version_0002_are_moved(url: str) -> None:
    busy(url)
    live = sf.Live.open(url)
    live.log.save_checkpoint(live.last, live._fold.to_bytes())
    live.close()
    live = sf.Live.open(url)
    expected = live.log.checkpoint(), [live.log.decided(i) for i in range(8)], [live.log.about(i) for i in range(8)]
    live.close()
    assert expected[0] is not None
    assert [one is None for one in expected[1]] == [False] * 7 + [True]
    with transaction(url) as connection:
        as_before_0003(connection)
    assert upgrade(url) == ("0002", schema.HEAD, {})
    assert differences(url) == []
    live = sf.Live.open(url)
    assert (
        live.log.checkpoint(), [live.log.decided(i) for i in range(8)], [live.log.about(i) for i in range(8)]
    ) == expected  # fmt: skip
    live.close()


def test_milestones_are_found_by_their_index(url: str) -> None:
    busy(url)
    query = f"SELECT experiment, seq, kind, body FROM events WHERE experiment IN (1, 2) AND {schema.MILESTONE.text}"
    with transaction(url) as connection:
        if connection.dialect.name == "sqlite":
            plan = str(connection.execute(sa.text(f"EXPLAIN QUERY PLAN {query}")).all())
        else:
            connection.execute(sa.text("SET enable_seqscan = off"))
            plan = str(connection.execute(sa.text(f"EXPLAIN {query}")).all())
    assert "events_milestones" in plan


def test_the_views_show_what_happened(url: str) -> None:
    rounds = busy(url)
    shown = {}
    with transaction(url) as connection:
        for view in schema.VIEWS:
            shown[view] = [
                dict(row._mapping) for row in connection.execute(sa.text(f"SELECT * FROM {view} ORDER BY seq"))
            ]
    assert [(one["event"], one["epoch"], one["reason"]) for one in shown["epochs"]] == [
        ("created", None, None), ("changed", 1, "careful"),
    ]  # fmt: skip
    assert [one["number"] for one in shown["decisions"]] == list(range(7))
    assert {one["arm"] for one in shown["decisions"]} >= {one.arm for one in rounds if one.decision is not None}
    assert [one["event"] for one in shown["feedback"]] == ["reported"] * 4 + ["cancelled", "expired", "reported"]
    assert [(one["number"], one["at"]) for one in shown["late_feedback"]] == [(5, 21.0)]
    assert shown["alarms"] == []


def test_a_difference_is_noticed(url: str) -> None:
    """The control."""
    upgrade(url)
    other = sa.MetaData()
    for table in schema.metadata.tables.values():
        table.to_metadata(other)
    other.tables["keys"].append_column(sa.Column("colour", sa.Text))
    assert [one[0] for one in differences(url, other)] == ["add_column"]


def test_the_newest_migration_is_the_version_of_the_tables() -> None:
    folder = upgrade_module.MIGRATIONS
    assert ScriptDirectory(str(folder)).get_current_head() == schema.HEAD


@pytest.mark.parametrize("act", [Database.open, upgrade])
def test_tables_of_an_unknown_version_are_refused(url: str, act: Any) -> None:
    upgrade(url)
    with transaction(url) as connection:
        connection.execute(schema.version.update().values(version_num="9999"))
    with pytest.raises(sf.RuleError, match="version 9999"):
        act(url)


@pytest.mark.parametrize("act", [Database.open, upgrade])
def test_a_database_of_somebody_else_is_refused(url: str, act: Any) -> None:
    with transaction(url) as connection:
        connection.execute(sa.text("CREATE TABLE invoices (id INTEGER)"))
    with pytest.raises(sf.RuleError, match="invoices"):
        act(url)


def test_a_database_that_does_not_answer_is_named_in_a_sentence() -> None:
    with pytest.raises(sf.LogFailure, match="cannot be opened"):
        Database.open("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(sf.RuleError, match="SQLite file"):
        Database.open("mysql://nobody@127.0.0.1:1/nothing")
