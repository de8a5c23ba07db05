"""What the pages show, as plain data: the data side makes it, the templates and charts only read it.

All values of quantities are in natural units.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OTHERS = "others"
"""The name of all arms that are shown together."""


@dataclass(frozen=True)
class Arm:
    """What is known of one arm under one guardrail."""

    name: str
    count: int
    mean: float | None  # None before the first observation
    lower: float
    upper: float
    share: float  # of the next decision


@dataclass(frozen=True)
class Rail:
    """A guardrail."""

    name: str
    unit: str | None
    at_most: bool  # else the limit is a least value
    limit: float
    low: float  # range of the quantity
    high: float
    served: float | None  # mean over this epoch; a time-out counts as the worst case
    recent: float | None  # mean over the newest rounds
    bound: float | None  # the worst that the present strategy can cost, at the bounds; None if the policy has none
    arms: Sequence[Arm]  # those with the largest shares first
    kept: bool  # whether what was served in this epoch keeps the limit
    alarm: bool = False  # whether it has raised an alarm that holds the experiment


@dataclass(frozen=True)
class Summary:
    """An experiment in the list."""

    name: str
    state: str  # "measuring", "running", "held", "stopped"
    reason: str | None  # why it is held or stopped
    shadow: bool
    epoch: int
    rounds: int
    decisions: int
    pending: int
    per_minute: float | None  # decisions a minute, lately; None before it is known
    objective: str  # name
    unit: str | None
    maximises: bool
    mean: float | None  # of the objective in this epoch, over rounds with feedback
    baseline_mean: float | None  # of the baseline's arms in this epoch, mixed as the baseline is
    better: float | None  # relative: 0.18 is 18 % better than the baseline; infinite if that is 0; None if not known
    safe_weight: float
    rails: Sequence[Rail]
    alarms: Sequence[Mapping[str, Any]]  # of this epoch, newest first; all alarms are on the page of the experiment
    verdict: str  # one sentence: does it hold, does it learn, what to do
    tone: str  # "good", "wait", "bad" or "off": the colour and the word beside the verdict
    clear: bool = True  # whether the difference to the baseline is more than noise


@dataclass(frozen=True)
class Course:
    """The course of an experiment, in at most some hundred buckets of rounds, oldest first."""

    at: Sequence[float]  # time of the newest decision that was learnt by its end, in seconds since 1970
    rounds: Sequence[int]  # number of the last round in the bucket
    epochs: Sequence[int]
    shares: Mapping[str, Sequence[float]]  # by arm: share of the decisions; at most a dozen arms, and "others"
    costs: Mapping[str, Sequence[float | None]]  # by guardrail: mean of the bucket
    limits: Mapping[str, Sequence[float | None]]  # by guardrail: the limit at that time; None before there was one
    objective: Sequence[float | None]
    safe_weight: Sequence[float | None]  # at the last decision of the bucket
    lost: Sequence[float]  # share of time-outs


@dataclass(frozen=True)
class Waiting:
    """Feedback of one arm."""

    arm: str
    share: float  # of the next decision
    settled: int  # in this epoch
    pending: int
    behind: int  # reported, and not learnt yet, as an older one is pending
    lost: float  # share of the settled ones in this epoch
    median: float | None  # delay of feedback, in seconds, over the newest decisions
    slow: float | None  # the delay that one in ten exceeds


@dataclass(frozen=True)
class Watched:
    """How near the watch is to an alarm."""

    what: str  # "served" or "baseline"
    guardrail: str
    level: float  # 0: nothing speaks against the limit; 1: alarm


@dataclass(frozen=True)
class Epoch:
    """A stretch of an experiment in which its problem was the same."""

    number: int
    since: float | None
    reason: str | None
    kept: bool  # whether what was learnt before was kept
    delta: float  # that it spends
    rounds: int


@dataclass(frozen=True)
class Detail:
    """The page of an experiment."""

    summary: Summary
    course: Course
    waiting: Sequence[Waiting]
    watch: Sequence[Watched]
    epochs: Sequence[Epoch]
    delta_spent: float
    alarms: Sequence[Mapping[str, Any]]  # of all epochs, newest first; each has "epoch", and "at" (None if unknown)
    audit: Sequence[Mapping[str, Any]]  # newest first; empty for those who may not see it
    experiment: Mapping[str, Any]  # as `Experiment.to_dict` writes it
    recent: Sequence[Mapping[str, Any]] = field(default=())  # the newest rounds, as `GET .../rounds` shows them


@dataclass(frozen=True)
class Option:
    """One arm at the moment of a decision."""

    name: str
    share: float | None
    words: str  # "within all limits at the upper bounds", "its spend may be as high as 0.61 cents, over 0.40"


@dataclass(frozen=True)
class Explained:
    """The page of a decision."""

    id: str
    experiment: str
    arm: str
    propensity: float
    mode: str
    epoch: int
    at: float
    due: float
    unit: str | None
    state: str  # "waiting", "settled by feedback", "timed out", "cancelled"
    outcome: Mapping[str, Any] | None
    reported: Sequence[tuple[float, Mapping[str, Any]]]  # parts of feedback, each with its time
    late: Sequence[tuple[float, Mapping[str, Any]]]  # came after the time-out and was not learnt
    round: int | None  # in which it was learnt
    strategy: Sequence[Option]  # what it was drawn from, largest share first; empty if it cannot be told
    snapshot: int | None  # rounds that were learnt when it was drawn
    words: Sequence[str]  # why this arm, in sentences


def unlike(name: str, taken: Container[str]) -> str:
    """A name that is not taken."""
    while name in taken:
        name += " "
    return name
