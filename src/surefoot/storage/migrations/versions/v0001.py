"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

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


def upgrade() -> None:
    """Make the tables."""
    experiment = ("experiment", sa.Integer)
    op.create_table(
        "experiments",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(100), nullable=False, unique=True),
    )
    op.create_table(
        "events",
        sa.Column(*experiment, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("decision", sa.BigInteger),
        sa.Column("key", sa.Text),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("events_decision", "events", ["experiment", "decision"])
    has_key = sa.text("key IS NOT NULL")
    op.create_index("events_key", "events", ["experiment", "key"], sqlite_where=has_key, postgresql_where=has_key)
    op.create_table(
        "checkpoints",
        sa.Column(*experiment, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("roles", sa.String(100), nullable=False),
        sa.Column("experiment", sa.String(100)),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("revoked", sa.Float),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("who", sa.String(100), nullable=False),
        sa.Column("action", sa.String(50), nullable=False),
        sa.Column("experiment", sa.String(100)),
        sa.Column("reason", sa.Text),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("audit_experiment", "audit", ["experiment", "id"])
    connection = op.get_bind()
    for statement in FINAL[connection.dialect.name]:
        connection.exec_driver_sql(statement)
