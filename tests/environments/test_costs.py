import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import surefoot as sf
from surefoot.environments.costs import Costs
from surefoot.environments.lower_bound import LowerBoundCosts
from surefoot.rules import Floats
from tests.environments.chance import ALARM, flips, p_value
from tests.environments.hostile import HOSTILE, TABLES, arrays, rows, write_parquet, write_text, write_zip

HORIZON = 60
MEANS = np.array([[0.1, 0.5, 0.9], [0.3, 0.3, 0.0], [1.0, 0.6, 0.2]])
GIVEN = np.random.default_rng(1).random((HORIZON, 3, 3))
MODELS: dict[str, Callable[[], Costs]] = {
    "Bernoulli": lambda: sf.costs.Bernoulli(MEANS),
    "Bernoulli, correlated": lambda: sf.costs.Bernoulli(MEANS, correlation=0.6),
    "Bernoulli, as one": lambda: sf.costs.Bernoulli(MEANS, correlation=1.0),
    "Beta": lambda: sf.costs.Beta(MEANS, 5),
    "Beta, narrow": lambda: sf.costs.Beta(MEANS, 1e6),
    "Beta, wide": lambda: sf.costs.Beta(MEANS, 0.5),  # NumPy draws it another way, with a varying number of uniforms
    "Beta, some coins": lambda: sf.costs.Beta(MEANS, [30, 0, 2]),
    "Beta, correlated": lambda: sf.costs.Beta(MEANS, [30, 0, 2], correlation=0.6),
    "Fixed means": lambda: sf.costs.Fixed(MEANS),
    "Fixed rounds": lambda: sf.costs.Fixed(GIVEN),
    "no constraints": lambda: sf.costs.Bernoulli(np.zeros((0, 3))),
    "no constraints, correlated": lambda: sf.costs.Bernoulli(np.zeros((0, 3)), correlation=0.5),
    "Switching": lambda: sf.costs.Switching([MEANS, 1 - MEANS, MEANS / 2], [20, 41]),
    "Drifting": lambda: sf.costs.Drifting(MEANS, 1 - MEANS, HORIZON),
    "lower bound": lambda: LowerBoundCosts(0.55, 0.3, 5),
}


class ArmByArm(sf.costs.Bernoulli):
    """Breaks the rule: what it draws depends on where blocks are cut."""

    def fill(self, out: Floats, first: int, rng: np.random.Generator) -> None:
        for arm in range(out.shape[2]):
            out[..., arm] = rng.random(out.shape[:2]) < self.means[:, arm]


def filled(model: Costs, horizon: int, seed: int, cuts: tuple[int, ...] = ()) -> Floats:
    """The costs of all rounds, block by block."""
    out, rng = np.full((horizon, *model.means.shape), np.nan), np.random.default_rng(seed)
    ends = [0, *sorted(cuts), horizon]
    for begin, end in zip(ends, ends[1:]):
        model.fill(out[begin:end], begin, rng)
    return out


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=20)
@given(cuts=st.lists(st.integers(0, HORIZON), max_size=6).map(tuple), seed=st.integers(0, 2**32 - 1))
def test_where_blocks_are_cut_does_not_matter(name: str, cuts: tuple[int, ...], seed: int) -> None:
    model = MODELS[name]()
    assert (filled(model, HORIZON, seed, cuts) == filled(model, HORIZON, seed)).all()


def test_a_model_for_which_cuts_matter_is_caught() -> None:
    model = ArmByArm(MEANS)
    assert (filled(model, HORIZON, 1, (30,)) != filled(model, HORIZON, 1)).any()


@pytest.mark.parametrize("name", MODELS)
def test_costs_are_shares(name: str) -> None:
    costs = filled(MODELS[name](), HORIZON, 5)
    assert ((costs >= 0) & (costs <= 1)).all()


# Means and variances. False-alarm rate of each test: ALARM (1e-6). The controls, 0.02 off in the mean or 20 % off in
# the concentration, are caught.

ROUNDS = 40_000


