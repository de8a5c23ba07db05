"""A database, and a writer that shares commits.

An answer leaves after its commit, and many answers share one: whoever flushes first writes everything that is waiting,
and the others find their rows written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from msgspec.json import encode
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

import surefoot.storage.schema as schema
from surefoot.experiments.events import LogFailure
from surefoot.extras import needed_by
from surefoot.rules import RuleError
from surefoot.storage.claims import Claims, FileClaims, ServerClaims

TABLES = 0x5F00_7AB1
"""The advisory lock of PostgreSQL under which tables are made."""
CONNECT_WITHIN = 5
"""Seconds to wait for a connection to PostgreSQL."""

INSERTS = {table: table.insert() for table in schema.metadata.tables.values()}

T = TypeVar("T")
Rows = list[dict[str, Any]]
Work = Callable[[sa.Connection], Any]
Gate = Callable[[sa.Connection, dict[sa.Table, Rows]], None]

SESSION = (
    "default_transaction_isolation = 'read committed'",  # checks under a lock must see what was committed before it
    "synchronous_commit = on",  # whatever the server's own setting: an answer means that it is on disk
    "idle_in_transaction_session_timeout = '10s'",  # a process that stands still in a commit does not hold up others
    "lock_timeout = '10s'",
    "tcp_keepalives_idle = 5",  # the claims of a machine that is gone end soon
    "tcp_keepalives_interval = 2",
    "tcp_keepalives_count = 3",
)
"""Settings of every connection to PostgreSQL."""


class Database:
    """A database with the tables of `schema`, and the rows that wait to be written to it.

    Parameters
    ----------
    engine
        As `connect` makes it.
    """

    gate: Gate | None = None
    """What looks at the rows of each commit, and may refuse them."""
    owner: str | None = None
    """The name of this process, if it shares experiments with others."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.durable = 0  # the ticket of the last row that was committed
        self._ticket = 0
        self._queue, self._commit = threading.Lock(), threading.Lock()
        self._waiting: list[tuple[sa.Table, dict[str, Any]]] = []
        self._work: dict[Hashable, Work] = {}
        self._failure: LogFailure | None = None
        self._connection: sa.Connection | None = None  # of the writer
        self._claims = claims_of(engine)

    @classmethod
    def open(cls, url: str | Path | sa.URL) -> Database:
        """Connect to a database; make the tables if it is empty, refuse tables of another version.

        Parameters
        ----------
        url
            The path of a SQLite file, or an address such as ``postgresql://user@host/name``.
        """
        with transaction(url) as connection:
            version = version_of(connection)
            if version is None:
                schema.metadata.create_all(connection)
                connection.execute(schema.version.insert().values(version_num=schema.HEAD))
            elif version != schema.HEAD:
                rule = f"have tables of version {schema.HEAD} (`surefoot db upgrade` brings older ones there)"
                raise RuleError("db", rule, None, f"version {version}")
        return cls(connect(url))

    def add(self, rows: Sequence[tuple[sa.Table, dict[str, Any]]], work: Mapping[Hashable, Work] | None = None) -> int:
        """Queue rows, and what else is to be done in the same commit; returns a ticket for `wait`.

        Parameters
        ----------
        work
            By key: what takes the place of earlier work under the same key that is still waiting.
        """
        with self._queue:
            self._waiting += rows
            for key, one in (work or {}).items():
                self._work.pop(key, None)
                self._work[key] = one
            self._ticket += 1
            return self._ticket

    @property
    def failed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._failure is not None

    @property
    def newest(self) -> int:
        """The ticket of what was queued last."""
        return self._ticket

    def waiting(self, table: sa.Table) -> list[dict[str, Any]]:
        """The rows for a table that are not written yet."""
        with self._queue:
            return [row for one, row in self._waiting if one is table]

    def wait(self, ticket: int) -> None:
        """Return when everything up to this ticket is durable."""
        if self.durable < ticket:
            with self._commit:
                if self.durable < ticket:
                    self._write()

    def flush(self) -> None:
        """Write everything that is waiting."""
        self.wait(self._ticket)

    def _write(self) -> None:
        if self._failure is not None:
            raise self._failure
        with self._queue:
            ticket, n_rows = self._ticket, len(self._waiting)
            rows, work = self._waiting[:n_rows], dict(self._work)
        try:
            if self._connection is None:
                self._connection = self.engine.connect()
            with self._connection.begin():
                by_table: dict[sa.Table, Rows] = {}
                for table, row in rows:
                    by_table.setdefault(table, []).append(row)
                if self.gate is not None:
                    self.gate(self._connection, by_table)
                for table, some in by_table.items():
                    if some:
                        insert(self._connection, table, some)
                for one in work.values():
                    one(self._connection)
        except Exception as error:  # whatever it was: what is waiting cannot be written, now or later
            self._failure = error if isinstance(error, LogFailure) else LogFailure(failure_of(error))
            raise self._failure from error
        with self._queue:
            del self._waiting[:n_rows]
            self._work = {key: one for key, one in self._work.items() if work.get(key) is not one}
        self.durable = ticket

    def rows(self, query: Any) -> Sequence[Any]:
        """The rows of a query, beside any commit."""
        return self._read(query, sa.CursorResult.all)

    def tuples(self, query: Any) -> Sequence[Any]:
        """The rows as the driver gives them, which is faster if there are many."""
        return self._read(query, lambda found: found.cursor.fetchall())

    def _read(self, query: Any, rows: Callable[[sa.CursorResult[Any]], T]) -> T:
        try:
            with self.engine.connect().execution_options(reads=True) as connection:
                return rows(connection.execute(query))
        except (SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error) as error:
            raise LogFailure(f"the database cannot be read: {reason_of(error)}") from error

    def claim(self, name: str) -> None:
        """Keep other processes from running this experiment, until it is released or the database is closed."""
        self._claims.add(name)

    def release(self, name: str) -> None:
        """Give a claim back."""
        self._claims.discard(name)

    def unclaimed(self, names: Sequence[str]) -> list[str]:
        """The experiments that no process seems to run."""
        return self._claims.free(names)

    def check_claims(self) -> int:
        """Raise `LogFailure` if claims may be lost; returns how many processes learn, as far as can be told."""
        return self._claims.check()

    def close(self) -> None:
        """Write what is waiting and let go of the database."""
        try:
            if self._failure is None:
                self.flush()
        finally:
            self._claims.close()
            self._failure = self._failure or LogFailure("the database is closed")
            if self._connection is not None:
                self._connection.close()
            self.engine.pool.dispose()  # not the engine's: that makes a new pool, which would keep connections again


