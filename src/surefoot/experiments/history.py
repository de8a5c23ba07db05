"""What happened to an experiment between its rounds: epochs, alarms, holds. Read from the log, without learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from surefoot.experiments.events import (
    Alarm,
    Cancelled,
    Changed,
    Created,
    Decided,
    Ended,
    Event,
    Held,
    Late,
    Log,
    Measured,
    Resumed,
    Switched,
    kind_of,
)
from surefoot.experiments.live import PREFIX
from surefoot.experiments.order import rounds

ACTS = (Held, Resumed, Switched, Ended, Measured)
"""Events that change what is served and are neither epochs nor alarms."""


def history(log: Log) -> dict[str, Any]:
    """The course of an experiment as JSON-able data.

    Each entry has `after`, the number of the last round before it, and `event`, its number in the log.

    Returns
    -------
    dict
        ``prefix`` of the ids, ``engine`` that began it, ``rounds`` (how many), ``decisions`` made, ``cancelled``,
        ``late`` (reports that came after their time-out); ``epochs``, each with its ``experiment``; ``alarms``;
        ``acts`` (holds, resumptions and the like).

    Examples
    --------
    >>> import surefoot as sf
    >>> live = sf.Live(sf.Experiment("x", arms=["a", "b"], objective=sf.Maximise("y"), guardrails=[], baseline="b",
    ...                              timeout=60), seed=1)
    >>> live.feedback(live.decide(now=0.0).id, {"y": 1}, now=0.0)
    'accepted'
    >>> live.hold("lunch")
    >>> history(live.log)["acts"]
    [{'kind': 'held', 'reason': 'lunch', 'after': 1, 'event': 4}]
    """
    found: dict[str, Any] = {"decisions": 0, "cancelled": 0, "late": 0, "epochs": [], "alarms": [], "acts": []}
    counted = {Decided: "decisions", Cancelled: "cancelled", Late: "late"}
    seq = 0

    def noted() -> Iterator[tuple[int, Event]]:
        """The events, written down as they pass by; the rounds before each of them are counted by then."""
        for number, event in log.read():
            if type(event) in counted:
                found[counted[type(event)]] += 1
            elif isinstance(event, Created):
                found.update(
                    prefix=event.key[:PREFIX], engine=dict(event.engine)
                )  # the key itself would tell the draws
                first = {"epoch": 0, "kept": False, "reason": None, "experiment": dict(event.experiment)}
                found["epochs"].append({**first, "after": 0, "event": number})
            elif isinstance(event, Changed):
                found["epochs"].append({**event._asdict(), "after": seq, "event": number})
            elif isinstance(event, Alarm):
                epoch = found["epochs"][-1]["epoch"]
                found["alarms"].append({**event._asdict(), "epoch": epoch, "after": seq, "event": number})
            elif isinstance(event, ACTS):
                found["acts"].append({"kind": kind_of(event), **event._asdict(), "after": seq, "event": number})
            yield number, event

    for _ in rounds(noted()):
        seq += 1
    return {"rounds": seq, **found}
