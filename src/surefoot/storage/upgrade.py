"""Bringing the tables of a database to the present version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy.exc import SQLAlchemyError

from surefoot.experiments.events import MemoryLog
from surefoot.experiments.fold import Fold
from surefoot.rules import RuleError
from surefoot.storage import schema
from surefoot.storage.bodies import read
from surefoot.storage.database import transaction, version_of
from surefoot.storage.schema import events, experiments, rounds

MIGRATIONS = Path(__file__).parent / "migrations"
NUMBER = {
    "sqlite": "json_extract(body, '$.number')",
    "postgresql": "CAST(CAST(body AS jsonb) ->> 'number' AS BIGINT)",
}
"""The number of a decision, in its event."""


class Upgraded(NamedTuple):
    """What an upgrade has done."""

    before: str | None
    after: str
    unfilled: dict[str, str]
    """By experiment whose log cannot be read: why not."""


def upgrade(url: str | Path | sa.URL) -> Upgraded:
    """Make or migrate the tables, and fill what is new in them from the logs.

    A database with other tables, or with those of a version that this one does not know, is refused. An experiment
    whose log cannot be read is left out; once its log is mended, a further upgrade fills what belongs to it.
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
        unfilled = fill(connection, every=before != schema.HEAD)
    return Upgraded(before, schema.HEAD, unfilled)


def fill(connection: sa.Connection, every: bool) -> dict[str, str]:
    """Fill the rounds and the numbers of decisions from the logs; returns why, by experiment, if that is impossible.

    Parameters
    ----------
    every
        Whether to look at every experiment, or only at those that have decisions without a number: an earlier upgrade
        could not fill them.
    """
    unfilled = {}
    for one, name in connection.execute(sa.select(experiments.c.id, experiments.c.name)).all():
        missing = sa.select(events.c.seq).where(
            events.c.experiment == one, events.c.decision.is_(None), events.c.kind == "decided"
        )
        if not every and connection.execute(missing.limit(1)).first() is None:
            continue
        try:
            with connection.begin_nested():
                fill_one(connection, one)
        except Exception:
            reason = unreadable(connection, one)
            if reason is None:  # the database has failed, not the log
                raise
            unfilled[name] = reason
    return unfilled


def fill_one(connection: sa.Connection, experiment: int) -> None:
    """Fill the rounds and the numbers of decisions of an experiment, as far as they are missing."""
    number = NUMBER[connection.dialect.name]
    connection.execute(
        sa.text(
            f"UPDATE events SET decision = {number} WHERE experiment = :one AND kind = 'decided' AND decision IS NULL"
        ),
        {"one": experiment},
    )
    if connection.execute(sa.select(rounds.c.seq).where(rounds.c.experiment == experiment).limit(1)).first() is None:
        rows = [{"experiment": experiment, **row} for row in rounds_of(connection, experiment)]
        if rows:
            connection.execute(rounds.insert(), rows)


def unreadable(connection: sa.Connection, experiment: int) -> str | None:
    """Why the log of an experiment cannot be read; None if it can."""
    try:
        for _ in rounds_of(connection, experiment):
            pass
    except SQLAlchemyError:
        raise
    except Exception as error:  # whatever the events hold
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return None


def rounds_of(connection: sa.Connection, experiment: int) -> Iterator[dict[str, Any]]:
    """The rounds that the log of an experiment leads to."""
    query = sa.select(events.c.kind, events.c.body).where(events.c.experiment == experiment).order_by(events.c.seq)
    log = MemoryLog()
    fold = Fold(log)
    fold.take_rounds()
    for kind, body in connection.execute(query):
        event = read(kind, body)
        fold.apply(event)
        log.append([event])
        for one in fold.take_rounds():
            row = one._asdict()
            row["costs"] = json.dumps(row["costs"], separators=(",", ":"))
            yield row
