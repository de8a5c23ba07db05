"""What happens to an experiment, written down: the events of its log, and what a log must do.

The state of an experiment is the fold of its events, in their order, and of nothing else. Events are facts: an arm was
drawn with this probability, this feedback came, this decision timed out, this alarm was raised. So replaying them needs
no random generator and no clock.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

ELSEWHERE = 2**32
"""The first number of a decision that was drawn elsewhere."""


class Created(NamedTuple):
    """The experiment began."""

    experiment: Mapping[str, Any]
    key: str  # of the draws, in hexadecimal digits
    shadow: bool
    engine: Mapping[str, Any]  # the versions and the processor that ran it


class Decided(NamedTuple):
    """An arm was drawn."""

    number: int  # of the decision; see `number_in`
    arm: str
    propensity: float
    weight: float  # of what the policy proposed in the draw, 1 - safe_weight
    mode: str
    epoch: int
    at: float
    due: float
    unit: str | None = None
    key: str | None = None
    would: str | None = None  # in shadow mode: the arm that the policy would have served


class Reported(NamedTuple):
    """Feedback came in time, all of it or a part."""

    number: int
    outcome: Mapping[str, float]
    at: float


class Expired(NamedTuple):
    """Feedback did not come in time, or not all of it: what is missing counts as the worst case."""

    number: int
    at: float


class Late(NamedTuple):
    """Feedback came after the time-out. It is kept for audit and never learnt."""

    number: int
    outcome: Mapping[str, float]
    at: float


class Cancelled(NamedTuple):
    """The decision was never carried out."""

    number: int
    reason: str


class Observed(NamedTuple):
    """An outcome of an arm that was chosen elsewhere."""

    arm: str
    outcome: Mapping[str, float]


class Alarm(NamedTuple):
    """The watch found something. If it `holds`, the baseline is served from then on."""

    kind: str  # "served", "baseline", "contradiction", "infeasible", "lost", "cancelled" or "horizon"
    guardrail: str | None
    arm: str | None
    round: int  # how many decisions had been watched
    message: str
    holds: bool


class Measured(NamedTuple):
    """The baseline's costs are bounded well enough: learning begins."""

    costs: Sequence[float]  # upper bounds, as costs in [0, 1]


class Held(NamedTuple):
    """The operator holds the experiment: the baseline is served."""

    reason: str


class Resumed(NamedTuple):
    """The operator ends a hold. After an alarm about costs a new epoch begins just before."""

    reason: str


class Switched(NamedTuple):
    """The operator begins or ends shadow mode."""

    shadow: bool
    reason: str


class Ended(NamedTuple):
    """The experiment ended."""

    reason: str


class Changed(NamedTuple):
    """A new epoch began."""

    epoch: int
    experiment: Mapping[str, Any]
    kept: bool  # whether what was learnt before is replayed into it
    reason: str


class Settled(NamedTuple):
    """A round: a settled decision, or an observation, as it is learnt. Rounds follow from the events."""

    seq: int  # from 1, without gaps
    epoch: int  # in which it is learnt
    decision: int | None  # its number; None for an observation
    arm: str
    propensity: float | None
    source: str  # "feedback", "timeout" or "observation"
    loss: float | None  # in [0, 1]; None for an observation
    costs: Mapping[str, float]  # by guardrail, in [0, 1]; what is missing counts as the worst case
    at: float  # when the decision was made


Event = (
    Created | Decided | Reported | Expired | Late | Cancelled | Observed | Alarm | Measured | Held | Resumed | Switched
    | Ended | Changed
)  # fmt: skip

KINDS: dict[str, type[Any]] = {
    cls.__name__.lower(): cls
    for cls in (
        Created, Decided, Reported, Expired, Late, Cancelled, Observed, Alarm, Measured, Held, Resumed, Switched,
        Ended, Changed,
    )
}  # fmt: skip
SETTLING = (Reported, Expired, Cancelled, Late)
"""The events that follow a decision."""
MOST_CHECKPOINTS, MOST_CHECKPOINT_BYTES = 64, 64_000_000
"""How many states a log keeps of an experiment, and how large they may be together."""

BLOCKS = 2**31
ID = re.compile(r"([0-9a-f]{8})-(?:([1-9][0-9]{0,9})\.)?(0|[1-9][0-9]{0,9})", re.ASCII)


def kind_of(event: Event) -> str:
    """The name of an event's kind, as logs write it."""
    return type(event).__name__.lower()


def id_of(prefix: str, number: int) -> str:
    """The id of a decision.

    Examples
    --------
    >>> id_of("5ca1ab1e", 17), id_of("5ca1ab1e", 3 * ELSEWHERE + 17)
    ('5ca1ab1e-17', '5ca1ab1e-3.17')
    """
    block, i = divmod(number, ELSEWHERE)
    return f"{prefix}-{block}.{i}" if block else f"{prefix}-{i}"


def number_in(id: Any, prefix: str) -> int | None:
    """The number of the decision with an id, None if it cannot be the id of one.

    The process that runs the experiment numbers its decisions from 0. Every other one that draws has a block of
    `ELSEWHERE` numbers of its own, so it need not ask for the next one.
    """
    found = ID.fullmatch(id) if isinstance(id, str) else None
    if found is None or found[1] != prefix:
        return None
    block, i = int(found[2] or 0), int(found[3])
    return block * ELSEWHERE + i if i < ELSEWHERE and block < BLOCKS else None


