import json
from pathlib import Path
from typing import Any

import cvxpy as cp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings

import surefoot as sf
from surefoot.rules import Floats
from tests.kernels.instances import ROWS, Instance, emptiness, projection
from tests.kernels.kkt import Residuals, residuals
from tests.strategies import drawn, sampled

CLEARLY = 1e-8  # empty, or with an interior, by more than this is clear; in between either answer will do


def check(instance: Instance) -> Residuals | None:
    """Project; the answer must be optimal, or "empty" where it is. Returns what was found, None if empty."""
    try:
        answer = sf.project(*instance)
    except sf.EmptySafeSet:
        assert emptiness(instance.lower_costs, instance.limits, instance.floor) > -CLEARLY
        return None
    found = residuals(instance, answer)
    assert found.violation <= 1e-9
    assert found.below_floor == 0.0
    assert found.excess <= 1e-14
    if found.worst() > 1e-10:  # allowed where there is hardly a set at all
        assert abs(emptiness(instance.lower_costs, instance.limits, instance.floor)) < 1e-9, found
    return found


@settings(max_examples=1500)
@given(drawn(projection, ROWS))
def test_answers_are_optimal_over_the_whole_range(instance: Instance) -> None:
    check(instance)


def test_nearly_all_answers_are_exact_not_only_within_tolerance() -> None:
    small = sampled(lambda source: projection(source, larger=[15, 20, 25, 29]), ROWS, 3000)
    found = [check(instance) for instance in small]
    worst = np.array([f.worst() for f in found if f is not None])
    assert np.quantile(worst, 0.99) < 1e-12
    assert 0.02 < np.mean([f is None for f in found]) < 0.2  # the empty branch was tried


def test_roomy_sets_are_never_called_empty() -> None:
    """Ordinary instances by the ten thousand: a point with room to all limits is known, so each must be solved."""
    rng = np.random.default_rng(11)
    for _ in range(40_000):
        n_arms, n_constraints = int(rng.integers(2, 13)), int(rng.integers(1, 13))
        horizon = int(rng.integers(n_arms + 1, 2000))
        free = 1 - n_arms / horizon
        center, inside = 1 / horizon + free * rng.dirichlet(np.full(n_arms, rng.choice([0.05, 0.3, 1.0])), 2)
        lower = rng.uniform(-1, 1, (n_constraints, n_arms))
        if rng.random() < 0.5:
            lower = lower.round(1)
        limits = lower @ inside + rng.choice([1e-3, 0.01, 0.05, 0.1], n_constraints)
        loss = np.zeros(n_arms)
        arm = rng.integers(n_arms)
        loss[arm] = rng.random() / center[arm]
        rates = 10 ** rng.uniform(-4, 0) * rng.uniform(1, 4, n_arms)
        answer = sf.project(center, rates, loss, lower, limits, 1 / horizon)
        assert (lower @ answer.strategy <= limits + 1e-11).all()


@pytest.mark.parametrize("n_constraints", [1, 2, 3, 7])
def test_emptiness_is_told_apart_on_both_sides(n_constraints: int) -> None:
    rng = np.random.default_rng(n_constraints)
    for _ in range(60):
        n_arms, floor = int(rng.integers(2, 9)), 10 ** rng.uniform(-6, -1.5)
        lower = rng.uniform(-1, 1, (n_constraints, n_arms))
        limits = np.zeros(n_constraints)
        limits += emptiness(lower, limits, floor)  # now the set is a point or thereabouts
        center = np.full(n_arms, 1.0 / n_arms)
        for shift, empty in ((-3e-8, True), (-1e-3, True), (3e-8, False), (1e-3, False)):
            instance = Instance(center, np.full(n_arms, 0.1), np.zeros(n_arms), lower, limits + shift, floor)
            assert (check(instance) is None) == empty


def clarabel(instance: Instance) -> Floats:
    """The same program through cvxpy: nothing in common with the kernel."""
    x = cp.Variable(instance.center.size)
    inverse = 1 / instance.learning_rates
    objective = (instance.loss_estimate + inverse / instance.center) @ x - inverse @ cp.log(x)
    constraints = [cp.sum(x) == 1, x >= instance.floor, instance.lower_costs @ x <= instance.limits]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return np.asarray(x.value)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # it cannot quite reach what it is asked for
