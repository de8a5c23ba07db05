"""Reads what the pages show, in a process of the service."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from surefoot.experiments.errors import Unknown
from surefoot.experiments.events import Decided, Reported, number_in
from surefoot.service.dashboard.explain import explain
from surefoot.service.dashboard.histories import Histories
from surefoot.service.dashboard.history import History
from surefoot.service.dashboard.overview import alarms_of, delays_of, detail, summary, time_of
from surefoot.service.dashboard.views import Detail, Explained, Summary
from surefoot.service.elsewhere import woken
from surefoot.service.host import Host
from surefoot.service.problems import logger
from surefoot.service.rounds import shown
from surefoot.storage.database import Database
from surefoot.storage.histories import (
    decisions,
    events_between,
    last_event,
    milestones,
    newest_rounds,
    numbers_of,
)
from surefoot.storage.keys import read_audit
from surefoot.storage.log import SqlLog

T = TypeVar("T")

FRESH, IDLE = 5.0, 60.0
"""Seconds for which what was made for one viewer is shown to the next; for longer if nothing has happened."""
DELAYS_EVERY = 20.0
"""Seconds after which delays of feedback are counted again."""
BUDGET = 0.05
"""Seconds that a page may spend on reading new rounds; the rest is read in the background."""
CATCH_UP_EVERY, SLICE, REST = 30.0, 0.02, 0.06
LOOKED_AT = 600.0
"""Seconds for which a decider goes on reading rounds after somebody has looked."""
PACE_OVER, PACE_AT_LEAST = 300.0, 10.0
"""Decisions a minute are counted over this many seconds."""
LIST_ARMS = 5
NEWEST_EVENTS, NEWEST_ROUNDS, NEWEST_ENTRIES = 2_000, 20, 200
BEFORE_ALARM = 5
"""Events before an alarm among which there is the one that raised it."""


class Reader:
    """What the pages show, read for one process.

    All work is done in threads of its own, in small pieces, and what one viewer sees is made once for all of them: so
    deciders are not held up.

    Parameters
    ----------
    host
        The process.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.histories = Histories(lambda: self._host.database)
        self._threads = ThreadPoolExecutor(2, "surefoot-pages")
        self._slow = ThreadPoolExecutor(1, "surefoot-explain")
        self._one = asyncio.Lock()
        self._numbers: dict[str, int] = {}
        self._rounds: dict[str, int] = {}  # when a history had all rounds: how many had been learnt
        self._paces: dict[str, deque[tuple[float, int]]] = {}
        self._statuses: dict[str, Mapping[str, Any]] = {}
        self._made: dict[Any, tuple[float, Any, bool, Any, Any]] = {}
        self._fresh: dict[str, bool] = {}  # whether some process learns it
        self._weights: dict[str, dict[int, Decided]] = {}  # the last decision of each bucket
        self._delays: dict[str, tuple[float, dict[str, list[float]]]] = {}
        self._looked = float("-inf")
        self._behind = asyncio.Event()
        self._late: set[str] = set()  # experiments whose rounds are to be read at once

    async def summaries(self, names: list[str]) -> list[Summary]:
        """These experiments, in this order, without those of which nothing is known yet."""
        self._looked = time.monotonic()
        async with self._one:
            statuses = await self._known(names)
            old = [name for name in statuses if self._kept("list", name, statuses[name]) is None]
            if old:
                self._read_on(await self._run(self._summaries, old, statuses))
            return [self._made["list", name][-1] for name in names if name in statuses]

    async def detail(self, name: str, audit: bool) -> Detail:
        """An experiment, with its audit or without; raises `Unknown`."""
        self._looked = time.monotonic()
        prefix = (await self._host.find(name)).prefix
        async with self._one:
            status = (await self._known([name])).get(name)
            if status is None:
                raise Unknown(f"there is no experiment {name!r}")
            kept = self._kept(f"detail {audit}", name, status)
            if kept is None:
                kept = await self._run(self._detail, name, status, prefix, audit)
                self._keep(f"detail {audit}", name, status, kept)
                if self._rounds.get(name) != status["rounds"]:
                    self._read_on([name])
        return kept  # type: ignore[no-any-return]

    async def explain(self, id: str) -> Explained:
        """A decision; raises `Unknown`."""
        name = self._host.name_of(id)
        prefix, database = (await self._host.find(name)).prefix, self._host.database
        number = number_in(id, prefix)

        def work() -> Explained | None:
            return None if number is None else explain(SqlLog(database, name), prefix, number)

        found = await asyncio.get_running_loop().run_in_executor(self._slow, work)
        if found is None:
            raise Unknown(f"there is no decision {id!r}")
        return found

    async def keep_up(self) -> None:
        """Read new rounds, a little at a time, so that whoever looks first need not wait.

        Those of all experiments now and then, and at once those of an experiment that somebody looks at.
        """
        whole = float("-inf")
        while True:
            await woken(self._behind, CATCH_UP_EVERY)
            behind, self._late = self._late, set()
            looked = time.monotonic() - self._looked < LOOKED_AT
            if self._host.ready and (looked or self._host.role != "decider"):
                all_of_them = time.monotonic() - whole >= CATCH_UP_EVERY
                whole = time.monotonic() if all_of_them else whole
                try:
                    await self._catch_up(None if all_of_them else behind)
                except Exception:
                    logger.warning("the histories are behind", exc_info=True)

    async def _catch_up(self, names: Iterable[str] | None = None) -> None:
        """Read the new rounds of some experiments, or of all."""
        numbers = await self._run(numbers_of, self._host.database)
        if names is None:
            await self._known(list(numbers))  # which counts decisions
        for name in numbers if names is None else names:
            while name in numbers and not await self._run(self.histories.catch_up, numbers[name], SLICE):
                await asyncio.sleep(REST)

    def _read_on(self, names: Iterable[str]) -> None:
        """Have the rounds of these experiments read in the background."""
        self._late.update(names)
        if self._late:
            self._behind.set()

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(cancel_futures=True)
        self._slow.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def _known(self, names: list[str]) -> dict[str, Mapping[str, Any]]:
        """The statuses; for an experiment that is just being changed the last one."""
        now = self._host.now()
        found = await self._host.statuses(names)
        for name, status in found.items():
            if "watch" not in status:  # it was published by an older version; the learner will do so again
                continue
            self._statuses[name] = status
            pace = self._paces.setdefault(name, deque())
            if not pace or now - pace[-1][0] >= FRESH:
                pace.append((now, status["decisions"]))
            while len(pace) > 2 and now - pace[0][0] > PACE_OVER:
                pace.popleft()
        self._fresh |= {name: self._host.is_learnt(name) for name in names}
        some = found.keys() | self._host.busy  # one that is broken has no status to be trusted
        return {name: self._statuses[name] for name in names if name in some and name in self._statuses}

    # What was made for another viewer.

    def _kept(self, what: str, name: str, status: Mapping[str, Any]) -> Any:
        at, of, again, state, found = self._made.get((what, name), (float("-inf"), {}, False, None, None))
        idle = of is status and again and self._rounds.get(name) == status["rounds"]
        lasts = IDLE if idle else FRESH
        return found if time.monotonic() - at < lasts and state == self._state(name, status) else None

    def _keep(self, what: str, name: str, status: Mapping[str, Any], found: Any) -> None:
        """Keep what was made: for long only if it was made twice of a status.

        A status is known a moment before what led to it is in the database, so the first time that may be missing.
        """
        before = self._made.get((what, name))
        again = before is not None and before[1] is status
        self._made[what, name] = time.monotonic(), status, again, self._state(name, status), found

    def _state(self, name: str, status: Mapping[str, Any]) -> Any:
        """What an operator changes, or must know, and wants to see changed at once."""
        return status["state"], status["reason"], status["shadow"], status["epoch"], self._fresh[name]

    # In a thread.

    def _summaries(self, names: list[str], statuses: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Make summaries; returns the experiments of which not all rounds are in them."""
        database, until = self._host.database, time.monotonic() + BUDGET
        marks = milestones(database, [self._number(database, name) for name in names])
        for name in names:
            number = self._number(database, name)
            self._look(name, number, statuses[name], max(0.0, until - time.monotonic()))
            with self.histories.lock:
                history = self.histories.of(number)
                pace = self._pace(name, history)
                found = summary(statuses[name], history, marks[number], pace, LIST_ARMS, self._fresh[name])
            self._keep("list", name, statuses[name], found)
        return [name for name in names if self._rounds.get(name) != statuses[name]["rounds"]]

    def _detail(self, name: str, status: Mapping[str, Any], prefix: str, audit: bool) -> Detail:
        database = self._host.database
        number = self._number(database, name)
        self._look(name, number, status, BUDGET)
        marks = milestones(database, [number])[number]
        with self.histories.lock:
            buckets = {one.decision for one in self.histories.of(number).buckets}
        known = self._weights.get(name, {})
        decided = {one: known[one] for one in buckets if one in known}
        decided |= decisions(database, number, buckets - decided.keys())
        self._weights[name] = decided
        times = {alarm["seq"]: alarm_time(database, number, alarm["seq"]) for alarm in alarms_of(marks)[:50]}
        entries = read_audit(database, name, limit=NEWEST_ENTRIES, newest=True) if audit else ()
        rounds = [shown(one, prefix) for one in newest_rounds(database, number, NEWEST_ROUNDS)]
        with self.histories.lock:
            history = self.histories.of(number)
            pace = self._pace(name, history)
            delays = self._delays_of(database, name, number)
            fresh = self._fresh[name]
            return detail(status, history, marks, pace, delays, decided, times, entries, rounds, fresh)

    def _delays_of(self, database: Database, name: str, number: int) -> dict[str, list[float]]:
        at, found = self._delays.get(name, (float("-inf"), {}))
        if time.monotonic() - at >= DELAYS_EVERY:
            last = last_event(database, number)
            newest = events_between(database, number, last - NEWEST_EVENTS + 1, last)
            decided = {one.number: one for _, one in newest if isinstance(one, Decided)}
            wanted = {one.number for _, one in newest if isinstance(one, Reported)}
            found = delays_of(newest, decided | decisions(database, number, wanted - decided.keys()))
            self._delays[name] = time.monotonic(), found
        return found

    def _number(self, database: Database, name: str) -> int:
        if name not in self._numbers:
            self._numbers = numbers_of(database)
        return self._numbers[name]

    def _look(self, name: str, number: int, status: Mapping[str, Any], seconds: float) -> None:
        """Read new rounds, if there are any."""
        if self._rounds.get(name) != status["rounds"] and seconds > 0.0 and self.histories.catch_up(number, seconds):
            self._rounds[name] = status["rounds"]

    def _pace(self, name: str, history: History) -> float | None:
        """Decisions a minute: by the counts that were seen, or by the newest rounds."""
        now, pace = self._host.now(), self._paces.get(name, ())
        if pace and now - pace[0][0] >= PACE_AT_LEAST:
            return 60.0 * (pace[-1][1] - pace[0][1]) / (now - pace[0][0])
        recent = history.recent
        if not recent:
            return None
        since = min(one.since for one in recent)
        return 60.0 * sum(one.count for one in recent) / max(1.0, now - since)


def alarm_time(database: Database, experiment: int, seq: int) -> float | None:
    """When an alarm was raised: at the time of the event that led to it."""
    return time_of(events_between(database, experiment, seq - BEFORE_ALARM, seq))
