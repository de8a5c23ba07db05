"""NumPy's generator in compiled code: the same numbers, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import PCG64, Generator, SeedSequence

import surefoot as sf
from surefoot.kernels.draws import flips
from surefoot.kernels.pcg import advanced, fill_flips, stream, unit, upper_product
from surefoot.simulation.world import World, coins, room_for, streams

EDGES = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 2**32, 2**64 - 1]


def uniform(seed: SeedSequence, n: int) -> list[float]:
    words, found = stream(seed), []
    for _ in range(n):
        words[0], words[1] = advanced(*words)
        found.append(unit(words[0], words[1]))
    return found


@pytest.mark.parametrize("seed", [0, 7, 2**62 + 1])
def test_the_numbers_are_those_of_numpy(seed: int) -> None:
    for one in (SeedSequence(seed), *SeedSequence(seed).spawn(2)):
        assert uniform(one, 3_000) == Generator(PCG64(one)).random(3_000).tolist()


def test_the_upper_word_of_a_product() -> None:
    rng = np.random.default_rng(1)
    words = [*EDGES, *rng.integers(0, 2**64, 40, np.uint64).tolist()]
    for one in words:
        for two in words:
            assert int(upper_product(np.uint64(one), np.uint64(two))) == one * two >> 64


def test_coins_go_on_where_the_last_block_ended() -> None:
    means = np.array([[[0.2, 0.7], [0.0, 1.0]]])
    model, words, rng = flips(0, means), stream(SeedSequence(3)), Generator(PCG64(SeedSequence(3)))
    for n in (1, 64, 1_000):
        out = np.empty((n, 2, 2))
        fill_flips(words, model, out)
        np.testing.assert_array_equal(out, rng.random(out.shape) < means)


LOSSES: dict[str, Any] = {
    "flips": sf.losses.Bernoulli([0.1, 0.5, 0.9]),
    "switching": sf.losses.Switching([[0.1, 0.5, 0.9], [0.9, 0.1, 0.2], [0.3, 0.3, 0.3]], at=[700, 70_000]),
    "drifting": sf.losses.Drifting([0.1, 0.5, 0.9], [0.9, 0.4, 0.2]),
}
COSTS: dict[str, Any] = {
    "flips": sf.costs.Bernoulli([[0.9, 0.3, 0.1], [0.0, 1.0, 1 / 3]]),
    "switching": sf.costs.Switching([[[0.9, 0.3, 0.1]] * 2, [[0.8, 0.2, 0.1]] * 2], at=60_000),
    "drifting": sf.costs.Drifting([[0.9, 0.3, 0.1]] * 2, [[0.8, 0.2, 1 / 7]] * 2, rounds=50_000),
}


@pytest.mark.parametrize("losses", LOSSES)
@pytest.mark.parametrize("costs", COSTS)
def test_worlds_are_what_their_models_fill(losses: str, costs: str) -> None:
    """Compared with `fill` and NumPy's generators, over several blocks."""
    problem = sf.Problem(3, [0.5, 0.9], 100_000)
    scenario = sf.Scenario("mine-v1", problem, LOSSES[losses], COSTS[costs])
    world, rngs = World(scenario, 5), [Generator(PCG64(seed)) for seed in (streams(5).losses, streams(5).costs)]
    assert "loss_generator" not in vars(world)
    with room_for(problem) as room:
        for block in world.rounds(problem.rounds, room):
            cost, loss = np.empty_like(block.costs), np.empty_like(block.losses)
            COSTS[costs].fill(cost, block.first, rngs[1])
            LOSSES[losses].fill(loss, block.first, problem.rounds, rngs[0], cost)
            np.testing.assert_array_equal(block.costs, cost)
            np.testing.assert_array_equal(block.losses, loss)
    assert not {"loss_generator", "_cost_generator"} & vars(world).keys()  # NumPy's were never needed


def test_models_of_your_own_fill_as_they_say() -> None:
    class OwnFill(sf.costs.Bernoulli):
        def fill(self, out: Any, first: int, rng: np.random.Generator) -> None:
            out.fill(0.25)

    class OwnDraw(sf.costs.Bernoulli):
        def drawn(self, seed: int) -> Any:
            return flips(seed, 1.0 - self.means[None])

    for one in (OwnFill([[0.5]]), OwnDraw([[0.5]]), sf.costs.Beta([[0.5]], 20), sf.costs.Bernoulli([[0.5]], 0.5)):
        assert coins(one, one.drawn(1), SeedSequence(1)) is None
    plain = sf.costs.Bernoulli([[0.5]])
    assert coins(plain, plain.drawn(1), SeedSequence(1)) is not None
