"""What to serve when nothing answers, and for how long not to ask."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.client.protocol import ArgumentError, Decision, NoAnswer, drawn_from, strategy_of

SHORTEST, LONGEST = 0.5, 5.0
ASK_EVERY = 30.0


class Breaker:
    """Keeps calls off a service that does not answer, so that they do not all wait for it.

    After a call that had no answer, the next ones are told at once, for a while. Then one call probes; the others go on
    as before until it is answered.

    Parameters
    ----------
    attempts
        How often a call may be sent while all is well.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._lock = threading.Lock()
        self._pauses: dict[str, tuple[float, float]] = {}  # by experiment: until when, and how long

    def attempts(self, name: str) -> int:
        """How often a call about this experiment may be sent now: once to probe, 0 for not at all."""
        now = time.monotonic()
        with self._lock:
            if name not in self._pauses:
                return self._attempts
            until, pause = self._pauses[name]
            if now < until:
                return 0
            self._pauses[name] = now + pause, pause  # the others wait for this one
            return 1

    def fail(self, name: str) -> bool:
        """A call had no answer; returns whether that is news."""
        with self._lock:
            _, before = self._pauses.get(name, (0.0, SHORTEST / 2))
            pause = min(2 * before, LONGEST)
            news = name not in self._pauses
            self._pauses[name] = time.monotonic() + pause * random.uniform(0.8, 1.2), pause
        return news

    def succeed(self, name: str) -> bool:
        """A call was answered; returns whether that is news."""
        if not self._pauses:
            return False
        with self._lock:
            return self._pauses.pop(name, None) is not None


class Baselines:
    """The baseline of each experiment: as the caller states it, or as the service did.

    Parameters
    ----------
    given
        By the caller: an arm, or the shares of arms, for each experiment. These are never replaced.
    """

    def __init__(self, given: Mapping[str, Any] | None) -> None:
        self._given = {name: checked(name, value) for name, value in (given or {}).items()}
        self._learnt: dict[str, dict[str, float]] = {}
        self._asked: dict[str, tuple[int | None, float]] = {}

    def wanted(self, name: str, epoch: int | None) -> bool:
        """Whether to ask for the baseline: it may be another one in each epoch."""
        if name in self._given:
            return False
        known, at = self._asked.get(name, (None, -ASK_EVERY))
        if known == epoch and known is not None:
            return False
        if known is None and time.monotonic() - at < ASK_EVERY:
            return False
        self._asked[name] = None, time.monotonic()
        return True

    def learn(self, name: str, epoch: int | None, baseline: Any) -> None:
        """Keep what the service said; None if the key may not know."""
        if baseline is not None:
            self._learnt[name] = shares_of(baseline)
        self._asked[name] = epoch, time.monotonic()

    def serve(self, name: str, count: int, arms: Sequence[str] | None, why: str) -> list[Decision]:
        """Decisions without the service."""
        shares = self._given.get(name) or self._learnt.get(name)
        if shares is None:
            raise NoAnswer(0, None, f"no baseline of {name} is known to serve in place of the service: {why}")
        missing = [arm for arm, p in shares.items() if p > 0.0 and arms is not None and arm not in arms]
        if missing:  # the other arms scaled up would be another strategy, which need not be safe
            said = " and ".join(map(repr, missing))
            raise NoAnswer(0, None, f"arms must include {said}, which the baseline of {name} needs: {why}")
        drawn = [drawn_from(shares) for _ in range(count)]
        return [Decision(None, arm, shares[arm], None, "safe", None, logged=False) for arm in drawn]


def shares_of(baseline: Any) -> dict[str, float]:
    """The strategy that a baseline stands for."""
    return strategy_of({baseline: 1.0} if isinstance(baseline, str) else baseline)


def checked(name: str, baseline: Any) -> dict[str, float]:
    """A baseline that the caller gives."""
    try:
        return shares_of(baseline)
    except (TypeError, ValueError, AttributeError):
        raise ArgumentError(
            f"baselines[{name!r}] must be an arm, or shares of arms that sum to 1, got {baseline!r}"
        ) from None