def beta_variances(means: Floats, concentration: Any) -> Floats:
    variances: Floats = flips(means) / (np.asarray(concentration, float).reshape(-1, 1) + 1)
    return variances


VARIANCES: dict[str, Floats] = {
    "Bernoulli": flips(MEANS),
    "Bernoulli, correlated": flips(MEANS),
    "Bernoulli, as one": flips(MEANS),
    "Beta": beta_variances(MEANS, 5),
    "Beta, wide": beta_variances(MEANS, 0.5),
    "Beta, some coins": beta_variances(MEANS, [30, 0, 2]),
    "Beta, correlated": beta_variances(MEANS, [30, 0, 2]),
}


@pytest.mark.parametrize("name", VARIANCES)
def test_means_are_as_told(name: str) -> None:
    model = MODELS[name]()
    samples = filled(model, ROUNDS, 7)
    assert (model.means == MEANS).all()
    assert p_value(samples, MEANS, VARIANCES[name]) > ALARM
    shifted = np.abs(MEANS - 0.02)
    assert p_value(samples, shifted, VARIANCES[name] + 1e-9) < ALARM


def fourth_moments(means: Floats, concentration: float) -> Floats:
    law = stats.beta(concentration * means, concentration * (1 - means))
    return np.asarray((law.stats("k") + 3) * law.var() ** 2)


@pytest.mark.parametrize("correlation", [0.0, 0.7])
@pytest.mark.parametrize("concentration", [0.5, 2.0, 30.0])
def test_variances_are_those_of_beta_distributions(concentration: float, correlation: float) -> None:
    # the mean of squared distances from the mean, which is known
    means = np.array([[0.1, 0.5, 0.8], [0.3, 0.6, 0.9]])
    samples = filled(sf.costs.Beta(means, concentration, correlation), ROUNDS, 8)
    squares, variances = (samples - means) ** 2, beta_variances(means, concentration)
    assert p_value(squares, variances, fourth_moments(means, concentration) - variances**2) > ALARM
    wrong = beta_variances(means, 1.2 * concentration)
    assert p_value(squares, wrong, fourth_moments(means, 1.2 * concentration) - wrong**2) < ALARM


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_costs_have_the_shape_of_a_beta_distribution(correlation: float) -> None:
    # Kolmogorov and Smirnov, at ALARM each of two; the control is a Beta of the same mean, a little wider
    samples = filled(sf.costs.Beta([[0.3], [0.3]], 5, correlation), ROUNDS, 9)[:, :, 0]
    for column in samples.T:
        assert stats.kstest(column, stats.beta(1.5, 3.5).cdf).pvalue > ALARM
        assert stats.kstest(column, stats.beta(1.2, 2.8).cdf).pvalue < ALARM


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_beta_without_concentration_are_coin_flips(correlation: float) -> None:
    # false-alarm rate ALARM, as in the test of means: coin flips with a given mean are known by it
    means = np.array([[0.2, 0.7]])
    samples = filled(sf.costs.Beta(means, 0, correlation), ROUNDS, 3)
    assert set(samples.ravel()) == {0.0, 1.0}
    assert p_value(samples, means, flips(means)) > ALARM
    assert p_value(samples, means - 0.02, flips(means - 0.02)) < ALARM


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_means_of_0_and_1_are_constants(correlation: float) -> None:
    means = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    for model in (sf.costs.Bernoulli(means, correlation), sf.costs.Beta(means, [0, 7], correlation)):
        assert (filled(model, 500, 2) == means).all()


@pytest.mark.parametrize(("mean", "concentration"), [(0.5, 5e-324), (1e-300, 1e-100)])
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_the_least_concentrations_are_coin_flips_too(mean: float, concentration: float, correlation: float) -> None:
    samples = filled(sf.costs.Beta([[mean]], concentration, correlation), 100, 2)
    assert ((samples >= 0) & (samples <= 1)).all()