class Pool(sa.QueuePool):
    """A pool that keeps no connection once it is disposed of.

    A thread may still read then: what awaited it was cancelled, but a thread cannot be. An ordinary pool takes its
    connection back, and keeps it open.
    """

    _disposed = False

    def dispose(self) -> None:
        """Close the connections, and from now on each one that comes back."""
        self._disposed = True
        super().dispose()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        super()._do_return_conn(record)
        if self._disposed:  # looked at after it is back, so that one of the two closes it
            super().dispose()


def connect(url: str | Path | sa.URL) -> sa.Engine:
    """An engine that loses nothing it has committed."""
    if isinstance(url, str) and "://" in url:
        url = sa.make_url(url)
    if isinstance(url, sa.URL):
        if url.get_backend_name() == "sqlite":
            return sqlite(url)
        if url.get_backend_name() != "postgresql":
            raise RuleError("db", "be a SQLite file or an address of PostgreSQL", url, url.get_backend_name())
        url = url.set(drivername="postgresql+psycopg")
        with needed_by("a PostgreSQL database", "postgres"):
            return postgresql(url)
    return sqlite(sa.URL.create("sqlite", database=str(url)))


def postgresql(url: sa.URL) -> sa.Engine:
    """An engine for a PostgreSQL database."""
    keepalive = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
    keepalive["tcp_user_timeout"] = 11_000  # milliseconds: the same for what was sent, and never reached the server
    engine = sa.create_engine(
        url, poolclass=Pool, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_WITHIN, **keepalive}
    )

    @sa.event.listens_for(engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            for setting in SESSION:
                cursor.execute(f"SET {setting}")
        connection.commit()

    return engine


def sqlite(url: sa.URL) -> sa.Engine:
    """An engine for a SQLite file, whose transactions begin as those of a writer unless they are for reading."""
    engine = sa.create_engine(url, connect_args={"timeout": 10.0})
    if type(engine.pool) is sa.QueuePool:  # a database in memory has a pool of another kind
        engine = sa.create_engine(url, poolclass=Pool, connect_args={"timeout": 10.0})

    @sa.event.listens_for(engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        if not connection.get_execution_options().get("reads"):
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


@contextmanager
def transaction(url: str | Path | sa.URL) -> Iterator[sa.Connection]:
    """A connection for one transaction; why there is none, or why it failed, is said in a sentence."""
    engine = connect(url)
    try:
        with engine.begin() as connection:
            if connection.dialect.name == "postgresql":  # one process at a time makes tables, or changes them
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(TABLES)))
            yield connection
    except SQLAlchemyError as error:
        raise LogFailure(f"the database cannot be opened: {reason_of(error)}") from error
    finally:
        engine.dispose()


