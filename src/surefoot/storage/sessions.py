"""Who is logged in. Of the token in a browser's cookie only the SHA-256 is kept, as of a key."""

from __future__ import annotations

import sqlalchemy as sa

from surefoot.storage.database import Database, Work
from surefoot.storage.keys import digest_of
from surefoot.storage.schema import sessions


def begin_session(database: Database, token: str, key: int, expires: float, now: float) -> None:
    """Keep a session of a key, and forget those that are over."""

    def work(connection: sa.Connection) -> None:
        connection.execute(sessions.delete().where(sessions.c.expires <= now))
        connection.execute(sessions.insert().values(digest=digest_of(token), key=key, expires=expires))

    _carry_out(database, token, work)


def end_session(database: Database, token: str) -> None:
    """Forget a session."""

    def work(connection: sa.Connection) -> None:
        connection.execute(sessions.delete().where(sessions.c.digest == digest_of(token)))

    _carry_out(database, token, work)


def key_of_session(database: Database, token: str, now: float) -> int | None:
    """The number of the key with which somebody has logged in, if the session is not over."""
    query = sa.select(sessions.c.key).where(sessions.c.digest == digest_of(token), sessions.c.expires > now)
    rows = database.rows(query)
    return int(rows[0][0]) if rows else None


def _carry_out(database: Database, token: str, work: Work) -> None:
    database.wait(database.add([], {("session", token): work}))
