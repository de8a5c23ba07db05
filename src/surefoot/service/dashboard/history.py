"""The course of an experiment in a bounded number of buckets: a fold over its rounds.

Sums are whole numbers of `UNIT`, and buckets fill up to a width: so the result does not depend on the chunks in which
rounds come.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct, field

from surefoot.rules import RuleError

UNIT = 2.0**-32
"""What a loss or a cost is rounded to."""
MOST_BUCKETS = 400
RECENT_WIDTH, RECENT_BUCKETS = 50, 10
AT_ONCE = 2**18
"""Most rounds in one step, so that sums in floating point are exact."""


class Row(NamedTuple):
    """What a history needs of a round, as the database has it."""

    seq: int
    epoch: int
    decision: int | None
    arm: str
    source: str
    loss: float | None
    costs: str  # JSON
    at: float


class Bucket(Struct, array_like=True):
    """Some decisions of one epoch, in the order in which they were learnt. Sums are in units of `UNIT`."""

    epoch: int
    last: int  # the number of its last round
    decision: int  # of that round
    since: float
    at: float
    count: int
    lost: int  # those that timed out
    fed: int  # those with feedback
    loss: int  # of those with feedback
    costs: dict[str, int]
    arms: dict[int, int]  # how often each was served, by its place in `History.arms`

    def absorb(self, later: Bucket) -> None:
        """Take in the decisions of another one."""
        self.last, self.decision = later.last, later.decision
        self.since, self.at = min(self.since, later.since), max(self.at, later.at)
        for name in ("count", "lost", "fed", "loss"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        for name, cost in later.costs.items():
            self.costs[name] = self.costs.get(name, 0) + cost
        for arm, count in later.arms.items():
            self.arms[arm] = self.arms.get(arm, 0) + count


class Total(Struct, array_like=True):
    """One arm in one epoch."""

    count: int = 0
    lost: int = 0
    fed: int = 0
    loss: int = 0  # over rounds with feedback
    square: int = 0  # of the loss

    @property
    def mean(self) -> float:
        """The mean loss over rounds with feedback."""
        return self.loss * UNIT / self.fed

    @property
    def variance(self) -> float:
        """The variance of the loss."""
        return max(0.0, self.square * UNIT / self.fed - self.mean**2)


class History(Struct):
    """A summary of the rounds of an experiment up to `seq`. Observations are not part of it: they were not served.

    Examples
    --------
    >>> history = History()
    >>> history.add([Row(1, 0, 0, "a", "feedback", 0.25, '{"spend":0.5}', 10.0)])
    >>> history.add([Row(2, 0, 1, "b", "timeout", 1.0, '{"spend":1.0}', 11.0)])
    >>> [(one.last, one.count, one.lost, one.costs["spend"] * UNIT) for one in history.buckets]
    [(1, 1, 0, 0.5), (2, 1, 1, 1.0)]
    """

    form: Literal[1] = 1
    seq: int = 0
    arms: list[str] = field(default_factory=list)
    buckets: list[Bucket] = field(default_factory=list)
    widths: dict[int, int] = field(default_factory=dict)
    """By epoch: how many decisions a bucket has."""
    recent: list[Bucket] = field(default_factory=list)
    """The newest decisions of the last epoch, in buckets of `RECENT_WIDTH`."""
    totals: dict[int, dict[int, Total]] = field(default_factory=dict)
    """By epoch and arm."""
    costs: dict[int, dict[str, int]] = field(default_factory=dict)
    """By epoch: the sum of each guardrail, over all decisions."""

    def add(self, rows: Sequence[Any]) -> None:
        """Take in the rounds that follow; each has the fields of `Row`."""
        for start in range(0, len(rows), AT_ONCE):
            for epoch, run in groupby(rows[start : start + AT_ONCE], itemgetter(1)):
                served = [row for row in run if row[2] is not None]
                if served:
                    self._add(epoch, _Run(epoch, served, self.arms))
        if rows:
            self.seq = rows[-1][0]

    def _add(self, epoch: int, run: _Run) -> None:
        totals = self.totals.setdefault(epoch, {})
        self._add_recent(run, sum(one.count for one in totals.values()))
        for arm, *sums in run.totals():
            total = totals.setdefault(arm, Total())
            for name, value in zip(Total.__struct_fields__, sums, strict=True):
                setattr(total, name, getattr(total, name) + value)
        costs = self.costs.setdefault(epoch, {})
        for name, cost in run.bucket(0, run.size).costs.items():
            costs[name] = costs.get(name, 0) + cost
        start = 0
        while start < run.size:
            start = _fill(self.buckets, run, start, self.widths.setdefault(epoch, 1))
            if len(self.buckets) > MOST_BUCKETS:
                self._halve()

    def _add_recent(self, run: _Run, before: int) -> None:
        if self.recent and self.recent[-1].epoch != run.epoch:
            self.recent = []
        newest = (before + run.size - 1) // RECENT_WIDTH
        start = max(0, (newest - RECENT_BUCKETS + 1) * RECENT_WIDTH - before)
        if start:
            self.recent = []
        while start < run.size:
            start = _fill(self.recent, run, start, RECENT_WIDTH)
        del self.recent[:-RECENT_BUCKETS]

    def _halve(self) -> None:
        """Merge neighbours in the epoch that has most buckets; if all have one, forget the oldest."""
        (epoch, most), *_ = Counter(one.epoch for one in self.buckets).most_common(1)
        if most == 1:
            oldest = self.buckets.pop(0).epoch
            del self.widths[oldest], self.totals[oldest], self.costs[oldest]
            return
        self.widths[epoch] *= 2
        first = next(i for i, one in enumerate(self.buckets) if one.epoch == epoch)
        merged = self.buckets[first : first + most]
        for earlier, later in zip(merged[::2], merged[1::2], strict=False):
            earlier.absorb(later)
        self.buckets[first : first + most] = merged[::2]

    def to_bytes(self) -> bytes:
        """The history, from which `from_bytes` goes on."""
        return zlib.compress(msgspec.json.encode(self), 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> History:
        """The history that `to_bytes` wrote."""
        try:
            return msgspec.json.decode(zlib.decompress(data), type=cls)
        except (zlib.error, ValueError) as error:
            raise RuleError("data", "be a history that `to_bytes` wrote", None, str(error)) from None


class _Run:
    """Decisions of one epoch that follow each other, by column, with running sums."""

    def __init__(self, epoch: int, rows: Sequence[Any], arms: list[str]) -> None:
        self.epoch, self.size = epoch, len(rows)
        self._seqs, _, self._decisions, names, sources, losses, costs, at = zip(*rows, strict=True)
        self._at = np.array(at)
        arms[:] = dict.fromkeys([*arms, *names])  # in the order in which they come
        places = {arm: place for place, arm in enumerate(arms)}
        self._arms = np.array(list(map(places.__getitem__, names)))
        self._names = list(msgspec.json.decode(costs[0]))
        kind, getters = reader_of(tuple(self._names))
        found = msgspec.json.decode(f"[{','.join(costs)}]", type=list[kind])  # type: ignore[valid-type]
        self._fed = np.array([source == "feedback" for source in sources])
        loss = np.where(self._fed, np.array(losses, dtype=np.float64), 0.0)
        self._loss, self._square = in_units(loss), in_units(loss**2)
        columns = [~self._fed, self._fed, self._loss]
        columns += [in_units(np.array(list(map(get, found)))) for get in getters]
        self._sums = np.zeros((self.size + 1, len(columns)), np.int64)
        np.cumsum(np.column_stack(columns), axis=0, out=self._sums[1:])

    def bucket(self, start: int, end: int) -> Bucket:
        """The decisions from one place to another."""
        lost, fed, loss, *costs = (self._sums[end] - self._sums[start]).tolist()
        at, counts = self._at[start:end], np.bincount(self._arms[start:end])
        arms = np.flatnonzero(counts)
        return Bucket(
            self.epoch, self._seqs[end - 1], self._decisions[end - 1], float(at.min()), float(at.max()), end - start,
            lost, fed, loss, dict(zip(self._names, costs, strict=True)),
            dict(zip(arms.tolist(), counts[arms].tolist(), strict=True)),
        )  # fmt: skip

    def totals(self) -> list[list[int]]:
        """For each arm its place, and what is added to the fields of its `Total`."""
        weights = [None, ~self._fed, self._fed, self._loss, self._square]
        sums = np.array([np.bincount(self._arms, one) for one in weights]).astype(np.int64)
        arms = np.flatnonzero(sums[0])
        return np.vstack([arms, sums[:, arms]]).T.tolist()  # type: ignore[no-any-return]


@lru_cache(256)
def reader_of(names: tuple[str, ...]) -> tuple[Any, list[Callable[[Any], float]]]:
    """A type to read costs of these names with, and what gets each of them: a struct is read faster than a dict."""
    fields = [f"f{i}" for i in range(len(names))]
    rename = dict(zip(fields, names, strict=True))
    try:
        kind = msgspec.defstruct("Costs", [(field, float) for field in fields], rename=rename, gc=False)
    except ValueError:  # a name has a quotation mark in it
        return dict[str, float], [itemgetter(name) for name in names]
    return kind, [attrgetter(field) for field in fields]


def in_units(values: Any) -> Any:
    """Numbers in [0, 1] as whole numbers of units."""
    return np.rint(values / UNIT).astype(np.int64)


def _fill(buckets: list[Bucket], run: _Run, start: int, width: int) -> int:
    """Fill up the last bucket, or begin one; returns where to go on."""
    open = buckets[-1] if buckets and buckets[-1].epoch == run.epoch and buckets[-1].count < width else None
    end = min(run.size, start + width - (open.count if open is not None else 0))
    new = run.bucket(start, end)
    if open is None:
        buckets.append(new)
    else:
        open.absorb(new)
    return end
