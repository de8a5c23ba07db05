"""Philox, slowly: whole numbers of any size, and words of 32 or 64 bits.

With 64 bits it is NumPy's generator, with which a test compares it; with 32 bits it is the kernel's.
"""

FACTORS = {32: (0xD2511F53, 0xCD9E8D57), 64: (0xD2E7470EE14C6C93, 0xCA5A826395121157)}
STEPS = {32: (0x9E3779B9, 0xBB67AE85), 64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}


def philox(counter: list[int], key: list[int], bits: int = 32, rounds: int = 10) -> list[int]:
    """Four words out of a counter of four and a key of two."""
    size = 2**bits
    for number in range(rounds):
        keys = [(word + number * step) % size for word, step in zip(key, STEPS[bits], strict=True)]
        products = [counter[2 * i] * FACTORS[bits][i] for i in (0, 1)]
        high, low = zip(*(divmod(product, size) for product in products), strict=True)
        counter = [high[1] ^ counter[1] ^ keys[0], low[1], high[0] ^ counter[3] ^ keys[1], low[0]]
    return counter


def uniform(seed: int, stream: int, round_: int, arm: int, guardrail: int, attempt: int = 0) -> float:
    """The number from [0, 1) of a place."""
    counter = [round_ % 2**32, round_ // 2**32 + stream * 2**24, arm, guardrail + attempt * 2**20]
    first, second, _, _ = philox(counter, [seed % 2**32, seed // 2**32])
    return ((first >> 5) * 2**26 + (second >> 6)) / 2**53
