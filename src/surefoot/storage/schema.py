"""The tables: one schema for SQLite and PostgreSQL.

The events are the truth, and everything else about an experiment follows from them: the rounds, the snapshots, and the
views `epochs`, `decisions`, `feedback`, `late_feedback` and `alarms`, for people who look with SQL. `migrations/` has
the way from each version to the next; a test holds that it leads to these tables.
"""

from typing import Any

import sqlalchemy as sa

HEAD = "0003"
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

MILESTONE = sa.text("kind IN ('created', 'changed', 'alarm')")
"""The few events that say where epochs begin and what went wrong."""
sa.Index(
    "events_milestones", events.c.experiment, events.c.kind, events.c.seq,
    sqlite_where=MILESTONE, postgresql_where=MILESTONE,
)  # fmt: skip

checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),  # of the last event in it
    sa.Column("size", sa.Integer, nullable=False),  # of the state, in bytes
    sa.Column("state", sa.LargeBinary, nullable=False),
)

rounds = sa.Table(
    "rounds",
    metadata,
    sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),  # from 1, without gaps
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("decision", sa.BigInteger),  # its number; none for an observation
    sa.Column("arm", sa.Text, nullable=False),
    sa.Column("propensity", sa.Float),
    sa.Column("source", sa.String(20), nullable=False),
    sa.Column("loss", sa.Float),  # in [0, 1]
    sa.Column("costs", sa.Text, nullable=False),  # by guardrail, in [0, 1], in JSON
    sa.Column("at", sa.Float, nullable=False),  # when the decision was made
)

histories = sa.Table(
    "histories",
    metadata,
    sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, nullable=False),  # of the last round in it
    sa.Column("data", sa.LargeBinary, nullable=False),  # a summary of the rounds, for the pages
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    sa.Column("owner", sa.String(40)),  # the process that learns: nobody else may write about the experiment
    sa.Column("beat", sa.BigInteger, nullable=False),  # it counts up while the owner is alive
    sa.Column("taken", sa.BigInteger, nullable=False),  # the last row of the inbox that the owner has taken in
    sa.Column("version", sa.BigInteger, nullable=False),  # of the body
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("mode", sa.String(10), nullable=False),
    sa.Column("body", sa.Text, nullable=False),  # what to draw from, in JSON
    sa.Column("status", sa.Text, nullable=False),  # the status of the experiment, in JSON
)

LONG = sa.BigInteger().with_variant(sa.Integer, "sqlite")

inbox = sa.Table(
    "inbox",
    metadata,
    sa.Column("id", LONG, primary_key=True),  # in the order of the commits
    sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), nullable=False),
    sa.Column("caller", sa.Integer, nullable=False),  # the block of the process that asks
    sa.Column("call", sa.BigInteger, nullable=False),  # its number there
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("key", sa.Text),  # the idempotency key under which decisions were drawn
    sa.Column("body", sa.Text, nullable=False),
    sqlite_autoincrement=True,  # a number is never used again
)
sa.Index("inbox_experiment", inbox.c.experiment, inbox.c.id)
sa.Index("inbox_key", inbox.c.experiment, inbox.c.key)

answers = sa.Table(
    "answers",
    metadata,
    sa.Column("caller", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("call", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)

blocks = sa.Table(
    "blocks",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),  # of the numbers of decisions that are drawn outside the learner
    sa.Column("who", sa.String(200), nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sqlite_autoincrement=True,
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

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),  # SHA-256 of the token in the browser's cookie
    sa.Column("key", sa.Integer, sa.ForeignKey("keys.id"), nullable=False),
    sa.Column("expires", sa.Float, nullable=False),
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


VIEWS = {
    "epochs": (("created", "changed"), ("epoch INTEGER", "kept TEXT", "reason TEXT")),
    "decisions": (
        ("decided",),
        ("number BIGINT", "arm TEXT", "propensity FLOAT", "mode TEXT", "epoch INTEGER", "at FLOAT", "due FLOAT",
         "unit TEXT", "key TEXT"),
    ),
    "feedback": (("reported", "expired", "cancelled"), ("number BIGINT", "outcome TEXT", "at FLOAT", "reason TEXT")),
    "late_feedback": (("late",), ("number BIGINT", "outcome TEXT", "at FLOAT")),
    "alarms": (
        ("alarm",),
        ("kind TEXT", "guardrail TEXT", "arm TEXT", "round BIGINT", "message TEXT", "holds TEXT"),
    ),
}  # fmt: skip
"""By name: the events that a view shows, and the fields of theirs that are its columns."""
FIELD = {
    "sqlite": "CAST(json_extract(body, '$.{name}') AS {kind})",
    "postgresql": "CAST(CAST(body AS jsonb) ->> '{name}' AS {kind})",
}


def views(dialect: str) -> dict[str, str]:
    """The queries of the views, by name."""
    found = {}
    for view, (kinds, fields) in VIEWS.items():
        columns = [
            f'{FIELD[dialect].format(name=name, kind=kind)} AS "{name}"' for name, kind in map(str.split, fields)
        ]
        among = ", ".join(f"'{kind}'" for kind in kinds)
        found[view] = f"SELECT experiment, seq, kind AS event, {', '.join(columns)} FROM events WHERE kind IN ({among})"
    return found


@sa.event.listens_for(metadata, "after_create")
def _finish(_: sa.MetaData, connection: sa.Connection, **__: Any) -> None:
    """Add what SQLAlchemy has no tables for."""
    for statement in FINAL[connection.dialect.name]:
        connection.exec_driver_sql(statement)
    for name, query in views(connection.dialect.name).items():
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {query}")


@sa.event.listens_for(metadata, "before_drop")
def _drop_views(_: sa.MetaData, connection: sa.Connection, **__: Any) -> None:
    for name in VIEWS:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
