"""What the parts of a process share: the database and its commits, and the experiments that are learnt here."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, cast

from surefoot.experiments.live import Live
from surefoot.service.acts import SLOW, Acts
from surefoot.storage.database import Database
from surefoot.storage.inbox import Gate
from surefoot.storage.log import SqlLog
from surefoot.storage.snapshots import was_shared

T = TypeVar("T")


class Desk:
    """What the parts of a process share.

    Answers are computed at once and leave after their commit. While one commit is on its way, the answers that come up
    meanwhile wait for the next one, which they share.

    Parameters
    ----------
    url
        Of the database.
    clock
        Tells the time, in seconds since 1970.
    alone
        Whether this process expects no others on a database that is a file.
    """

    def __init__(self, url: str, clock: Callable[[], float], alone: bool) -> None:
        self.url, self.now = url, clock
        self.owner = f"{socket.gethostname()[:20]} {os.getpid()} {secrets.token_hex(4)}"
        self.gate = Gate(self.owner)
        self.database = Database.open(url)
        self.shares = not alone or self.database.engine.dialect.name != "sqlite" or was_shared(self.database)
        """Whether other processes work on the same database, or did so before."""
        self.lives: dict[str, Live] = {}
        self.prefixes: dict[str, str] = {}
        """By the beginning of the ids of decisions: the experiment that made them."""
        self.busy: set[str] = set()
        """Experiments that are being changed: nobody else may touch them."""
        self.ready = False
        self.mail = asyncio.Event()
        """Set when there may be something to learn."""
        self.committed: Callable[[float], None] = lambda seconds: None
        self.unlogged: Callable[[str, int], None] = lambda name, count: None
        self._writer = ThreadPoolExecutor(1, "surefoot-commit")
        self._flush: asyncio.Future[None] | None = None

    def take(self, name: str, live: Live | None) -> None:
        """Learn an experiment here from now on, or not any more."""
        self.lives = {other: one for other, one in self.lives.items() if other != name}
        if live is not None:
            self.lives[name] = live
            self.prefixes[live.prefix] = name

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
            self.mail.set()

    async def act(self, live: Live, verb: str, who: str, arguments: dict[str, Any], at: float) -> Any:
        """Carry out a request here, without waiting for the disk."""
        work = partial(getattr(Acts(live, at, who), verb), **arguments)
        if verb in SLOW:
            return await self.in_thread(live.experiment.name, work)
        return work()

    @asynccontextmanager
    async def remembering(self, live: Live, settled: Iterable[int]) -> AsyncIterator[None]:
        """Read in a thread what only the log knows, of decisions that are settled; the experiment may change meanwhile.

        Feedback on them would else keep everybody waiting while the database is read.
        """
        with cast(SqlLog, live.log).recall(settled) as recall:
            await asyncio.to_thread(recall.read)
            yield

    async def in_thread(self, name: str, work: Callable[[], T]) -> T:
        """Do something that takes long, and keep requests off the experiment meanwhile."""
        self.busy.add(name)
        try:
            return await asyncio.to_thread(work)
        finally:
            self.busy.discard(name)