# Correlation. False-alarm rate of each test: ALARM.


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.8, 1.0])
def test_constraints_go_together_as_told(correlation: float) -> None:
    # normal variables with correlation r are both below 0 with probability 1/4 + arcsin(r) / (2 pi)
    both = 0.25 + math.asin(correlation) / (2 * math.pi)
    samples = filled(sf.costs.Bernoulli(np.full((2, 3), 0.5), correlation), ROUNDS, 4)
    together = samples[:, 0] * samples[:, 1]
    assert p_value(together, np.full(3, both), flips(np.full(3, both))) > ALARM
    other = 0.25 + math.asin(abs(correlation - 0.1)) / (2 * math.pi)  # the control
    assert p_value(together, np.full(3, other), flips(np.full(3, other))) < ALARM


@pytest.mark.parametrize("model", [sf.costs.Bernoulli, lambda means, r: sf.costs.Beta(means, 5, r)])
def test_arms_and_rounds_stay_independent(model: Callable[[Floats, float], Costs]) -> None:
    means = np.full((2, 2), 0.4)
    samples = filled(model(means, 0.9), ROUNDS, 6)
    second = (samples**2).mean()  # of each cost; close enough to the truth for the spread of products

    def p(one: Floats, two: Floats) -> float:
        return p_value(one * two, np.full(one.shape[1], 0.16), np.full(one.shape[1], second**2 - 0.16**2))

    assert p(samples[..., 0], samples[..., 1]) > ALARM
    assert p(samples[..., 0], samples[:, ::-1, 1]) > ALARM
    assert p(samples[::2, 0], samples[1::2, 0]) > ALARM
    assert p(samples[:, 0], samples[:, 1]) < ALARM  # the control: constraints do go together


def test_correlation_1_means_one_coin_for_equal_means() -> None:
    samples = filled(sf.costs.Bernoulli([[0.3, 0.6], [0.3, 0.6], [0.5, 0.6]], 1.0), 2000, 3)
    assert (samples[:, 0] == samples[:, 1]).all()
    assert (samples[:, 0] <= samples[:, 2]).all()  # the smaller mean never costs alone
    assert (samples[:, 0, 0] != samples[:, 2, 0]).any()
    loose = filled(sf.costs.Bernoulli([[0.3, 0.6], [0.3, 0.6]], 0.99), 2000, 3)
    assert (loose[:, 0] != loose[:, 1]).any()


def test_correlated_beta_costs_rise_together() -> None:
    samples = filled(sf.costs.Beta([[0.3], [0.6]], [5, 20], 1.0), 500, 3)[:, :, 0]
    assert (np.argsort(samples[:, 0]) == np.argsort(samples[:, 1])).all()


# Given costs


def test_given_costs_come_round_by_round() -> None:
    model = sf.costs.Fixed(GIVEN)
    assert model.n_rounds == HORIZON
    assert model.means == pytest.approx(GIVEN.mean(axis=0), abs=1e-15)
    assert (filled(model, HORIZON, 0, (7, 31)) == GIVEN).all()


def test_given_means_hold_for_all_rounds() -> None:
    model = sf.costs.Fixed(MEANS)
    assert model.n_rounds is None
    assert (model.means == MEANS).all()
    assert (filled(model, 20, 0, (7,)) == MEANS).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint8])
def test_files_hold_the_costs(kind: Any, tmp_path: Path) -> None:
    given_ = (GIVEN > 0.5).astype(kind)
    np.save(tmp_path / "costs.npy", given_)
    for path in (tmp_path / "costs.npy", str(tmp_path / "costs.npy")):
        model = sf.costs.Fixed(path)
        assert model.n_rounds == HORIZON
        assert model.means == pytest.approx(given_.astype(float).mean(axis=0), abs=1e-6)
        assert (filled(model, HORIZON, 0, (7, 31)) == given_).all()


def test_means_of_a_file_in_single_precision_are_not_rounded(tmp_path: Path) -> None:
    # NumPy adds up single precision in single precision
    np.save(tmp_path / "costs.npy", np.full((30_000, 1, 2), 0.1, np.float32))
    means = sf.costs.Fixed(tmp_path / "costs.npy").means
    assert means == pytest.approx(np.full((1, 2), float(np.float32(0.1))), abs=1e-9)


