"""The bounds of the paper and our own, with their constants: what they say about an instance, and from which horizon.

Each takes an `Instance` and returns a `Bound`. Where a bound depends on what happens in a run, its worst case is
taken unless a measured value is passed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from surefoot.theory.hard import corollary, lemma_3, lemma_3_sharp, lemma_4, theorem_4, weighted
from surefoot.theory.instance import Bound, Instance
from surefoot.theory.leader import led, led_without_horizon, theorem_h, theorem_r, theorem_r_two_levels
from surefoot.theory.lower import safe_arm_rounds, theorem_5
from surefoot.theory.soft import radius, theorem_1, theorem_2

__all__ = [
    "BOUNDS", "Bound", "Instance", "corollary", "led", "led_without_horizon", "lemma_3", "lemma_3_sharp", "lemma_4",
    "nontrivial_horizon", "radius", "safe_arm_rounds", "theorem_1", "theorem_2", "theorem_4", "theorem_5", "theorem_h",
    "theorem_r", "theorem_r_two_levels", "weighted",
]  # fmt: skip

BOUNDS: tuple[Callable[[Instance], Bound], ...] = (
    radius,
    theorem_1,
    theorem_2,
    lemma_3,
    lemma_3_sharp,
    lemma_4,
    theorem_4,
    weighted,
    corollary,
    theorem_r,
    theorem_r_two_levels,
    led,
    led_without_horizon,
    theorem_h,
    theorem_5,
    safe_arm_rounds,
)
"""All of them, in the order of the paper; ours stand behind those that they replace."""

LONGEST = 1e30
"""The longest horizon that is tried, if a bound is proved for every horizon."""

EXACT = 2.0**53
"""Up to here every whole number is a float."""


def nontrivial_horizon(bound: Callable[[Instance], Bound], instance: Instance) -> float:
    """The horizon from which on a bound says something, if losses and gap per round stay the same.

    Found by doubling and bisection above the last silent horizon: the bound says something there and at every later one
    tried, and not a round earlier (from 2^53 on: a float earlier). The last one tried is `LONGEST`, or the longest for
    which the bound is proved. Infinite if the bound is silent there.
    The learning rate is that of the theorem at every horizon.

    Parameters
    ----------
    bound
        A function of an instance, such as `theorem_2`.
    instance
        Its horizon does not matter.

    Examples
    --------
    >>> instance = Instance(5, 1, 10_000, 0.05, margin=0.3, benchmark_loss=1_000, gap=0.2, threshold=0.5)
    >>> nontrivial_horizon(theorem_1, instance)
    48581.0
    """

    def speaks(horizon: float) -> bool:
        return bound(instance.at(horizon)).says_something

    first, last = float(max(3, instance.n_arms)), min(LONGEST, bound(instance).longest)
    tried = [first * 2.0**k for k in range(math.ceil(math.log2(last / first)))] + [last]
    last_silent = max((k for k, horizon in enumerate(tried) if not speaks(horizon)), default=-1)
    if last_silent < 0:
        return first
    if last_silent == len(tried) - 1:
        return math.inf
    silent, spoken = tried[last_silent], tried[last_silent + 1]
    while silent < (middle := halfway(silent, spoken)) < spoken:
        silent, spoken = (silent, middle) if speaks(middle) else (middle, spoken)
    return spoken


def halfway(low: float, high: float) -> float:
    """The midpoint, as a whole number where floats can represent all of them."""
    middle = low + (high - low) / 2.0
    return float(math.floor(middle)) if middle < EXACT else middle
