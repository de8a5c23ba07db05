"""Decisions from the draw to the moment they are learnt: open, settled, released in order.

Bounds hold along the costs of an arm's first n *decisions*. So there is a queue for each arm, and a decision leaves it
when it is settled and is the oldest. What is served is watched in the order of all decisions, so there is a line for
all arms, too.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from surefoot.experiments.events import (
    ELSEWHERE,
    Cancelled,
    Changed,
    Created,
    Decided,
    Event,
    Expired,
    Observed,
    Reported,
)

OPEN, REPORTED, EXPIRED, CANCELLED, OBSERVED = range(5)
NUMBERS = ("made", "issued", "epoch", "first")
"""What is saved of an order as it is."""
SPARE = 1_000
"""How many settled decisions may at least be kept among those by the time they are due."""
SOURCES = {REPORTED: "feedback", EXPIRED: "timeout"}


class Pending:
    """A decision that is open, or settled but behind an open one."""

    __slots__ = ("costs", "decided", "lined", "outcome", "place", "queued", "settled")

    def __init__(self, decided: Decided, place: int) -> None:
        self.decided = decided
        self.place = place  # in the order of the log
        self.outcome: Mapping[str, float] | None = None  # what was reported so far
        self.settled = OPEN
        self.costs: Sequence[float | None] | None = None  # in [0, 1], from when it is released; None where missing
        self.queued = self.lined = True  # whether it is still in its arm's queue, and in the line


class Round(NamedTuple):
    """A settled decision, in the order in which rounds are learnt, or an observation of an arm chosen elsewhere."""

    number: int | None
    arm: str
    propensity: float | None
    weight: float
    source: str  # "feedback", "timeout" or "observation"
    outcome: Mapping[str, float]  # what is missing counts as the worst case


class Order:
    """Open decisions and the queues behind them, as a fold over events.

    Parameters
    ----------
    needed
        The quantities that a complete outcome has.
    """

    def __init__(self, needed: Set[str]) -> None:
        self.needed = needed
        self.made = 0  # decisions, wherever they were drawn
        self.issued = 0  # decisions that were drawn here
        self.elsewhere: dict[int, int] = {}  # by block: the newest decision of those who draw elsewhere
        self.epoch = 0
        self.first = 0  # the epoch since which knowledge is kept
        self._places = 0
        self.open: dict[int, Pending] = {}
        self.units: dict[str, int] = {}
        self.waiting: Counter[str] = Counter()  # how many are open, by arm
        self._queues: dict[str, deque[Pending]] = {}
        self._line: deque[Pending] = deque()
        self._due: list[tuple[float, int]] = []

    def decide(self, event: Decided) -> None:
        """Add a decision, at the end of its arm's queue and of the line.

        One that was drawn elsewhere may be of an earlier epoch. It is not watched then, and not learnt if what was
        known in that epoch is forgotten.
        """
        self._places += 1
        pending = Pending(event, self._places)
        self._add(pending)
        self.made += 1
        if event.epoch >= self.first:
            queue = self._queues.get(event.arm)
            if queue is None:
                queue = self._queues[event.arm] = deque()
            queue.append(pending)
        else:
            pending.queued = False
        if event.epoch == self.epoch:
            self._line.append(pending)
        else:
            pending.lined = False
        block, i = divmod(event.number, ELSEWHERE)
        if block:
            self.elsewhere[block] = max(i, self.elsewhere.get(block, 0))
        else:
            self.issued = i + 1

    def observe(self, event: Observed) -> Pending:
        """Add an observation at the end of its arm's queue, so that it does not overtake decisions that are open."""
        pending = self._pending(Decided(-1, event.arm, 1.0, 0.0, "observed", 0, 0.0, 0.0))
        pending.outcome, pending.settled, pending.lined = event.outcome, OBSERVED, False
        self._queues.setdefault(event.arm, deque()).append(pending)
        return pending

    def is_new(self, number: int) -> bool:
        """Whether no decision drawn elsewhere has this number, as far as can be told without the log."""
        block, i = divmod(number, ELSEWHERE)
        return i > self.elsewhere.get(block, -1)

    def _pending(self, decided: Decided) -> Pending:
        self._places += 1
        return Pending(decided, self._places)

    def _add(self, pending: Pending) -> None:
        event = pending.decided
        self.open[event.number] = pending
        self.waiting[event.arm] += 1
        heapq.heappush(self._due, (event.due, event.number))
        if event.unit is not None:
            self.units[event.unit] = event.number

    def report(self, event: Reported) -> Pending | None:
        """Add feedback to a decision; return the decision if that settles it."""
        pending = self.open[event.number]
        outcome = event.outcome if pending.outcome is None else {**pending.outcome, **event.outcome}
        pending.outcome = outcome
        return self._settle(pending, REPORTED) if self.needed <= outcome.keys() else None

    def expire(self, event: Expired) -> Pending:
        """Settle a decision by the worst case."""
        return self._settle(self.open[event.number], EXPIRED)

    def cancel(self, event: Cancelled) -> Pending:
        """Take a decision out: it was never carried out."""
        return self._settle(self.open[event.number], CANCELLED)

    def _settle(self, pending: Pending, how: int) -> Pending:
        event = pending.decided
        pending.settled = how
        del self.open[event.number]
        self.waiting[event.arm] -= 1
        if len(self._due) > 2 * len(self.open) + SPARE:  # mostly decisions that were settled long before they are due
            self._due = [(one.decided.due, number) for number, one in self.open.items()]
            heapq.heapify(self._due)
        if event.unit is not None and self.units.get(event.unit) == event.number:
            del self.units[event.unit]
        return pending

    def released(self, arm: str) -> Iterator[Pending]:
        """Take the decisions out of an arm's queue that are settled and have none before them that is open."""
        queue = self._queues.get(arm)
        while queue and queue[0].settled:
            pending = queue.popleft()
            pending.queued = False
            yield pending

    def passed(self) -> Iterator[Pending]:
        """Take the decisions out of the line that are settled and have none before them that is open."""
        line = self._line
        while line and line[0].settled:
            pending = line.popleft()
            pending.lined = False
            yield pending

    def behind(self, arm: str) -> int:
        """How many decisions and observations of an arm are settled, and not learnt yet: an older one is open."""
        return sum(pending.settled != OPEN for pending in self._queues.get(arm, ()))

    @property
    def next_due(self) -> float:
        """When the next decision may be due; it may be settled already."""
        return self._due[0][0] if self._due else math.inf

    def due_by(self, now: float, inclusive: bool = True) -> list[int]:
        """The open decisions that are due by now, in the order in which they became due."""
        numbers, due = [], self._due
        while due and (due[0][0] < now or (inclusive and due[0][0] == now)):
            number = heapq.heappop(due)[1]
            if number in self.open:
                numbers.append(number)
        return numbers

    def change(self, epoch: int, kept: bool, needed: Set[str]) -> None:
        """Begin an epoch: nothing older is watched, and nothing older is learnt unless knowledge is kept."""
        self.epoch, self.needed = epoch, needed
        for pending in self._line:
            pending.lined = False
        self._line.clear()
        if not kept:
            self.first = epoch
            for queue in self._queues.values():
                for pending in queue:
                    pending.queued = False
            self._queues.clear()

    def to_dict(self) -> dict[str, Any]:
        """Everything, with all decisions that are open or behind open ones, as JSON-able data."""
        behind = {id(one): one for queue in self._queues.values() for one in queue}
        behind.update({id(one): one for one in (*self._line, *self.open.values())})
        ordered = sorted(behind.values(), key=lambda one: one.place)
        decisions = [
            [list(one.decided), None if one.outcome is None else dict(one.outcome), one.settled, one.queued, one.lined]
            for one in ordered
        ]
        numbers = {name: getattr(self, name) for name in NUMBERS}
        return {**numbers, "elsewhere": {str(k): i for k, i in self.elsewhere.items()}, "decisions": decisions}

    @classmethod
    def from_dict(cls, needed: Set[str], saved: Mapping[str, Any]) -> Order:
        """What `to_dict` wrote."""
        order = cls(needed)
        for name in NUMBERS:
            setattr(order, name, saved[name])
        order.elsewhere = {int(block): i for block, i in saved["elsewhere"].items()}
        for decided, outcome, settled, queued, lined in saved["decisions"]:
            pending = order._pending(Decided(*decided))
            pending.outcome, pending.settled, pending.queued, pending.lined = outcome, settled, queued, lined
            if not settled:
                order._add(pending)
            if queued:
                order._queues.setdefault(pending.decided.arm, deque()).append(pending)
            if lined:
                order._line.append(pending)
        return order