def superfluous(
    kept: Sequence[tuple[int, int]], most: int = MOST_CHECKPOINTS, most_bytes: int = MOST_CHECKPOINT_BYTES
) -> list[int]:
    """Which checkpoints to drop: the newest ones stay close together, the older ones are ever further apart.

    The newest one is never dropped. Of the others, the first to go leaves the smallest gap for its age.

    Parameters
    ----------
    kept
        The last event and the size of each checkpoint, oldest first.

    Examples
    --------
    >>> superfluous([(100, 9), (200, 9), (300, 9), (400, 9), (500, 9)], most=3)
    [100, 200]
    >>> superfluous([(100, 9), (200, 9)], most_bytes=5)
    [100]
    """
    left, dropped = list(kept), []
    while len(left) > 1 and (len(left) > most or sum(size for _, size in left) > most_bytes):
        before = [0, *(seq for seq, _ in left)]
        newest = before[-1]
        gaps = [(before[i + 2] - before[i]) / (newest - before[i + 1]) for i in range(len(left) - 1)]
        dropped.append(left.pop(gaps.index(min(gaps)))[0])
    return dropped


class LogFailure(OSError):
    """The log could not be written. What was not acknowledged is lost; open the log again to go on."""


class Log(ABC):
    """The contract of a log, for `Live` and for those who write another storage.

    * Events have numbers from 1, without gaps, in the order of `append`.
    * `append` may return before the events are durable, and is called by one thread at a time. `wait` returns when they
      are, and may be called by many. An event that was appended in one call is durable only with all of them.
    * If writing fails, `wait` raises `LogFailure` for these events and all later ones, and nothing more is written.
    * `read`, `about`, `decided`, `with_key` and `rounds` see everything that was appended, durable or not.
    """

    durable: bool = True
    """Whether the log outlives the process."""

    @abstractmethod
    def append(self, events: Sequence[Event], rounds: Sequence[Settled] = ()) -> int:
        """Add events and the rounds that they settle; returns a ticket for `wait`, which is never 0."""

    @abstractmethod
    def wait(self, ticket: int) -> None:
        """Return when the events that were added with this ticket, and all before them, are durable."""

    @abstractmethod
    def read(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """All events after this number, with their numbers."""

    @abstractmethod
    def about(self, number: int) -> list[Event]:
        """The events that followed a decision: feedback, time-out, cancellation, late feedback."""

    @abstractmethod
    def decided(self, number: int) -> tuple[int, Decided] | None:
        """A decision, and the number of its event; None if there is no such decision."""

    @abstractmethod
    def with_key(self, key: str) -> list[Decided]:
        """The decisions that were made under an idempotency key."""

    @abstractmethod
    def rounds(self, after: int = 0, limit: int | None = None) -> Iterator[Settled]:
        """The rounds after this number, at most `limit`; without reading the events."""

    @abstractmethod
    def save_checkpoint(self, last: int, state: bytes) -> None:
        """Keep the state after this event, to read fewer events when the log is opened again. It is not the truth.

        The newest one is kept, and some earlier ones: see `superfluous`.
        """

    @abstractmethod
    def checkpoint(self, before: int | None = None) -> tuple[int, bytes] | None:
        """The newest state that was kept, and the number of the last event in it.

        Parameters
        ----------
        before
            Only of the states that lie before this event.
        """

    @abstractmethod
    def close(self) -> None:
        """Make everything durable and let go of the file."""


class MemoryLog(Log):
    """A log that lives as long as the process: about 1 kB a decision."""

    durable = False

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._rounds: list[Settled] = []
        self._about: defaultdict[int, list[Event]] = defaultdict(list)
        self._keys: defaultdict[str, list[Decided]] = defaultdict(list)
        self._checkpoints: dict[int, bytes] = {}

    def append(self, events: Sequence[Event], rounds: Sequence[Settled] = ()) -> int:
        """Add events; see `Log`."""
        self._rounds += rounds
        for event in events:
            self._events.append(event)
            if type(event) is Decided:
                if event.key is not None:
                    self._keys[event.key].append(event)
            elif isinstance(event, SETTLING):
                self._about[event.number].append(event)
        return len(self._events)

    def wait(self, ticket: int) -> None:
        """Return at once: this log is never durable."""

    def read(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """All events after a number; see `Log`."""
        for place in range(after, len(self._events)):
            yield place + 1, self._events[place]

    def about(self, number: int) -> list[Event]:
        """What followed a decision; see `Log`."""
        return list(self._about.get(number, ()))

    def decided(self, number: int) -> tuple[int, Decided] | None:
        """A decision and the number of its event; see `Log`."""
        found = ((i, one) for i, one in self.read() if type(one) is Decided and one.number == number)
        return next(found, None)

    def with_key(self, key: str) -> list[Decided]:
        """The decisions under a key; see `Log`."""
        return list(self._keys.get(key, ()))

    def rounds(self, after: int = 0, limit: int | None = None) -> Iterator[Settled]:
        """The rounds after a number; see `Log`."""
        yield from self._rounds[after : None if limit is None else after + limit]

    def save_checkpoint(self, last: int, state: bytes) -> None:
        """Keep a state; see `Log`."""
        kept = {seq: one for seq, one in self._checkpoints.items() if seq < last} | {last: state}
        for seq in superfluous([(seq, len(one)) for seq, one in kept.items()]):
            del kept[seq]
        self._checkpoints = kept

    def checkpoint(self, before: int | None = None) -> tuple[int, bytes] | None:
        """The newest state; see `Log`."""
        found = [seq for seq in self._checkpoints if before is None or seq < before]
        return (found[-1], self._checkpoints[found[-1]]) if found else None

    def close(self) -> None:
        """Nothing to do."""