def test_what_is_given_is_copied() -> None:
    mine = GIVEN.copy()
    model = sf.costs.Fixed(mine)
    mine[:] = 0.0
    assert (filled(model, HORIZON, 0) == GIVEN).all()
    for array in (model.array, model.means, sf.costs.Bernoulli(MEANS).means, sf.costs.Beta(MEANS, 3).means):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


def test_tables_hold_the_means(tmp_path: Path) -> None:
    for write in (
        write_text("arm,success_rate,value\n0,0.75,0.2\n1,0.5,0.8\n", "arms.csv"),
        write_parquet(success_rate=[0.75, 0.5]),
    ):
        assert sf.costs.FromTable(write(tmp_path)).means.tolist() == [[0.25, 0.5]]
    for write in (
        write_text("cost_b,loss,name,cost_a\n0.1,0.2,x,0.3\n0.4,0.5,y,0.6\n1,0.5,z,0\n", "costs.csv"),
        write_parquet(cost_b=[0.1, 0.4, 1.0], loss=[0.2, 0.5, 0.5], cost_a=[0.3, 0.6, 0.0]),
    ):
        model = sf.costs.FromTable(str(write(tmp_path)), correlation=0.5)
        assert model.means.tolist() == [[0.1, 0.4, 1.0], [0.3, 0.6, 0.0]]
        assert model.correlation == 0.5


# Hostile input

REFUSED = r"must .*, got"


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_means_are_refused(what: str) -> None:
    bad = rows(HOSTILE[what])
    for make in (sf.costs.Bernoulli, sf.costs.Fixed, lambda values: sf.costs.Beta(values, 5)):
        with pytest.raises(ValueError, match=REFUSED):
            make(bad)


@pytest.mark.parametrize("means", [0.5, [0.1, 0.2], np.zeros((2, 2, 2))])
def test_wrong_shapes_are_refused(means: Any) -> None:
    for make in (sf.costs.Bernoulli, lambda values: sf.costs.Beta(values, 5)):
        with pytest.raises(ValueError, match=r"^means must .*, got"):
            make(means)


@pytest.mark.parametrize("array", [0.5, [0.1, 0.2], np.zeros((2, 2, 2, 2)), [[[0.1, 0.2]], [[0.1]]]])
def test_given_costs_of_wrong_shape_are_refused(array: Any) -> None:
    with pytest.raises(ValueError, match=r"^costs must .*, got"):
        sf.costs.Fixed(array)


@pytest.mark.parametrize(
    "concentration",
    [-1, -1e-9, 2e9, math.nan, math.inf, True, "5", None, [], [1, 2, 3], [1, -1], [1, math.nan], ["1", "2"], [[1, 2]],
     [[1], [2, 3]], {1, 2}],
)  # fmt: skip
def test_bad_concentrations_are_refused(concentration: Any) -> None:
    with pytest.raises(ValueError, match=r"^concentration.* must .*, got"):
        sf.costs.Beta([[0.1, 0.2], [0.3, 0.4]], concentration)


@pytest.mark.parametrize("correlation", [-0.1, 1.1, math.nan, True, "0.5", None, [0.5]])
def test_bad_correlations_are_refused(correlation: Any, tmp_path: Path) -> None:
    path = write_text("success_rate\n0.5\n", "arms.csv")(tmp_path)
    for make in (
        lambda: sf.costs.Bernoulli([[0.1, 0.2]], correlation),
        lambda: sf.costs.Beta([[0.1, 0.2]], 5, correlation),
        lambda: sf.costs.FromTable(path, correlation),
    ):
        with pytest.raises(ValueError, match=r"^correlation must .*, got"):
            make()


@pytest.mark.parametrize("what", TABLES)
def test_tables_with_wrong_content_are_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.costs.FromTable(TABLES[what](tmp_path))


@pytest.mark.parametrize("what", arrays(1, 2))
def test_arrays_with_wrong_content_are_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.costs.Fixed(arrays(1, 2)[what](tmp_path))


