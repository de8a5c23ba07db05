"""NumPy's generator PCG64 in compiled code: the same numbers, without Python's lock.

A stream is four words of 64 bits: the state and the increment of a linear congruential generator of 128 bits, upper
words first (O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms", 2014, XSL-RR).
"""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from surefoot.kernels.compile import compiled, compiled_apart
from surefoot.kernels.draws import Drawn, mean_at
from surefoot.kernels.types import Floats

Stream = NDArray[np.uint64]

BITS = 64
WHOLE = (1 << 2 * BITS) - 1
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
UPPER_FACTOR, LOWER_FACTOR = np.uint64(MULTIPLIER >> BITS), np.uint64(MULTIPLIER & (1 << BITS) - 1)
WORD, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
ROTATION, LAST, WIDTH, EXTRA = np.uint64(58), np.uint64(63), np.uint64(64), np.uint64(11)
UNIT = 2.0**-53


def stream(seed: np.random.SeedSequence) -> Stream:
    """The stream of ``np.random.PCG64(seed)`` before its first number.

    Examples
    --------
    >>> import numpy as np
    >>> seed = np.random.SeedSequence(7)
    >>> words = [int(word) for word in stream(seed)]
    >>> words[0] << 64 | words[1] == np.random.PCG64(seed).state["state"]["state"]
    True
    """
    first, second, third, fourth = seed.generate_state(4, np.uint64).tolist()
    increment = (third << BITS | fourth) << 1 & WHOLE | 1
    state = (increment + (first << BITS | second)) * MULTIPLIER + increment & WHOLE
    return as_words(state, increment)


def as_words(state: int, increment: int) -> Stream:
    """A stream of this state and increment."""
    lower = (1 << BITS) - 1
    return np.array([state >> BITS, state & lower, increment >> BITS, increment & lower], np.uint64)


def stored(rng: np.random.Generator) -> Stream:
    """The stream of a generator with PCG64, where it stands."""
    inner = cast(np.random.PCG64, rng.bit_generator).state["state"]
    return as_words(inner["state"], inner["inc"])


def load(rng: np.random.Generator, stream: Stream) -> None:
    """Set a generator with PCG64 to where a stream stands.

    Examples
    --------
    >>> import numpy as np
    >>> one, other = np.random.default_rng(1), np.random.default_rng(2)
    >>> load(other, stored(one))
    >>> one.random() == other.random()
    True
    """
    high, low, upper, lower = (int(word) for word in stream)
    inner = {"state": high << BITS | low, "inc": upper << BITS | lower}
    rng.bit_generator.state = {"bit_generator": "PCG64", "state": inner, "has_uint32": 0, "uinteger": 0}


@compiled
def upper_product(one: Any, two: Any) -> Any:
    """The upper word of the product of two words."""
    high, low, high2, low2 = one >> HALF, one & WORD, two >> HALF, two & WORD
    across, other = high * low2, low * high2
    carried = (low * low2 >> HALF) + (across & WORD) + (other & WORD)
    return high * high2 + (across >> HALF) + (other >> HALF) + (carried >> HALF)


@compiled
def advanced(high: Any, low: Any, upper: Any, lower: Any) -> tuple[Any, Any]:
    """The next state: upper and lower word."""
    product = LOWER_FACTOR * low
    new = product + lower
    carry = np.uint64(1) if new < product else np.uint64(0)
    return upper_product(LOWER_FACTOR, low) + LOWER_FACTOR * high + UPPER_FACTOR * low + upper + carry, new


@compiled
def unit(high: Any, low: Any) -> float:
    """The number from [0, 1) that a state stands for."""
    mixed, turn = high ^ low, high >> ROTATION
    turned = (mixed >> turn) | (mixed << ((WIDTH - turn) & LAST))
    return UNIT * float(np.int64(turned >> EXTRA))


@compiled_apart
def fill_flips(stream: Stream, model: Drawn, out: Floats) -> None:
    """Flip the coins of a block of rounds, (n, m, K): as ``rng.random(out=out) < means``, to the bit."""
    high, low, upper, lower = stream[0], stream[1], stream[2], stream[3]
    for t in range(out.shape[0]):
        round_ = model.first[0] + t
        for i in range(out.shape[1]):
            for a in range(out.shape[2]):
                high, low = advanced(high, low, upper, lower)
                out[t, i, a] = 1.0 if unit(high, low) < mean_at(model, round_, i, a) else 0.0
    stream[0], stream[1] = high, low
