"""Bringing the tables of a database to the present version."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError

from surefoot.rules import RuleError
from surefoot.storage import schema
from surefoot.storage.database import transaction, version_of

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(url: str | Path | sa.URL) -> tuple[str | None, str]:
    """Make or migrate the tables; returns the versions before and after.

    A database with other tables, or with those of a version that this one does not know, is refused.
    """
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with transaction(url) as connection:
        before = version_of(connection)
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError:
            rule = f"have tables of version {schema.HEAD} or older"
            raise RuleError("db", rule, None, f"version {before}") from None
    return before, schema.HEAD
