"""What `Live` must answer, from dictionaries and lists alone: no kernels, no queues, no log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import surefoot as sf
from surefoot.experiments.fold import COST_ALARMS


@dataclass
class Made:
    """A decision."""

    id: str
    number: int | None  # None for an observation
    arm: str
    due: float
    epoch: int
    unit: str | None
    outcome: dict[str, float] | None = None  # None before any feedback
    settled: str | None = None  # "feedback", "timeout", "cancelled" or "observation"
    late: dict[str, float] = field(default_factory=dict)


class Model:
    """A running experiment in plain Python."""

    def __init__(self, experiment: sf.Experiment) -> None:
        self.experiment = experiment
        self.made: dict[str, Made] = {}
        self.waiting: dict[str, list[Made]] = {}  # by arm, those not learnt yet, oldest first
        self.learnt: list[tuple[int | None, str, str, dict[str, float]]] = []
        self.told: list[dict[str, float]] = []  # loss and costs of what was learnt, when it was
        self.known_from = 0  # place in `learnt` since which knowledge was kept
        self.retired: set[str] = set()
        self.held = self.stopped = self.shadow = False
        self.by_operator = False  # whether the operator holds it
        self.alarmed: set[str] = set()
        self.epoch, self.rounds, self.timed_out = 0, 0, 0
        self.delta_spent = experiment.delta

    @property
    def needed(self) -> set[str]:
        return {one.name for one in self.experiment.quantities}

    @property
    def open(self) -> list[Made]:
        return [one for one in self.made.values() if one.settled is None]

    def decided(self, choice: sf.Choice, unit: str | None) -> None:
        made = Made(choice.id, len(self.made), choice.arm, choice.due, choice.epoch, unit)
        self.made[choice.id] = made
        self.waiting.setdefault(choice.arm, []).append(made)

    def of_unit(self, unit: str) -> Made | None:
        """The newest decision of this epoch that waits for feedback."""
        found = [one for one in self.open if one.unit == unit and one.epoch == self.epoch]
        return found[-1] if found else None

    def settle(self, made: Made, how: str) -> None:
        made.settled = how
        self.release(made.arm)

    def release(self, arm: str) -> None:
        line = self.waiting.get(arm, [])
        while line and line[0].settled:
            first = line.pop(0)
            if first.settled != "cancelled":
                outcome = dict(first.outcome or {})
                self.learnt.append((first.number, first.arm, str(first.settled), outcome))
                self.told.append(
                    {
                        one.name: cost(one, outcome[one.name]) if one.name in outcome else 1.0
                        for one in self.experiment.quantities
                    }
                )
                self.rounds += first.arm in self.experiment.arms and first.number is not None

    def expire(self, now: float, inclusive: bool) -> None:
        due = [one for one in self.open if one.due < now or (inclusive and one.due == now)]
        for made in sorted(due, key=lambda one: (one.due, one.number)):
            self.timed_out += 1
            self.settle(made, "timeout")

    def feedback(self, id: str, outcome: Mapping[str, float]) -> str | type[Exception]:
        """The answer, or the error, to feedback whose values are valid."""
        made = self.made[id]
        values = {name: float(value) for name, value in outcome.items() if name in self.needed}
        if made.settled == "cancelled":
            return sf.Conflict
        if made.settled == "timeout":
            made.late |= values
            return "late"
        before = made.outcome or {}
        if any(before.get(name, value) != value for name, value in values.items()):
            return sf.Conflict
        if made.settled == "feedback":
            return "replayed"
        new = {name: value for name, value in values.items() if name not in before}
        complete = self.needed <= {*before, *new}
        if made.outcome is not None and not new and not complete:
            return "replayed"
        made.outcome = before | new
        if not complete:
            return "partial"
        self.settle(made, "feedback")
        return "accepted"

    def cancel(self, id: str) -> type[Exception] | None:
        made = self.made[id]
        if made.settled == "cancelled":
            return None
        if made.settled is not None or made.outcome is not None:
            return sf.Conflict
        self.settle(made, "cancelled")
        return None

    def observe(self, arm: str, outcome: Mapping[str, float]) -> None:
        values = {name: float(value) for name, value in outcome.items() if name in self.needed}
        made = Made("", None, arm, 0.0, self.epoch, None, values, "observation")
        self.waiting.setdefault(arm, []).append(made)
        self.release(arm)

    def keeps(self, after: sf.Experiment) -> bool:
        """Whether what was learnt means the same in another experiment."""
        old = {one.name: one for one in self.experiment.quantities}
        new = {one.name: one for one in after.quantities}
        same_goal = type(old[self.experiment.objective.name]) is type(new[after.objective.name])
        return same_goal and all(
            name in old
            and one.less_is_better == old[name].less_is_better
            and one.low <= old[name].low
            and old[name].high <= one.high
            for name, one in new.items()
        )

    def change(self, after: sf.Experiment, keep: bool) -> bool:
        kept = keep and not self.alarmed & COST_ALARMS and self.keeps(after)
        self.retired |= self.needed - {one.name for one in after.quantities}
        self.experiment, self.epoch, self.held, self.alarmed = after, self.epoch + 1, self.by_operator, set()
        self.delta_spent += after.delta
        if not kept:
            self.waiting.clear()
            self.known_from = len(self.learnt)
        return kept

    def costs(self, arm: str) -> dict[str, list[float]]:
        """The costs of an arm that were learnt and not dropped, by guardrail; what is missing costs 1."""
        found: dict[str, list[float]] = {one.name: [] for one in self.experiment.guardrails}
        for _, learnt_arm, _, outcome in self.learnt[self.known_from :]:
            for one in self.experiment.guardrails if learnt_arm == arm else ():
                found[one.name].append(cost(one, outcome[one.name]) if one.name in outcome else 1.0)
        return found


def cost(quantity: Any, value: float) -> float:
    """The value as a cost in [0, 1]."""
    share = float((value - quantity.low) / (quantity.high - quantity.low))
    return share if quantity.less_is_better else 1.0 - share
