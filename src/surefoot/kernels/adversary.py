"""Adversaries in compiled code: losses that answer to the history, given its summary.

The block of losses holds coins, uniform numbers from [0, 1), until an adversary turns those of a round into losses.
"""

from typing import NamedTuple

import numpy as np

from surefoot.kernels.compile import compiled
from surefoot.kernels.types import Floats

MOST_PLAYED, MOST_LIKELY = 0, 1
"""Whose loss is raised: the arm played most so far, or the one most likely to be drawn next."""


class Foe(NamedTuple):
    """An adversary, and what it remembers. The strategy of a round is known to it, too."""

    target: int  # MOST_PLAYED or MOST_LIKELY
    means: Floats  # (K,) of the losses, unless raised
    strength: float  # by how much the mean of the target is raised
    counts: Floats  # (K,) how often each arm was played


NOBODY = Foe(MOST_PLAYED, np.zeros(0), 0.0, np.zeros(0))
"""For losses that answer to nobody; they are left as they are."""


@compiled
def respond(foe: Foe, losses: Floats, t: int, strategy: Floats) -> None:
    """Turn the coins of round t of the block into losses."""
    shares = foe.counts if foe.target == MOST_PLAYED else strategy
    target = 0
    for a in range(shares.size):
        if shares[a] > shares[target]:
            target = a
    for a in range(shares.size):
        mean = foe.means[a]
        if a == target:
            mean += foe.strength
        losses[t, a] = 1.0 if losses[t, a] < mean else 0.0
