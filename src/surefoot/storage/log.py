"""The log of an experiment, in a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from surefoot.experiments.events import SETTLING, Created, Decided, Event, Log, LogFailure, read, written
from surefoot.rules import RuleError
from surefoot.storage.database import Database, failure_of
from surefoot.storage.schema import checkpoints, events, experiments

READ_AT_ONCE = 5_000


class SqlLog(Log):
    """The log of one experiment in a database; see `Log`.

    Parameters
    ----------
    database
        Where it is kept.
    name
        Which experiment; None for the only one in the database, or for one that begins with the first event.
    waits
        False if the caller waits for the database itself, once for many answers.
    alone
        Whether to refuse a log that another process has open; see `Database.claim`.
    """

    def __init__(self, database: Database, name: str | None = None, *, waits: bool = True, alone: bool = False) -> None:
        self.database, self._waits, self._alone = database, waits, alone
        self._id, found = find(database, name)
        if alone and found is not None:
            database.claim(found)
        newest = sa.select(sa.func.max(events.c.seq)).where(events.c.experiment == self._id)
        self._last: int = database.rows(newest)[0][0] or 0
        self.beside: list[tuple[sa.Table, dict[str, Any]]] = []
        """Rows to write in the commit of the next events."""

    @property
    def empty(self) -> bool:
        """Whether there are no events."""
        return self._last == 0

    def append(self, new: Sequence[Event]) -> int:
        """Add events; see `Log`."""
        if self._id is None:
            self._id = begin(self.database, new[0], self._alone)
        rows, self.beside = self.beside, []
        for event in new:
            self._last += 1
            kind, body = written(event)
            decision = event.number if isinstance(event, SETTLING) else None
            key = event.key if isinstance(event, Decided) else None
            rows.append((events, {
                "experiment": self._id, "seq": self._last, "kind": kind, "decision": decision, "key": key, "body": body,
            }))  # fmt: skip
        return self.database.add(rows)

    def wait(self, ticket: int) -> None:
        """Return when events are durable; see `Log`."""
        if self._waits:
            self.database.wait(ticket)

    def read(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """All events after a number; see `Log`."""
        self.database.flush()
        while True:
            rows = self._found(events.c.seq > after, READ_AT_ONCE)
            for seq, kind, body in rows:
                yield seq, read(kind, body)
            if len(rows) < READ_AT_ONCE:
                return
            after = rows[-1][0]

    def about(self, number: int) -> list[Event]:
        """What followed a decision; see `Log`."""
        return self._with("decision", number)

    def with_key(self, key: str) -> list[Decided]:
        """The decisions under a key; see `Log`."""
        return self._with("key", key)  # type: ignore[return-value]

    def _with(self, column: str, value: Any) -> list[Event]:
        """The events with a value in a column, also those that are not written yet."""
        rows = {
            row["seq"]: (row["kind"], row["body"])
            for row in self.database.waiting(events)  # first: rows move from memory to the database, never back
            if row["experiment"] == self._id and row[column] == value
        }
        rows |= {seq: (kind, body) for seq, kind, body in self._found(events.c[column] == value)}
        return [read(*rows[seq]) for seq in sorted(rows)]

    def _found(self, where: Any, limit: int | None = None) -> Sequence[Any]:
        query = sa.select(events.c.seq, events.c.kind, events.c.body).where(events.c.experiment == self._id, where)
        return self.database.rows(query.order_by(events.c.seq).limit(limit))

    def save_checkpoint(self, last: int, state: bytes) -> None:
        """Keep a state, in the commit of the events before it; see `Log`."""

        def replace(connection: sa.Connection) -> None:
            connection.execute(checkpoints.delete().where(checkpoints.c.experiment == self._id))
            connection.execute(checkpoints.insert().values(experiment=self._id, seq=last, state=state))

        self.database.add([], replace)

    def checkpoint(self) -> tuple[int, bytes] | None:
        """The newest state; see `Log`."""
        query = sa.select(checkpoints.c.seq, checkpoints.c.state).where(checkpoints.c.experiment == self._id)
        rows = self.database.rows(query)
        return (rows[0][0], bytes(rows[0][1])) if rows else None

    def close(self) -> None:
        """Write what is left and close the database."""
        self.database.close()


def find(database: Database, name: str | None) -> tuple[int | None, str | None]:
    """The number and the name of an experiment in the database, or None if it is new."""
    query = sa.select(experiments.c.id, experiments.c.name).order_by(experiments.c.id)
    found = database.rows(query if name is None else query.where(experiments.c.name == name))
    if len(found) > 1:
        names = ", ".join(row[1] for row in found)
        raise RuleError("experiment", "be named, as the log has several", None, names)
    return (found[0][0], found[0][1]) if found else (None, None)


def begin(database: Database, first: Event, alone: bool) -> int:
    """Add the experiment that begins with this event."""
    if not isinstance(first, Created):
        raise RuleError("log", "begin with the experiment", first)
    if alone:
        database.claim(first.experiment["name"])
    try:
        with database.engine.begin() as connection:
            added = connection.execute(experiments.insert().values(name=first.experiment["name"]))
            return int(added.inserted_primary_key[0])  # type: ignore[index]
    except SQLAlchemyError as error:
        raise LogFailure(failure_of(error)) from error
