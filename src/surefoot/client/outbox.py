"""Feedback on its way: a queue with room for so much, and what becomes of each item."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from surefoot.client.protocol import URN, Answer, ArgumentError, Send, ServiceError, Trouble, encoded, read, text

MOST_WAITING = 100_000
MOST_ITEMS = 1_000
MOST_BYTES = 900_000
"""Of a batch; the service takes 1 MB."""

LATE = {"type": f"{URN}late", "detail": "feedback came after the time-out, and is not learnt"}

logger = logging.getLogger("surefoot.client")


class Identified(Protocol):
    """What is sent in batches."""

    @property
    def id(self) -> str:
        """Of the decision."""
        ...

    @property
    def body(self) -> bytes:
        """JSON."""
        ...


class Item(NamedTuple):
    """Feedback on a decision, ready to be sent."""

    number: int
    id: str
    body: bytes


class Outbox:
    """Feedback that waits to be sent, and counts of what was given up.

    Feedback is idempotent, so an item is kept until the service has answered for it, and sent again if need be.
    Feedback on a decision that is yet to be logged is `parked` until it is.
    """

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self.on_problem: Callable[[str | None, Mapping[str, Any]], None] | None = None
        self._told: set[str] = set()
        self.reset()

    def reset(self) -> None:
        """Forget everything that waits: after a fork, the parent sends it."""
        self._lock = threading.Lock()
        self._waiting: dict[int, Item] = {}
        self._ready: deque[Item] = deque()
        self._parked: dict[str, list[Item]] = {}
        self._next = 0
        self.largest = MOST_ITEMS

    # Taking in.

    def put(self, id: str | None, outcome: Mapping[str, Any], parked: bool) -> bool:
        """Take in feedback; returns whether a whole batch is ready."""
        if not isinstance(outcome, Mapping):
            raise ArgumentError(f"outcome must be a mapping from names to values, got {outcome!r}")
        if id is None:
            self.drop(None, "unlogged", "the decision was not logged, as the baseline was served without the service")
            return False
        if not isinstance(id, str):
            raise ArgumentError(f"id must be the id of a decision, got {id!r}")
        body = encoded({"id": id, "outcome": dict(outcome)})
        if len(body) > MOST_BYTES:
            raise ArgumentError(f"outcome must have less than {MOST_BYTES} bytes, got {len(body)}")
        with self._lock:
            full = len(self._waiting) >= MOST_WAITING
            if not full:
                item = Item(self._next, id, body)
                self._waiting[item.number] = item
                self._next += 1
                if parked:
                    self._parked.setdefault(id, []).append(item)
                else:
                    self._ready.append(item)
        if full:  # the oldest may be due soonest, so the newest is refused
            self.drop(id, "full", f"{MOST_WAITING} items wait to be sent")
        return len(self._ready) >= MOST_ITEMS

    def release(self, ids: Iterable[str]) -> None:
        """Let feedback be sent on decisions that are logged now."""
        with self._lock:
            for id in ids:
                self._ready.extend(self._parked.pop(id, ()))

    def refuse(self, id: str, why: str) -> None:
        """Give up feedback on a decision that will never be logged."""
        with self._lock:
            items = self._parked.pop(id, [])
        for item in items:
            self._settle(item)
            self.drop(id, "unlogged", why)

    # Sending.

    def batch(self) -> list[Item]:
        """The items to send next; the caller must `settle` or `put_back` all of them."""
        found: list[Item] = []
        size = 0
        with self._lock:
            while self._ready and len(found) < self.largest and size + len(self._ready[0].body) <= MOST_BYTES:
                found.append(self._ready.popleft())
                size += len(found[-1].body) + 1
        return found

    def put_back(self, items: Iterable[Item]) -> None:
        """Send these again, before all others."""
        with self._lock:
            self._ready.extendleft(reversed(list(items)))

    def settle(self, items: list[Item], answer: Answer) -> None:
        """Take in the answer to a batch.

        Raises
        ------
        Trouble
            Some of it must be sent again, after a pause.
        """
        try:
            found = read(answer, lambda body: items_of(body, items))
        except Trouble:
            self.put_back(items)
            raise
        except ServiceError as error:
            self._refused(items, error, answer)
            return
        self.largest = MOST_ITEMS
        later = []
        for item, one in zip(items, found, strict=True):
            if waits(one):
                later.append(item)
                continue
            self._settle(item)
            problem = LATE if one.get("status") == "late" else one.get("problem")
            if problem is not None:
                self.drop(item.id, str(problem.get("type")).removeprefix(URN), str(problem.get("detail")), problem)
        if later:
            with self._lock:
                self._ready.extend(later)  # behind the others, as these may go to experiments that are open
            raise Trouble("an experiment is not open", answer)

    def _refused(self, items: list[Item], error: ServiceError, answer: Answer) -> None:
        """A whole batch was refused."""
        if error.type is None:  # a proxy, while the service restarts
            self.put_back(items)
            raise Trouble(error.detail, answer)
        if len(items) > 1 and answer.status in (400, 413, 422):  # for the sake of one of them: find out which
            self.largest = (len(items) + 1) // 2
            self.put_back(items)
            return
        for item in items:
            self._settle(item)
            self.drop(item.id, error.type, error.detail)
        self.largest = min(2 * self.largest, MOST_ITEMS)

    def _settle(self, item: Item) -> None:
        with self._lock:
            self._waiting.pop(item.number, None)

    # Counting.

    @property
    def waiting(self) -> int:
        """How many items wait for an answer."""
        return len(self._waiting)

    def mark(self) -> int:
        """A mark behind the items taken in so far."""
        return self._next

    def sent(self, mark: int) -> bool:
        """Whether everything before the mark is settled."""
        with self._lock:
            return next(iter(self._waiting), mark) >= mark

    def give_up(self) -> None:
        """Drop everything that still waits."""
        with self._lock:
            left, self._waiting = list(self._waiting.values()), {}
            self._ready.clear()
            self._parked.clear()
        for item in left:
            self.drop(item.id, "closed", "the client was closed before it could be sent")

    def drop(self, id: str | None, reason: str, detail: str, problem: Mapping[str, Any] | None = None) -> None:
        """Count feedback that was given up; the first of each reason is logged."""
        with self._lock:
            self.dropped[reason] += 1
            news = reason not in self._told
            self._told.add(reason)
        if news:
            logger.warning("feedback is given up (%s; more of these are only counted): %s", reason, detail)
        if self.on_problem is not None:
            try:
                self.on_problem(id, problem or {"type": f"{URN}{reason}", "detail": detail})
            except Exception:
                logger.exception("on_problem failed")


def waits(one: Mapping[str, Any]) -> bool:
    """Whether an item must be sent again, as the service could not take it now."""
    return one.get("problem", {}).get("status") in (429, 503)


def items_of(body: Any, items: Sequence[Identified]) -> list[dict[str, Any]]:
    """The answers to a batch, one for each item, in their order."""
    found = list(body["items"])
    if [one["id"] for one in found] != [item.id for item in items]:
        raise TypeError
    for one in found:
        if not isinstance(one.get("problem", {}), dict) or ("problem" not in one and not text(one["status"])):
            raise TypeError
    return found


def batched(path: str, items: Sequence[Identified], timeout: float) -> Send:
    """The request that sends a batch."""
    return Send("POST", path, b'{"items":[' + b",".join(item.body for item in items) + b"]}", {}, timeout)
