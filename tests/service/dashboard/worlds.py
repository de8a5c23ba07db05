"""Experiments that go well, drift, lose feedback or stand still, and what the pages say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

import surefoot as sf
from surefoot.experiments.events import Alarm, Changed, Created, Decided
from surefoot.service.dashboard.history import History, Row
from surefoot.service.dashboard.overview import Marks, delays_of, detail
from surefoot.service.dashboard.views import Detail
from surefoot.service.learning import status_of

QUALITY = {"flagship": 0.9, "balanced": 0.7, "in-house": 0.5}
SPEND = {"flagship": 0.7, "balanced": 0.2, "in-house": 0.08}


def routing(**changes: Any) -> sf.Experiment:
    """Three arms: one too expensive, one good, and the baseline."""
    usual: dict[str, Any] = {
        "arms": ["flagship", "balanced", "in-house"],
        "objective": sf.Maximise("quality"),
        "guardrails": [sf.AtMost("spend", 0.4, high=2.0, unit="cents"), sf.AtLeast("answered", 0.8)],
        "baseline": "in-house",
        "baseline_costs": {"spend": 0.1, "answered": 0.95},
        "timeout": 10.0,
    }
    return sf.Experiment("routing", **{**usual, **changes})


def serve(
    live: sf.Live,
    n: int,
    outcome: Callable[[str, np.random.Generator], Mapping[str, float] | None] | None = None,
    seed: int = 0,
    now: float = 1_000.0,
) -> float:
    """Make n decisions, one a second, each with its feedback half a second later; returns the time after it."""
    rng, outcome = np.random.default_rng(seed), outcome or usual_outcome
    for _ in range(n):
        one = live.decide(now=now)
        found = outcome(one.arm, rng)
        if found is not None:
            live.feedback(one.id, found, now=now + 0.5)
        now += 1.0
    return now


def usual_outcome(arm: str, rng: np.random.Generator) -> dict[str, float]:
    """What an arm leads to."""
    return {
        "quality": float(np.clip(QUALITY[arm] + 0.1 * rng.normal(), 0.0, 1.0)),
        "spend": float(SPEND[arm] * (0.5 + rng.random())),
        "answered": float(rng.random() < 0.96),
    }


def marks_of(live: sf.Live) -> Marks:
    """The milestones of an experiment."""
    return [one for one in live.log.read() if isinstance(one[1], Created | Changed | Alarm)]


def history_of(live: sf.Live) -> History:
    """The history of an experiment."""
    history = History()
    rows = [{**one._asdict(), "costs": msgspec.json.encode(one.costs).decode()} for one in live.log.rounds()]
    history.add([Row(*(row[name] for name in Row._fields)) for row in rows])
    return history


def shown(live: sf.Live) -> Detail:
    """The page of an experiment."""
    events = list(live.log.read())
    decided = {one.number: one for _, one in events if isinstance(one, Decided)}
    return detail(status_of(live), history_of(live), marks_of(live), None, delays_of(events, decided), decided)


def noted(work: Callable[..., Any], calls: list[Any], place: int = 0) -> Callable[..., Any]:
    """The same function, which notes one of its arguments at each call."""

    def noting(*given: Any) -> Any:
        calls.append(given[place] if given else 0)
        return work(*given)

    return noting
