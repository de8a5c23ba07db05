"""The experiments of a service, and the one place where their answers wait for the disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import sqlalchemy as sa

from surefoot.experiments.errors import Conflict, Unknown
from surefoot.experiments.events import LogFailure
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.live import Live, warm
from surefoot.service.problems import Problem, logger
from surefoot.storage.database import Database
from surefoot.storage.keys import Key, audit_row, list_keys
from surefoot.storage.log import SqlLog
from surefoot.storage.schema import experiments

T = TypeVar("T")

EXPIRE_EVERY = 0.25
KEYS_EVERY = 1.0
RETRY_AFTER = 1.0
PATIENCE = 10.0
"""Seconds that a request waits while its experiment is being changed."""


class Host:
    """All experiments of a database, running in this process, for one event loop.

    Answers are computed at once and leave after their commit. While one commit is on its way, the answers that come up
    meanwhile wait for the next one, which they share. When the database fails, everything is read from it again: what
    was not answered is forgotten.

    Parameters
    ----------
    url
        Of the database.
    clock
        Tells the time, in seconds since 1970.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self.url, self.now = url, clock
        self.database = Database.open(url)
        self.lives: dict[str, Live] = {}
        self.keys: dict[str, Key] = {}
        self.ready = False
        self.committed: Callable[[float], None] = lambda seconds: None
        self._closed: set[str] = set()  # experiments that cannot be opened
        self._prefixes: dict[str, str] = {}
        self._busy: set[str] = set()
        self._writer = ThreadPoolExecutor(1, "surefoot-commit")
        self._flush: asyncio.Future[None] | None = None
        self._keys_read = 0.0
        self._task: asyncio.Task[None] | None = None

    # The course of life.

    async def start(self) -> None:
        """Open the experiments and compile what they need, in the background; then keep time."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write what is waiting and let go of the database."""
        if self._task is not None:
            self._task.cancel()
        self.ready = False
        await asyncio.to_thread(self._close)
        self._writer.shutdown()

    async def _run(self) -> None:
        opened = False
        while True:
            try:
                if not opened:
                    await asyncio.to_thread(self._open_all)
                    opened = self.ready = True
                await asyncio.sleep(EXPIRE_EVERY)
                self._expire()
                await self.durable()
                if self.now() - self._keys_read >= KEYS_EVERY:
                    await asyncio.to_thread(self.read_keys)
                opened = not any(live.broken for live in self.lives.values())
            except Exception:
                logger.exception("the database failed; it is opened again")
                opened = False
            if not opened:
                self.ready = False
                opened = await asyncio.to_thread(self._reopen)
                self.ready = opened
                if not opened:
                    await asyncio.sleep(RETRY_AFTER)

    def _expire(self) -> None:
        now = self.now()
        for name, live in self.lives.items():
            if name not in self._busy and not live.broken:
                live.expire(now)

    def _close(self) -> None:
        try:
            self.database.close()
        except LogFailure as error:
            logger.warning("%s", error)

    def _reopen(self) -> bool:
        self._close()
        try:
            self.database = Database.open(self.url)
            self._open_all()
        except LogFailure as error:
            logger.warning("%s", error)
            return False
        return True

    def _open_all(self) -> None:
        warm()
        self.read_keys()
        lives = {}
        self._closed = set()
        for (name,) in self.database.rows(sa.select(experiments.c.name).order_by(experiments.c.id)):
            log = SqlLog(self.database, name, waits=False)
            if log.empty:  # the process ended while it was created
                continue
            try:
                lives[name] = Live.of(log)
                prepare(lives[name].experiment)
            except LogFailure:
                raise
            except Exception:
                logger.exception("the experiment %s cannot be opened; the others go on", name)
                self._closed.add(name)
        self._take(lives)

    def _take(self, lives: dict[str, Live]) -> None:
        self.lives = lives
        self._prefixes = {live.prefix: name for name, live in lives.items()}

    # Answers.

    async def durable(self, database: Database | None = None) -> None:
        """Return when everything that was changed so far is on disk.

        Parameters
        ----------
        database
            Where it was changed, if the database may have been opened again since.
        """
        database = database or self.database
        ticket = database.newest
        while database.durable < ticket:
            if self._flush is None or self._flush.done():
                self._flush = asyncio.ensure_future(self._commit(database))
                self._flush.add_done_callback(self._committed)
            await asyncio.shield(self._flush)

    async def _commit(self, database: Database) -> None:
        await asyncio.sleep(0)  # requests that are ready to be answered share this commit
        started = time.perf_counter()
        await asyncio.get_running_loop().run_in_executor(self._writer, database.flush)
        self.committed(time.perf_counter() - started)

    def _committed(self, flush: asyncio.Future[None]) -> None:
        if not flush.cancelled() and flush.exception() is not None:
            self.ready = False  # until the database is opened again

    def check_ready(self) -> None:
        """Refuse a request while experiments are not open."""
        if not self.ready:
            raise Problem(503, "busy", "the service is starting, or its database has failed", retry_after=RETRY_AFTER)

    def live(self, name: str) -> Live:
        """The running experiment of a name."""
        self.check_ready()
        if name in self._busy:
            raise Problem(503, "busy", f"the experiment {name} is being changed", retry_after=RETRY_AFTER)
        live = self.lives.get(name)
        if name in self._closed or (live is not None and live.broken):
            raise Problem(503, "busy", f"the experiment {name} is not open", retry_after=RETRY_AFTER)
        if live is None:
            raise Unknown(f"there is no experiment {name!r}")
        return live

    def name_of(self, id: str) -> str:
        """The name of the experiment that made a decision."""
        self.check_ready()
        name = self._prefixes.get(id.partition("-")[0])
        if name is None:
            raise Unknown(f"there is no decision {id!r}")
        return name

    # Changes.

    async def create(self, experiment: Experiment, mode: str, who: str) -> Live:
        """Begin an experiment."""
        self.check_ready()
        name, database = experiment.name, self.database
        if name in self.lives or name in self._busy or name in self._closed:
            raise Conflict(f"there is an experiment {name!r} already")

        def begin() -> Live:
            prepare(experiment)
            log = SqlLog(database, name, waits=False)
            log.beside = [audit_row(self.now(), who, "create", name, None, experiment.to_dict())]
            return Live(experiment, mode=mode, log=log)

        live = await self._in_thread(name, begin)
        await self.durable(database)
        if self.database is database:
            self._take({**self.lives, name: live})
        return live

    async def change(self, live: Live, who: str, action: str, reason: str, work: Callable[[], T], **detail: Any) -> T:
        """Change an experiment in a thread, with an entry in the audit in the same commit."""
        database, name = self.database, live.experiment.name
        with self.audited(live, who, action, reason, **detail):
            found = await self._in_thread(name, work)
        await self.durable(database)
        return found

    @contextmanager
    def audited(self, live: Live, who: str, action: str, reason: str, **detail: Any) -> Iterator[None]:
        """What is changed inside goes into the audit, in the same commit; if nothing is, nothing does."""
        log = cast(SqlLog, live.log)
        log.beside = [audit_row(self.now(), who, action, live.experiment.name, reason, detail)]
        try:
            yield
        finally:
            log.beside = []

    async def _in_thread(self, name: str, work: Callable[[], T]) -> T:
        """Do something that takes long, and keep requests off the experiment meanwhile."""
        self._busy.add(name)
        try:
            return await asyncio.to_thread(work)
        finally:
            self._busy.discard(name)

    async def idle(self, *names: str) -> None:
        """Wait while one of these experiments is being changed, but not for long."""
        until = time.monotonic() + PATIENCE
        while not self._busy.isdisjoint(names) and time.monotonic() < until:
            await asyncio.sleep(0.02)

    async def open(self, name: str) -> Live:
        """The running experiment of a name, when it is not being changed."""
        await self.idle(name)
        return self.live(name)

    def read_keys(self) -> None:
        """Read the keys again, so that a revoked one is refused within seconds."""
        self.keys, self._keys_read = list_keys(self.database), self.now()


def prepare(experiment: Experiment) -> None:
    """Compile what an experiment will use, so that no request has to wait for it."""
    warm(experiment.policy, experiment.options)
