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
from surefoot.storage.upgrade import upgrade
from tests.storage.test_databases import url

__all__ = ["url"]


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
    assert upgrade(url) == (None, schema.HEAD)
    assert upgrade(url) == (schema.HEAD, schema.HEAD)
    assert differences(url) == []
    migrated = made(url)
    with transaction(url) as connection:
        connection.execute(sa.text("DROP TABLE alembic_version"))
        schema.metadata.drop_all(connection)
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("DROP FUNCTION audit_is_final"))
    Database.open(url).close()
    assert made(url) == migrated
    assert upgrade(url) == (schema.HEAD, schema.HEAD)


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
