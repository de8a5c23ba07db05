"""Rounds, what processes on one database tell each other, and views."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

VIEWS = {
    "epochs": "kind IN ('created', 'changed')|epoch INTEGER,kept TEXT,reason TEXT",
    "decisions": "kind IN ('decided')|number BIGINT,arm TEXT,propensity FLOAT,mode TEXT,epoch INTEGER,at FLOAT,"
    "due FLOAT,unit TEXT,key TEXT",
    "feedback": "kind IN ('reported', 'expired', 'cancelled')|number BIGINT,outcome TEXT,at FLOAT,reason TEXT",
    "late_feedback": "kind IN ('late')|number BIGINT,outcome TEXT,at FLOAT",
    "alarms": "kind IN ('alarm')|kind TEXT,guardrail TEXT,arm TEXT,round BIGINT,message TEXT,holds TEXT",
}
FIELD = {
    "sqlite": "CAST(json_extract(body, '$.{}') AS {}) AS \"{}\"",
    "postgresql": "CAST(CAST(body AS jsonb) ->> '{}' AS {}) AS \"{}\"",
}


def upgrade() -> None:
    """Add the tables and views; `fill` of `storage.upgrade` fills the rounds."""
    experiment = ("experiment", sa.Integer)
    long = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "rounds",
        sa.Column(*experiment, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("decision", sa.BigInteger),
        sa.Column("arm", sa.Text, nullable=False),
        sa.Column("propensity", sa.Float),
        sa.Column("source", sa.String(20), nullable=False),
        sa.Column("loss", sa.Float),
        sa.Column("costs", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_table(
        "snapshots",
        sa.Column(*experiment, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
        sa.Column("owner", sa.String(40)),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("taken", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("mode", sa.String(10), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
    )
    op.create_table(
        "inbox",
        sa.Column("id", long, primary_key=True),
        sa.Column(*experiment, sa.ForeignKey("experiments.id"), nullable=False),
        sa.Column("caller", sa.Integer, nullable=False),
        sa.Column("call", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("inbox_experiment", "inbox", ["experiment", "id"])
    op.create_index("inbox_key", "inbox", ["experiment", "key"])
    op.create_table(
        "answers",
        sa.Column("caller", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("call", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "blocks",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sqlite_autoincrement=True,
    )
    connection = op.get_bind()
    for view, described in VIEWS.items():
        where, fields = described.split("|")
        columns = [
            FIELD[connection.dialect.name].format(*field.split(), field.split()[0]) for field in fields.split(",")
        ]
        query = f"SELECT experiment, seq, kind AS event, {', '.join(columns)} FROM events WHERE {where}"
        connection.exec_driver_sql(f"CREATE VIEW {view} AS {query}")
    connection.execute(sa.text("DELETE FROM checkpoints"))  # states of the last version cannot be read
