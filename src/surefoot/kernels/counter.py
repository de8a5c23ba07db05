"""Random numbers by counter: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

A number is a function of where it is used and of nothing else: the seed is the key, and the stream, the round, the arm,
the guardrail and the attempt are the counter. So any number can be had at any time, in any order, on any machine, with
integer arithmetic alone: words of 32 bits, and products of 64.

======  =====================================================
word    bits
======  =====================================================
0       the round, its lower 32 bits
1       the round, its upper 24 bits; above them the stream
2       the arm
3       the guardrail, 20 bits; above them the attempt
======  =====================================================
"""

from typing import Any

import numpy as np

from surefoot.kernels.compile import compiled, compiled_apart
from surefoot.kernels.types import Floats

LOSSES, COSTS, FEEDBACK = 0, 1, 2
"""Streams: what numbers are for."""
ROUND_BITS, GUARDRAIL_BITS = 24, 20

FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
FIRST_STEP, SECOND_STEP = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
HALF = np.uint64(32)
ROUNDS = 10
UNIT = 2.0**-53
TILE = 256
"""Rounds that are filled together."""
HIGH, LOW = np.uint32(5), np.uint32(6)
WIDTH = np.uint64(26)


@compiled
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any]:
    """Four random words out of a counter of four words and a key of two; all of them are uint32."""
    for _ in range(ROUNDS):
        one, two = FIRST_FACTOR * np.uint64(c0), SECOND_FACTOR * np.uint64(c2)
        c0, c2 = np.uint32(np.uint32(two >> HALF) ^ c1 ^ k0), np.uint32(np.uint32(one >> HALF) ^ c3 ^ k1)
        c1, c3 = np.uint32(two), np.uint32(one)
        k0, k1 = np.uint32(np.uint64(k0) + FIRST_STEP), np.uint32(np.uint64(k1) + SECOND_STEP)
    return c0, c1, c2, c3


@compiled
def words(seed: int, stream: int, round_: int, arm: int, guardrail: int, attempt: int) -> tuple[Any, Any, Any, Any]:
    """The four words of a place."""
    key, at = np.uint64(seed), np.uint64(round_)
    first = np.uint32(np.uint32(at >> HALF) | np.uint32(stream << ROUND_BITS))
    last = np.uint32(guardrail | (attempt << GUARDRAIL_BITS))
    return philox(np.uint32(at), first, np.uint32(arm), last, np.uint32(key), np.uint32(key >> HALF))


@compiled
def unit(high: Any, low: Any) -> float:
    """A number from [0, 1) with 53 bits, out of two words."""
    return UNIT * float(np.int64((np.uint64(high >> HIGH) << WIDTH) | np.uint64(low >> LOW)))


@compiled
def uniform(seed: int, stream: int, round_: int, arm: int, guardrail: int) -> float:
    """The uniform number of a place."""
    high, low, _, _ = words(seed, stream, round_, arm, guardrail, 0)
    return unit(high, low)


@compiled_apart
def fill_uniform(out: Floats, seed: int, stream: int, first: int, tile: Floats) -> None:
    """The uniform numbers of a block of rounds, one column an arm; `tile` is scratch space of any length."""
    for begin in range(0, out.shape[0], tile.size):
        n = min(tile.size, out.shape[0] - begin)
        for a in range(out.shape[1]):
            for t in range(n):  # vectorised, because neighbours in memory differ in the round alone
                tile[t] = uniform(seed, stream, first + begin + t, a, 0)
            for t in range(n):
                out[begin + t, a] = tile[t]
