import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import surefoot as sf
from surefoot.environments.losses import Adversary, Losses, Seen
from surefoot.environments.lower_bound import LowerBoundLosses
from surefoot.rules import Floats
from tests.environments.chance import ALARM, flips, p_value
from tests.environments.hostile import HOSTILE, TABLES, arrays, rows, write_text, write_zip

HORIZON = 60
GIVEN = np.random.default_rng(1).random((HORIZON, 3))
MODELS: dict[str, Callable[[], Losses]] = {
    "Bernoulli": lambda: sf.losses.Bernoulli([0.1, 0.5, 0.9]),
    "Switching": lambda: sf.losses.Switching([[0.1, 0.5, 0.9], [0.5, 0.9, 0.1], [0.3, 0.3, 0.3]], at=[10, 11]),
    "Drifting": lambda: sf.losses.Drifting([0.1, 0.5, 0.9], [0.9, 0.5, 0.1]),
    "Fixed row": lambda: sf.losses.Fixed([0.1, 0.5, 0.9]),
    "Fixed rounds": lambda: sf.losses.Fixed(GIVEN),
    "OfSuccess": lambda: sf.losses.OfSuccess([0.2, 0.4, 0.8], constraint=1),
    **{f"nu_{i}": lambda i=i: LowerBoundLosses(i, 0.4, 0.1, 0.2, 3) for i in (1, 2, 3, 4)},  # type: ignore[misc]
}


class ArmByArm(sf.losses.Bernoulli):
    """Breaks the rule: what it draws depends on where blocks are cut."""

    def fill(self, out: Floats, first: int, horizon: int, rng: np.random.Generator, costs: Floats) -> None:
        for arm in range(self.n_arms):
            out[:, arm] = rng.random(len(out)) < self.means[arm]


def filled(model: Losses, horizon: int, seed: int, cuts: tuple[int, ...] = ()) -> Floats:
    """The losses of all rounds, block by block."""
    costs = (np.random.default_rng(99).random((horizon, 2, model.n_arms)) < 0.5).astype(float)
    out, rng = np.full((horizon, model.n_arms), np.nan), np.random.default_rng(seed)
    ends = [0, *sorted(cuts), horizon]
    for begin, end in zip(ends, ends[1:]):
        model.fill(out[begin:end], begin, horizon, rng, costs[begin:end])
    return out


cut_anywhere = st.lists(st.integers(0, HORIZON), max_size=6).map(tuple)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=20)
@given(cuts=cut_anywhere, seed=st.integers(0, 2**32 - 1))
def test_where_blocks_are_cut_does_not_matter(name: str, cuts: tuple[int, ...], seed: int) -> None:
    model = MODELS[name]()
    assert (filled(model, HORIZON, seed, cuts) == filled(model, HORIZON, seed)).all()


def test_a_model_for_which_cuts_matter_is_caught() -> None:
    model = ArmByArm([0.1, 0.5, 0.9])
    assert (filled(model, HORIZON, 1, (30,)) != filled(model, HORIZON, 1)).any()


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_shares(name: str) -> None:
    model = MODELS[name]()
    losses = filled(model, HORIZON, 5)
    assert model.n_arms == 3
    assert ((losses >= 0) & (losses <= 1)).all()


# Means. False-alarm rate of each test: ALARM (1e-6). The control, with a mean that is 0.02 off, is caught.

