"""Losses, oblivious and adaptive.

An oblivious model fills a block of rounds at a time; an adversary answers round by round to what it has seen.

To write one, inherit from `Losses` and write `fill`, or from `Adversary` and write `respond`. Draw everything random
round by round from the generator that is passed in, so that it does not matter where blocks are cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefoot.environments.model import Model
from surefoot.environments.tables import rank, read_array
from surefoot.kernels.adversary import MOST_LIKELY, MOST_PLAYED, Foe
from surefoot.kernels.draws import Drawn, flips
from surefoot.rules import SHARE, WHOLE, Floats, Range, RuleError, frozen, number, numbers

__all__ = [
    "Adversary", "Bernoulli", "Drifting", "Fixed", "Losses", "OfSuccess", "PunishProposal", "RaiseMostPlayed", "Seen",
    "Switching",
]  # fmt: skip

SWITCH = Range(1, 1e15, whole=True)


class Losses(Model, ABC):
    """Losses that do not react to what is played."""

    @property
    @abstractmethod
    def n_arms(self) -> int:
        """Number of arms."""

    @abstractmethod
    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        """Write the losses of the rounds from `first` on (the first of all is 0) into `out`, one row a round.

        `costs` are the costs of the same rounds, (rounds, guardrails, arms), for losses that go with them.
        """

    def drawn(self, seed: int, horizon: int) -> Drawn | None:
        """The model in compiled code, which draws by counter; None if it has no such code."""
        return None


class Seen(NamedTuple):
    """What an adversary knows before a round: the history of the earlier rounds."""

    round: int  # how many rounds there have been
    horizon: int
    strategy: Floats  # (K,) the probabilities of this round's draw: the history determines them
    counts: Floats  # (K,) how often each arm was played


class Adversary(Model, ABC):
    """Losses that react to earlier rounds."""

    @property
    @abstractmethod
    def n_arms(self) -> int:
        """Number of arms."""

    @abstractmethod
    def respond(self, out: Floats, seen: Seen, rng: np.random.Generator) -> None:
        """Write the losses of the coming round into `out`."""

    def foe(self) -> Foe | None:
        """The adversary in compiled code, before the first round; None if it has no such code."""
        return None


class Bernoulli(Losses):
    """Independent coin flips: loss 1 with probability `means`, else 0.

    Examples
    --------
    >>> import numpy as np, surefoot as sf
    >>> model, out = sf.losses.Bernoulli([0.1, 0.5, 0.9]), np.empty((4, 3))
    >>> model.fill(out, 0, 4, np.random.default_rng(1), np.empty((4, 0, 3)))
    >>> out
    array([[0., 0., 1.],
           [0., 1., 1.],
           [0., 1., 1.],
           [1., 0., 1.]])
    """

    def __init__(self, means: ArrayLike) -> None:
        self.means = frozen(numbers("means", means, SHARE, None))

    @property
    def n_arms(self) -> int:
        return self.means.size

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        rng.random(out=out)
        np.less(out, self.means, out=out)

    def drawn(self, seed: int, horizon: int) -> Drawn | None:
        return flips(seed, self.means[None, None]) if type(self).fill is Bernoulli.fill else None


class Switching(Losses):
    """Coin flips whose means change abruptly.

    Row i of `means` holds until `at[i]` rounds have passed, the last row for good.

    Examples
    --------
    >>> import surefoot as sf
    >>> sf.losses.Switching([[0.1, 0.9], [0.9, 0.1]], at=[500]).n_arms
    2
    """

    def __init__(self, means: ArrayLike, at: int | Sequence[int]) -> None:
        self.at = increasing(at)
        self.means = frozen(numbers("means", means, SHARE, None, None))
        if len(self.means) != len(self.at) + 1:
            raise RuleError("means", f"have {len(self.at) + 1} rows, one more than at", len(self.means))

    @property
    def n_arms(self) -> int:
        return int(self.means.shape[1])

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        rng.random(out=out)
        phases = np.searchsorted(self.at, np.arange(first, first + len(out)), side="right")
        np.less(out, self.means[phases], out=out)

    def drawn(self, seed: int, horizon: int) -> Drawn | None:
        return flips(seed, self.means[:, None], self.at) if type(self).fill is Switching.fill else None


class Drifting(Losses):
    """Coin flips whose means move in a straight line, from `start` in the first round to `end` in the last.

    Examples
    --------
    >>> import surefoot as sf
    >>> sf.losses.Drifting([0.1, 0.9], [0.9, 0.1]).n_arms
    2
    """

    def __init__(self, start: ArrayLike, end: ArrayLike) -> None:
        self.start = frozen(numbers("start", start, SHARE, None))
        self.end = frozen(numbers("end", end, SHARE, self.start.size))

    @property
    def n_arms(self) -> int:
        return self.start.size

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        rng.random(out=out)
        passed = np.arange(first, first + len(out))[:, None] / (horizon - 1)
        np.less(out, (1 - passed) * self.start + passed * self.end, out=out)

    def drawn(self, seed: int, horizon: int) -> Drawn | None:
        own = type(self).fill is not Drifting.fill
        return None if own else flips(seed, np.stack([self.start, self.end])[:, None], way=horizon - 1)


class Fixed(Losses):
    """Given losses: one row a round, or one row for all rounds; or the name of a file that holds them.

    A file is a NumPy array (``.npy``, any size, read piece by piece) or a table (``.csv``, ``.parquet``) with one
    column an arm and one row a round.

    Examples
    --------
    >>> import surefoot as sf
    >>> sf.losses.Fixed([[0.0, 1.0], [0.5, 0.25]]).n_rounds
    2
    """

    def __init__(self, array: ArrayLike | str | Path) -> None:
        if isinstance(array, str | Path):
            self.array = read_array("losses", array, 2)
        else:
            self.array = frozen(numbers("losses", array, SHARE, *[None] * (1 if rank(array) == 1 else 2)))
        self.n_rounds = len(self.array) if self.array.ndim == 2 else None

    @property
    def n_arms(self) -> int:
        return int(self.array.shape[-1])

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        out[...] = self.array if self.array.ndim == 1 else self.array[first : first + len(out)]


class OfSuccess(Losses):
    """Losses that go with a cost: 1 when it is 1 (a failure), and 1 - value of the arm when it is 0 (a success).

    Examples
    --------
    >>> import numpy as np, surefoot as sf
    >>> model, out = sf.losses.OfSuccess([0.25, 0.75]), np.empty((2, 2))
    >>> model.fill(out, 0, 2, np.random.default_rng(1), np.array([[[0.0, 0.0]], [[1.0, 0.0]]]))
    >>> out
    array([[0.75, 0.25],
           [1.  , 0.25]])
    """

    def __init__(self, values: ArrayLike, constraint: int = 0) -> None:
        self.values = frozen(numbers("values", values, SHARE, None))
        self.constraint = number("constraint", constraint, WHOLE)

    @property
    def n_arms(self) -> int:
        return self.values.size

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        out[...] = 1.0 - self.values * (1.0 - costs[:, self.constraint])


class RaiseMostPlayed(Adversary):
    """An adversary that raises the loss of the arm played most so far.

    Coin flips with mean ``(1 - strength) means``, and ``strength`` more for that arm (the first of several).

    Examples
    --------
    >>> import numpy as np, surefoot as sf
    >>> seen, out = sf.losses.Seen(9, 100, np.array([0.5, 0.5]), np.array([7.0, 2.0])), np.empty(2)
    >>> sf.losses.RaiseMostPlayed([0.0, 0.0], strength=1.0).respond(out, seen, np.random.default_rng(1))
    >>> out
    array([1., 0.])
    """

    def __init__(self, means: ArrayLike, strength: float = 0.5) -> None:
        self.means = frozen(numbers("means", means, SHARE, None))
        self.strength = float(number("strength", strength, SHARE))

    @property
    def n_arms(self) -> int:
        return self.means.size

    def target(self, seen: Seen) -> int:
        """The arm whose loss is raised."""
        return int(seen.counts.argmax())

    def respond(self, out: Floats, seen: Seen, rng: np.random.Generator) -> None:
        raised = (1.0 - self.strength) * self.means
        raised[self.target(seen)] += self.strength
        np.less(rng.random(out.size), raised, out=out)

    def foe(self) -> Foe | None:
        targets = {RaiseMostPlayed.target: MOST_PLAYED, PunishProposal.target: MOST_LIKELY}
        target = targets.get(type(self).target)
        if target is None or type(self).respond is not RaiseMostPlayed.respond:
            return None
        return Foe(target, (1.0 - self.strength) * self.means, self.strength, np.zeros(self.means.size))


class PunishProposal(RaiseMostPlayed):
    """An adversary that punishes the current proposal: it raises the loss of the arm most likely to be drawn next.

    Examples
    --------
    >>> import numpy as np, surefoot as sf
    >>> seen, out = sf.losses.Seen(9, 100, np.array([0.4, 0.6]), np.array([7.0, 2.0])), np.empty(2)
    >>> sf.losses.PunishProposal([0.0, 0.0], strength=1.0).respond(out, seen, np.random.default_rng(1))
    >>> out
    array([0., 1.])
    """

    def target(self, seen: Seen) -> int:
        return int(seen.strategy.argmax())


def increasing(at: int | Sequence[int]) -> tuple[int, ...]:
    """The rounds after which something changes."""
    rounds = [number("at", round_, SWITCH) for round_ in np.atleast_1d(np.asarray(at, object))]
    if sorted(set(rounds)) != rounds:
        raise RuleError("at", "be increasing", rounds)
    return tuple(rounds)
