"""A database, and a writer that shares commits.

An answer leaves after its commit, and many answers share one: whoever flushes first writes everything that is waiting,
and the others find their rows written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

import surefoot.storage.schema as schema
from surefoot.experiments.events import LogFailure
from surefoot.extras import needed_by
from surefoot.rules import RuleError
from surefoot.storage.claims import claim, release

CONNECT_WITHIN = 5
"""Seconds to wait for a connection to PostgreSQL."""

INSERTS = {table: table.insert() for table in schema.metadata.tables.values()}

Work = Callable[[sa.Connection], Any]


class Database:
    """A database with the tables of `schema`, and the rows that wait to be written to it.

    Parameters
    ----------
    engine
        As `connect` makes it.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.durable = 0  # the ticket of the last row that was committed
        self._ticket = 0
        self._queue, self._commit = threading.Lock(), threading.Lock()
        self._waiting: list[tuple[sa.Table, dict[str, Any]]] = []
        self._work: list[Work] = []
        self._failure: LogFailure | None = None
        self._connection: sa.Connection | None = None  # of the writer
        self._claims: list[Path] = []

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

    def add(self, rows: Sequence[tuple[sa.Table, dict[str, Any]]], work: Work | None = None) -> int:
        """Queue rows, and what else is to be done in the same commit; returns a ticket for `wait`."""
        with self._queue:
            self._waiting += rows
            if work is not None:
                self._work.append(work)
            self._ticket += 1
            return self._ticket

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
            ticket, n_rows, n_work = self._ticket, len(self._waiting), len(self._work)
            rows, work = self._waiting[:n_rows], self._work[:n_work]
        try:
            if self._connection is None:
                self._connection = self.engine.connect()
            with self._connection.begin():
                by_table: dict[sa.Table, list[dict[str, Any]]] = {}
                for table, row in rows:
                    by_table.setdefault(table, []).append(row)
                for table, some in by_table.items():
                    self._connection.execute(INSERTS[table], some)
                for one in work:
                    one(self._connection)
        except Exception as error:  # whatever it was: what is waiting cannot be written, now or later
            self._failure = LogFailure(failure_of(error))
            raise self._failure from error
        with self._queue:
            del self._waiting[:n_rows], self._work[:n_work]
        self.durable = ticket

    def rows(self, query: Any) -> Sequence[Any]:
        """The rows of a query, beside any commit."""
        try:
            with self.engine.connect().execution_options(reads=True) as connection:
                return connection.execute(query).all()
        except SQLAlchemyError as error:
            raise LogFailure(f"the database cannot be read: {reason_of(error)}") from error

    def claim(self, name: str) -> None:
        """Keep other processes from running this experiment, as long as the database is open and in a file."""
        path = self.engine.url.database
        if self.engine.dialect.name == "sqlite" and path:
            self._claims.append(claim(Path(path).resolve(), name))

    def close(self) -> None:
        """Write what is waiting and let go of the database."""
        try:
            if self._failure is None:
                self.flush()
        finally:
            while self._claims:
                release(self._claims.pop())
            if self._connection is not None:
                self._connection.close()
            self.engine.dispose()


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
            return sa.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_WITHIN})
    return sqlite(sa.URL.create("sqlite", database=str(url)))


def sqlite(url: sa.URL) -> sa.Engine:
    """An engine for a SQLite file, whose transactions begin as those of a writer unless they are for reading."""
    engine = sa.create_engine(url, connect_args={"timeout": 10.0})

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


def failure_of(error: Exception) -> str:
    """Why nothing more can be written, in a sentence."""
    if isinstance(error, IntegrityError):
        return "the log was written by another process meanwhile; open it again to go on"
    return f"the log could not be written ({reason_of(error)}); what was not answered is lost, open it again to go on"


def reason_of(error: Exception) -> str:
    """The first line of an error, as the database words it."""
    reason = error.orig if isinstance(error, DBAPIError) else error
    return str(reason).strip().split("\n", 1)[0]
