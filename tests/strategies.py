"""What Hypothesis draws: numbers, distributions and programs, all of them made of one block of bytes.

That is fast, and it shrinks. Bytes are uniform. Left to itself, Hypothesis prefers small integers, extreme floats and
copies of parts of earlier examples, and with these few constraints are active.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from hypothesis import strategies as st

from surefoot.rules import Floats

FINE = 10**6
"""Steps between 0 and 1, fine enough for ties to be rare; a number of few digits is simpler than one of six."""
MOST_ROWS, MOST_ARMS = 12, 15
"""The largest array that is drawn number by number; a thousand arms would be more than Hypothesis can hold."""
MOVES = np.random.default_rng(0).random((MOST_ROWS, 1000))
CHOICES = 64
"""How many choices a source has, at two bytes each."""

Value = TypeVar("Value")
Option = TypeVar("Option")


class Source:
    """Turns bytes into choices, rows and a matrix; bytes of 0 make the simplest ones.

    Every array has bytes for as many numbers as the largest one needs, so a smaller array has the numbers that the
    larger one had.
    """

    def __init__(self, drawn: bytes) -> None:
        arrays = np.frombuffer(drawn, np.uint8, offset=2 * CHOICES).reshape(-1, 3, MOST_ARMS).astype(int)
        self._choices = iter(np.frombuffer(drawn, ">u2", CHOICES).tolist())
        self._rows, self._matrix = iter(arrays[:-MOST_ROWS]), arrays[-MOST_ROWS:]

    @staticmethod
    def size(n_rows: int) -> int:
        """The number of bytes for all choices, a matrix and so many rows."""
        return 2 * CHOICES + 3 * MOST_ARMS * (n_rows + MOST_ROWS)

    def integer(self, simplest: int, last: int) -> int:
        """An integer of a range."""
        return simplest + (int(next(self._choices)) * (last - simplest + 1) >> 16)

    def chance(self, percent: int) -> bool:
        """True in this share of the examples; False is simpler."""
        return self.integer(1, 100) > 100 - percent

    def choice(self, options: Sequence[Option]) -> Option:
        """One of the options; the first is the simplest."""
        return options[self.integer(0, len(options) - 1)]

    def power(self, simplest: float, last: float) -> float:
        """10 to a power between two."""
        return float(10.0 ** (simplest + self.integer(0, 240) / 240 * (last - simplest)))

    def numbers(self, shape: int | tuple[int, int], steps: int = FINE) -> Floats:
        """A row, or the matrix, of multiples of 1 / steps in [0, 1]; steps is `FINE` or at most 100."""
        if isinstance(shape, tuple):
            places = self._matrix[: shape[0], :, : shape[1]]
        else:
            places = next(self._rows)[None, :, :shape]
        if steps == FINE:  # three places of two digits each
            whole = places[:, 0] * 101 // 256 * 10**4 + places[:, 1] * 100 // 256 * 100 + places[:, 2] * 100 // 256
        else:
            whole = places[:, 0] * (steps + 1) // 256
        return np.asarray(np.minimum(whole, steps).reshape(shape) / steps)

    def columns(self, n_rows: int, n_arms: int) -> Floats:
        """A column of numbers in [0, 1] for each arm; those beyond `MOST_ARMS` are copies, nearly copies, or unlike."""
        return self._extended(self.numbers((n_rows, min(n_arms, MOST_ARMS))), n_arms)

    def row(self, n_arms: int) -> Floats:
        """A number in [0, 1] for each arm, as in `columns`."""
        return np.asarray(self._extended(self.numbers(min(n_arms, MOST_ARMS))[None], n_arms)[0])

    def _extended(self, drawn: Floats, n_arms: int) -> Floats:
        size = self.choice([0.0, self.power(-3, -12), 1.0])
        repeated = drawn[:, np.arange(n_arms) % MOST_ARMS]
        repeated[:, MOST_ARMS:] += size * MOVES[: len(drawn), MOST_ARMS:n_arms]
        return np.where(repeated > 1.0, repeated - 1.0, repeated)

    def distribution(self, n_arms: int) -> Floats:
        """A point of the simplex: the middle, near a face, or all but a corner."""
        weights = 10.0 ** -(self.integer(0, 20) * self.row(n_arms))
        return np.asarray(weights / weights.sum())


class LinearProgram(NamedTuple):
    """Minimise the losses over the strategies whose costs keep the limits."""

    losses: Floats
    costs: Floats
    limits: Floats


def program(source: Source, most_arms: int, most_constraints: int, steps: int = FINE) -> LinearProgram:
    """A linear program of numbers in [0, 1]."""
    n_arms, n_constraints = source.integer(2, most_arms), source.integer(0, most_constraints)
    losses, costs = source.numbers(n_arms, steps), source.numbers((n_constraints, n_arms), steps)
    return LinearProgram(losses, costs, source.numbers(n_constraints, steps))


def signed(shares: Floats) -> Floats:
    """From [0, 1] to [-1, 1], evenly, so that 0 stays 0."""
    return np.where(shares <= 0.5, 2 * shares, 1 - 2 * shares)


def drawn(build: Callable[[Source], Value], n_rows: int) -> st.SearchStrategy[Value]:
    """What a function makes of a source that has this many rows."""
    size = Source.size(n_rows)
    return st.binary(min_size=size, max_size=size).map(lambda drawn: build(Source(drawn)))


def sampled(build: Callable[[Source], Value], n_rows: int, n_samples: int) -> Iterator[Value]:
    """The same from a fixed seed, many times, for tests of all examples together."""
    rng = np.random.default_rng(0)
    for _ in range(n_samples):
        yield build(Source(rng.bytes(Source.size(n_rows))))
