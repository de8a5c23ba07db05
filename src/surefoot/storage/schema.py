"""The tables: one schema for SQLite and PostgreSQL.

The events are the truth, and everything else about an experiment follows from them. `migrations/` has the way from each
version to the next; a test holds that it leads to these tables.
"""

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
