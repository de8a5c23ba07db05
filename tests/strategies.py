"""What Hypothesis draws: numbers, distributions and programs, part by part, so that it can shrink what fails."""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.rules import Floats

FINE = 10**6
"""Steps between 0 and 1, fine enough for ties to be rare; a number of few digits is simpler than one of six."""
MOST_ROWS, MOST_ARMS = 12, 15
"""The largest array that is drawn number by number; a thousand arms would be more than Hypothesis can hold."""
MOVES = np.random.default_rng(0).random((MOST_ROWS, 1000))

Value = TypeVar("Value")
Found = TypeVar("Found")


class LinearProgram(NamedTuple):
    """Minimise the losses over the strategies whose costs keep the limits."""

    losses: Floats
    costs: Floats
    limits: Floats


def chance(percent: int) -> st.SearchStrategy[bool]:
    """True in about this share of the examples; shrinks to False."""
    return st.integers(1, 100).map(lambda drawn: drawn > 100 - percent)


def power(simplest: float, last: float) -> st.SearchStrategy[float]:
    """10 to a power between two, all of them equally likely."""
    return st.integers(0, 240).map(lambda drawn: float(10.0 ** (simplest + drawn / 240 * (last - simplest))))


def numbers(shape: int | tuple[int, int], steps: int = FINE) -> st.SearchStrategy[Floats]:
    """Multiples of 1 / steps in [0, 1], uniformly; steps is `FINE` or at most 100.

    They are made of bytes, since Hypothesis prefers small integers and extreme floats, at which few constraints are
    active. As many bytes are drawn whatever the shape is, so a smaller array has the numbers that the larger one had.
    """
    rows, columns = shape if isinstance(shape, tuple) else (1, shape)
    block = (3 if steps == FINE else 1, MOST_ROWS if isinstance(shape, tuple) else 1, MOST_ARMS)

    def cut(drawn: bytes) -> Floats:
        places = np.frombuffer(drawn, np.uint8).reshape(block)[:, :rows, :columns].astype(int)
        if steps == FINE:  # three places of two digits each
            whole = np.minimum(
                FINE, places[0] * 101 // 256 * 10**4 + places[1] * 100 // 256 * 100 + places[2] * 100 // 256
            )
        else:
            whole = places[0] * (steps + 1) // 256
        return np.asarray(whole.reshape(shape) / steps)

    size = math.prod(block)
    return st.binary(min_size=size, max_size=size).map(cut)


def signed(shares: Floats) -> Floats:
    """From [0, 1] to [-1, 1], evenly, so that 0 stays 0."""
    return np.where(shares <= 0.5, 2 * shares, 1 - 2 * shares)


@st.composite
def columns(draw: st.DrawFn, n_rows: int, n_arms: int) -> Floats:
    """A column of numbers in [0, 1] for each arm; those beyond `MOST_ARMS` repeat others or do not."""
    return draw(extended(draw(numbers((n_rows, min(n_arms, MOST_ARMS)))), n_arms))


@st.composite
def row(draw: st.DrawFn, n_arms: int) -> Floats:
    """A number in [0, 1] for each arm, as in `columns`."""
    return np.asarray(draw(extended(draw(numbers(min(n_arms, MOST_ARMS)))[None], n_arms))[0])


@st.composite
def extended(draw: st.DrawFn, drawn: Floats, n_arms: int) -> Floats:
    """More columns: copies, or unlike the drawn ones."""
    if n_arms <= MOST_ARMS:
        return drawn
    repeated = drawn[:, np.arange(n_arms) % MOST_ARMS]
    if draw(st.booleans()):
        repeated[:, MOST_ARMS:] += MOVES[: len(drawn), MOST_ARMS:n_arms]
    return repeated % 1.0


@st.composite
def distributions(draw: st.DrawFn, n_arms: int) -> Floats:
    """A point of the simplex: the middle, near a face, or all but a corner."""
    weights = 10.0 ** -(draw(st.integers(0, 20)) * draw(row(n_arms)))
    return np.asarray(weights / weights.sum())


@st.composite
def programs(draw: st.DrawFn, most_arms: int, most_constraints: int, steps: int = FINE) -> LinearProgram:
    """A linear program of numbers in [0, 1]."""
    n_arms, n_constraints = draw(st.integers(2, most_arms)), draw(st.integers(0, most_constraints))
    shapes = (n_arms, (n_constraints, n_arms), n_constraints)
    return LinearProgram(*(draw(numbers(shape, steps)) for shape in shapes))


def found_in(strategy: st.SearchStrategy[Value], look: Callable[[Value], Found], n_examples: int) -> list[Found]:
    """What a function says of many examples, for tests of all of them together."""
    found = []

    @settings(max_examples=n_examples, database=None)
    @given(strategy)
    def collect(value: Value) -> None:
        found.append(look(value))

    collect()
    return found
