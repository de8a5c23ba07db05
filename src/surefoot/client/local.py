"""Drawing decisions in the caller's process, from a strategy that the service has certified."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from surefoot.client.outbox import MOST_ITEMS, MOST_WAITING, Outbox, items_of, waits
from surefoot.client.protocol import (
    URN,
    Answer,
    Decision,
    ServiceError,
    Stopped,
    Trouble,
    drawn_from,
    encoded,
    read,
    share,
    strategy_of,
    text,
)

MOST_IDS = 2**32
UNLOGGED = "the decision could not be logged"

logger = logging.getLogger("surefoot.client")


class Moment(NamedTuple):
    """A time, by the monotonic clock and in seconds since 1970."""

    steady: float
    wall: float

    @classmethod
    def now(cls) -> Moment:
        """The present."""
        return cls(time.monotonic(), time.time())

    def after(self, seconds: float) -> Moment:
        """So many seconds later."""
        return Moment(self.steady + seconds, self.wall + seconds)


class Snapshot(NamedTuple):
    """A strategy to draw from until its lease is over."""

    strategy: Mapping[str, float]
    safe_weight: float
    epoch: int
    mode: str
    tag: str
    lease_seconds: float | None
    until: Moment
    ahead: float  # seconds since 1970 by the clock of the service, less the steady clock here

    def over(self, now: Moment) -> bool:
        """Whether the lease is over. The steady clock may stop while the machine sleeps, the other one may be set."""
        return now.steady >= self.until.steady or now.wall >= self.until.wall


class Block(NamedTuple):
    """Ids that this process alone may give to decisions, and how long it takes until these are due."""

    prefix: str
    block: int
    timeout: float
    epoch: int


class Entry(NamedTuple):
    """A decision that is to be logged."""

    id: str
    body: bytes


class Drawer:
    """Draws the decisions of one experiment and keeps them, in their order, until they are logged.

    Entries are logged by a timer, never because an outcome is there: if the position of a decision in the log depended
    on its outcome, what is learnt in the order of the log would be biased.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._block: Block | None = None
        self._next = 0
        self.stopped: Stopped | None = None
        self._unlogged: deque[Entry] = deque()
        self._ids: set[str] = set()
        self._refused: dict[str, None] = {}  # in order, so that the oldest are forgotten

    # What to draw from. All times count from when a request was sent: the answer is at least that fresh.

    @property
    def tag(self) -> str | None:
        """The tag of the strategy, if its lease is not over, and a 304 can renew it."""
        snapshot = self._snapshot
        if snapshot is None or snapshot.lease_seconds is None or snapshot.over(Moment.now()):
            return None
        return snapshot.tag

    def take(self, answer: Answer, sent: Moment) -> int:
        """Take in a strategy, or the news that it has not changed; returns its epoch."""
        before = self._snapshot
        if answer.status == 304 and before is not None and before.lease_seconds is not None:
            self._snapshot = before._replace(until=sent.after(before.lease_seconds))
            return before.epoch
        tag = answer.headers.get("etag", "")
        self._snapshot = snapshot = read(answer, lambda body: snapshot_of(body, tag, sent))
        return snapshot.epoch

    def lacks_block(self, epoch: int) -> bool:
        """Whether ids are needed: in a new epoch decisions may be due sooner or later."""
        block = self._block
        return block is None or block.epoch != epoch or self._next >= MOST_IDS

    def take_block(self, answer: Answer, epoch: int) -> None:
        """Take in a block of ids."""
        block = read(
            answer, lambda body: Block(text(body["prefix"]), int(body["block"]), float(body["timeout"]), epoch)
        )
        with self._lock:
            self._block, self._next = block, 0

    def draw(self, count: int) -> list[Decision] | None:
        """Draw decisions; None if the lease is over, or too many decisions wait to be logged."""
        if self.stopped is not None:
            raise self.stopped
        now, drawn = Moment.now(), []
        with self._lock:  # the order of the ids is the order of the entries
            snapshot, block = self._snapshot, self._block
            if snapshot is None or block is None or block.epoch != snapshot.epoch:
                return None
            if snapshot.over(now) or self._next + count > MOST_IDS or len(self._unlogged) + count > MOST_WAITING:
                return None
            at = now.steady + snapshot.ahead
            for _ in range(count):
                arm = drawn_from(snapshot.strategy)
                decision = Decision(
                    f"{block.prefix}-{block.block}.{self._next}", arm, snapshot.strategy[arm], snapshot.epoch,
                    snapshot.mode, at + block.timeout,
                )  # fmt: skip
                self._next += 1
                self._unlogged.append(entry_of(decision, snapshot.safe_weight, at))
                self._ids.add(str(decision.id))
                drawn.append(decision)
        return drawn

    # Logging.

    @property
    def unlogged(self) -> int:
        """How many decisions wait to be logged."""
        return len(self._unlogged)

    def is_unlogged(self, id: str) -> bool:
        """Whether a decision waits to be logged."""
        return id in self._ids

    def is_refused(self, id: str) -> bool:
        """Whether a decision could not be logged."""
        return id in self._refused

    def look_again(self, id: str, outbox: Outbox) -> None:
        """Feedback on a decision was parked, and the decision may have been logged or refused in between."""
        if id in self._refused:
            outbox.refuse(id, UNLOGGED)
        elif id not in self._ids:
            outbox.release([id])

    def batch(self) -> list[Entry]:
        """The oldest entries; they stay until `settle` has seen the answer."""
        with self._lock:
            return [self._unlogged[i] for i in range(min(MOST_ITEMS, len(self._unlogged)))]

    def settle(self, batch: list[Entry], answer: Answer, outbox: Outbox) -> None:
        """Take in the answer to a batch of entries, and let go of the feedback that waits for them.

        Raises
        ------
        Trouble
            Some of it must be sent again, after a pause.
        """
        try:
            found = read(answer, lambda body: items_of(body, batch))
        except ServiceError as error:
            if error.type is None:  # a proxy, while the service restarts
                raise Trouble(error.detail, answer) from None
            problem = {"type": f"{URN}{error.type}", "detail": error.detail}
            found = [{"id": entry.id, "problem": problem} for entry in batch]
        later = [entry for entry, one in zip(batch, found, strict=True) if waits(one)]
        refused = {
            entry.id: one["problem"]
            for entry, one in zip(batch, found, strict=True)
            if "problem" in one and not waits(one)
        }
        gone = {entry.id for entry in batch} - {entry.id for entry in later}
        with self._lock:
            for _ in batch:
                self._unlogged.popleft()
            self._unlogged.extendleft(reversed(later))
            self._ids -= gone
            self._refused |= dict.fromkeys(refused)
            while len(self._refused) > MOST_WAITING:
                del self._refused[next(iter(self._refused))]
            for problem in refused.values():
                if problem.get("type") == f"{URN}unknown":
                    self._block = None  # the service does not know it
                if problem.get("type") == f"{URN}stopped":
                    self.stopped = Stopped(410, "stopped", str(problem.get("detail")))
        for id, problem in refused.items():
            logger.warning("decision %s could not be logged: %s", id, problem.get("detail"))
            outbox.refuse(id, UNLOGGED)
        outbox.release(gone - refused.keys())
        if later:
            raise Trouble("the experiment is not open", answer)


def snapshot_of(body: Any, tag: str, sent: Moment) -> Snapshot:
    """A strategy as the service sends it."""
    now, relative = Moment.now(), body.get("lease_seconds")
    seconds = float(body["lease"]) - sent.wall if relative is None else float(relative)
    # the clocks of two machines differ, and the service refuses decisions from the future
    ahead = (now.wall if relative is None else float(body["lease"]) - seconds) - now.steady
    return Snapshot(
        strategy_of(body["strategy"]), share(body["safe_weight"]), int(body["epoch"]), text(body["mode"]), tag,
        None if relative is None else seconds, sent.after(seconds), ahead,
    )  # fmt: skip


def entry_of(decision: Decision, safe_weight: float, at: float) -> Entry:
    """The entry of a decision in the log."""
    body = {"id": decision.id, "arm": decision.arm, "propensity": decision.propensity, "safe_weight": safe_weight,
            "mode": decision.mode, "epoch": decision.epoch, "at": at, "due": decision.due}  # fmt: skip
    return Entry(str(decision.id), encoded(body))