ROUNDS = 40_000
THIRD = ROUNDS // 3
PASSED = np.arange(ROUNDS)[:, None] / (ROUNDS - 1)
EXPECTED: dict[str, tuple[Losses, Floats]] = {
    "Bernoulli": (sf.losses.Bernoulli([0.0, 0.03, 0.5, 1.0]), np.array([[0.0, 0.03, 0.5, 1.0]])),
    "Switching": (
        sf.losses.Switching([[0.1, 0.5], [0.7, 0.2]], THIRD),
        np.where(np.arange(ROUNDS)[:, None] < THIRD, [0.1, 0.5], [0.7, 0.2]),
    ),
    "Drifting": (sf.losses.Drifting([0.1, 0.9, 0.4], [0.7, 0.3, 0.4]), [0.1, 0.9, 0.4] + PASSED * [0.6, -0.6, 0.0]),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_means_are_as_told(name: str) -> None:
    model, means = EXPECTED[name]
    samples = filled(model, ROUNDS, 7)
    assert p_value(samples, means, flips(means)) > ALARM
    shifted = np.abs(means - 0.02)
    assert p_value(samples, shifted, flips(shifted)) < ALARM


def test_flips_are_independent_of_each_other() -> None:
    # products of neighbours, across arms and across rounds (every second, so that no flip is used twice)
    means = np.array([0.3, 0.6])
    samples = filled(sf.losses.Bernoulli(means), ROUNDS, 8)
    across_arms = samples[:, :1] * samples[:, 1:]
    across_rounds = samples[::2] * samples[1::2]
    assert p_value(across_arms, means.prod(), flips(means.prod())) > ALARM
    assert p_value(across_rounds, means**2, flips(means**2)) > ALARM
    same = samples[:, :1] * samples[:, :1]  # the control: a flip and itself
    assert p_value(same, means[:1] ** 2, flips(means[:1] ** 2)) < ALARM


@pytest.mark.parametrize("at", [1, 2, 29, 30, 59])
def test_switching_changes_after_just_so_many_rounds(at: int) -> None:
    losses = filled(sf.losses.Switching([[0.0, 1.0], [1.0, 0.0]], at), 60, 3)
    assert (losses[:at] == [0.0, 1.0]).all()
    assert (losses[at:] == [1.0, 0.0]).all()


def test_switching_goes_through_all_its_phases() -> None:
    phases = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    losses = filled(sf.losses.Switching(phases, [5, 6, 20]), 30, 3)
    assert (losses == np.repeat(phases, [5, 1, 14, 10], axis=0)).all()


def test_a_switch_after_the_horizon_is_not_seen() -> None:
    assert (filled(sf.losses.Switching([[0.0, 1.0], [1.0, 0.0]], 60), 60, 3) == [0.0, 1.0]).all()


def test_drifting_starts_and_ends_where_it_says() -> None:
    # means 0 and 1 leave nothing to chance; in between both flips are possible
    model = sf.losses.Drifting([0.0, 1.0], [1.0, 0.0])
    ends = np.array([filled(model, 5, seed)[[0, 2, -1]] for seed in range(50)])
    assert (ends[:, 0] == [0.0, 1.0]).all()
    assert (ends[:, 2] == [1.0, 0.0]).all()
    assert set(ends[:, 1].ravel()) == {0.0, 1.0}


def test_losses_of_success_go_with_the_cost() -> None:
    costs = np.array([[[0.0, 1.0], [0.5, 0.5]], [[1.0, 0.0], [0.25, 1.0]]])
    out = np.empty((2, 2))
    sf.losses.OfSuccess([0.5, 0.25]).fill(out, 0, 2, np.random.default_rng(1), costs)
    assert out.tolist() == [[0.5, 1.0], [1.0, 0.75]]
    sf.losses.OfSuccess([0.5, 0.25], constraint=1).fill(out, 0, 2, np.random.default_rng(1), costs)
    assert out.tolist() == [[0.75, 0.875], [0.625, 1.0]]


# Given losses


def save_npy(path: Path, array: Floats) -> Path:
    np.save(path / "losses.npy", array)
    return path / "losses.npy"


def save_csv(path: Path, array: Floats) -> Path:
    lines = ["a,b,c", *(",".join(map(repr, row)) for row in array.tolist())]
    (path / "losses.csv").write_text("\n".join(lines) + "\n")
    return path / "losses.csv"


def save_parquet(path: Path, array: Floats) -> Path:
    parquet.write_table(pa.table(dict(zip("abc", array.T))), path / "losses.parquet")
    return path / "losses.parquet"


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("save", [save_npy, save_csv, save_parquet])
def test_files_hold_the_losses(save: Callable[[Path, Floats], Path], as_text: bool, tmp_path: Path) -> None:
    path = save(tmp_path, GIVEN)
    model = sf.losses.Fixed(str(path) if as_text else path)
    assert (model.n_arms, model.n_rounds) == (3, HORIZON)
    assert (filled(model, HORIZON, 0, (7, 31)) == GIVEN).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, np.uint16])
