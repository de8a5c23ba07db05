"""Random numbers by counter: against NumPy, published results and a slow twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.kernels import counter
from tests.reference import philox as twin

WORD32, WORD64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
# the authors' own: https://github.com/DEShawResearch/random123, tests/kat_vectors
PUBLISHED = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def kernel(words: list[int], key: list[int]) -> list[int]:
    return [int(word) for word in counter.philox(*map(np.uint32, words + key))]


@given(words=st.lists(WORD64, min_size=4, max_size=4), key=st.lists(WORD64, min_size=2, max_size=2))
def test_with_words_of_64_bits_the_twin_is_numpy(words: list[int], key: list[int]) -> None:
    whole = (sum(word << 64 * i for i, word in enumerate(words)) + 1) % 2**256  # NumPy counts first, and then draws
    counted = [whole >> 64 * i & 2**64 - 1 for i in range(4)]
    numpy = np.random.Philox(counter=np.array(words, np.uint64), key=np.array(key, np.uint64)).random_raw(4)
    assert twin.philox(counted, key, 64) == numpy.tolist()
    assert twin.philox(counted, key, 64, rounds=9) != numpy.tolist()


@given(words=st.lists(WORD32, min_size=4, max_size=4), key=st.lists(WORD32, min_size=2, max_size=2))
def test_with_words_of_32_bits_the_twin_is_the_kernel(words: list[int], key: list[int]) -> None:
    assert kernel(words, key) == twin.philox(words, key)


@pytest.mark.parametrize(("words", "key", "found"), PUBLISHED)
def test_published_results(words: list[int], key: list[int], found: list[int]) -> None:
    assert kernel(words, key) == twin.philox(words, key) == found


@given(
    seed=st.integers(0, 2**63 - 1),
    stream=st.sampled_from([counter.LOSSES, counter.COSTS, counter.FEEDBACK]),
    round_=st.integers(0, 10**15),
    arm=WORD32.map(lambda word: word // 2),
    guardrail=st.integers(0, 2**20 - 1),
)
def test_a_number_follows_from_its_place(seed: int, stream: int, round_: int, arm: int, guardrail: int) -> None:
    found = counter.uniform(seed, stream, round_, arm, guardrail)
    assert found == twin.uniform(seed, stream, round_, arm, guardrail)
    assert 0.0 <= found < 1.0


def test_no_two_places_share_a_counter() -> None:
    places = [(0, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0), (2**32, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)]
    places += [(0, 0, 2**32, 0, 0, 0), (0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1)]
    found = [tuple(map(int, counter.words(*place))) for place in places]
    assert len(set(found)) == len(places)


@given(first=st.integers(0, 2**33), rounds=st.integers(0, 40), tile=st.integers(1, 50))
def test_blocks_are_filled_place_by_place(first: int, rounds: int, tile: int) -> None:
    out = np.empty((rounds, 3))
    counter.fill_uniform(out, 7, counter.COSTS, first, np.empty(tile))
    wanted = [[twin.uniform(7, counter.COSTS, first + t, a, 0) for a in range(3)] for t in range(rounds)]
    assert out.tolist() == wanted
