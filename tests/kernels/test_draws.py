"""Costs and losses drawn by counter have the distributions of their models, and the numbers of their places.

All tests are seeded. Over all seeds a test of a right model would fail once in a million (`ALARM`); each comes with a
wrong model, which it must catch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import surefoot as sf
from surefoot.kernels.counter import COSTS
from surefoot.kernels.draws import Drawn, draw_costs, fill_costs, fill_losses
from surefoot.rules import Floats
from surefoot.simulation.world import coins
from tests.environments.chance import ALARM, flips, p_value
from tests.reference.philox import uniform

ROUNDS = 4_000
MEANS = np.array([[0.1, 0.5, 0.9], [0.3, 0.3, 0.0], [1.0, 0.6, 0.2]])
FLIPPED: dict[str, Any] = {
    "Bernoulli": sf.costs.Bernoulli(MEANS),
    "Switching": sf.costs.Switching([MEANS, 1 - MEANS, MEANS / 2], [1_000, 1_700]),
    "Drifting": sf.costs.Drifting(MEANS, 1 - MEANS, 3_000),
    "Beta of no concentration": sf.costs.Beta(MEANS, 0),
}
LOWER_BOUND = sf.scenarios.make("lower-bound-v1", instance=3)
LOSSES: dict[str, Any] = {
    "Bernoulli": sf.losses.Bernoulli(MEANS[0]),
    "Switching": sf.losses.Switching([MEANS[0], 1 - MEANS[0]], 1_500),
    "Drifting": sf.losses.Drifting(MEANS[0], 1 - MEANS[0]),
}


def costs_of(model: Any, seed: int = 11, rounds: int = ROUNDS) -> Floats:
    out = np.full((rounds, *model.means.shape), np.nan)
    fill_costs(model.drawn(seed), out)
    return out


@pytest.mark.parametrize("name", FLIPPED)
def test_costs_have_the_means_of_their_round(name: str) -> None:
    model, found = FLIPPED[name], costs_of(FLIPPED[name])
    means = model.means_in(0, ROUNDS)
    assert set(np.unique(found)) == {0.0, 1.0}
    assert p_value(found, means, flips(means)) > ALARM
    wrong = np.clip(means + 0.1, 0, 1)
    assert p_value(found, wrong, flips(wrong)) < ALARM
    halves = found[: ROUNDS // 2], means[: ROUNDS // 2] if len(means) > 1 else means
    assert p_value(halves[0], halves[1], flips(halves[1])) > ALARM


@pytest.mark.parametrize("name", LOSSES)
def test_losses_have_the_means_of_their_round(name: str) -> None:
    found, passed = np.full((ROUNDS, 3), np.nan), np.arange(ROUNDS)[:, None]
    fill_losses(LOSSES[name].drawn(5, ROUNDS), found)
    share = {"Bernoulli": 0 * passed, "Switching": passed >= 1_500, "Drifting": passed / (ROUNDS - 1)}[name]
    means = (1 - share) * MEANS[0] + share * (1 - MEANS[0])
    for part in (slice(None), slice(0, 1_400), slice(1_600, None)):
        assert p_value(found[part], means[part], flips(means[part])) > ALARM
    wrong = np.clip(means + 0.1, 0, 1)
    assert p_value(found, wrong, flips(wrong)) < ALARM


@pytest.mark.parametrize("concentration", [0.02, 0.5, 2.0, 5.0, 30.0, 1e4])
def test_beta_costs_have_beta_distributions(concentration: float) -> None:
    means = np.array([[0.02, 0.5, 0.9]])
    found = costs_of(sf.costs.Beta(means, concentration))[:, 0]
    assert found.min() >= 0.0 <= found.max() <= 1.0
    for column, mean in zip(found.T, means[0], strict=True):
        ones, zeros = concentration * mean, concentration * (1 - mean)
        if min(ones, zeros) >= 0.2:  # below, much of the distribution is so close to 0 or 1 that it is rounded there
            assert stats.kstest(stats.beta(ones, zeros).cdf(column), "uniform").pvalue > ALARM
            assert stats.kstest(stats.beta(1.3 * ones, zeros).cdf(column), "uniform").pvalue < ALARM
        for edge in (0.1, 0.5, 0.9):
            below = int((column <= edge).sum())
            assert stats.binomtest(below, ROUNDS, stats.beta(ones, zeros).cdf(edge)).pvalue > ALARM


def test_means_of_0_and_1_are_constants() -> None:
    found = costs_of(sf.costs.Beta(MEANS, [30, 5, 0.5]))
    assert (found[:, 1, 2] == 0.0).all()
    assert (found[:, 2, 0] == 1.0).all()
    assert 0.0 < found[:, 0].min() <= found[:, 0].max() < 1.0


def test_arms_guardrails_and_neighbouring_rounds_are_independent() -> None:
    found = costs_of(sf.costs.Beta(np.full((2, 2), 0.4), 3.0)).reshape(ROUNDS, 4)
    series = np.column_stack([found[1:], found[:-1]])
    same = np.column_stack([found[1:], found[1:]])  # the control
    for rows, quiet in ((series, True), (same, False)):
        off = np.abs(np.corrcoef(rows.T))[np.triu_indices(8, 1)].max() * np.sqrt(len(rows))
        assert (2 * stats.norm.sf(off) * 28 > ALARM) == quiet


@pytest.mark.parametrize(
    "model", [*FLIPPED.values(), sf.costs.Beta(MEANS, [30, 5, 0.5]), sf.costs.Bernoulli(MEANS, 0.7), LOWER_BOUND.costs]
)
def test_the_costs_of_an_arm_are_those_of_the_block(model: Any) -> None:
    whole, drawn = costs_of(model, rounds=60), model.drawn(11)
    for first in (0, 17):
        drawn.first[0] = first
        part = np.full((60 - first, *model.means.shape), np.nan)
        for t in range(len(part)):
            draw_costs(drawn, part, t, t % 3)
            assert (part[t, :, t % 3] == whole[first + t, :, t % 3]).all()
        assert np.isnan(part).sum() == part.size * 2 // 3


def test_a_coin_falls_by_the_number_of_its_place() -> None:
    found = costs_of(FLIPPED["Bernoulli"], seed=9, rounds=5)
    for t, i, a in np.ndindex(found.shape):
        assert found[t, i, a] == (uniform(9, COSTS, t, a, i) < MEANS[i, a])


@pytest.mark.parametrize("correlation", [0.3, 1.0])
def test_correlated_coins_fall_together_as_often_as_the_copula_says(correlation: float) -> None:
    means = np.array([[0.2, 0.5], [0.2, 0.7], [0.0, 1.0]])
    found = costs_of(sf.costs.Bernoulli(means, correlation))
    assert p_value(found, means, flips(means)) > ALARM
    assert (found[:, 2] == [0.0, 1.0]).all()
    for a in (0, 1):
        bounds = stats.norm.ppf(means[:2, a])
        normal = stats.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], allow_singular=True)
        together, both = int(found[:, :2, a].all(axis=1).sum()), float(normal.cdf(bounds))
        assert stats.binomtest(together, ROUNDS, both).pvalue > ALARM
        assert stats.binomtest(together, ROUNDS, float(means[:2, a].prod())).pvalue < ALARM  # were they independent
    across = int((found[:, 0, 0] * found[:, 0, 1]).sum()), int((found[1:, 0, 0] * found[:-1, 0, 0]).sum())
    assert stats.binomtest(across[0], ROUNDS, 0.2 * 0.5).pvalue > ALARM
    assert stats.binomtest(across[1], ROUNDS - 1, 0.2 * 0.2).pvalue > ALARM


def test_correlated_coins_are_not_flipped_as_single_ones() -> None:
    alone, together = sf.costs.Bernoulli(MEANS), sf.costs.Bernoulli(MEANS, correlation=0.5)
    assert coins(alone, alone.drawn(1), np.random.SeedSequence(1)) is not None
    assert coins(together, together.drawn(1), np.random.SeedSequence(1)) is None


@pytest.mark.parametrize("instance", [1, 2, 3, 4])
def test_arms_of_the_lower_bound_share_their_coins(instance: int) -> None:
    scenario = sf.scenarios.make("lower-bound-v1", horizon=ROUNDS, instance=instance, omega=0.3, n_arms=5)
    model: Any = scenario.losses
    losses, costs = np.full((ROUNDS, 5), np.nan), costs_of(scenario.costs)
    fill_losses(model.drawn(5, ROUNDS), losses)
    lower = losses[:, 2] - model.gap / 2
    shifted = [instance in (3, 4), instance in (2, 4)]
    for a in (0, 1):
        assert set(np.unique(losses[:, a])) == {0.0, 0.5}
        same, heads = (losses[:, a] == lower).all(), int((losses[:, a] > 0).sum())
        assert same != shifted[a]
        assert stats.binomtest(heads, ROUNDS, 0.3 + shifted[a] * model.shift).pvalue > ALARM
        assert stats.binomtest(heads, ROUNDS, 0.4).pvalue < ALARM
    if all(shifted):
        assert (losses[:, 0] == losses[:, 1]).all()
        both = int(((lower > 0) & (losses[:, 0] > 0)).sum())
        assert stats.binomtest(both, ROUNDS, 0.3 * (0.3 + model.shift)).pvalue > ALARM
    assert (losses[:, 3:] == 1.0).all()
    assert (costs[:, 0, 0] == costs[:, 0, 1]).all()
    assert (costs[:, 0, 3:] == 1.0).all()
    means = scenario.costs.means[None, :, 1:3]
    assert p_value(costs[:, :, 1:3], means, flips(means)) > ALARM


class Own(sf.costs.Bernoulli):
    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        out[...] = 0.5


class OwnMeans(sf.costs.Switching):
    def means_in(self, first: int, rounds: int) -> Floats:
        return self.by_phase[:1]


class OwnLosses(sf.losses.Drifting):
    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        out[...] = 0.5


def test_models_that_draw_in_their_own_way_have_no_compiled_draw() -> None:
    none: list[Drawn | None] = [
        Own(MEANS).drawn(1),
        OwnMeans([MEANS, MEANS], 5).drawn(1),
        sf.costs.Beta(MEANS, 5, correlation=0.5).drawn(1),
        sf.costs.Fixed(MEANS).drawn(1),
        sf.costs.Drifting(MEANS, MEANS).drawn(1),  # it does not know its horizon
        OwnLosses([0.1], [0.2]).drawn(1, 10),
        sf.losses.Fixed([0.1, 0.2]).drawn(1, 10),
    ]
    assert none == [None] * len(none)