def test_npy_files_may_hold_numbers_of_any_kind(kind: Any, tmp_path: Path) -> None:
    given_ = (GIVEN > 0.5).astype(kind)
    assert (filled(sf.losses.Fixed(save_npy(tmp_path, given_)), HORIZON, 0) == given_).all()


def test_npy_files_are_not_read_into_memory(tmp_path: Path) -> None:
    array = sf.losses.Fixed(save_npy(tmp_path, GIVEN)).array
    assert isinstance(array, np.memmap) or isinstance(array.base, np.memmap)


def test_a_row_holds_for_all_rounds() -> None:
    model = sf.losses.Fixed([0.1, 0.7])
    assert (model.n_arms, model.n_rounds) == (2, None)
    assert (filled(model, 20, 0, (5,)) == [0.1, 0.7]).all()


def test_what_is_given_is_copied() -> None:
    mine = GIVEN.copy()
    model = sf.losses.Fixed(mine)
    mine[:] = 0.0
    assert (filled(model, HORIZON, 0) == GIVEN).all()
    with pytest.raises(ValueError, match="read-only"):
        model.array[0] = 0.0


# Adversaries


def answers(adversary: Adversary, counts: list[float], strategy: list[float], n: int, seed: int = 1) -> Floats:
    out, rng = np.empty((n, adversary.n_arms)), np.random.default_rng(seed)
    for row in out:
        adversary.respond(row, Seen(9, 100, np.array(strategy), np.array(counts)), rng)
    return out


@pytest.mark.parametrize("target", [0, 1, 2])
def test_adversaries_raise_the_arm_they_should(target: int) -> None:
    counts, strategy = np.ones(3), np.full(3, 0.3)
    counts[target], strategy[(target + 1) % 3] = 5.0, 0.4
    raised = answers(sf.losses.RaiseMostPlayed([0, 0, 0], 1.0), counts.tolist(), strategy.tolist(), 5)
    assert (raised == np.eye(3)[target]).all()
    punished = answers(sf.losses.PunishProposal([0, 0, 0], 1.0), counts.tolist(), strategy.tolist(), 5)
    assert (punished == np.eye(3)[(target + 1) % 3]).all()


def test_of_equal_arms_the_first_is_raised() -> None:
    zeros = [0.0, 0.0, 0.0]
    assert (answers(sf.losses.RaiseMostPlayed(zeros, 1.0), [2, 7, 7], [1, 0, 0], 3) == [0, 1, 0]).all()
    assert (answers(sf.losses.PunishProposal(zeros, 1.0), [9, 1, 1], [0.2, 0.4, 0.4], 3) == [0, 1, 0]).all()


@pytest.mark.parametrize("kind", [sf.losses.RaiseMostPlayed, sf.losses.PunishProposal])
def test_adversaries_raise_by_their_strength(kind: type[sf.losses.RaiseMostPlayed]) -> None:
    # false-alarm rate ALARM; the control is an adversary that forgets to make room: means + strength
    adversary = kind([0.5, 0.5, 1.0, 0.0], 0.4)
    samples = answers(adversary, [1, 9, 1, 1], [0.1, 0.7, 0.1, 0.1], 20_000)
    means = np.array([[0.3, 0.7, 0.6, 0.0]])
    assert p_value(samples, means, flips(means)) > ALARM
    wrong = np.array([[0.5, 0.9, 1.0, 0.0]])
    assert p_value(samples, wrong, flips(wrong)) < ALARM


def test_an_adversary_has_no_memory() -> None:
    adversary = sf.losses.RaiseMostPlayed([0.5, 0.5], 0.2)
    first = answers(adversary, [1, 2], [0.5, 0.5], 50)
    answers(adversary, [9, 2], [0.5, 0.5], 50, seed=3)
    assert (answers(adversary, [1, 2], [0.5, 0.5], 50) == first).all()
    assert adversary.means.tolist() == [0.5, 0.5]


# Hostile input