@pytest.mark.parametrize("seed", range(25))
def test_agrees_with_a_conic_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_arms, n_constraints = int(rng.integers(2, 12)), int(rng.integers(0, 5))
    center = 0.9 * rng.dirichlet(np.ones(n_arms)) + 0.1 / n_arms
    loss = np.zeros(n_arms)
    loss[rng.integers(n_arms)] = rng.random() * 20
    lower = rng.random((n_constraints, n_arms))
    limits = lower @ rng.dirichlet(np.ones(n_arms)) + 0.01
    instance = Instance(center, rng.uniform(0.05, 0.25, n_arms), loss, lower, limits, 1e-3)
    assert sf.project(*instance).strategy == pytest.approx(clarabel(instance), abs=1e-5)


def fifty_digits(instance: Instance, answer: sf.Projection) -> Floats:
    """Newton at 50 digits for the level and the multipliers, from the active set the answer claims."""
    with mpmath.workdps(50):
        center, rates, loss = (list(map(mpmath.mpf, part.tolist())) for part in instance[:3])
        floor, arms = mpmath.mpf(instance.floor), range(len(center))
        rows = [[mpmath.mpf(1)] * len(center)]
        rows += [list(map(mpmath.mpf, instance.lower_costs[i].tolist())) for i in np.flatnonzero(answer.multipliers)]
        wanted = [mpmath.mpf(1)] + [mpmath.mpf(float(instance.limits[i])) for i in np.flatnonzero(answer.multipliers)]
        a = int(np.argmax(answer.strategy))
        others = sum(
            mpmath.mpf(float(m)) * row[a] for m, row in zip(answer.multipliers[answer.multipliers > 0], rows[1:])
        )
        level = (1 / mpmath.mpf(float(answer.strategy[a])) - 1 / center[a]) / rates[a] - loss[a] - others
        dual = mpmath.matrix([level, *map(float, answer.multipliers[answer.multipliers > 0])])
        for _ in range(8):
            inverse = [1 / center[a] + rates[a] * (loss[a] + sum(d * r[a] for d, r in zip(dual, rows))) for a in arms]
            x = [max(floor, 1 / y) for y in inverse]
            weight = [rates[a] * x[a] ** 2 if x[a] > floor else mpmath.mpf(0) for a in arms]
            off = mpmath.matrix([sum(r[a] * x[a] for a in arms) - w for r, w in zip(rows, wanted)])
            hessian = mpmath.matrix(len(rows))
            for i, left in enumerate(rows):
                for j, right in enumerate(rows):
                    hessian[i, j] = sum(weight[a] * left[a] * right[a] for a in arms)
            dual += mpmath.lu_solve(hessian, off)
        return np.array([float(v) for v in x])