def as_round(pending: Pending) -> Round:
    """A settled decision, or an observation, as it is learnt."""
    decided = pending.decided
    if pending.settled == OBSERVED:
        return Round(None, decided.arm, None, 0.0, "observation", pending.outcome or {})
    return Round(
        decided.number, decided.arm, decided.propensity, decided.weight, SOURCES[pending.settled], pending.outcome or {}
    )


def rounds(events: Iterable[tuple[int, Event]]) -> Iterator[Round]:
    """The rounds that a log leads to, in the order in which they are learnt.

    The first event must be the beginning of the experiment or of an epoch. Decisions from before it are ignored, and so
    is their feedback.
    """
    order = Order(frozenset())
    for _, event in events:
        settled = None
        if isinstance(event, Decided):
            order.decide(event)
        elif isinstance(event, Observed):
            settled = order.observe(event)
        elif isinstance(event, Created):
            order = Order(names_in(event.experiment))
        elif isinstance(event, Changed):
            order.change(event.epoch, event.kept, names_in(event.experiment))
        elif isinstance(event, Reported | Expired | Cancelled) and event.number in order.open:
            settled = STEPS[type(event)](order, event)
        if settled is not None:
            for pending in order.released(settled.decided.arm):
                if pending.settled != CANCELLED:
                    yield as_round(pending)
            deque(order.passed(), maxlen=0)  # nothing is watched here, and the line would keep every decision


def names_in(experiment: Mapping[str, Any]) -> Set[str]:
    """The quantities of an experiment, from its JSON-able form."""
    objective = experiment["objective"]
    names = [objective.get("maximise", objective.get("minimise"))]
    return frozenset(names + [guardrail["name"] for guardrail in experiment["guardrails"]])


STEPS: dict[Any, Any] = {Reported: Order.report, Expired: Order.expire, Cancelled: Order.cancel}
"""What each event does to an open decision."""
