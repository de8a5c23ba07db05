"""Two inequalities of chance behind weighted estimates (Steps 4 and 7 of docs/theory/weighted-estimator.md)."""

from __future__ import annotations

import math

import numpy as np

from surefoot.policies.rates import Sized, halving_log
from surefoot.rules import Floats
from surefoot.theory import paths
from surefoot.theory.claims import most_failures


def test_step_4_one_round() -> None:
    y = np.linspace(-40, 1, 100_001)
    assert (np.exp(y) <= 1 + y + y**2 + 1e-15).all()
    assert math.exp(1.8) > 1 + 1.8 + 1.8**2  # not beyond
    chance = np.geomspace(1e-6, 1, 400)[:-1]  # X = 1 - p with probability p, else -p

    def moment(s: float) -> float:
        mean = chance * np.exp(s * (1 - chance)) + (1 - chance) * np.exp(-s * chance)
        return float((mean * np.exp(-(s**2) * chance * (1 - chance))).max())

    assert max(moment(s) for s in np.linspace(0.01, 1, 100)) <= 1 + 1e-12
    assert moment(2.5) > 1.01  # where s B <= 1 is not kept


def sums(kind: str, runs: int, rounds: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """S, V and B of martingales: fair coins, stakes that double while behind, or rare gains that end the game."""
    total, variance, largest, stake = np.zeros(runs), np.zeros(runs), np.ones(runs), np.ones(runs)
    chance = 0.5 if kind != "rare" else 1 / rounds
    for _ in range(rounds):
        if kind == "doubled":
            stake = np.where(total < 0, np.minimum(2 * stake, rounds), 1.0)
        won = rng.random(runs) < chance
        total += stake * np.where(won, 1.0, -chance / (1 - chance))
        variance += stake**2 * chance / (1 - chance)
        largest = np.maximum(largest, stake)
        if kind == "rare":
            stake = np.where(won, 0.0, stake)
    return total, variance, largest


def test_step_4_misses_are_as_rare_as_promised_and_no_term_can_be_left_out() -> None:
    # false alarm below 1e-3 for each of the five comparisons, were the miss rate as high as delta
    rng, rounds = np.random.default_rng(4), 512
    for kind, delta, runs in (("fair", 0.2, 2_000), ("doubled", 0.2, 2_000), ("rare", 0.01, 40_000)):
        total, variance, largest = sums(kind, runs, rounds, rng)
        iota, most = halving_log(Sized(2, 1, rounds, delta)), most_failures(runs, delta)
        allowed = [paths.freedman(v, b, iota) for v, b in zip(variance, largest, strict=True)]
        assert (total > np.array(allowed)).sum() <= most
        if kind == "fair":  # without the variance
            assert (total > 2 * largest * iota).sum() > most
        if kind == "rare":  # without the range
            assert (total > 3 * np.sqrt(variance * iota)).sum() > most


def test_step_4_how_far_the_grid_must_reach() -> None:
    def covered(horizon: int, points: int, delta: float = 0.05) -> bool:
        iota = halving_log(Sized(2, 1, horizon, delta))
        for B in np.geomspace(1, 2 * horizon, 60):
            for V in np.geomspace(1e-6, 2.0 * horizon**2, 60):
                grid = 0.5 ** np.arange(points)
                grid = grid[grid <= 1 / B]
                if not grid.size or (grid * V + iota / grid).min() > paths.freedman(V, B, iota):
                    return False
        return True

    for horizon in (3, 64, 1_000):
        needed = math.ceil(math.log2(2 * horizon)) + 1  # the code pays for one point more
        assert covered(horizon, needed)
        assert not covered(horizon, needed - 1)


def test_step_7_means_are_not_far_above_outcomes() -> None:
    # the sum of means against e / (e - 1) (outcomes + ln(1 / delta)), by a gambler who stops once it is above
    rng, delta, runs, chance = np.random.default_rng(7), 0.5, 4_000, 0.05

    def misses(factor: float) -> int:
        means, outcomes = np.zeros(runs), np.zeros(runs)
        for _ in range(2_000):
            on = means <= factor * (outcomes - math.log(delta))
            means += chance * on
            outcomes += on * (rng.random(runs) < chance)
        return int((means > factor * (outcomes - math.log(delta))).sum())

    assert misses(math.e / (math.e - 1)) <= most_failures(runs, delta)  # false alarm below 1e-3
    assert misses(1.0) > most_failures(runs, delta)
