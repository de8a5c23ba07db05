"""How feedback reaches a policy: when, whether, and how often.

Every round has one decision. Its feedback arrives in the same round, in a later one, or never.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from surefoot.kernels.types import Floats, Integers
from surefoot.rules import SHARE, Range, RuleError, choice, number, numbers

ROUNDS = Range(0, 1e6, whole=True)
MEAN_ROUNDS = Range(0, 1e6, open_low=True)
REPEATS = Range(0, 1000)
HANDLINGS = ("live", "arrival")
DRAWS = 3
"""Random numbers a round: for the delay, the loss of feedback, the repeats. They are drawn whether or not needed."""
LOST = -1
"""The delay of feedback that never arrives."""


class Uniform(NamedTuple):
    """Delays from `low` to `high`, all equally likely."""

    low: int
    high: int

    def rounds(self, uniform: Floats) -> Floats:
        """The delays that belong to uniform random numbers."""
        return np.asarray(np.minimum(self.low + np.floor(uniform * (self.high - self.low + 1)), self.high))

    def to_dict(self) -> Any:
        """The delay as in the arguments of `Feedback`."""
        return self.low if self.low == self.high else {"uniform": [self.low, self.high]}


class Geometric(NamedTuple):
    """Delays of any length: in each round the feedback that is still to come arrives with the same probability."""

    mean: float

    @property
    def high(self) -> float:
        """There is no longest delay."""
        return math.inf

    def rounds(self, uniform: Floats) -> Floats:
        """The delays that belong to uniform random numbers."""
        return np.asarray(np.floor(np.log1p(-uniform) / np.log(self.mean / (1.0 + self.mean))))

    def to_dict(self) -> Any:
        """The delay as in the arguments of `Feedback`."""
        return {"geometric": self.mean}


class Part(NamedTuple):
    """What happens to the feedback on good outcomes, or on bad ones."""

    delay: Uniform | Geometric
    lost: float
    repeated: float

    def to_dict(self) -> dict[str, Any]:
        """The part as in the arguments of `Feedback`."""
        return {"delay": self.delay.to_dict(), "lost": self.lost, "repeated": self.repeated}


@dataclass(frozen=True, init=False)
class Feedback:
    """When the feedback on a decision arrives, whether it does, and how the policy is told.

    Parameters
    ----------
    delay
        Rounds from the decision to its feedback: a number, ``{"uniform": [low, high]}`` or ``{"geometric": mean}``.
    lost
        Probability that the feedback never arrives.
    repeated
        How many more times the same feedback arrives, on average: 4 is four more times, and 0.3 is once more with
        probability 0.3.
    good, bad
        What differs for good and for bad outcomes: mappings with any of the keys ``delay, lost, repeated``.
    level
        An outcome is bad if any of its costs is at least this.
    timeout
        Rounds after which a decision without feedback is settled as lost. By default the longest delay. It must be
        given where feedback may be lost, or where delays have no limit.
    handling
        "live" learns the decisions of each arm in the order in which they were made, counts a loss of 1 and costs of 1
        for one that has timed out, and ignores repeats. Safety needs all three. "arrival" does what a naive loop does:
        feedback is learnt when it arrives and as often as it arrives, and lost feedback is dropped.

    Notes
    -----
    A decision of round t is settled in round t + delay, or in round t + timeout if its feedback is lost or later than
    that. A round draws an arm; then decisions time out, then feedback arrives, each in the order of the decisions.
    Decisions that are open when a run ends are not learnt. A policy is told at most as often as its horizon allows, and
    before the last round once less; only repeats can bring it there, and it then keeps its strategy.

    Examples
    --------
    >>> import surefoot as sf
    >>> feedback = sf.Feedback(bad={"delay": 100, "lost": 0.4}, timeout=200)
    >>> feedback.to_dict()["bad"]
    {'delay': 100, 'lost': 0.4, 'repeated': 0.0}
    >>> sf.Feedback.from_dict(feedback.to_dict()) == feedback
    True
    >>> sf.Feedback(lost=0.4)
    Traceback (most recent call last):
    surefoot.rules.RuleError: timeout must be given where feedback may be lost or delays have no limit, got None
    """

    good: Part
    bad: Part
    level: float
    timeout: int
    handling: str

    def __init__(
        self,
        delay: int | Mapping[str, Any] = 0,
        lost: float = 0.0,
        repeated: float = 0.0,
        *,
        good: Mapping[str, Any] | None = None,
        bad: Mapping[str, Any] | None = None,
        level: float = 0.5,
        timeout: int | None = None,
        handling: str = "live",
    ) -> None:
        common = part("", {"delay": delay, "lost": lost, "repeated": repeated})
        parts = [part(name, {} if given is None else given, common) for name, given in (("good", good), ("bad", bad))]
        if timeout is None:
            if any(one.lost > 0.0 or math.isinf(one.delay.high) for one in parts):
                raise RuleError("timeout", "be given where feedback may be lost or delays have no limit", None)
            timeout = int(max(one.delay.high for one in parts))
        checked = {
            "good": parts[0],
            "bad": parts[1],
            "level": float(number("level", level, SHARE)),
            "timeout": number("timeout", timeout, ROUNDS),
            "handling": choice("handling", handling, HANDLINGS),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def fates(self, uniform: Floats) -> Integers:
        """What happens to the feedback of each round, (n, 2, 2), from random numbers (n, 3).

        The second axis is for a good and for a bad outcome, the third has the delay and how often the feedback arrives.
        """
        fates = np.empty((len(uniform), 2, 2), np.int64)
        for i, one in enumerate((self.good, self.bad)):
            whole, rest = divmod(one.repeated, 1.0)
            fates[:, i, 0] = np.where(uniform[:, 1] < one.lost, LOST, one.delay.rounds(uniform[:, 0]))
            fates[:, i, 1] = 1 + whole + (uniform[:, 2] < rest)
        return fates

    def to_dict(self) -> dict[str, Any]:
        """The model as JSON-able data, for `from_dict`."""
        parts = {"good": self.good.to_dict(), "bad": self.bad.to_dict()}
        return {**parts, "level": self.level, "timeout": self.timeout, "handling": self.handling}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Feedback:
        """The model that a mapping of its arguments describes."""
        return cls(**among("feedback", data, *Part._fields, "good", "bad", "level", "timeout", "handling"))


def part(name: str, given: Any, common: Part | None = None) -> Part:
    """A part whose missing values are those of `common`; `name` is its place in the arguments."""
    values = {**(common._asdict() if common else {}), **among(name, given, *Part._fields)}
    where = f"{name}." if name else ""
    return Part(
        checked_delay(f"{where}delay", values["delay"]),
        float(number(f"{where}lost", values["lost"], SHARE)),
        float(number(f"{where}repeated", values["repeated"], REPEATS)),
    )


def checked_delay(name: str, given: Any) -> Uniform | Geometric:
    """A delay as given: a number of rounds, or a distribution."""
    if isinstance(given, Uniform | Geometric):
        return given
    if isinstance(given, Mapping) and list(given) == ["uniform"]:
        low, high = numbers(f"{name}.uniform", given["uniform"], ROUNDS, 2)
        if low > high:
            raise RuleError(f"{name}.uniform", "have a low end that is not above the high end", given["uniform"])
        return Uniform(int(low), int(high))
    if isinstance(given, Mapping) and list(given) == ["geometric"]:
        return Geometric(float(number(f"{name}.geometric", given["geometric"], MEAN_ROUNDS)))
    if given not in ROUNDS:
        rule = f"be {ROUNDS}, {{'uniform': [low, high]}} or {{'geometric': mean}}"
        raise RuleError(name, rule, given)
    return Uniform(int(given), int(given))


def among(name: str, data: Any, *known: str) -> Mapping[str, Any]:
    """Return `data` if it is a mapping whose keys are all known."""
    if not isinstance(data, Mapping) or not set(data) <= set(known):
        unknown = [key for key in data if key not in known] if isinstance(data, Mapping) else []
        raise RuleError(name, f"have keys among {', '.join(known)}", data, repr(unknown[0]) if unknown else None)
    return data
