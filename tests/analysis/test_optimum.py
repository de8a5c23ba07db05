import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings

import surefoot as sf
from surefoot.rules import Floats
from tests.strategies import FINE, LinearProgram, Source, drawn, program


def exact_value(losses: Floats, costs: Floats, limits: Floats) -> Fraction | None:
    """The optimum over all vertices, in rational arithmetic."""
    loss = [Fraction(v) for v in losses.tolist()]
    cost = [[Fraction(v) for v in row] for row in costs.tolist()]
    limit = [Fraction(v) for v in limits.tolist()]
    values = []
    for size in range(min(len(limit), len(loss) - 1) + 1):
        for rows, support in itertools.product(
            itertools.combinations(range(len(limit)), size), itertools.combinations(range(len(loss)), size + 1)
        ):
            equations = [[Fraction(1)] * (size + 1) + [Fraction(1)]]
            equations += [[cost[i][a] for a in support] + [limit[i]] for i in rows]
            point = solve_exactly(equations)
            if point is None or min(point) < 0:
                continue
            spent = [sum(row[a] * x for a, x in zip(support, point, strict=True)) for row in cost]
            if all(s <= t for s, t in zip(spent, limit, strict=True)):
                values.append(sum((loss[a] * x for a, x in zip(support, point, strict=True)), Fraction(0)))
    return min(values, default=None)


