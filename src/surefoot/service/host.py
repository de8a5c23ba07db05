"""One process of the service: its course of life, and what can be asked of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from surefoot.experiments.errors import Conflict, Stopped, Unknown
from surefoot.experiments.events import LogFailure, Settled
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.live import PREFIX, Live, key_of, warm
from surefoot.service.acts import ids_in, prepare
from surefoot.service.desk import Desk
from surefoot.service.elsewhere import UNLOGGED, Elsewhere, View
from surefoot.service.learning import Learning, status_of
from surefoot.service.problems import Problem, logger
from surefoot.storage.claims import Claimed
from surefoot.storage.database import Database
from surefoot.storage.inbox import ANSWERS, CALLS, new_block
from surefoot.storage.keys import Key, audit_row, list_keys
from surefoot.storage.listener import Listener
from surefoot.storage.log import SqlLog
from surefoot.storage.snapshots import NEWS, read_statuses

ROLES = ("all", "decider", "learner")
OPERATIONS = frozenset({"hold", "stop", "switch", "resume", "change"})
"""What others must hear of before it is answered."""
KEYS_EVERY = 1.0
RETRY_AFTER = 1.0
LATELY = 1.0
PATIENCE = 10.0
"""Seconds that a request waits while its experiment is being changed, or until somebody learns a new one."""


class Host(Desk):
    """One process of the service, for one event loop.

    It learns some experiments itself (`lives`) and knows of the others what their learners publish (`elsewhere`). When
    the database fails, everything is read from it again: what was not answered is forgotten.

    Parameters
    ----------
    url
        Of the database.
    clock
        Tells the time, in seconds since 1970.
    role
        "all"; "learner", to be kept out of the traffic; or "decider", which never learns.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time, role: str = "all") -> None:
        super().__init__(url, clock, alone=role == "all")
        self.role, self.started = role, False
        self.keys: dict[str, Key] = {}
        self.elsewhere = Elsewhere(self)
        self.learning = Learning(self, self.elsewhere)
        self._made: dict[str, tuple[float, Any, dict[str, Any]]] = {}  # statuses
        self._ending = False
        self._task: asyncio.Task[None] | None = None
        self._listener: Listener | None = None

    # The course of life.

    async def start(self) -> None:
        """Open the experiments and compile what they need, in the background; then keep at work."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write what is waiting and let go of the database."""
        self._ending = True  # a task that fails just now may swallow the cancellation
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.ready = False
        await asyncio.to_thread(self._close)
        self._writer.shutdown()

    async def _run(self) -> None:
        while not self._ending:
            try:
                await self._open()
                self.started = self.ready = True
                async with asyncio.TaskGroup() as tasks:
                    for work in self._duties():
                        tasks.create_task(work)
            except* LogFailure as group:
                logger.warning("the database is opened again: %s", group.exceptions[0])
            except* Exception:
                logger.exception("the database is opened again")
            self.ready = False
            await asyncio.to_thread(self._close)
            await asyncio.sleep(RETRY_AFTER)

    def _duties(self) -> Iterator[Any]:
        yield self._keep_reading_keys()
        if self.role != "decider":
            yield self.learning.keep_learning()
            yield self.learning.keep_claiming()
            if self.shares:
                yield self.learning.keep_beating()
        if self.shares:
            yield self.elsewhere.keep_looking()
            yield self.elsewhere.keep_collecting()

    async def _open(self) -> None:
        if not self.started:
            await asyncio.to_thread(warm)
        if self.database.failed:
            self.database = await asyncio.to_thread(Database.open, self.url)
        if self.shares:
            self.database.owner, self.database.gate = self.owner, self.gate
            self.elsewhere.block = await asyncio.to_thread(new_block, self.database, self.owner, self.now())
            self._listen()
        await asyncio.to_thread(self.read_keys)
        self.lives = {}
        self.learning.begin()
        if self.role != "decider":
            await self.learning.claim()
        if self.shares:
            await self.durable()
            await self.elsewhere.look()

    def _listen(self) -> None:
        if self.database.engine.dialect.name == "postgresql":
            loop = asyncio.get_running_loop()
            events = {CALLS: self.mail, NEWS: self.elsewhere.news, ANSWERS: self.elsewhere.answered}
            channels = [channel for channel in events if channel != CALLS or self.role != "decider"]

            def heard(channel: str) -> None:
                loop.call_soon_threadsafe(events[channel].set)

            self._listener = Listener(self.database.engine, channels, heard)

    def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        try:
            self.database.close()
        except LogFailure as error:
            logger.warning("%s", error)

    async def _keep_reading_keys(self) -> None:
        while True:
            await asyncio.sleep(KEYS_EVERY)
            if self.database.failed:  # a decider, which only reads beside its answers, would not notice
                raise LogFailure("nothing could be written")
            await asyncio.to_thread(self.read_keys)

    def read_keys(self) -> None:
        """Read the keys again, so that a revoked one is refused within seconds."""
        self.keys = list_keys(self.database)

    # Experiments.

    def check_started(self) -> None:
        """Refuse a request while keys and experiments are not known."""
        if not self.started:
            raise Problem(503, "busy", "the service is starting", retry_after=RETRY_AFTER)

    def check_ready(self) -> None:
        """Refuse a request that needs the database while there is none."""
        self.check_started()
        if not self.ready:
            raise Problem(503, "busy", "the database has failed", retry_after=RETRY_AFTER)

    @property
    def names(self) -> list[str]:
        """All experiments that are known here."""
        published = (name for name, view in self.elsewhere.views.items() if view.published)
        return list(dict.fromkeys([*self.lives, *published]))

    async def find(self, name: str) -> Live | View:
        """An experiment, when it is not being changed."""
        await self.idle(name)
        self.check_started()
        if name in self.busy:
            raise Problem(503, "busy", f"the experiment {name} is being changed", retry_after=RETRY_AFTER)
        live = self.lives.get(name)
        if live is not None:
            self.check_ready()
            if live.broken:
                raise Problem(503, "busy", f"the experiment {name} is not open", retry_after=RETRY_AFTER)
            return live
        if self.shares and name not in self.elsewhere.views and self.ready:
            await self.elsewhere.look()  # it may be new
        if name in self.elsewhere.views:
            return self.elsewhere.view(name)
        self.check_ready()
        if name in self.learning.closed:
            raise Problem(503, "busy", self.learning.closed[name], retry_after=RETRY_AFTER)
        raise Unknown(f"there is no experiment {name!r}")

    async def idle(self, *names: str) -> None:
        """Wait while one of these experiments is being changed, but not for long."""
        until = time.monotonic() + PATIENCE
        while not self.busy.isdisjoint(names) and time.monotonic() < until:
            await asyncio.sleep(0.02)

    def name_of(self, id: str) -> str:
        """The name of the experiment that made a decision."""
        self.check_started()
        prefix = id.partition("-")[0]
        if prefix == UNLOGGED:
            raise Unknown(f"decision {id!r} was made without a log, so nothing is learnt from it")
        name = self.prefixes.get(prefix)
        if name is None:
            name = next((one.name for one in self.elsewhere.views.values() if one.prefix == prefix), None)
        if name is None:
            self.check_ready()
            raise Unknown(f"there is no decision {id!r}")
        return name

    async def ask(self, name: str, verb: str, who: str = "", **arguments: Any) -> Any:
        """Have a request carried out by the process that learns the experiment; see `Acts`."""
        found = await self.find(name)
        if self.shares and verb == "decide":  # one order for all decisions, wherever they are made
            return await self.elsewhere.decide(await self._view(name), **arguments)
        ids = ids_in(verb, arguments)
        new = verb == "drawn"
        if isinstance(found, Live) and self.shares and not (new or all(found.knows(id) for id in ids)):
            await self.learning.take_in()  # a decider may have just answered with it
            found = await self.find(name)  # it may be learnt elsewhere by now
        if isinstance(found, Live):
            settled = found.settled(ids) if ids else ()
            if not settled:
                return await self._carry_out(found, verb, who, arguments)
            async with self.remembering(found, settled):
                found = await self.find(name)
                if isinstance(found, Live):
                    return await self._carry_out(found, verb, who, arguments)
        return await self.elsewhere.ask(found, verb, who, arguments)

    async def _carry_out(self, live: Live, verb: str, who: str, arguments: dict[str, Any]) -> Any:
        database = self.database
        answer = await self.act(live, verb, who, arguments, self.now())
        if verb in OPERATIONS:
            self.learning.publish(live)
        await self.durable(database)
        return answer

    async def _view(self, name: str) -> View:
        """What is published of an experiment."""
        if name not in self.elsewhere.views:
            await self.elsewhere.look()
        return self.elsewhere.view(name)

    async def create(self, experiment: Experiment, mode: str, who: str) -> dict[str, Any]:
        """Begin an experiment; returns its status."""
        self.check_ready()
        name, database = experiment.name, self.database
        taken = Conflict(f"there is an experiment {name!r} already")
        if name in self.names or name in self.busy or name in self.learning.closed:
            raise taken

        def begin() -> Live:
            prepare(experiment)
            try:
                log = SqlLog(database, name, waits=False, alone=True)
            except Claimed:
                raise taken from None
            if not log.empty:
                raise taken
            log.beside = [audit_row(self.now(), who, "create", name, None, experiment.to_dict())]
            return Live(experiment, self._new_seed(), mode=mode, log=log)

        self.busy.add(name)  # until it is taken on: else `claim` may open it, too, and two would write its log
        try:
            live = await asyncio.to_thread(begin)
            await self.durable(database)
            if self.database is database:
                self.learning.take_on(live)
        finally:
            self.busy.discard(name)
        if self.database is database:
            await self.durable(database)
            if self.role == "decider":
                await self.learning.release(name)
                await self._learnt(name)
        return status_of(live)

    def _new_seed(self) -> int:
        """A seed with which the ids of decisions begin as in no other experiment."""
        known = self.prefixes.keys() | {view.prefix for view in self.elsewhere.views.values()}
        for _ in range(100):
            seed = int.from_bytes(os.urandom(16), "little")
            if key_of(seed)[:PREFIX] not in known:
                return seed
        raise Problem(503, "busy", "the ids of decisions would not be unique", retry_after=RETRY_AFTER)

    async def _learnt(self, name: str) -> None:
        """Wait until another process learns an experiment, but not for long."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            view = self.elsewhere.views.get(name)
            if view is not None and self.elsewhere.fresh(view):
                return
            await asyncio.sleep(0.1)

    async def status(self, name: str) -> dict[str, Any]:
        """The status of an experiment; of one that is learnt elsewhere, as it was published last."""
        found = await self.find(name)
        return status_of(found) if isinstance(found, Live) else await self.elsewhere.status(found)

    async def statuses(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The statuses of many experiments, by name, without those that are being changed or are not open."""
        self.check_started()
        found, views = {}, {}
        for name in names:
            live, view = self.lives.get(name), self.elsewhere.views.get(name)
            if live is None and view is not None and view.published:
                views[view.id] = name
            elif live is not None and self.ready and name not in self.busy and not live.broken:
                found[name] = await self._lately(name, live)
        if views:
            read = await asyncio.to_thread(read_statuses, self.database, list(views))
            found.update({views[id]: status for id, status in read.items()})
        return found

    def is_learnt(self, name: str) -> bool:
        """Whether some process learns an experiment, as far as is known here."""
        view = self.elsewhere.views.get(name)
        return name in self.lives or (view is not None and self.elsewhere.fresh(view))

    async def _lately(self, name: str, live: Live) -> dict[str, Any]:
        """The status of an experiment that is learnt here, at most `LATELY` seconds old."""
        made, of, status = self._made.get(name, (float("-inf"), None, {}))
        now, new = time.monotonic(), (live, live.standing)
        if of != (*new, live.last) and (now - made >= LATELY or of is None or of[:2] != new):
            status = status_of(live)
            self._made[name] = now, (*new, live.last), status
            await asyncio.sleep(0)  # so that decisions need not wait for all experiments
        return status

    async def strategy(self, name: str) -> dict[str, Any]:
        """What decisions are drawn from, once it is on disk: nobody draws from what may be forgotten."""
        found = await self.find(name)
        if isinstance(found, View):
            self.elsewhere.check_fresh(found)
            shares = found.strategy.tolist()
            return drawn_from(found.arms, shares, found.weight, found.epoch, found.mode)
        snapshot = found.snapshot(self.now())
        if found.stopped is not None:
            raise Stopped(f"the experiment {name} was stopped: {found.stopped}")
        await self.durable()
        return drawn_from(snapshot.arms, snapshot.strategy.tolist(), snapshot.weight, snapshot.epoch, snapshot.mode)

    async def learnt(self, name: str) -> int:
        """How many rounds of an experiment were learnt."""
        found = await self.find(name)
        return found.rounds

    async def rounds(self, name: str, after: int, limit: int) -> tuple[str, Iterator[Settled]]:
        """The settled rounds of an experiment after a number, and how the ids of its decisions begin."""
        found = await self.find(name)
        if isinstance(found, Live):
            return found.prefix, found.log.rounds(after, limit)
        log = await asyncio.to_thread(SqlLog, self.database, name)
        return found.prefix, log.rounds(after, limit)


def drawn_from(arms: Sequence[str], shares: list[float], weight: float, epoch: int, mode: str) -> dict[str, Any]:
    """A strategy as outsiders read it."""
    strategy = dict(zip(arms, shares, strict=True))
    return {"strategy": strategy, "safe_weight": 1.0 - weight, "epoch": epoch, "mode": mode}
