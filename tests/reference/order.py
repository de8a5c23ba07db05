"""Slow twin of `surefoot.experiments.order`: lists and loops over the whole history.

A round is learnt when its decision and all earlier ones of the same arm are settled. So after every event this twin
goes through all decisions of each arm from the oldest one, and learns those before the first that is open. An
observation of an arm takes its place among the decisions. A decision that was drawn elsewhere may be of an earlier
epoch; it is not learnt if what was known in that epoch is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from surefoot.experiments import events as ev

Learnt = tuple[int | None, str, str, dict[str, float]]  # number, arm, source, outcome


def learnt(history: Iterable[ev.Event]) -> list[Learnt]:
    """The rounds that a history leads to, in the order in which they are learnt."""
    decisions: dict[int, dict[str, Any]] = {}
    waiting: list[dict[str, Any]] = []  # decisions and observations, in their order
    needed: set[str] = set()
    forgotten = 0  # epochs before this one
    found: list[Learnt] = []
    for event in history:
        if isinstance(event, ev.Created | ev.Changed):
            objective = event.experiment["objective"]
            needed = {value for verb, value in objective.items() if verb in ("maximise", "minimise")}
            needed |= {guardrail["name"] for guardrail in event.experiment["guardrails"]}
            if isinstance(event, ev.Changed) and not event.kept:
                waiting.clear()
                forgotten = event.epoch
        elif isinstance(event, ev.Observed):
            outcome = dict(event.outcome)
            waiting.append({"number": None, "arm": event.arm, "source": "observation", "outcome": outcome})
        elif isinstance(event, ev.Decided):
            assert event.number not in decisions
            decision: dict[str, Any] = {"number": event.number, "arm": event.arm, "source": None, "outcome": {}}
            decisions[event.number] = decision
            if event.epoch >= forgotten:
                waiting.append(decision)
        elif isinstance(event, ev.Reported):
            decision = decisions[event.number]
            decision["outcome"] |= event.outcome
            if needed <= set(decision["outcome"]):
                decision["source"] = "feedback"
        elif isinstance(event, ev.Expired):
            decisions[event.number]["source"] = "timeout"
        elif isinstance(event, ev.Cancelled):
            decisions[event.number]["source"] = "cancelled"
        found += taken_out(waiting)
    return found


def taken_out(waiting: list[dict[str, Any]]) -> list[Learnt]:
    """Take out and return what has no open decision of its arm before it."""
    new: list[Learnt] = []
    for arm in sorted({one["arm"] for one in waiting}):
        for one in [one for one in waiting if one["arm"] == arm]:
            if one["source"] is None:
                break
            waiting.remove(one)
            if one["source"] != "cancelled":
                new.append((one["number"], arm, one["source"], one["outcome"]))
    return new
