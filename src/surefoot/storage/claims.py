"""Claims on experiments: one process runs an experiment, and others are refused.

For a database in a file, a claim is a lock on a file beside it. In PostgreSQL it is an advisory lock of a connection
that is kept for claims. The system, or the server, lets go of both when the process ends, however it ends. Should two
processes believe that they run an experiment all the same, the numbers of their events collide, and the second to write
is refused.
"""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from surefoot.experiments.events import LogFailure

GIVEN_BACK = "the database is closed, so nothing can be claimed in it"

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

_LOCK = threading.Lock()
_HELD: dict[tuple[int, Path], tuple[IO[bytes], int]] = {}
"""By process and path: the file that is locked, and how often it is claimed. A forked process has to claim anew."""
IDLE = "15s"
"""How long a learner may stand still before the server takes its claims away. `check` keeps them."""
PRESENT = 0x5F00
"""The class of the advisory locks by which learners show that they are there."""

HERE = "locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
"""Advisory locks of this database."""


class Claimed(LogFailure):
    """Another process runs the experiment."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the experiment {name} is open in another process")


class Claims(ABC):
    """The claims of one `Database`."""

    @abstractmethod
    def add(self, name: str) -> None:
        """Claim an experiment, or raise `Claimed`."""

    @abstractmethod
    def free(self, names: Sequence[str]) -> list[str]:
        """Those that nobody seems to have claimed, in one question for all."""

    @abstractmethod
    def discard(self, name: str) -> None:
        """Give a claim back."""

    @abstractmethod
    def check(self) -> int:
        """Raise `LogFailure` if claims may be lost; returns how many processes learn, as far as can be told."""

    @abstractmethod
    def close(self) -> None:
        """Give all claims back. Nothing can be claimed afterwards: nobody would give it back."""


class FileClaims(Claims):
    """Locks on files beside the database.

    Within a process an experiment may be claimed several times, so that a log can be opened again without closing it
    first.

    Parameters
    ----------
    database
        The file; None for a database in memory, of which nobody else knows.
    """

    def __init__(self, database: Path | None) -> None:
        self._database = database if fcntl is not None else None
        self._mine: dict[str, Path] = {}
        self._closed = False

    def add(self, name: str) -> None:
        """Claim an experiment; see `Claims`."""
        if self._database is None or name in self._mine:
            return
        path = self._database.with_name(f"{self._database.name}.{name}.lock")
        with _LOCK:
            if self._closed:
                raise LogFailure(GIVEN_BACK)
            held = _HELD.get((os.getpid(), path))
            if held is None:
                file = path.open("wb")
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    file.close()
                    raise Claimed(name) from None
                held = file, 0
            _HELD[os.getpid(), path] = held[0], held[1] + 1
            self._mine[name] = path

    def free(self, names: Sequence[str]) -> list[str]:
        """All: to try a lock on a file costs no more than to ask; see `Claims`."""
        return list(names)

    def discard(self, name: str) -> None:
        """Give a claim back; see `Claims`."""
        path = self._mine.pop(name, None)
        if path is None:
            return
        with _LOCK:
            held = _HELD.pop((os.getpid(), path), None)
            if held is not None and held[1] > 1:
                _HELD[os.getpid(), path] = held[0], held[1] - 1
            elif held is not None:
                held[0].close()

    def check(self) -> int:
        """Locks on files are kept as long as the process lives; see `Claims`."""
        return 1

    def close(self) -> None:
        """Give all claims back."""
        with _LOCK:
            self._closed = True
        for name in list(self._mine):
            self.discard(name)


class ServerClaims(Claims):
    """Advisory locks of PostgreSQL.

    Parameters
    ----------
    engine
        Of the database.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine, self._lock = engine, threading.Lock()
        self._connection: sa.Connection | None = None
        self._mine: set[str] = set()
        self._present = self._closed = False

    def _ask(self, function: str, *arguments: Any) -> Any:
        return self._rows(sa.select(getattr(sa.func, function)(*arguments)))[0][0]

    def _rows(self, query: Any) -> Sequence[Any]:
        if self._closed:  # a connection that began now would be ended by nobody
            raise LogFailure(GIVEN_BACK)
        try:
            if self._connection is None:
                self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            return self._connection.execute(query).all()
        except SQLAlchemyError as error:
            raise LogFailure(f"the claims on experiments are lost: {str(error).splitlines()[0]}") from error

    def add(self, name: str) -> None:
        """Claim an experiment; see `Claims`."""
        with self._lock:
            if name not in self._mine:
                if not self._ask("pg_try_advisory_lock", number_of(name)):
                    raise Claimed(name)
                self._mine.add(name)

    def free(self, names: Sequence[str]) -> list[str]:
        """Those whose advisory lock nobody holds; see `Claims`."""
        numbers = sa.text(f"SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE {HERE} AND objsubid = 1")
        with self._lock:
            held = {number for (number,) in self._rows(numbers)}
        return [name for name in names if number_of(name) not in held]

    def discard(self, name: str) -> None:
        """Give a claim back; see `Claims`."""
        with self._lock:
            if name in self._mine:
                self._mine.discard(name)
                self._ask("pg_advisory_unlock", number_of(name))

    def check(self) -> int:
        """Ask whether the connection that holds the claims is alive; see `Claims`."""
        with self._lock:
            if not self._present:  # a decider, which claims only to create, never gets here
                self._ask("pg_advisory_lock_shared", PRESENT, sa.func.pg_backend_pid())
                self._ask("set_config", "idle_session_timeout", IDLE, False)
                self._present = True
            query = f"SELECT count(*) FROM pg_locks WHERE {HERE} AND classid = {PRESENT} AND objsubid = 2"
            return int(self._rows(sa.text(query))[0][0])

    def close(self) -> None:
        """Give all claims back, with the connection."""
        with self._lock:
            self._mine.clear()
            if self._connection is not None:
                with suppress(LogFailure):
                    self._ask("pg_advisory_unlock_all")
                self._connection.invalidate()  # whatever became of its locks, they end with it
                self._connection.close()
                self._connection = None
            self._present, self._closed = False, True


def number_of(name: str) -> int:
    """The number of an experiment's advisory lock."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)
