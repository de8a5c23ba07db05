"""The experiments that this process learns: which they are, what others ask of them, what it publishes."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar, cast

import sqlalchemy as sa

from surefoot.experiments.events import Decided, LogFailure
from surefoot.experiments.live import Live
from surefoot.service.acts import SLOW, ids_in, prepare
from surefoot.service.desk import Desk
from surefoot.service.elsewhere import PATIENCE, Elsewhere, woken
from surefoot.service.problems import Problem, logger, problem_of
from surefoot.storage.claims import Claimed
from surefoot.storage.inbox import DECIDED, Letter, answer, clear, take
from surefoot.storage.log import SqlLog
from surefoot.storage.schema import experiments
from surefoot.storage.snapshots import beat, hand_over, publish, publish_status, taken_in

T = TypeVar("T")

CLAIM_EVERY = 1.0
HAND_OVER = 50
"""How many experiments are handed over at once: they are not learnt for a moment."""
TICK = 0.1
EXPIRE_EVERY = 0.25
BEAT_EVERY = 1.0
STATUS_EVERY = 1.0
CLEAR_EVERY = 5.0
KEEP_ANSWERS = 60.0
PUBLISH_EVERY = 0.1
"""Seconds between two strategies that are published: an older one is as safe."""
AT_ONCE, IN_A_ROW = 500, 50
"""How many rows are read at once, and after how many decisions a request that waits has its turn."""


class Learning:
    """The experiments that this process learns.

    Parameters
    ----------
    desk
        What this process has.
    elsewhere
        What it knows of the other experiments.
    """

    def __init__(self, desk: Desk, elsewhere: Elsewhere) -> None:
        self._desk, self._elsewhere = desk, elsewhere
        self._taking = asyncio.Lock()
        self._apart: dict[str, asyncio.Task[bool]] = {}  # experiments that are being changed
        self.begin()

    def begin(self) -> None:
        """Begin, or begin again: nothing is learnt here yet."""
        for task in self._apart.values():
            task.cancel()
        self._apart = {}
        self.closed: dict[str, str] = {}
        """Experiments that are not open here, and why."""
        self._taken: dict[str, int] = {}  # the last row of the inbox that was looked at
        self._looked: dict[str, float] = {}  # when it was last empty, by a clock of this process
        self._stored: dict[int, int] = {}  # by the number of the experiment: what of that is in the database
        self._published: dict[str, int] = {}  # the last event in it
        self._told: dict[str, int] = {}  # the last event in the status
        self._standing: dict[str, tuple[Any, ...]] = {}  # what was in force when something was last published
        self._done: dict[str, float] = {}

    # Which experiments.

    async def claim(self) -> None:
        """Take on experiments that nobody learns, up to a fair share, and hand over what is above it."""
        desk = self._desk
        learners = await asyncio.to_thread(desk.database.check_claims)
        query = sa.select(experiments.c.name).order_by(experiments.c.id)
        names = [name for (name,) in await asyncio.to_thread(desk.database.rows, query)]
        share = math.ceil(len(names) / max(1, learners)) if desk.shares else len(names)
        wanted = [name for name in names if name not in desk.lives and name not in desk.busy]
        if wanted and len(desk.lives) < share:
            free = await asyncio.to_thread(desk.database.unclaimed, wanted)
            self.closed |= {name: str(Claimed(name)) for name in set(wanted).difference(free)}
            for name in free:
                if len(desk.lives) < share:
                    await self._open(name)
        idle = [name for name in desk.lives if name not in desk.busy and name not in self._apart]
        above = min(len(desk.lives) - share, HAND_OVER)
        if above > 0:
            await self.release(*idle[-above:])

    async def _open(self, name: str) -> None:
        database = self._desk.database
        try:
            live = await self._while_claimed(asyncio.to_thread(opened, database, name))
        except Claimed as error:
            self.closed[name] = str(error)
        except LogFailure:
            raise
        except Exception:
            if name not in self.closed:
                logger.exception("the experiment %s cannot be opened; the others go on", name)
            self.closed[name] = f"the experiment {name} is not open"
            await asyncio.to_thread(database.release, name)
        else:
            if live is not None:
                self.take_on(live)

    async def _while_claimed(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something that takes long, and show meanwhile that the claims are wanted."""
        task = asyncio.create_task(work)
        while not task.done():
            await asyncio.wait({task}, timeout=BEAT_EVERY)
            await asyncio.to_thread(self._desk.database.check_claims)
        return await task

    def take_on(self, live: Live) -> None:
        """Learn an experiment from now on."""
        name, log = live.experiment.name, cast(SqlLog, live.log)
        self.closed.pop(name, None)
        self._taken[name] = self._stored[log.id] = log.taken
        self._looked.pop(name, None)
        self._desk.take(name, live)
        self.publish(live, everything=True)
        self._desk.mail.set()

    async def release(self, *names: str) -> None:
        """Leave experiments to another process."""
        desk = self._desk
        lives = {name: desk.lives[name] for name in names}
        desk.busy |= lives.keys()
        try:
            for live in lives.values():
                self.publish(live, everything=True)
                id = cast(SqlLog, live.log).id
                desk.database.add([], {("owner", id): hand_over(id, desk.owner)})
            await desk.durable()
            for name, live in lives.items():
                desk.take(name, None)
                self._stored.pop(cast(SqlLog, live.log).id, None)
                await asyncio.to_thread(desk.database.release, name)
            await self._elsewhere.look()
        finally:
            desk.busy -= lives.keys()

    async def keep_claiming(self) -> None:
        """Look for experiments that nobody learns."""
        while True:
            await asyncio.sleep(CLAIM_EVERY)
            await self.claim()

    # What is to be done again and again.

    async def keep_learning(self) -> None:
        """Take in what others have sent, time out what is due, publish what is new."""
        desk = self._desk
        while True:
            await woken(desk.mail, TICK)
            if desk.shares:
                await self.take_in()
            if self._due("expire", EXPIRE_EVERY):
                self._each(lambda live: live.expire(desk.now()))
            if desk.shares:
                self._each(self.publish)
                if self._due("clear", CLEAR_EVERY):
                    desk.database.add([], {"clear": clear(dict(self._stored), desk.now() - KEEP_ANSWERS)})
            await desk.durable()
            if desk.database.failed or any(live.broken for live in desk.lives.values()):
                raise LogFailure("an experiment must be opened again")

    async def keep_beating(self) -> None:
        """Show that this process is alive, whatever else it is busy with."""
        desk = self._desk
        while True:
            learnt = [cast(SqlLog, live.log).id for live in desk.lives.values()]
            desk.database.add([], {"beat": beat(desk.owner, learnt)})
            await desk.durable()
            await asyncio.to_thread(desk.database.check_claims)
            await asyncio.sleep(BEAT_EVERY)

    def _due(self, what: str, every: float) -> bool:
        now = time.monotonic()
        if now - self._done.get(what, -math.inf) < every:
            return False
        self._done[what] = now
        return True

    def _each(self, work: Callable[[Live], Any]) -> None:
        for name, live in self._desk.lives.items():
            if name not in self._desk.busy and not live.broken:
                work(live)

    # What others ask.

    async def take_in(self) -> None:
        """Take in the rows of the inbox, each experiment's in their order."""
        async with self._taking:
            await self._take_in()

    async def _take_in(self) -> None:
        desk = self._desk
        while True:
            for name in [name for name, task in self._apart.items() if task.done()]:
                self._apart.pop(name).result()
            lives = {
                cast(SqlLog, live.log).id: live
                for name, live in desk.lives.items()
                if name not in desk.busy and name not in self._apart
            }
            if not lives:
                return
            after = min(self._taken[live.experiment.name] for live in lives.values())
            began = time.monotonic()
            rows = await asyncio.to_thread(take, desk.database, lives, after, AT_ONCE)
            for id, live in lives.items():
                name = live.experiment.name
                if desk.lives.get(name) is not live:  # the database was opened again, or it was handed over
                    continue
                new = [row for row in rows if row.experiment == id and row.id > self._taken[name]]
                if any(row.body["verb"] in SLOW for row in new if row.kind != DECIDED):
                    self._apart[name] = asyncio.create_task(self._carry_out(live, new))  # others need not wait
                elif await self._carry_out(live, new) and rows:
                    # Rows become visible in the order of their numbers: there is none before the last one.
                    self._taken[name] = max(self._taken[name], rows[-1].id)
                if name not in self._apart and len(rows) < AT_ONCE:
                    self._looked[name] = began
            await desk.durable()
            if len(rows) < AT_ONCE:
                return

    async def _carry_out(self, live: Live, rows: list[Letter]) -> bool:
        """Carry out what the rows ask for; returns whether the experiment is still learnt here."""
        requests = (row.body for row in rows if row.kind != DECIDED)
        ids = [id for request in requests for id in ids_in(request["verb"], request["arguments"])]
        await self._idle(live)
        settled = live.settled(ids)
        if not settled:
            return await self._carry_out_all(live, rows)
        async with self._desk.remembering(live, settled):
            return await self._carry_out_all(live, rows)

    async def _idle(self, live: Live) -> None:
        while live.experiment.name in self._desk.busy:
            await asyncio.sleep(0.01)

    async def _carry_out_all(self, live: Live, rows: list[Letter]) -> bool:
        desk, name, log = self._desk, live.experiment.name, cast(SqlLog, live.log)
        for some in in_turn(rows):
            await self._idle(live)
            if desk.lives.get(name) is not live:
                return False
            log.work = {("taken", log.id): taken_in(log.id, desk.owner, some[-1].id)}
            if some[0].kind == DECIDED:
                for one in live.admit([Decided(*drawn) for row in some for drawn in row.body]):
                    if isinstance(one, Exception):
                        logger.error("a decision that was drawn elsewhere is refused: %s", one)
                answers = []
            else:
                answers = [await self._answer(live, some[0])]
            rest, log.work = log.work, {}
            log.database.add(answers, rest)  # where the events are: they are lost together if it was opened again
            self._taken[name] = self._stored[log.id] = some[-1].id
            if not answers:  # decisions that are being made share a commit with these, and need not wait for all
                await desk.durable(log.database)
            if live.broken:
                await desk.durable(log.database)  # so that the same request does not come again
                raise LogFailure("an experiment must be opened again")
        if rows:
            self.publish(live)
            await desk.durable(log.database)
        return desk.lives.get(name) is live

    async def _answer(self, live: Live, row: Letter) -> Any:
        request = row.body
        try:
            if self._is_over(live, request.get("until")):
                raise Problem(503, "busy", "the request to decide came too late", retry_after=1)
            found = await self._desk.act(live, request["verb"], request["who"], request["arguments"], row.at)
            body = {"answer": found}
        except LogFailure:
            raise
        except Exception as error:
            body = {"problem": problem_of(error).to_dict()}
        return answer(row.caller, row.call, self._desk.now(), body)

    def _is_over(self, live: Live, until: float | None) -> bool:
        """Whether nobody waits for the answer to a request any more.

        The end of a request is a time of the caller's clock, which may be wrong. It is looked at only where the row may
        be old, since this process has not looked into the inbox for a while, or has just begun to. So a wrong clock
        never stops decisions for long: at worst, around a take-over, a decision is made that times out, or a caller
        that is still there is told to try again.
        """
        waited = time.monotonic() - self._looked.get(live.experiment.name, -math.inf)
        return until is not None and waited > PATIENCE and self._desk.now() > until

    # What is published.

    def publish(self, live: Live, everything: bool = False) -> None:
        """Publish what others draw from, and the status, if they are new."""
        desk = self._desk
        if not desk.shares or live.broken:
            return
        log, name, last = cast(SqlLog, live.log), live.experiment.name, live.last
        # What is in force changes at once for everybody, and people look at once what became of their request.
        changed = everything or self._standing.get(name) != live.standing
        self._standing[name] = live.standing
        if changed or (self._published.get(name) != last and self._due(f"body {name}", PUBLISH_EVERY)):
            body = live.bulletin()
            mode = "stopped" if body["stopped"] is not None else body["mode"]
            log.database.add([], {("body", log.id): publish(log.id, desk.owner, body["epoch"], mode, body)})
            self._published[name] = last
        if changed or (self._told.get(name) != last and self._due(f"status {name}", STATUS_EVERY)):
            log.database.add([], {("status", log.id): publish_status(log.id, desk.owner, status_of(live))})
            self._told[name] = last


def in_turn(rows: Iterable[Letter]) -> Iterator[list[Letter]]:
    """The rows, some decisions at a time, and each request by itself."""
    some: list[Letter] = []
    for row in rows:
        if some and (row.kind != DECIDED or some[0].kind != DECIDED or sum(len(one.body) for one in some) >= IN_A_ROW):
            yield some
            some = []
        some.append(row)
    if some:
        yield some


def opened(database: Any, name: str) -> Live | None:
    """Open an experiment that nobody else runs; None if it has not begun."""
    log = SqlLog(database, name, waits=False, alone=True)
    if log.empty:  # another process is about to begin it, or ended on the way
        database.release(name)
        return None
    live = Live.of(log)
    prepare(live.experiment)
    return live


def status_of(live: Live) -> dict[str, Any]:
    """The status of an experiment, with what was asked for."""
    return {**live.status().to_dict(), "experiment": live.experiment.to_dict()}