@pytest.mark.parametrize("seed", range(40))
def test_every_digit_of_the_strategy(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    n_arms, n_constraints, horizon = int(rng.integers(2, 20)), int(rng.integers(0, 4)), int(10 ** rng.uniform(2, 6))
    center = 1 / horizon + (1 - n_arms / horizon) * rng.dirichlet(np.full(n_arms, 0.5))
    loss = np.zeros(n_arms)
    arm = rng.integers(n_arms)
    loss[arm] = rng.random() / center[arm]
    lower = rng.uniform(-0.5, 1, (n_constraints, n_arms))
    limits = lower @ center - rng.uniform(-0.01, 0.02, n_constraints)
    rates = 10 ** rng.uniform(-5, 0) * rng.uniform(1, 5, n_arms)
    instance = Instance(center, rates, loss, lower, limits, 1 / horizon)
    try:
        answer = sf.project(*instance)
    except sf.EmptySafeSet:
        assert emptiness(lower, limits, 1 / horizon) > 0
        return
    assert answer.strategy == pytest.approx(fifty_digits(instance, answer), rel=1e-11)


# Corner cases by name -------------------------------------------------------------------------------------------------


def flat(n_arms: int, lower: object, limits: object, floor: float = 1e-4, **changes: Any) -> Instance:
    """A small instance around the uniform strategy."""
    instance = Instance(
        np.full(n_arms, 1 / n_arms), np.full(n_arms, 0.1), np.zeros(n_arms),
        np.asarray(lower, float).reshape(-1, n_arms), np.asarray(limits, float), floor,
    )  # fmt: skip
    return instance._replace(**changes)


def test_nothing_to_do_means_nothing_done() -> None:
    answer = sf.project(*flat(4, [], []))
    assert answer.strategy == pytest.approx(np.full(4, 0.25), abs=1e-16)
    assert answer.multipliers.shape == (0,)


def test_single_point_when_arms_fill_the_simplex() -> None:
    for n_arms in (2, 3, 7, 49, 1000):
        instance = flat(n_arms, [], [], floor=1 / n_arms)._replace(loss_estimate=np.arange(n_arms, dtype=float))
        answer = sf.project(*instance)
        assert answer.strategy == pytest.approx(np.full(n_arms, 1 / n_arms), abs=3e-16)
        assert abs(answer.strategy.sum() - 1) < 1e-15


def test_single_point_may_be_unsafe() -> None:
    with pytest.raises(sf.EmptySafeSet):
        sf.project(*flat(4, [[0.5, 0.5, 0.5, 0.5]], [0.4], floor=0.25))


def test_floor_above_the_uniform_share_leaves_nothing() -> None:
    with pytest.raises(sf.EmptySafeSet):
        sf.project(*flat(4, [], [], floor=0.3))


def test_duplicate_constraints_share_one_multiplier() -> None:
    once = sf.project(*flat(3, [[0.9, 0.5, 0.1]], [0.3]))
    twice = sf.project(*flat(3, [[0.9, 0.5, 0.1]] * 5, [0.3] * 5))
    assert twice.strategy == pytest.approx(once.strategy, rel=1e-13)
    assert twice.multipliers.sum() == pytest.approx(once.multipliers[0], rel=1e-11)


def test_parallel_constraints_leave_the_tighter_one_active() -> None:
    instance = flat(3, [[0.9, 0.5, 0.1], [0.45, 0.25, 0.05]], [0.3, 0.12])
    answer = sf.project(*instance)
    assert answer.multipliers[0] == 0.0
    assert answer.multipliers[1] > 0.0
    assert residuals(instance, answer).worst() < 1e-12


@pytest.mark.parametrize("apart", [1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-3])
def test_nearly_parallel_constraints(apart: float) -> None:
    row = np.array([0.9, 0.5, 0.1, 0.3])
    nudge = apart * np.array([1.0, -1.0, 1.0, -1.0])
    assert check(flat(4, [row, row + nudge], [0.3, 0.3])) is not None


def test_slab_thinner_than_its_tolerance() -> None:
    row = np.array([0.9, 0.5, 0.1, 0.3])
    for width in (1e-6, 1e-9, 1e-11):
        found = check(flat(4, [row, -row], [0.3, -0.3 + width]))
        assert found is not None
        assert found.worst() < 1e-10


def test_weakly_active_constraint_has_no_multiplier_to_speak_of() -> None:
    free = sf.project(*flat(3, [], [], loss_estimate=np.array([2.0, 1.0, 0.0]))).strategy
    row = np.array([0.9, 0.5, 0.1])
    instance = flat(3, [row], [row @ free], loss_estimate=np.array([2.0, 1.0, 0.0]))
    answer = sf.project(*instance)
    assert answer.multipliers[0] < 1e-9
    assert answer.strategy == pytest.approx(free, rel=1e-12)


def test_constraint_that_pins_all_arms_but_one_to_the_floor() -> None:
    floor, row = 1e-3, np.array([0.0, 1.0, 1.0, 1.0])
    answer = sf.project(*flat(4, [row], [3 * floor], floor=floor))
    assert answer.strategy[1:] == pytest.approx(np.full(3, floor), rel=1e-9)


def test_more_active_constraints_than_free_arms() -> None:
    rng = np.random.default_rng(3)
    lower = rng.random((12, 2))
    limits = lower @ [0.37, 0.63]  # all twelve are tight at one point
    instance = flat(2, lower, limits, loss_estimate=np.array([50.0, 0.0]))
    found = check(instance)
    assert found is not None
    assert found.worst() < 1e-10


def test_conflicting_constraints_are_empty_though_each_alone_is_not() -> None:
    for limits in ([0.2, 0.2], [0.45, 0.45]):
        with pytest.raises(sf.EmptySafeSet):
            sf.project(*flat(2, [[1.0, 0.0], [0.0, 1.0]], limits))
    assert sf.project(*flat(2, [[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5])).strategy == pytest.approx([0.5, 0.5])


def test_from_one_corner_to_the_other() -> None:
    floor = 1e-7
    center = np.array([1 - 4 * floor, *[floor] * 4])
    instance = flat(5, [[1.0, 0.9, 0.8, 0.7, 0.0]], [1e-3], floor=floor, center=center)
    found = check(instance)
    assert found is not None
    assert found.worst() < 1e-10


def test_a_vertex_at_which_exchange_and_newton_undo_each_other() -> None:
    """All arms but one end at the floor; the last digits of one constraint must not stop the exchange of the other."""
    center = [0.00719028, 0.00731571, 0.61691082, 0.01935325, 0.0126257, 0.20208215, 0.00709754, 0.01708078, 0.11034376]
    rates = [0.00520292, 0.00856387, 0.01021389, 0.00492977, 0.00627114, 0.00920436, 0.0113374, 0.005128, 0.01116724]
    lower = [
        [
            0.38486245,
            -0.00222746,
            0.28031074,
            -0.28361929,
            -0.71948684,
            -0.28173932,
            0.43237751,
            -0.62014483,
            -0.86447466,
        ],
        [
            -0.24534898,
            -0.52461272,
            0.54694503,
            -0.35125989,
            -0.81897601,
            -0.7975632,
            -0.98193074,
            0.13176665,
            -0.49747876,
        ],
    ]
    loss = [0, 0, 0, 0, 0, 0, 95.77904556, 0, 0]
    limits = np.array([-0.6854355, -0.7417964])
    instance = Instance(np.array(center), np.array(rates), np.array(loss), np.array(lower), limits, 1 / 141)
    found = check(instance)
    assert found is not None
    assert found.worst() < 1e-12


def test_a_line_along_which_the_dual_is_far_from_quadratic() -> None:
    """A step that overshoots where the slope is negative can lower the dual, and active sets then come round again."""
    data = Path(__file__).with_name("overshoot.json").read_text()
    *parts, floor = json.loads(data)
    center, rates, loss, lower, limits = map(np.array, parts)
    instance = Instance(center, rates, loss, lower, limits, floor)
    found = check(instance)
    assert found is not None
    assert found.worst() < 1e-12


def test_the_last_correction_of_the_multipliers_can_take_arms_off_the_floor() -> None:
    """Twenty nearly equal copies of each arm share room of 1e-8; 2 % of these once kept an arm at the floor wrongly."""
    copies, floor, rng = 20, 1.5e-6, np.random.default_rng(0)
    first = [3.9e-5, 0.011, 1.7e-6, 1.5e-6, 0.0042, 1.5e-6, 1.2e-5, 0.00024, 1.5e-6, 2.4e-6, 1.6e-6, 0.035, 4e-6]
    center = np.tile([*first, 1.5e-6, 1.5e-6], copies)
    center = np.maximum(floor, center / center.sum())
    rates = 1e-4 * np.tile([57, 33, 24, 39, 51, 48, 19, 23, 46, 25, 18, 57, 20, 13, 55], copies)
    costs = [
        [1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0],
        [0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0],
        [-1, -1, -1, -1, -1, -1, 0, 0, -1, 0, -1, -1, -1, -1, -1],
    ]
    lower = np.tile(np.array(costs, float), copies)
    least = lower.min(1) + floor * (lower - lower.min(1, keepdims=True)).sum(1)
    for _ in range(300):
        apart, room = 1e-7 * rng.uniform(-1, 1, center.size), 1e-8 * rng.uniform(1, 2)
        found = check(Instance(center * (1 + apart), rates, np.zeros(center.size), lower, least + room, floor))
        assert found is not None


def test_room_of_rounding_only_goes_where_it_is_worth_most() -> None:
    floor = (1 - 1e-13) / 1000
    instance = flat(1000, [], [], floor=floor, loss_estimate=np.arange(1000.0))
    answer = sf.project(*instance)
    assert abs(answer.strategy.sum() - 1) < 1e-14
    assert residuals(instance, answer).worst() < 1e-10


def test_huge_losses_send_an_arm_to_the_floor_and_nothing_overflows() -> None:
    for loss in (1e7, 1e50, 1e100):
        answer = sf.project(*flat(3, [[0.9, 0.5, 0.1]], [0.45], loss_estimate=np.array([0.0, loss, 0.0])))
        assert answer.strategy[1] == 1e-4
        assert answer.strategy.sum() == pytest.approx(1.0, abs=1e-15)


def test_zero_rows_and_zero_limits() -> None:
    assert sf.project(*flat(3, [[0.0, 0.0, 0.0]], [0.0])).strategy == pytest.approx(np.full(3, 1 / 3))
    with pytest.raises(sf.EmptySafeSet):
        sf.project(*flat(3, [[0.0, 0.0, 0.0]], [-1e-6]))


def test_inputs_are_left_alone() -> None:
    instance = flat(3, [[0.9, 0.5, 0.1]], [0.3])
    before = [np.copy(part) for part in instance]
    sf.project(*instance)
    for was, part in zip(before, instance, strict=True):
        assert np.array_equal(was, np.asarray(part))


def test_arrays_of_any_kind_are_taken() -> None:
    instance = flat(3, [[0.9, 0.5, 0.1]], [0.3])
    wanted = sf.project(*instance).strategy
    lower = np.asfortranarray(np.repeat(instance.lower_costs, 2, axis=0))[::2]  # not contiguous
    center = instance.center.astype(np.float32) * 0 + np.float32(1 / 3)
    limits = instance.limits.copy()
    limits.flags.writeable = False
    got = sf.project(center, [0.1] * 3, (0, 0, 0), lower, limits, np.float64(1e-4)).strategy
    assert got == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"center": np.full((3, 1), 1 / 3)}, "center must be an array of shape any number, got one of shape"),
        ({"center": [0.5, 0.0, 0.5]}, r"center\[1\] must be in \[1e-15, 1e\+15\], got 0.0"),
        ({"center": [1.0]}, "center must have at least 2 entries, got 1"),
        ({"learning_rates": [0.1, -0.1, 0.1]}, r"learning_rates\[1\] must be"),
        (
            {"learning_rates": [1e-6, 0.1, 0.1]},
            "learning_rates must be at most a factor of 10000 apart, got a factor of 100000",
        ),
        ({"learning_rates": [0.1, 0.1]}, "learning_rates must be an array of shape 3, got one of shape"),
        ({"loss_estimate": [0.0, np.nan, 0.0]}, r"loss_estimate\[1\] must be .*, got nan"),
        ({"loss_estimate": [0.0, -1.0, 0.0]}, r"loss_estimate\[1\] must be"),
        ({"lower_costs": [[0.1, 0.2]]}, "lower_costs must be an array of shape 1 x 3, got"),
        ({"lower_costs": [[0.1, np.inf, 0.2]]}, r"lower_costs\[0, 1\] must be .*, got inf"),
        ({"limits": [0.3, 0.3]}, "lower_costs must be an array of shape 2 x 3, got"),
        ({"limits": "0.3"}, "limits must be an array of numbers, got '0.3'"),
        ({"floor": 0.0}, r"floor must be in \(0, 1\], got 0.0"),
        ({"floor": None}, r"floor must be a number in \(0, 1\], got None"),
        ({"floor": 10**400}, r"floor must be in \(0, 1\], got 1000"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sf.project(**{**flat(3, [[0.9, 0.5, 0.1]], [0.3])._asdict(), **change})
