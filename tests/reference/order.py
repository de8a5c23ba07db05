"""Slow twin of `surefoot.experiments.order`: lists and loops over the whole history.

A round is learnt when its decision and all earlier ones of the same arm are settled. So after every event this twin
goes through all decisions of each arm from the oldest one, and learns those before the first that is open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from surefoot.experiments import events as ev

Learnt = tuple[int | None, str, str, dict[str, float]]  # number, arm, source, outcome


def learnt(history: Iterable[ev.Event]) -> list[Learnt]:
    """The rounds that a history leads to, in the order in which they are learnt."""
    decisions: list[dict[str, Any]] = []
    needed: set[str] = set()
    found: list[Learnt] = []
    for event in history:
        if isinstance(event, ev.Created | ev.Changed):
            objective = event.experiment["objective"]
            needed = {value for verb, value in objective.items() if verb in ("maximise", "minimise")}
            needed |= {guardrail["name"] for guardrail in event.experiment["guardrails"]}
            if isinstance(event, ev.Changed) and not event.kept:
                for decision in decisions:
                    decision["learnt"] = True  # that is, never will be
        elif isinstance(event, ev.Observed):
            found.append((None, event.arm, "observation", dict(event.outcome)))
        elif isinstance(event, ev.Decided):
            assert event.number == len(decisions)
            decisions.append({"arm": event.arm, "source": None, "outcome": {}, "learnt": False})
        elif isinstance(event, ev.Reported):
            decision = decisions[event.number]
            decision["outcome"] |= event.outcome
            if needed <= set(decision["outcome"]):
                decision["source"] = "feedback"
        elif isinstance(event, ev.Expired):
            decisions[event.number]["source"] = "timeout"
        elif isinstance(event, ev.Cancelled):
            decisions[event.number]["source"] = "cancelled"
        found += newly_learnt(decisions)
    return found


def newly_learnt(decisions: list[dict[str, Any]]) -> list[Learnt]:
    """Mark and return what has no open decision of its arm before it."""
    new: list[Learnt] = []
    for arm in sorted({decision["arm"] for decision in decisions}):
        for number, decision in enumerate(decisions):
            if decision["arm"] != arm or decision["learnt"]:
                continue
            if decision["source"] is None:
                break
            decision["learnt"] = True
            if decision["source"] != "cancelled":
                new.append((number, arm, decision["source"], decision["outcome"]))
    return new