def version_of(connection: sa.Connection) -> str | None:
    """The version of the tables, or None if there are none; other tables are refused."""
    found = set(sa.inspect(connection).get_table_names())
    if not found:
        return None
    if schema.version.name not in found:
        raise RuleError("db", "be empty or have the tables of surefoot", None, f"tables {', '.join(sorted(found))}")
    return str(connection.execute(sa.select(schema.version.c.version_num)).scalar())


def insert(connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
    """Insert rows; all of them have the same columns.

    In PostgreSQL it takes one message. With several, a process that stands still between two of them keeps its locks:
    for the server it is then in the middle of a statement, which nothing ends.
    """
    if connection.dialect.name != "postgresql":
        connection.execute(INSERTS[table], rows)
        return
    connection.execute(from_json(table, tuple(rows[0]), connection.dialect), {"rows": encode(rows).decode()})


@cache
def from_json(table: sa.Table, names: tuple[str, ...], dialect: sa.Dialect) -> sa.TextClause:
    """The statement of PostgreSQL that inserts rows which come as one JSON text."""
    columns = ", ".join(f'"{name}"' for name in names)
    types = ", ".join(f'"{name}" {table.c[name].type.compile(dialect)}' for name in names)
    return sa.text(
        f"INSERT INTO {table.name} ({columns}) "
        f"SELECT {columns} FROM json_to_recordset(CAST(:rows AS json)) AS r({types})"
    )


def claims_of(engine: sa.Engine) -> Claims:
    """Where claims on the experiments of a database are made."""
    path = engine.url.database
    if engine.dialect.name == "postgresql":
        return ServerClaims(engine)
    return FileClaims(Path(path).resolve() if path else None)


def notify(connection: sa.Connection, channel: str) -> None:
    """Tell other processes, when this transaction is committed, that there is news; others find it by looking."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"NOTIFY {channel}")


def failure_of(error: Exception) -> str:
    """Why nothing more can be written, in a sentence."""
    if isinstance(error, IntegrityError):
        return "the log was written by another process meanwhile; open it again to go on"
    return f"the log could not be written ({reason_of(error)}); what was not answered is lost, open it again to go on"


def reason_of(error: Exception) -> str:
    """The first line of an error, as the database words it."""
    reason = error.orig if isinstance(error, DBAPIError) else error
    return str(reason).strip().split("\n", 1)[0]
