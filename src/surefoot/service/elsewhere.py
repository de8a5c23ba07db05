"""What learners publish of their experiments: draws from that, and requests to them."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.experiments.errors import Stopped, Unknown
from surefoot.experiments.events import ELSEWHERE, Decided, LogFailure, id_of
from surefoot.experiments.live import Choice
from surefoot.kernels.episode import draw
from surefoot.rules import Floats
from surefoot.service.acts import check_pending
from surefoot.service.desk import Desk
from surefoot.service.problems import Problem
from surefoot.storage.inbox import DECIDED, REQUEST, call, collect, drawn_under
from surefoot.storage.snapshots import read_snapshots, read_status

CONTACT = 2.0
"""Seconds after which what was read from the database may not be true any more."""
LEASE = 10.0
"""Seconds without a sign of life from the learner after which the baseline is served."""
LOOK_EVERY = 0.5
ANSWERS_EVERY = 0.05
PATIENCE = 10.0
"""Seconds that a request waits for the learner."""
TRIES = 5
UNLOGGED = "unlogged"
"""How the ids of decisions begin that are in no log."""


class View:
    """What is known of an experiment that another process learns."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.id, self.name = int(row["experiment"]), str(row["name"])
        self.beat, self.alive = -1, float("-inf")
        self.version = -1
        self.update(row)

    def update(self, row: Mapping[str, Any]) -> None:
        """Take in a row as `read_snapshots` gives it."""
        if self.beat not in (-1, row["beat"]):
            self.alive = time.monotonic()
        self.beat = row["beat"]
        if row.get("body"):
            self.version, self.epoch, self.mode = row["version"], int(row["epoch"]), str(row["mode"])
            body = row["body"]
            self.prefix, self.arms, self.timeout = str(body["prefix"]), list(body["arms"]), float(body["timeout"])
            self.strategy = strategy_in(body["strategy"])
            self.baseline = strategy_in(body["baseline"])
            self.would = None if body["would"] is None else strategy_in(body["would"])
            self.weight, self.rounds, self.pending = body["weight"], body["rounds"], body["pending"]
            self.stopped: str | None = body["stopped"]

    @property
    def published(self) -> bool:
        """Whether the learner has published anything yet."""
        return self.version >= 0


def strategy_in(shares: list[float]) -> Floats:
    """A strategy, as kernels take it."""
    return np.array(shares, dtype=np.float64)


