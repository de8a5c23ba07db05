"""A slow twin of feedback that is late, lost or repeated: lists, and a search through all of them in every round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Waiting:
    """A decision that is not learnt yet."""

    round: int
    arm: int
    decision: Any
    loss: float
    costs: list[float]
    arrives: int | None  # the round in which its feedback arrives; None: not before the time-out
    copies: int
    settled: bool = False


class Rehearsal:
    """Drives a policy by ask and tell. `fates[t][bad]` is the delay of round t's feedback (-1: lost) and its copies."""

    def __init__(self, policy: Any, horizon: int, timeout: int, handling: str, level: float = 0.5) -> None:
        self.policy, self.horizon, self.timeout, self.level = policy, horizon, timeout, level
        self.in_order = handling == "live"
        self.now = self.told = self.lost = 0
        self.waiting: list[Waiting] = []

    def round(self, losses: Sequence[float], costs: Any, fates: Any) -> None:
        """Play a round: `losses` of the arms, `costs` of the guardrails and arms."""
        decision = self.policy.ask()
        arm = decision[0]
        own = [float(row[arm]) for row in costs]
        delay, copies = fates[int(any(cost >= self.level for cost in own))]
        arrives = self.now + delay if 0 <= delay <= self.timeout else None
        if not self.in_order:
            decision = decision[:3]  # without its number: a policy refuses repeats and a wrong order
        self.waiting.append(Waiting(self.now, arm, decision, float(losses[arm]), own, arrives, copies))
        timing_out = [w for w in self.waiting if w.arrives is None and w.round + self.timeout == self.now]
        arriving = [w for w in self.waiting if w.arrives == self.now]
        for one in timing_out:
            self.lost += 1
            one.loss, one.costs, one.copies = 1.0, [1.0] * len(own), 0
        for one in timing_out + arriving:
            one.settled = True
            if self.in_order:
                self.drain(one.arm)
            else:
                self.waiting.remove(one)
                for _ in range(one.copies):
                    self.learn(one)
        self.now += 1

    def drain(self, arm: int) -> None:
        """Learn the arm's decisions from the oldest on, as long as they are settled."""
        for one in [w for w in self.waiting if w.arm == arm]:
            if not one.settled:
                return
            self.waiting.remove(one)
            self.learn(one)

    def learn(self, one: Waiting) -> None:
        """Tell the policy, unless that would use up its horizon before the last round."""
        if self.told < self.horizon and (self.told < self.horizon - 1 or self.now == self.horizon - 1):
            self.told += 1
            self.policy.tell(one.decision, one.loss, one.costs)
