"""A log in a SQL database.

An answer leaves after its commit, and many answers share one: whoever waits first writes everything that was appended
by then, and the others find their events written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from surefoot.experiments.events import SETTLING, Decided, Event, Log, LogFailure, read, written
from surefoot.rules import RuleError

VERSION = 1
"""Of the tables."""
READ_AT_ONCE = 5_000

metadata = sa.MetaData()
layout = sa.Table("layout", metadata, sa.Column("version", sa.Integer, primary_key=True))
events = sa.Table(
    "events",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("number", sa.BigInteger),  # of the decision that feedback, a time-out or a cancellation is about
    sa.Column("key", sa.Text),  # under which a decision was made
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("events_number", "number", sqlite_where=sa.text("number IS NOT NULL")),
    sa.Index("events_key", "key", sqlite_where=sa.text("key IS NOT NULL")),
)
checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("state", sa.LargeBinary, nullable=False),
)


def engine_for(path: Path) -> sa.Engine:
    """A SQLite engine that loses nothing it has committed, and whose transactions begin as those of a writer."""
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)), connect_args={"timeout": 10.0})

    @sa.event.listens_for(engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        for setting in ("journal_mode = WAL", "synchronous = FULL", "busy_timeout = 10000"):
            connection.execute(f"PRAGMA {setting}")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        if not connection.get_execution_options().get("reads"):
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


class SqlLog(Log):
    """A log in a SQL database; see `Log`.

    Parameters
    ----------
    engine
        The database. Its tables must exist.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._appending, self._writing = threading.Lock(), threading.Lock()
        self._waiting: list[tuple[dict[str, Any], Event]] = []  # appended, not written yet
        self._checkpoint: tuple[int, bytes] | None = None  # to be written with them
        self._failure: LogFailure | None = None
        with engine.begin() as connection:
            self._last = connection.execute(sa.select(sa.func.max(events.c.seq))).scalar() or 0
        self._durable = self._last

    @classmethod
    def open(cls, path: Path) -> SqlLog:
        """Open a SQLite file, or make one."""
        try:
            engine = engine_for(path)
            with engine.begin() as connection:
                if sa.inspect(connection).get_table_names():
                    check_layout(connection, path)
                else:
                    metadata.create_all(connection)
                    connection.execute(layout.insert().values(version=VERSION))
        except DBAPIError as error:
            raise LogFailure(f"the log {path.name} cannot be opened: {error.orig}") from error
        return cls(engine)

    def append(self, new: Sequence[Event]) -> int:
        """Add events; see `Log`."""
        with self._appending:
            for event in new:
                self._last += 1
                kind, body = written(event)
                number = event.number if isinstance(event, SETTLING) else None
                key = event.key if isinstance(event, Decided) else None
                row = {"seq": self._last, "kind": kind, "number": number, "key": key, "body": body}
                self._waiting.append((row, event))
            return self._last

    def wait(self, last: int) -> None:
        """Return when all events up to this number are durable; see `Log`."""
        if self._durable >= last:
            return
        with self._writing:
            if self._durable < last:
                self._write()

    def _write(self) -> None:
        if self._failure is not None:
            raise self._failure
        with self._appending:
            rows, checkpoint = [row for row, _ in self._waiting], self._checkpoint
        try:
            with self._engine.begin() as connection:
                if rows:
                    connection.execute(events.insert(), rows)
                if checkpoint is not None:
                    connection.execute(checkpoints.delete())
                    connection.execute(checkpoints.insert().values(seq=checkpoint[0], state=checkpoint[1]))
        except DBAPIError as error:
            self._failure = LogFailure(failure_of(error))
            raise self._failure from error
        with self._appending:
            del self._waiting[: len(rows)]
            self._checkpoint = None if self._checkpoint is checkpoint else self._checkpoint
        self._durable = rows[-1]["seq"] if rows else self._durable

    def read(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """All events after a number; see `Log`."""
        self.wait(self._last)
        while True:
            query = sa.select(events.c.seq, events.c.kind, events.c.body).where(events.c.seq > after)
            rows = self._rows(query.order_by(events.c.seq).limit(READ_AT_ONCE))
            for seq, kind, body in rows:
                yield seq, read(kind, body)
            if len(rows) < READ_AT_ONCE:
                return
            after = rows[-1][0]

    def about(self, number: int) -> list[Event]:
        """What followed a decision; see `Log`."""
        return self._found("number", number)

    def with_key(self, key: str) -> list[Decided]:
        """The decisions under a key; see `Log`."""
        return self._found("key", key)  # type: ignore[return-value]

    def _found(self, column: str, value: Any) -> list[Event]:
        with self._appending:  # first: events move from memory to the database, never back
            waiting = {row["seq"]: event for row, event in self._waiting if row[column] == value}
        query = sa.select(events.c.seq, events.c.kind, events.c.body).where(events.c[column] == value)
        found = {seq: read(kind, body) for seq, kind, body in self._rows(query.order_by(events.c.seq))}
        return list({**found, **waiting}.values())

    def _rows(self, query: Any) -> Sequence[Any]:
        with self._engine.connect().execution_options(reads=True) as connection:
            return connection.execute(query).all()

    def save_checkpoint(self, last: int, state: bytes) -> None:
        """Keep a state, with the next events that are written; see `Log`."""
        with self._appending:
            self._checkpoint = last, state

    def checkpoint(self) -> tuple[int, bytes] | None:
        """The newest state; see `Log`."""
        query = sa.select(checkpoints.c.seq, checkpoints.c.state).order_by(checkpoints.c.seq.desc()).limit(1)
        rows = self._rows(query)
        return (rows[0][0], rows[0][1]) if rows else None

    def close(self) -> None:
        """Write what is left and close the database."""
        try:
            if self._failure is None:
                self.wait(self._last)
        finally:
            self._engine.dispose()


def check_layout(connection: sa.Connection, path: Path) -> None:
    """Reject a database that is not a log, or one of another version."""
    if not sa.inspect(connection).has_table("layout"):
        raise RuleError("path", "be a log of surefoot, or a new file", path, f"another database, {path.name}")
    version = connection.execute(sa.select(layout.c.version)).scalar()
    if version != VERSION:
        raise RuleError("path", f"be a log of version {VERSION}", path, f"one of version {version}")


def failure_of(error: DBAPIError) -> str:
    """Why nothing more can be written, in a sentence."""
    if isinstance(error, IntegrityError):
        return "the log was written by another process meanwhile; open it again to go on"
    return f"the log could not be written ({error.orig}); what was not answered is lost, open it again to go on"
