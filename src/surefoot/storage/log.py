"""The log of an experiment, in a database."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from msgspec.json import decode
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from surefoot.experiments.errors import Conflict
from surefoot.experiments.events import (
    SETTLING,
    Created,
    Decided,
    Event,
    Log,
    LogFailure,
    Settled,
    superfluous,
)
from surefoot.rules import RuleError
from surefoot.storage.bodies import read, written
from surefoot.storage.database import Database, Work, failure_of
from surefoot.storage.schema import checkpoints, events, experiments, rounds
from surefoot.storage.snapshots import check_taken_in, take_over

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
        self.taken = 0
        """The last row of the inbox that was taken in, when the log was opened."""
        self._id, found = find(database, name)
        if alone and found is not None:
            database.claim(found)
        if alone and self._id is not None and found is not None:
            if database.owner is None:
                check_taken_in(database, self._id, found)
            else:
                self.taken = take_over(database, self._id)
        newest = sa.select(sa.func.max(events.c.seq)).where(events.c.experiment == self._id)
        self._last: int = database.rows(newest)[0][0] or 0
        self.beside: list[tuple[sa.Table, dict[str, Any]]] = []
        """Rows to write in the commit of the next events."""
        self.work: dict[Any, Work] = {}
        """What else is to be done in that commit; see `Database.add`."""
        self._recalls: tuple[Recall, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there are no events."""
        return self._last == 0

    @property
    def id(self) -> int:
        """The number of the experiment in the database."""
        assert self._id is not None
        return self._id

    def append(self, new: Sequence[Event], settled: Sequence[Settled] = ()) -> int:
        """Add events; see `Log`."""
        if self._id is None:
            self._id = begin(self.database, new[0], self._alone)
        rows, self.beside = self.beside, []
        work, self.work = self.work, {}
        for event in new:
            self._last += 1
            kind, body = written(event)
            decision = event.number if isinstance(event, (Decided, *SETTLING)) else None
            key = event.key if isinstance(event, Decided) else None
            for recall in self._recalls:
                recall.add(decision, self._last, event)
            rows.append((events, {
                "experiment": self._id, "seq": self._last, "kind": kind, "decision": decision, "key": key, "body": body,
            }))  # fmt: skip
        for one in settled:
            costs = json.dumps(one.costs, separators=(",", ":"))
            rows.append((rounds, {"experiment": self._id, **one._asdict(), "costs": costs}))
        return self.database.add(rows, work)

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
        found = next((one.found[number] for one in self._recalls if one.done and number in one.found), None)
        about = self._with("decision", number) if found is None else sorted(found.items(), key=itemgetter(0))
        return [event for _, event in about if not isinstance(event, Decided)]

    @contextmanager
    def recall(self, numbers: Iterable[int]) -> Iterator[Recall]:
        """While this lasts, `about` needs not read what a `Recall` has read of these decisions."""
        recall = Recall(self, numbers)
        self._recalls = (*self._recalls, recall)
        try:
            yield recall
        finally:
            self._recalls = tuple(one for one in self._recalls if one is not recall)

    def decided(self, number: int) -> tuple[int, Decided] | None:
        """A decision and the number of its event; see `Log`."""
        return next(((seq, one) for seq, one in self._with("decision", number) if isinstance(one, Decided)), None)

    def with_key(self, key: str) -> list[Decided]:
        """The decisions under a key; see `Log`."""
        return [event for _, event in self._with("key", key)]  # type: ignore[misc]

    def _with(self, column: str, *values: Any) -> list[tuple[int, Event]]:
        """The events with these values in a column, also those that are not written yet, with their numbers."""
        rows = {
            row["seq"]: (row["kind"], row["body"])
            for row in self.database.waiting(events)  # first: rows move from memory to the database, never back
            if row["experiment"] == self._id and row[column] in values
        }
        rows |= {seq: (kind, body) for seq, kind, body in self._found(events.c[column].in_(values))}
        return [(seq, read(*rows[seq])) for seq in sorted(rows)]

    def _found(self, where: Any, limit: int | None = None) -> Sequence[Any]:
        query = sa.select(events.c.seq, events.c.kind, events.c.body).where(events.c.experiment == self._id, where)
        return self.database.tuples(query.order_by(events.c.seq).limit(limit))

    def rounds(self, after: int = 0, limit: int | None = None) -> Iterator[Settled]:
        """The rounds after a number; see `Log`."""
        self.database.flush()
        last = sys.maxsize if limit is None else after + limit
        columns = [rounds.c[name] for name in Settled._fields]
        query = sa.select(*columns).where(rounds.c.experiment == self._id, rounds.c.seq <= last)
        while True:
            found = self.database.rows(query.where(rounds.c.seq > after).order_by(rounds.c.seq).limit(READ_AT_ONCE))
            for row in found:
                yield Settled._make((*row[:-2], decode(row.costs), row.at))
            if len(found) < READ_AT_ONCE:
                return
            after = found[-1].seq

    def save_checkpoint(self, last: int, state: bytes) -> None:
        """Keep a state, in the commit of the events before it; see `Log`."""
        of = checkpoints.c.experiment == self._id
        sizes = sa.select(checkpoints.c.seq, checkpoints.c.size).where(of).order_by(checkpoints.c.seq)

        def keep(connection: sa.Connection) -> None:
            connection.execute(checkpoints.delete().where(of, checkpoints.c.seq >= last))
            row = {"experiment": self._id, "seq": last, "size": len(state), "state": state}
            connection.execute(checkpoints.insert().values(**row))
            dropped = superfluous([(seq, size) for seq, size in connection.execute(sizes)])
            if dropped:  # one a time, unless states have grown: a commit never has many to remove
                connection.execute(checkpoints.delete().where(of, checkpoints.c.seq.in_(dropped)))

        self.database.add([], {(checkpoints, self._id): keep})

    def checkpoint(self, before: int | None = None) -> tuple[int, bytes] | None:
        """The newest state; see `Log`."""
        query = sa.select(checkpoints.c.seq, checkpoints.c.state).where(checkpoints.c.experiment == self._id)
        if before is not None:
            query = query.where(checkpoints.c.seq < before)
        rows = self.database.rows(query.order_by(checkpoints.c.seq.desc()).limit(1))
        return (rows[0][0], bytes(rows[0][1])) if rows else None

    def close(self) -> None:
        """Write what is left and close the database."""
        self.database.close()


class Recall:
    """What followed some decisions, read in a thread, so that nobody has to wait for the database meanwhile.

    Events that are appended while it is read, or later, are added: it stays complete.
    """

    def __init__(self, log: SqlLog, numbers: Iterable[int]) -> None:
        self._log = log
        self.found: dict[int, dict[int, Event]] = {number: {} for number in numbers}
        self.done = False

    def add(self, number: int | None, seq: int, event: Event) -> None:
        """Add an event that is appended."""
        if number in self.found:
            self.found[number][seq] = event

    def read(self) -> None:
        """Read what was appended before."""
        for seq, event in self._log._with("decision", *self.found):
            self.add(event.number, seq, event)  # type: ignore[union-attr]
        self.done = True


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
    name = first.experiment["name"]
    if alone:
        database.claim(name)
    try:
        with database.engine.begin() as connection:
            added = connection.execute(experiments.insert().values(name=name))
            number = int(added.inserted_primary_key[0])  # type: ignore[index]
    except IntegrityError:
        raise Conflict(f"there is an experiment {name!r} already") from None
    except SQLAlchemyError as error:
        raise LogFailure(failure_of(error)) from error
    if alone and database.owner is not None:
        take_over(database, number)
    return number