@pytest.mark.parametrize(
    "text", ["a,b\n0.1,0.2\n", "my_cost\n0.1\n", "cost\n1.2\n", "cost\n-0.1\n", "success_rate\n2\n"]
)
def test_tables_without_costs_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.costs.FromTable(write_text(text, "arms.csv")(tmp_path))


def test_an_empty_npy_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.costs.Fixed(write_text("", "file.npy")(tmp_path))


def test_an_archive_named_npy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.costs.Fixed(write_zip(tmp_path))


def test_a_table_with_two_costs_of_one_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.costs.FromTable(write_text("cost,cost\n0.1,0.2\n0.3,0.4\n", "arms.csv")(tmp_path))


def test_a_table_with_a_word_among_the_costs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.costs.FromTable(write_text("cost_1,cost_2\n0.1,0.2\n0.3,n/k\n", "arms.csv")(tmp_path))


@pytest.mark.parametrize("path", [3, None, [0.5]])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.costs.FromTable(path)


# Costs that change


@pytest.mark.parametrize("at", [1, 7, 20])
def test_switching_changes_after_just_so_many_rounds(at: int) -> None:
    model = sf.costs.Switching([[[0.0, 1.0]], [[1.0, 0.0]]], at)
    assert (filled(model, 30, 1, (5, 7, 11))[:, 0, 0] == (np.arange(30) >= at)).all()
    assert (filled(model, 30, 1) == model.means_in(0, 30)).all()
    assert (model.means == 1.0).all()


def test_drifting_costs_follow_a_straight_line() -> None:
    # false-alarm rate ALARM; the control is the line that goes the other way
    model = sf.costs.Drifting([[0.1, 0.9]], [[0.9, 0.4]], ROUNDS)
    samples, means = filled(model, ROUNDS, 4), model.means_in(0, ROUNDS)
    assert means[0].tolist() == [[0.1, 0.9]]
    assert means[-1].tolist() == model.means_in(10 * ROUNDS, 1)[0].tolist() == [[0.9, 0.4]]
    assert np.abs(np.diff(means, axis=0, n=2)).max() < 1e-12
    for half in (slice(0, ROUNDS // 2), slice(ROUNDS // 2, ROUNDS)):
        assert p_value(samples[half], means[half], flips(means[half])) > ALARM
        assert p_value(samples[half], means[::-1][half], flips(means[::-1][half])) < ALARM


def test_drifting_costs_need_to_know_how_long() -> None:
    model = sf.costs.Drifting([[0.1, 0.9]], [[0.9, 0.4]])
    with pytest.raises(sf.RuleError, match=r"^rounds must be given, or the model be part of a scenario, got None"):
        filled(model, 10, 1)
    assert (model.over(10).means_in(0, 10)[-1] == [[0.9, 0.4]]).all()
    assert model.over(10).over(20).rounds == 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sf.costs.Switching([[0.1, 0.9]], 5), "means must be an array of shape any number x any number x any"),
        (lambda: sf.costs.Switching([[[0.1, 0.9]]], 5), "means must have 2 phases, one more than at, got 1"),
        (lambda: sf.costs.Switching([[[0.1]], [[1.1]]], 5), "means[1, 0, 0] must be in [0, 1], got 1.1"),
        (lambda: sf.costs.Switching([[[0.1]]] * 3, [5, 5]), "at must be increasing, got [5, 5]"),
        (lambda: sf.costs.Switching([[[0.1]]] * 2, 0), "at must be a whole number in [1, 1e+15], got 0"),
        (lambda: sf.costs.Drifting([0.1, 0.9], [0.9, 0.4]), "start must be an array of shape any number x any number"),
        (lambda: sf.costs.Drifting([[0.1, 0.9]], [[0.9]]), "end must be an array of shape 1 x 2"),
        (lambda: sf.costs.Drifting([[0.1]], [[0.9]], 1), "rounds must be a whole number in [2, 1e+15], got 1"),
    ],
)
def test_changes_that_make_no_sense_are_refused(make: Callable[[], Costs], message: str) -> None:
    with pytest.raises(sf.RuleError) as error:
        make()
    assert str(error.value).startswith(message)