def solve_exactly(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """Gauss-Jordan; None if singular."""
    n = len(rows)
    for column in range(n):
        pivot = next((i for i in range(column, n) if rows[i][column] != 0), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [v / rows[column][column] for v in rows[column]]
        for i in range(n):
            if i != column:
                rows[i] = [u - rows[i][column] * v for u, v in zip(rows[i], rows[column], strict=True)]
    return [row[n] for row in rows]


def scaled(source: Source) -> LinearProgram:
    """A program of any magnitude; half of them of tenths, with ties and degenerate vertices."""
    losses, costs, limits = program(source, 5, 3, steps=source.choice([10, FINE]))
    return LinearProgram(losses * 10.0 ** source.integer(-2, 6), costs, limits)


@settings(max_examples=300)
@given(drawn(scaled, 2))
def test_values_are_exact(given: LinearProgram) -> None:
    losses, costs, limits = given
    wanted = exact_value(losses, costs, limits)
    assume(wanted is not None)
    found = sf.offline_optimum(losses, costs, limits)
    assert abs(found.value - float(wanted)) <= 1e-9 * max(1.0, np.abs(losses).max())  # type: ignore[arg-type]
    assert (costs @ found.strategy <= limits + 1e-9).all()
    assert abs(found.strategy.sum() - 1) < 1e-12
    assert (found.strategy >= 0).all()


@pytest.mark.parametrize(("n_arms", "n_constraints"), [(290, 1), (1000, 12)])
def test_large_programs_satisfy_duality(n_arms: int, n_constraints: int) -> None:
    rng = np.random.default_rng(n_arms)
    costs, losses = rng.random((n_constraints, n_arms)), rng.random(n_arms) * 1e5
    limits = costs @ rng.dirichlet(np.ones(n_arms)) - 0.05
    found = sf.offline_optimum(losses, costs, limits)
    assert (costs @ found.strategy <= limits + 1e-9).all()
    # multipliers from the tight constraints; no arm may then be cheaper than those in use
    used, tight = found.strategy > 0, limits - costs @ found.strategy < 1e-9
    system = np.vstack([np.ones(used.sum()), -costs[np.ix_(tight, used)]]).T
    dual, *_ = np.linalg.lstsq(system, losses[used], rcond=None)
    assert (dual[1:] >= -1e-6).all()
    assert (losses + dual[1:] @ costs[tight] - dual[0] >= -1e-6).all()


def test_no_constraint_means_the_best_arm() -> None:
    best = sf.offline_optimum([3.0, 1.0, 2.0], np.zeros((0, 3)), [])
    assert best.strategy == pytest.approx([0, 1, 0])
    assert best.value == 1.0


def test_thresholds_of_zero_and_one() -> None:
    assert sf.offline_optimum([1.0, 5.0], [[0.3, 0.0]], [0.0]).strategy.tolist() == [0.0, 1.0]
    assert sf.offline_optimum([1.0, 5.0], [[1.0, 0.0]], [1.0]).strategy.tolist() == [1.0, 0.0]


def test_infeasible_says_which_thresholds() -> None:
    costs = [[0.1, 0.9, 0.5], [0.2, 0.3, 0.4], [0.9, 0.1, 0.5]]
    with pytest.raises(
        sf.Infeasible, match=r"^thresholds\[0\] = 0.3 and thresholds\[2\] = 0.3 cannot be met together: "
    ):
        sf.offline_optimum([1, 2, 3], costs, [0.3, 0.9, 0.3])
    with pytest.raises(
        sf.Infeasible, match=r"^thresholds\[1\] = 0.1 cannot be met: every strategy misses one by at least 0.1"
    ):
        sf.offline_optimum([1, 2, 3], costs, [0.9, 0.1, 0.9])


def test_safest_strategy_is_the_analytic_one() -> None:
    safe = sf.safest_strategy([[0.9, 0.2], [0.1, 0.6]], [0.5, 0.5])
    assert safe.strategy == pytest.approx([1 / 3, 2 / 3], abs=1e-12)
    assert safe.costs == pytest.approx([13 / 30, 13 / 30], abs=1e-12)
    assert sf.safest_strategy([[0.9, 0.2, 0.4]], [0.5]).strategy.tolist() == [0.0, 1.0, 0.0]
    assert sf.safest_strategy(np.zeros((0, 4)), []).strategy.tolist() == [0.25] * 4


@pytest.mark.parametrize("seed", range(10))
def test_no_other_strategy_is_safer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs, limits = rng.random((3, 6)), rng.uniform(0.6, 1, 3)
    safe = sf.safest_strategy(costs, limits)
    margin = (limits - safe.costs).min()
    others = rng.dirichlet(np.full(6, 0.3), 20_000)
    assert (limits - others @ costs.T).min(axis=1).max() <= margin + 1e-12
    problem = sf.Problem(6, limits, 10_000, safe=safe)
    assert problem.margin == pytest.approx(margin)


def test_a_margin_of_zero_is_not_safe() -> None:
    with pytest.raises(sf.Infeasible, match="there is no margin left"):
        sf.safest_strategy([[0.9, 0.5]], [0.5])


def test_a_margin_of_rounding_is_no_margin() -> None:
    with pytest.raises(sf.Infeasible, match="there is no margin left"):
        sf.safest_strategy([[0.29, 0.35], [0.71, 0.65]], [0.32, 0.68])


def test_a_threshold_met_with_equality_is_not_blamed() -> None:
    with pytest.raises(sf.Infeasible, match=r"^thresholds\[0\] = 0.5 cannot be met: every strategy misses one"):
        sf.offline_optimum([1, 2], [[0.9, 0.9], [0.1, 0.1]], [0.5, 0.1])


def test_rows_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="mean_costs must be an array of numbers, got"):
        sf.safest_strategy([[0.1], [0.2, 0.3]], [0.5, 0.5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, np.nan], [[0.1, 0.2]], [0.5]), r"total_losses\[1\] must be"),
        (([1, 2], [[0.1, 1.2]], [0.5]), r"mean_costs\[0, 1\] must be in \[0, 1\], got 1.2"),
        (([1, 2], [[0.1, 0.2, 0.3]], [0.5]), "mean_costs must be an array of shape 1 x 2, got"),
        (([1, 2], [0.1, 0.2], [0.5]), "mean_costs must be an array of shape 1 x 2, got"),
        (([1, 2], [[0.1, 0.2]], [1.5]), r"thresholds\[0\] must be in \[0, 1\], got 1.5"),
        (([1, 2], [[0.1, 0.2]], [0.5, 0.5]), "mean_costs must be an array of shape 2 x 2, got"),
        (([], np.zeros((0, 0)), []), "must"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sf.offline_optimum(*arguments)  # type: ignore[arg-type]


def test_one_number_stands_for_one_threshold() -> None:
    natural = sf.offline_optimum([10.0, 20.0, 60.0], [[0.9, 0.5, 0.1]], 0.5)
    assert (
        natural.strategy.tolist() == sf.offline_optimum([10.0, 20.0, 60.0], [[0.9, 0.5, 0.1]], [0.5]).strategy.tolist()
    )
    assert sf.safest_strategy([[0.9, 0.2]], 0.5) == sf.safest_strategy([[0.9, 0.2]], [0.5])
    with pytest.raises(sf.RuleError, match=r"^mean_costs must be an array of shape 1 x 2, got one of shape \(2, 2\)$"):
        sf.offline_optimum([10.0, 20.0], [[0.9, 0.2], [0.1, 0.1]], 0.5)
