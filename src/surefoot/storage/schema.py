"""The tables: one schema for SQLite and PostgreSQL.

The events are the truth, and everything else about an experiment follows from them. `migrations/` has the way from each
version to the next; a test holds that it leads to these tables.
"""

from typing import Any

import sqlalchemy as sa

HEAD = "0001"
"""The migration that leads to these tables."""

metadata = sa.MetaData()

version = sa.Table("alembic_version", metadata, sa.Column("version_num", sa.String(32), primary_key=True))

experiments = sa.Table(
    "experiments",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(100), nullable=False, unique=True),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),  # from 1, without gaps
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("decision", sa.BigInteger),  # the number of the decision that it is about
    sa.Column("key", sa.Text),  # the idempotency key under which a decision was made
    sa.Column("body", sa.Text, nullable=False),  # the fields of the event, in JSON
)
sa.Index("events_decision", events.c.experiment, events.c.decision)
sa.Index(
    "events_key", events.c.experiment, events.c.key,
    sqlite_where=events.c.key.is_not(None), postgresql_where=events.c.key.is_not(None),
)  # fmt: skip

checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, nullable=False),  # of the last event in it
    sa.Column("state", sa.LargeBinary, nullable=False),
)

keys = sa.Table(
    "keys",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False, unique=True),  # SHA-256
    sa.Column("roles", sa.String(100), nullable=False),
    sa.Column("experiment", sa.String(100)),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("expires", sa.Float),
    sa.Column("revoked", sa.Float),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("who", sa.String(100), nullable=False),
    sa.Column("action", sa.String(50), nullable=False),
    sa.Column("experiment", sa.String(100)),
    sa.Column("reason", sa.Text),
    sa.Column("detail", sa.Text, nullable=False),
)
sa.Index("audit_experiment", audit.c.experiment, audit.c.id)

FINAL = {
    "sqlite": [
        f"CREATE TRIGGER audit_no_{operation.lower()} BEFORE {operation} ON audit "
        "BEGIN SELECT RAISE(ABORT, 'the audit is never changed'); END"
        for operation in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        "CREATE FUNCTION audit_is_final() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit is never changed'; END $$",
        "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_is_final()",
    ],
}
"""What keeps the audit as it was written, by dialect."""


@sa.event.listens_for(audit, "after_create")
def _make_final(_: sa.Table, connection: sa.Connection, **__: Any) -> None:
    for statement in FINAL[connection.dialect.name]:
        connection.exec_driver_sql(statement)
