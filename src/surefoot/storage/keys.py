"""Keys for the service, and the audit of changes.

Keys are random, so a plain SHA-256 of each is kept: nobody can guess one, and a slow hash would cost more than the rest
of a request.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from surefoot.experiments.experiment import checked_id
from surefoot.rules import RuleError, choice
from surefoot.storage.database import Database
from surefoot.storage.schema import audit, keys
from surefoot.storage.snapshots import only_one

ROLES = ("decide", "feedback", "read", "admin")
PREFIX = "sf_"


class Key(NamedTuple):
    """What a key allows. The key itself is not kept."""

    id: int
    name: str
    roles: tuple[str, ...]
    experiment: str | None  # None: all of them
    created: float
    expires: float | None
    revoked: float | None

    def valid(self, now: float) -> bool:
        """Whether the key may be used at this time."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    def allows(self, role: str, experiment: str | None) -> bool:
        """Whether the key allows a role for an experiment; None: for all of them."""
        return ("admin" in self.roles or role in self.roles) and self.experiment in (None, experiment)


def create_key(
    database: Database,
    name: str,
    roles: Sequence[str],
    now: float,
    experiment: str | None = None,
    expires: float | None = None,
    who: str = "command line",
) -> str:
    """Make a key and return it; it cannot be shown again."""
    key = PREFIX + secrets.token_urlsafe(32)
    database.wait(database.add(rows_of(key, name, roles, now, experiment, expires, who)))
    return key


def rows_of(
    key: str, name: str, roles: Sequence[str], now: float, experiment: str | None, expires: float | None, who: str
) -> list[tuple[sa.Table, dict[str, Any]]]:
    """What is kept of a new key, and the note in the audit."""
    if not 1 <= len(name.strip()) <= len(name) <= 60 or not name.isprintable():
        raise RuleError("name", "be printable text of 1 to 60 characters", name)
    if not roles:
        raise RuleError("roles", f"have at least one of {', '.join(ROLES)}", roles)
    chosen = sorted({choice("role", role, ROLES) for role in roles})
    if experiment is not None:
        checked_id(experiment)
    row = {"name": name, "digest": digest_of(key), "roles": ",".join(chosen), "experiment": experiment,
           "created": now, "expires": expires, "revoked": None}  # fmt: skip
    detail = {"name": name, "roles": chosen, "expires": expires}
    return [(keys, row), audit_row(now, who, "create key", experiment, None, detail)]


def first_key(database: Database, now: float) -> str | None:
    """Make an admin key if there is no key at all: one, however many processes start at the same time."""
    key, made = PREFIX + secrets.token_urlsafe(32), []
    rows = rows_of(key, "first", ["admin"], now, None, None, "serve")

    def work(connection: sa.Connection) -> None:
        only_one(connection)
        if connection.execute(sa.select(keys.c.id).limit(1)).first() is None:
            for table, row in rows:
                connection.execute(table.insert().values(**row))
            made.append(key)

    database.wait(database.add([], {"first key": work}))
    return made[0] if made else None


def digest_of(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


def list_keys(database: Database) -> dict[str, Key]:
    """All keys, by their digests."""
    columns = keys.c.digest, keys.c.id, keys.c.name, keys.c.roles, keys.c.experiment
    query = sa.select(*columns, keys.c.created, keys.c.expires, keys.c.revoked).order_by(keys.c.id)
    return {
        digest: Key(id, name, tuple(roles.split(",")), *rest) for digest, id, name, roles, *rest in database.rows(query)
    }


def revoke_key(database: Database, id: int, now: float, who: str = "command line") -> bool:
    """Revoke a key; returns whether there is a key of this number."""
    if all(key.id != id for key in list_keys(database).values()):
        return False

    def revoke(connection: sa.Connection) -> None:
        connection.execute(keys.update().where(keys.c.id == id, keys.c.revoked.is_(None)).values(revoked=now))

    database.wait(database.add([audit_row(now, who, "revoke key", None, None, {"key": id})], {"revoke": revoke}))
    return True


def audit_row(
    at: float, who: str, action: str, experiment: str | None, reason: str | None, detail: Mapping[str, Any]
) -> tuple[sa.Table, dict[str, Any]]:
    """A row of the audit: who did what, when and why."""
    return audit, {
        "at": at, "who": who, "action": action, "experiment": experiment, "reason": reason,
        "detail": json.dumps(detail, sort_keys=True),
    }  # fmt: skip


def read_audit(
    database: Database, experiment: str | None, after: int = 0, limit: int = 1000, newest: bool = False
) -> list[dict[str, Any]]:
    """The audit of an experiment, or of everything, oldest first, or the newest entries first."""
    order = audit.c.id.desc() if newest else audit.c.id
    query = sa.select(audit).where(audit.c.id > after).order_by(order).limit(limit)
    if experiment is not None:
        query = query.where(audit.c.experiment == experiment)
    return [{**row._mapping, "detail": json.loads(row.detail)} for row in database.rows(query)]
