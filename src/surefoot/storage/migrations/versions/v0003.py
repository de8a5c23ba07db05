"""Earlier checkpoints, an index of decisions and one of milestones, summaries of the rounds, sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Change the tables; `fill` of `storage.upgrade` fills the numbers of decisions."""
    connection = op.get_bind()
    dialect = connection.dialect.name
    experiment = ("experiment", sa.Integer)
    length = {"sqlite": "length", "postgresql": "octet_length"}[dialect]
    connection.exec_driver_sql("CREATE TEMPORARY TABLE newest AS SELECT experiment, seq, state FROM checkpoints")
    op.drop_table("checkpoints")
    op.create_table(
        "checkpoints",
        sa.Column(*experiment, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    connection.exec_driver_sql(
        "INSERT INTO checkpoints (experiment, seq, size, state) "
        f"SELECT experiment, seq, {length}(state), state FROM newest"
    )
    connection.exec_driver_sql("DROP TABLE newest")
    milestone = sa.text("kind IN ('created', 'changed', 'alarm')")
    op.create_index(
        "events_milestones",
        "events",
        ["experiment", "kind", "seq"],
        sqlite_where=milestone,
        postgresql_where=milestone,
    )
    op.create_table(
        "histories",
        sa.Column(*experiment, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("key", sa.Integer, sa.ForeignKey("keys.id"), nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
