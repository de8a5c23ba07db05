"""A strategy to draw from, away from the learner."""

from __future__ import annotations

from typing import NamedTuple

from surefoot.kernels.episode import draw
from surefoot.rules import SHARE, Floats, number


class Snapshot(NamedTuple):
    """A strategy as the learner certified it: any number of deciders may draw from it without asking.

    A strategy of a hard policy stays safe however much is learnt after it, so drawing from an old snapshot costs a
    little regret and no safety. That ends when the problem changes: hence the epoch and the lease. A decider that
    cannot renew its snapshot serves the baseline. Strategies of soft policies have no such property.

    Examples
    --------
    >>> import numpy as np
    >>> snapshot = Snapshot(np.array([0.25, 0.75]), weight=1.0, epoch=0, seq=12, lease=60.0, arms=("a", "b"))
    >>> snapshot.draw(0.5)
    (1, 0.75)
    """

    strategy: Floats
    weight: float  # of what the policy proposed, 1 - safe_weight
    epoch: int
    seq: int  # rounds learnt before it
    lease: float  # until when it may be used
    arms: tuple[str, ...] = ()
    mode: str = "live"

    def draw(self, u: float) -> tuple[int, float]:
        """The place of the arm on which a number from [0, 1) falls, and its probability."""
        if not (type(u) is float and 0.0 <= u < 1.0):
            number("u", u, SHARE._replace(open_high=True))
        arm = int(draw(self.strategy, u))
        return arm, self.strategy.item(arm)

    def valid(self, now: float, epoch: int | None = None) -> bool:
        """Whether it may still be used at this time and, if known, in this epoch."""
        return now <= self.lease and (epoch is None or epoch == self.epoch)
