"""The world of a seed: losses and costs, block by block, the same for every policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from surefoot.environments.feedback import DRAWS
from surefoot.environments.losses import Losses
from surefoot.environments.scenario import Scenario
from surefoot.kernels.types import Integers
from surefoot.rules import SHARE, Floats, numbers

BLOCK_NUMBERS = 163_840
"""Number of losses and costs in a block: small enough for the caches, large enough to be worth a call."""


class Streams(NamedTuple):
    """The random numbers of a seed: independent streams. A further one does not change those before it."""

    losses: np.random.SeedSequence
    costs: np.random.SeedSequence
    policy: np.random.SeedSequence
    feedback: np.random.SeedSequence


def streams(seed: int) -> Streams:
    """The streams of a seed."""
    return Streams(*np.random.SeedSequence(seed).spawn(len(Streams._fields)))


def policy_seed(seed: int) -> int:
    """The seed that every policy gets in the world of this seed.

    Examples
    --------
    >>> policy_seed(3) == policy_seed(3) != policy_seed(4)
    True
    """
    return int(streams(seed).policy.generate_state(1, np.uint64)[0])


class World:
    """Losses and costs of one seed. The length of a block depends only on the size of the problem.

    The arrays of a block are reused for the next one. The losses of an adaptive scenario are not filled in: they depend
    on the policy, and its adversary writes them round by round with `loss_generator`.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        made = streams(seed)
        self.loss_generator = np.random.Generator(np.random.PCG64(made.losses))
        self._cost_generator = np.random.Generator(np.random.PCG64(made.costs))
        self._feedback_generator = np.random.Generator(np.random.PCG64(made.feedback))

    def blocks(self, last: int) -> Iterator[tuple[Floats, Floats]]:
        """Losses (n, K) and costs (n, m, K) of all rounds up to the last."""
        scenario, problem = self._scenario, self._scenario.problem
        length = max(64, BLOCK_NUMBERS // (problem.n_arms * (problem.n_constraints + 1)))
        losses = np.empty((length, problem.n_arms))
        costs = np.empty((length, problem.n_constraints, problem.n_arms))
        for first in range(0, last, length):
            n = min(length, problem.rounds - first)
            costs.fill(np.nan)  # entries that the model does not write are rejected
            losses.fill(np.nan)
            scenario.costs.fill(costs[:n], first, self._cost_generator)
            checked("costs", costs[:n])
            if isinstance(scenario.losses, Losses):
                scenario.losses.fill(losses[:n], first, problem.rounds, self.loss_generator, costs[:n])
                checked("losses", losses[:n])
            n = min(n, last - first)
            yield losses[:n], costs[:n]

    def fates(self, rounds: int) -> Integers | None:
        """What happens to the feedback of the next rounds, as `Feedback.fates` returns it; None if it comes at once."""
        feedback = self._scenario.feedback
        return None if feedback is None else feedback.fates(self._feedback_generator.random((rounds, DRAWS)))


def checked(name: str, block: Floats) -> None:
    """Reject values that a model of losses or costs must not produce."""
    if block.size and not (block.min() >= 0.0 and block.max() <= 1.0):
        numbers(name, block, SHARE, *block.shape)  # raises with the right message