REFUSED = r"must .*, got"


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_means_are_refused(what: str) -> None:
    bad = HOSTILE[what]
    for make in (
        sf.losses.Bernoulli,
        sf.losses.OfSuccess,
        sf.losses.RaiseMostPlayed,
        sf.losses.PunishProposal,
        sf.losses.Fixed,
        lambda values: sf.losses.Fixed(rows(values)),
        lambda values: sf.losses.Switching(rows(values), []),
        lambda values: sf.losses.Drifting(values, [0.1, 0.2]),
        lambda values: sf.losses.Drifting([0.1, 0.2], values),
    ):
        with pytest.raises(ValueError, match=REFUSED):
            make(bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: sf.losses.Bernoulli([[0.1, 0.2]]),
        lambda: sf.losses.Drifting([0.1, 0.2], [0.1, 0.2, 0.3]),
        lambda: sf.losses.Drifting([0.1, 0.2], 0.1),
        lambda: sf.losses.Drifting([[0.1, 0.2]], [[0.1, 0.2]]),
        lambda: sf.losses.Switching([0.1, 0.2], 5),
        lambda: sf.losses.Switching([[0.1, 0.2]], 5),
        lambda: sf.losses.Switching([[0.1, 0.2]] * 3, 5),
        lambda: sf.losses.Switching([[0.1, 0.2]] * 2, []),
        lambda: sf.losses.Switching([[0.1, 0.2]] * 3, [5, 6, 7]),
        lambda: sf.losses.Fixed(0.5),
        lambda: sf.losses.Fixed(np.zeros((2, 2, 2))),
        lambda: sf.losses.OfSuccess([[0.1, 0.2]]),
        lambda: sf.losses.RaiseMostPlayed([[0.1, 0.2]]),
    ],
)
def test_wrong_shapes_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        make()


NO_ROUND: list[Any] = [0, -1, 1.5, True, "5", "ab", None, math.nan, math.inf, 10**400, {5}, [0], [None], [[5]], [5.5]]


@pytest.mark.parametrize("at", [*NO_ROUND, [5, 5], [6, 5]])
def test_what_is_no_increasing_list_of_rounds_is_refused(at: Any) -> None:
    many = len(at) if isinstance(at, list) else 1  # as many means as fit: it is `at` that is wrong
    with pytest.raises(ValueError, match=r"^at must .*, got"):
        sf.losses.Switching([[0.1, 0.2]] * (many + 1), at)


@pytest.mark.parametrize("at", [5, 5.0, np.int64(5), np.float64(5), [5], (5,), [5.0], np.array([5])])
def test_rounds_may_come_in_any_form(at: Any) -> None:
    assert sf.losses.Switching([[0.1, 0.2]] * 2, at).at == (5,)


@pytest.mark.parametrize("strength", [-0.1, 1.1, math.nan, True, "0.5", None, [0.5]])
def test_bad_strengths_are_refused(strength: Any) -> None:
    for kind in (sf.losses.RaiseMostPlayed, sf.losses.PunishProposal):
        with pytest.raises(ValueError, match=r"^strength must .*, got"):
            kind([0.1, 0.2], strength)


@pytest.mark.parametrize("constraint", [-1, 0.5, 1.5, math.nan, True, "0", None, [0]])
def test_bad_constraints_are_refused(constraint: Any) -> None:
    with pytest.raises(ValueError, match=r"^constraint must .*, got"):
        sf.losses.OfSuccess([0.1, 0.2], constraint)


@pytest.mark.parametrize("what", TABLES)
def test_tables_with_wrong_content_are_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.losses.Fixed(TABLES[what](tmp_path))


@pytest.mark.parametrize("what", arrays(2))
def test_arrays_with_wrong_content_are_refused(what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.losses.Fixed(arrays(2)[what](tmp_path))


def test_an_empty_npy_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.losses.Fixed(write_text("", "file.npy")(tmp_path))


def test_an_archive_named_npy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.losses.Fixed(write_zip(tmp_path))


def test_a_csv_in_another_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.losses.Fixed(write_text("größe,b\n0.1,0.2\n".encode("latin-1"), "file.csv")(tmp_path))


def test_a_csv_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.losses.Fixed(write_text("0.5,0.5\n0.2,0.3\n", "file.csv")(tmp_path))


def test_a_csv_with_a_word_in_an_arm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=REFUSED):
        sf.losses.Fixed(write_text("a,b,c\n0.5,0.5,0.1\n0.2,oops,0.1\n", "file.csv")(tmp_path))