class Elsewhere:
    """The experiments of a database that processes share, as all of them know them.

    Decisions are drawn here, from what the learner has published, and are in the inbox before they are answered. The
    baseline is served, and nothing is logged, when the database or the learner has not been heard of for a while.

    Parameters
    ----------
    desk
        What this process has.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.views: dict[str, View] = {}
        self.contact = float("-inf")  # when the snapshots were last read
        self.block = 0  # of this process; set when the database is opened
        self._decisions = itertools.count()
        self._calls = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._random = random.SystemRandom()
        self.news = asyncio.Event()
        self.answered = asyncio.Event()

    # What is known.

    def view(self, name: str) -> View:
        """What is known of an experiment."""
        view = self.views.get(name)
        if view is None or not view.published:
            raise Unknown(f"there is no experiment {name!r}")
        return view

    def fresh(self, view: View) -> bool:
        """Whether decisions may be drawn from it."""
        now = time.monotonic()
        return now - self.contact <= CONTACT and (view.name in self._desk.lives or now - view.alive <= LEASE)

    def check_fresh(self, view: View) -> None:
        """Refuse what nobody may draw from any more."""
        self._check_stopped(view)
        if not self.fresh(view):
            sentence = f"neither the database nor the learner of {view.name} can be reached: serve the baseline"
            raise Problem(503, "busy", sentence, retry_after=1)

    async def look(self) -> None:
        """Read the snapshots."""
        known = {view.id: view.version for view in self.views.values()}
        began = time.monotonic()
        rows = await asyncio.to_thread(read_snapshots, self._desk.database, known)
        for row in rows:
            if row["name"] in self.views:
                self.views[row["name"]].update(row)
            elif row["version"] > 0:
                self.views[row["name"]] = View(row)
        self.contact = began

    async def keep_looking(self) -> None:
        """Read the snapshots whenever there is news, and often enough without."""
        while True:
            await self.look()
            await woken(self.news, LOOK_EVERY)

    async def status(self, view: View) -> dict[str, Any]:
        """The status that the learner published last."""
        return await asyncio.to_thread(read_status, self._desk.database, view.id)

    # Decisions.

    async def decide(
        self, view: View, count: int, arms: list[str] | None, unit: str | None, key: str | None
    ) -> list[dict[str, Any]]:
        """Make decisions."""
        self._check_stopped(view)
        check_pending(view.pending, count)
        if not self.fresh(view):
            return self._unlogged(view, count, arms)
        try:
            if arms is not None or unit is not None:
                arguments = {"count": count, "arms": arms, "unit": unit, "key": key}
                return list(await self.ask(view, "decide", "", arguments))
            return await self._draw(view, count, key)
        except (LogFailure, TimeoutError):  # if they are committed all the same, they time out
            return self._unlogged(view, count, arms)

    async def _draw(self, view: View, count: int, key: str | None) -> list[dict[str, Any]]:
        database, gate = self._desk.database, self._desk.gate
        for _ in range(TRIES):
            drawn = [self._drawn(view, key) for _ in range(count)]
            number, in_force = next(self._calls), (view.epoch, view.mode)
            database.add([call(view.id, self.block, number, DECIDED, self._desk.now(), drawn, in_force, key)])
            async with asyncio.timeout(PATIENCE):
                await self._desk.durable(database)
            if key is not None and number in gate.repeated:
                gate.repeated.discard(number)
                drawn = await asyncio.to_thread(drawn_under, database, view.id, key)
                if len(drawn) != count or drawn[0].unit is not None:
                    sentence = f"key {key!r} was used for another request"
                    raise Problem(422, "conflict", sentence, parameter="Idempotency-Key")
            elif number in gate.refused:
                gate.refused.discard(number)
                await self.look()  # the experiment has changed since
                self._check_stopped(view)
                continue
            return [
                Choice(
                    id_of(view.prefix, one.number), one.arm, one.propensity, one.epoch, one.mode, one.due, one.would
                )._asdict()
                for one in drawn
            ]
        raise Problem(503, "busy", f"the experiment {view.name} is being changed", retry_after=1)

    @staticmethod
    def _check_stopped(view: View) -> None:
        if view.stopped is not None:
            raise Stopped(f"the experiment {view.name} was stopped: {view.stopped}")

    def _drawn(self, view: View, key: str | None) -> Decided:
        place = int(draw(view.strategy, self._random.random()))
        would = None if view.would is None else view.arms[int(draw(view.would, self._random.random()))]
        now = self._desk.now()
        return Decided(
            self.block * ELSEWHERE + next(self._decisions), view.arms[place], view.strategy.item(place), view.weight,
            view.mode, view.epoch, now, now + view.timeout, None, key, would,
        )  # fmt: skip

    def _unlogged(self, view: View, count: int, arms: list[str] | None) -> list[dict[str, Any]]:
        """Decisions for the baseline that are in no log: nothing is learnt from them."""
        missing = [arm for arm, share in zip(view.arms, view.baseline, strict=True)
                   if share > 0.0 and arms is not None and arm not in arms]  # fmt: skip
        if missing:
            raise Problem(
                503, "busy", f"only the baseline can be served now, and it needs {missing[0]!r}", retry_after=1
            )
        self._desk.unlogged(view.name, count)
        found = []
        for _ in range(count):
            place = int(draw(view.baseline, self._random.random()))
            id = f"{UNLOGGED}-{self._random.getrandbits(64):016x}"
            due = self._desk.now() + view.timeout
            choice = Choice(id, view.arms[place], view.baseline.item(place), view.epoch, "safe", due)
            found.append(choice._asdict())
        return found

    # Requests to the learner.

    async def ask(self, view: View, verb: str, who: str, arguments: Mapping[str, Any]) -> Any:
        """Have the learner carry out a request, and wait for its answer.

        A decision is of no use to a caller that has gone, and would time out as the worst case. So a request to decide
        has an end, and the learner does not carry it out later than that; see `Learning`.
        """
        number, database, now = next(self._calls), self._desk.database, self._desk.now()
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        decides = verb == "decide"
        try:
            body = {"verb": verb, "who": who, "arguments": arguments, "until": now + PATIENCE if decides else None}
            database.add([call(view.id, self.block, number, REQUEST, now, body)])
            async with asyncio.timeout(PATIENCE if decides else None):
                async with asyncio.timeout(PATIENCE):
                    await self._desk.durable(database)
                async with asyncio.timeout(PATIENCE if self.fresh(view) else PATIENCE / 10):
                    answer = await waiting
        except TimeoutError:
            kept = "the request to decide is dropped" if decides else "the request is kept and may still be carried out"
            raise Problem(503, "busy", f"no process learns {view.name} now; {kept}", retry_after=1) from None
        finally:
            del self._waiting[number]
        if "problem" in answer:
            raise Problem.of(answer["problem"])
        return answer["answer"]

    async def keep_collecting(self) -> None:
        """Fetch answers while somebody waits for some."""
        while True:
            await woken(self.answered, ANSWERS_EVERY if self._waiting else LOOK_EVERY)
            if self._waiting:
                numbers = list(self._waiting)
                found = await asyncio.to_thread(collect, self._desk.database, self.block, numbers)
                for number, answer in found.items():
                    waiting = self._waiting.get(number)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(answer)


async def woken(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but not for long."""
    try:  # not by `asyncio.wait_for`, which in Python 3.11 may miss that it is cancelled
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
    event.clear()
