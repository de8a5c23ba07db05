"""A long life of an experiment: late, lost and repeated feedback, and restarts at random moments."""

from __future__ import annotations

import heapq
from random import Random
from typing import NamedTuple

import surefoot as sf
from surefoot.experiments.events import Log
from surefoot.experiments.fold import replay
from tests.experiments.worlds import make


class Soaked(NamedTuple):
    """What happened."""

    rounds: int
    accepted: int
    lost: int
    late: int
    duplicates: int


def soak(log: Log, rounds: int, restarts: int, seed: int) -> Soaked:
    """Live through this many rounds and restarts on one log, checking every answer.

    Feedback comes after a random delay, sometimes later than the time-out, sometimes never, sometimes three times, and
    in any order. After each restart the state is what it was, and at the end it is the fold of the log from its first
    event.
    """
    rng = Random(seed)
    live = sf.Live(make(timeout=50.0), seed, log=log)
    moments = sorted(rng.sample(range(rounds), restarts), reverse=True)
    coming: list[tuple[float, int, str]] = []  # when, a number to break ties, the decision
    outcomes: dict[str, dict[str, float]] = {}  # of decisions whose feedback is still to come
    due: dict[str, int] = {}  # how many times it is still to come
    answers: dict[str, str] = {}  # the first answer
    accepted = lost = late = duplicates = 0
    for i in range(rounds):
        now = float(i)
        d = live.decide(now)
        fate = rng.random()
        times = 0 if fate < 0.05 else 3 if fate < 0.15 else 1
        lost += times == 0
        if times:
            answered = float(rng.random() < 0.9)
            outcomes[d.id] = {"quality": 2 * rng.random(), "spend": rng.choice([0.0, 0.2]), "answered": answered}
            due[d.id] = times
        for _ in range(times):
            delay = rng.expovariate(0.1) if fate < 0.9 else rng.uniform(0.0, 80.0)
            heapq.heappush(coming, (now + delay, rng.getrandbits(60), d.id))
        while coming and coming[0][0] <= now:
            id = heapq.heappop(coming)[2]
            answer, before = live.feedback(id, outcomes[id], now), answers.get(id)
            expected = {"accepted": ("replayed",), "late": ("late",), None: ("accepted", "late")}[before]
            assert answer in expected, (id, before, answer)
            accepted += answer == "accepted"
            late += answer == "late" and before is None
            duplicates += before is not None
            answers.setdefault(id, answer)
            due[id] -= 1
            if due[id] == 0:
                del answers[id], outcomes[id], due[id]
        if moments and i == moments[-1]:
            moments.pop()
            state = live._fold.digest()
            live = sf.Live.of(log)
            assert live._fold.digest() == state
    live.expire(1e9)
    status = live.status()
    assert (status.rounds, status.decisions, status.pending) == (rounds, rounds, 0)
    assert accepted + sum(live._fold.lost.values()) == rounds
    assert replay(log).digest() == live._fold.digest()
    return Soaked(rounds, accepted, lost, late, duplicates)
