"""The world of a seed: losses and costs, block by block, the same for every policy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from surefoot.environments import costs, losses
from surefoot.environments.feedback import DRAWS
from surefoot.environments.losses import Adversary, Losses
from surefoot.environments.scenario import Scenario
from surefoot.kernels.counter import FEEDBACK, LOSSES, TILE, fill_uniform
from surefoot.kernels.draws import DRIFT, FLIPS, Drawn, fill_costs, fill_losses
from surefoot.kernels.pcg import Stream, fill_flips, stream
from surefoot.kernels.types import Integers
from surefoot.problem import Problem
from surefoot.rules import SHARE, Floats, numbers

BLOCK_NUMBERS = 163_840
"""Number of losses and costs in a block: small enough for the caches, large enough to be worth a call."""


SURE = {
    losses.Bernoulli.fill, losses.Switching.fill, losses.Drifting.fill,
    costs.Bernoulli.fill, costs.Beta.fill, costs.Changing.fill,
}  # fmt: skip
"""How models are filled that cannot leave the range; all others are checked."""
FLIPPED = SURE - {costs.Beta.fill}
"""How models are filled that are coin flips."""


class Streams(NamedTuple):
    """The random numbers of a seed: independent streams. A further one does not change those before it."""

    losses: np.random.SeedSequence
    costs: np.random.SeedSequence
    policy: np.random.SeedSequence
    feedback: np.random.SeedSequence


POLICY = Streams._fields.index("policy")


@lru_cache(64)
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
    own = np.random.SeedSequence(seed, spawn_key=(POLICY,))  # as `streams` has it, without the others
    return int(own.generate_state(1, np.uint64)[0])


class Block(NamedTuple):
    """Some rounds of a world."""

    first: int  # rounds before it
    losses: Floats  # (n, K)
    costs: Floats  # (n, m, K)
    mean_costs: Floats  # (1, m, K), or (n, m, K) where they change
    fates: Integers | None  # as `Feedback.fates` returns them; None if feedback comes at once

    def part(self, begin: int, end: int) -> Block:
        """Some of its rounds."""
        means = self.mean_costs[begin:end] if len(self.mean_costs) > 1 else self.mean_costs
        fates = None if self.fates is None else self.fates[begin:end]
        return Block(self.first + begin, self.losses[begin:end], self.costs[begin:end], means, fates)


class Room(NamedTuple):
    """Memory for a block of rounds and for what a policy plays in them."""

    losses: Floats  # (n, K)
    costs: Floats  # (n, m, K)
    strategies: Floats  # (n, K)
    safe_weights: Floats  # (n,)


_idle = threading.local()
"""The room of the last world of a thread. New memory is slow: the system has to map it page by page."""
MOST_IDLE = 1_000_000
"""Numbers up to which a room is kept for the next world."""


@contextmanager
def room_for(problem: Problem) -> Iterator[Room]:
    """Lend a room to the world of a problem."""
    n_arms, n_constraints, rows = problem.n_arms, problem.n_constraints, min(block_length(problem), problem.rounds)
    shapes = (rows, n_arms), (rows, n_constraints, n_arms), (rows, n_arms), (rows,)
    room: Room | None = _idle.__dict__.pop("room", None)
    if room is None or tuple(part.shape for part in room) != shapes:
        room = Room(*map(np.empty, shapes))
    yield room
    if sum(part.size for part in room) <= MOST_IDLE:
        _idle.room = room


def block_length(problem: Problem) -> int:
    """The rounds of a block."""
    return max(64, BLOCK_NUMBERS // (problem.n_arms * (problem.n_constraints + 1)))


class Coins(NamedTuple):
    """A model of coin flips, and its stream of random numbers."""

    model: Drawn
    stream: Stream

    def flip(self, out: Floats, first: int) -> None:
        """Fill a block, (n, m, K), that begins after so many rounds."""
        self.model.first[0] = first
        fill_flips(self.stream, self.model, out)


def coins(model: Any, drawn: Drawn | None, seed: np.random.SeedSequence) -> Coins | None:
    """The coins that a model flips in compiled code, as its `fill` does to the bit; None if that does other things."""
    if drawn is None or type(model).fill not in FLIPPED or drawn.kind not in (FLIPS, DRIFT):
        return None
    if not type(model).drawn.__module__.startswith("surefoot."):
        return None
    return Coins(drawn, stream(seed))


class World:
    """Losses and costs of one seed. The length of a block depends only on the size of the problem.

    The arrays of a block are reused for the next one. The losses of an adaptive scenario depend on the policy. An
    adversary in compiled code, `foe`, finds coins in their place; any other writes them round by round with
    `loss_generator`. Costs that are drawn by counter are drawn when an arm is played (`model`), or by `fill_costs`.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario, self._seed = scenario, seed
        self._by_counter, model = scenario.random == "counter", scenario.losses
        self.foe = model.foe() if isinstance(model, Adversary) else None
        costs = scenario.costs.drawn(seed)
        losses = model.drawn(seed, scenario.problem.rounds) if isinstance(model, Losses) else None
        self.model = costs if self._by_counter else None
        self._loss_model = losses if self._by_counter else None
        self._cost_coins, self._loss_coins = None, None
        if not self._by_counter:
            self._cost_coins = coins(scenario.costs, costs, streams(seed).costs)
            self._loss_coins = coins(model, losses, streams(seed).losses)
        self._unfilled: Block | None = None
        self._fated = 0

    @cached_property
    def loss_generator(self) -> np.random.Generator:
        """The generator of losses that are not flipped in compiled code."""
        return np.random.Generator(np.random.PCG64(streams(self._seed).losses))

    @cached_property
    def _cost_generator(self) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(streams(self._seed).costs))

    @cached_property
    def _feedback_generator(self) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(streams(self._seed).feedback))

    def blocks(self, last: int) -> Iterator[tuple[Floats, Floats]]:
        """Losses (n, K) and costs (n, m, K) of all rounds up to the last; those of an adversary are left to it."""
        self.foe = None
        with room_for(self._scenario.problem) as room:
            for block in self.rounds(last, room):
                self.fill_costs()
                yield block.losses, block.costs

    def rounds(self, last: int, room: Room) -> Iterator[Block]:
        """All rounds up to the last, for policies to play, block by block in the same room."""
        problem = self._scenario.problem
        length = block_length(problem)
        for first in range(0, last, length):
            n = min(length, problem.rounds - first)
            means = np.array(self._scenario.costs.means_in(first, n), order="C")
            block = Block(first, room.losses[:n], room.costs[:n], means, None)
            self._draw_costs(block)
            self._draw_losses(block)
            part = block.part(0, min(n, last - first))
            yield part._replace(fates=self.fates(len(part.losses)))

    def _draw_costs(self, block: Block) -> None:
        if self.model is not None:
            self._unfilled = block
            return
        if self._cost_coins is not None:
            self._cost_coins.flip(block.costs, block.first)
            return
        model = self._scenario.costs
        unsure = type(model).fill not in SURE
        if unsure:
            block.costs.fill(np.nan)  # entries that the model does not write are rejected
        model.fill(block.costs, block.first, self._cost_generator)
        if unsure:
            checked("costs", block.costs)

    def fill_costs(self) -> None:
        """Draw the costs of all arms in the current block, if they are not drawn yet."""
        if self.model is not None and self._unfilled is not None:
            self.model.first[0] = self._unfilled.first
            fill_costs(self.model, self._unfilled.costs)
            self._unfilled = None

    def _draw_losses(self, block: Block) -> None:
        model, out = self._scenario.losses, block.losses
        if self._loss_model is not None:
            self._loss_model.first[0] = block.first
            fill_losses(self._loss_model, out)
        elif self._loss_coins is not None:
            self._loss_coins.flip(out[:, None], block.first)
        elif isinstance(model, Losses):
            self.fill_costs()
            unsure = type(model).fill not in SURE
            if unsure:
                out.fill(np.nan)
            model.fill(out, block.first, self._scenario.problem.rounds, self.loss_generator, block.costs)
            if unsure:
                checked("losses", out)
        elif self.foe is not None and self._by_counter:
            fill_uniform(out, self._seed, LOSSES, block.first, np.empty(TILE))
        elif self.foe is not None:
            self.loss_generator.random(out=out)
        else:
            out.fill(np.nan)

    def fates(self, rounds: int) -> Integers | None:
        """What happens to the feedback of the next rounds, as `Feedback.fates` returns it; None if it comes at once."""
        feedback = self._scenario.feedback
        if feedback is None:
            return None
        uniform = np.empty((rounds, DRAWS))
        if self._by_counter:
            fill_uniform(uniform, self._seed, FEEDBACK, self._fated, np.empty(TILE))
            self._fated += rounds
        else:
            self._feedback_generator.random(out=uniform)
        return feedback.fates(uniform)


def checked(name: str, block: Floats) -> None:
    """Reject values that a model of losses or costs must not produce."""
    if block.size and not (block.min() >= 0.0 and block.max() <= 1.0):
        numbers(name, block, SHARE, *block.shape)  # raises with the right message
