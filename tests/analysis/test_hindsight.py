import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

import surefoot as sf
from surefoot.analysis import hindsight as module
from surefoot.analysis.hindsight import Hindsight, vertices
from surefoot.analysis.ledger import Settled, WorldLedger
from surefoot.analysis.optimum import Benchmark
from surefoot.rules import Floats
from surefoot.simulation.episode import Stage
from tests.analysis.test_optimum import solve_exactly
from tests.strategies import FINE, LinearProgram, Source, drawn, program

Points = set[tuple[Fraction, ...]]


def exact_vertices(costs: Floats, limits: Floats) -> Points:
    """All points where as many constraints are tight as there are arms in use, less one, in rational arithmetic."""
    cost = [[Fraction(v) for v in row] for row in costs.tolist()]
    limit = [Fraction(v) for v in limits.tolist()]
    n_arms, found = costs.shape[1], set()
    for size in range(min(len(limit), n_arms - 1) + 1):
        for tight, used in itertools.product(
            itertools.combinations(range(len(limit)), size), itertools.combinations(range(n_arms), size + 1)
        ):
            equations = [[Fraction(1)] * (size + 2)]
            equations += [[cost[i][a] for a in used] + [limit[i]] for i in tight]
            shares = solve_exactly(equations)
            if shares is None or min(shares) < 0:
                continue
            point = [Fraction(0)] * n_arms
            for a, share in zip(used, shares):
                point[a] = share
            if all(sum(g * x for g, x in zip(row, point)) <= most for row, most in zip(cost, limit)):
                found.add(tuple(point))
    return found


def same_points(found: Floats, exact: Points) -> bool:
    """Each near one of the others, both ways, and none twice."""
    wanted = np.array([[float(x) for x in point] for point in exact]).reshape(len(exact), found.shape[1])
    distances = np.abs(found[:, None] - wanted[None]).max(axis=2)
    return len(found) == len(wanted) and bool((distances.min(axis=0, initial=1) < 1e-12).all())


NO_LOSSES = np.zeros((8, 8))


@pytest.mark.parametrize(
    ("costs", "limits", "wanted"),
    [
        (np.zeros((0, 3)), [], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        ([[0.9, 0.1]], [0.5], [[0, 1], [0.5, 0.5]]),
        ([[0.9, 0.1]], [0.95], [[1, 0], [0, 1]]),
        # the arm on the threshold, the arm below it, and what mixes the arm above with either down to the threshold
        ([[0.875, 0.5, 0.125]], [0.5], [[0, 1, 0], [0, 0, 1], [0.5, 0, 0.5]]),
        ([[0.875, 0.5, 0.125]], [0.625], [[0, 1, 0], [0, 0, 1], [1 / 3, 2 / 3, 0], [2 / 3, 0, 1 / 3]]),
        # two constraints that leave one point, a segment, a triangle
        ([[1, 0], [0, 1]], [0.5, 0.5], [[0.5, 0.5]]),
        ([[1, 0], [0, 1]], [0.75, 0.75], [[0.75, 0.25], [0.25, 0.75]]),
        (np.eye(3)[:2], [0.5, 0.5], [[0, 0, 1], [0.5, 0, 0.5], [0, 0.5, 0.5], [0.5, 0.5, 0]]),
        # a threshold of 0 forbids, a threshold of 1 is none
        ([[0.5, 0, 0]], [0], [[0, 1, 0], [0, 0, 1]]),
        ([[1, 1]], [1], [[1, 0], [0, 1]]),
        # the same constraint twice, and once more, looser
        ([[0.75, 0.25]] * 3, [0.5, 0.5, 0.625], [[0, 1], [0.5, 0.5]]),
        # arms that are the same
        ([[0.75, 0.25, 0.25]], [0.5], [[0, 1, 0], [0, 0, 1], [0.5, 0.5, 0], [0.5, 0, 0.5]]),
    ],
)
def test_vertices_of_small_cases(costs: Floats, limits: list[float], wanted: list[list[float]]) -> None:
    found = vertices(np.array(costs, float), np.array(limits, float))
    assert found is not None
    assert sorted(np.abs(found).tolist()) == [pytest.approx(row, abs=1e-12) for row in sorted(wanted)]


@settings(max_examples=150)
@given(drawn(lambda source: program(source, 5, 3, steps=8), 2))
def test_vertices_are_all_there(given: LinearProgram) -> None:
    # eighths are exact in binary, and so few that ties, degenerate vertices and thresholds of 0 and 1 are frequent
    _, costs, limits = given
    found = vertices(costs, limits)
    assert found is not None
    assert same_points(found, exact_vertices(costs, limits))


def test_a_missing_vertex_is_noticed() -> None:
    costs, limits = np.array([[0.875, 0.5, 0.125]]), np.array([0.625])
    found, exact = vertices(costs, limits), exact_vertices(costs, limits)
    assert found is not None
    assert same_points(found, exact)
    assert not same_points(found[1:], exact)
    assert not same_points(np.vstack([found[1:], found[1:2]]), exact)


def instance(source: Source) -> LinearProgram:
    """Losses, costs and limits; some with ties, copies and thresholds of 0 and 1."""
    # tenths: ties that are equal but for rounding
    losses, costs, limits = program(source, 8, 3, steps=source.choice([10, FINE]))
    n_constraints, zeros = limits.size, source.numbers(losses.size, steps=1)
    if source.chance(50) and n_constraints > 1:
        costs[-1], limits[-1] = costs[0], limits[0]
    if source.chance(50) and n_constraints:
        limits[0] = source.choice([0.0, 1.0])
        costs[0] *= zeros
    if source.chance(50):
        costs[:, -1], losses[-1] = costs[:, 0], losses[0]
    return LinearProgram(losses * 10.0 ** source.integer(-3, 6), costs, limits)


def value(losses: Floats, costs: Floats, limits: Floats) -> float | None:
    try:
        return sf.offline_optimum(losses, costs, limits).value
    except sf.Infeasible:
        return None


@settings(max_examples=300)
@given(drawn(instance, 3))
def test_the_best_is_the_offline_optimum(given: LinearProgram) -> None:
    losses, costs, limits = given
    wanted, hindsight = value(losses, costs, limits), Hindsight(costs, limits)
    squares = NO_LOSSES[: losses.size, : losses.size]
    if wanted is None:
        with pytest.raises(sf.Infeasible, match="cannot be met"):
            hindsight.best(losses, squares)
        return
    best = hindsight.best(losses, squares)
    assert abs(best.value - wanted) <= 1e-9 * max(1.0, losses.max())
    assert best.value == pytest.approx(best.strategy @ losses, rel=1e-12, abs=1e-12)
    assert best.strategy.sum() == pytest.approx(1.0, abs=1e-12)
    assert best.strategy.min() >= 0
    assert (costs @ best.strategy <= limits + 1e-9).all()


@pytest.mark.parametrize("halvings", [4, 10, 16, 22])
@pytest.mark.parametrize("n_constraints", [1, 2, 3, 4])
def test_the_scale_of_costs_does_not_matter(n_constraints: int, halvings: int) -> None:
    # costs and thresholds, all halved many times, allow just the same strategies: guardrails on rare events are usual
    rng, scale = np.random.default_rng(halvings), 0.5**halvings
    costs = np.hstack([np.diag(rng.uniform(0.5, 0.9, n_constraints)), np.zeros((n_constraints, 1))])
    costs[:, :-1] += rng.uniform(0, 0.1, (n_constraints, n_constraints))  # each arm breaks a guardrail of its own
    limits, losses = rng.uniform(0.1, 0.12, n_constraints), np.append(rng.uniform(0, 0.1, n_constraints), 1.0)
    squares = NO_LOSSES[: losses.size, : losses.size]
    wanted = sf.offline_optimum(losses, costs, limits)
    assert (wanted.strategy > 0.05).all()  # as many constraints are tight as there can be
    found = Hindsight(costs * scale, limits * scale).best(losses, squares)
    assert found.strategy == pytest.approx(wanted.strategy, abs=1e-12 / scale)


def test_losses_without_end_are_no_trouble_where_vertices_are_listed() -> None:
    best = Hindsight(np.array([[0.75, 0.25]]), np.array([0.5])).best(np.array([2e6, 4e6]), np.zeros((2, 2)))
    assert best.value == 3e6


def test_small_costs_have_vertices_too() -> None:
    # four arms that each break one guardrail in 2000 rounds, where one in 10 000 may: a fifth of each, and of the safe
    costs, limits = 5e-4 * np.eye(5)[:4], np.full(4, 1e-4)
    losses = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    assert sf.offline_optimum(losses, costs, limits).value == pytest.approx(0.2)
    assert Hindsight(costs, limits).best(losses, np.zeros((5, 5))).value == pytest.approx(0.2)


# Of equally good strategies, the one nearest to the safe one


def settled(losses: list[list[float]], safe_arm: int) -> Settled:
    rounds = np.array(losses)
    n_arms = rounds.shape[1]
    problem = sf.Problem(n_arms, [0.9], 1000, safe=sf.SafeStrategy(np.eye(n_arms)[safe_arm], [0.1]))
    ledger = WorldLedger(problem, Hindsight(np.full((1, n_arms), 0.1), np.array([0.9])), [len(rounds)])
    ledger.add(rounds)
    return ledger.settled()


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_of_equal_arms_the_one_with_the_least_safety_complexity(order: tuple[int, ...]) -> None:
    # arms 0 to 2 lose 1 in all; arm 3 is safe, loses 1.5, and arm 1 follows it best
    losses = np.array([[1.0, 0.5, 0.0, 0.75], [0.0, 0.5, 1.0, 0.75]])[:, order]
    best = settled(losses.tolist(), order.index(3))
    assert best.benchmarks[0].tolist() == np.eye(4)[order.index(1)].tolist()
    assert best.values[0] == 1.0


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_tie_that_rounding_broke_is_a_tie(order: tuple[int, ...]) -> None:
    # 0.1 + 0.2 is more than 0.3 by rounding; the arm that follows the safe one (0.1, then 0.2) is taken all the same
    losses = np.array([[0.1, 0.3, 0.15], [0.2, 0.0, 0.25]])[:, order]
    assert settled(losses.tolist(), order.index(2)).benchmarks[0].tolist() == np.eye(3)[order.index(0)].tolist()


def test_less_loss_comes_before_less_complexity() -> None:
    losses = [[1.0, 0.5, 0.5], [0.0, 0.5 + 1e-9, 0.75]]
    assert settled(losses, 2).benchmarks[0].tolist() == [1.0, 0.0, 0.0]


# Too many vertices


def test_too_many_vertices_are_not_listed() -> None:
    costs, limits = np.array([[0.9, 0.5, 0.1], [0.2, 0.4, 0.6]]), np.array([0.6, 0.5])
    n_bases = 10  # three of three arms and two slacks
    assert vertices(costs, limits, 3 * n_bases) is not None
    assert vertices(costs, limits, 3 * n_bases - 1) is None


def test_bases_are_tried_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    costs, limits = np.random.default_rng(1).random((3, 5)), np.full(3, 0.6)
    whole = vertices(costs, limits)
    assert whole is not None
    assert len(whole) > 3
    monkeypatch.setattr(module, "TOGETHER", 7)
    again = vertices(costs, limits)
    assert again is not None
    assert np.array_equal(again, whole)


def test_vertices_of_a_built_in_scenario_are_listed_for_a_gpu() -> None:
    """Each of them is safe, and the best is as good as that of a linear program."""
    scenario = sf.scenarios.make("many-constraints-v1", horizon=1000)
    limits, losses = scenario.problem.thresholds, np.random.default_rng(2).random(10)
    assert Stage(scenario, [1000]).hindsight.vertices is None
    hindsight = Stage(scenario.drawn_by("counter"), [1000]).hindsight
    assert hindsight.vertices is not None
    assert (hindsight.vertices @ scenario.mean_costs.T <= limits + 1e-12).all()
    found = hindsight.best(losses, np.zeros((10, 10)))
    assert found.value == pytest.approx(sf.offline_optimum(losses, scenario.mean_costs, limits).value, rel=1e-12)


@settings(max_examples=50)
@given(drawn(instance, 3))
def test_the_fallback_finds_the_same_value(given: LinearProgram) -> None:
    losses, costs, limits = given
    squares = NO_LOSSES[: losses.size, : losses.size]
    with pytest.MonkeyPatch.context() as patch:
        hindsight, calls = Hindsight(costs, limits, most=0), []

        def solver(*arguments: Floats) -> Benchmark:
            calls.append(arguments)
            return sf.offline_optimum(*arguments)

        patch.setattr(module, "offline_optimum", solver)
        wanted = value(losses, costs, limits)
        if wanted is None:
            with pytest.raises(sf.Infeasible, match="cannot be met"):
                hindsight.best(losses, squares)
        else:
            assert hindsight.best(losses, squares).value == wanted
        assert len(calls) == 1
        assert hindsight.vertices is None


def test_the_fallback_takes_long_horizons() -> None:
    best = Hindsight(np.array([[0.75, 0.25]]), np.array([0.5]), most=0).best(np.array([2e6, 4e6]), np.zeros((2, 2)))
    assert best.value == pytest.approx(3e6)


@pytest.mark.parametrize("most", [0, 2_000_000])
def test_thresholds_that_cannot_be_met_are_named(most: int) -> None:
    hindsight = Hindsight(np.array([[0.5, 0.5], [0.9, 0.8]]), np.array([0.6, 0.7]), most)
    with pytest.raises(sf.Infeasible, match=r"^thresholds\[1\] = 0.7 cannot be met: .* by at least 0.1$"):
        hindsight.best(np.array([1.0, 2.0]), np.zeros((2, 2)))


def test_a_set_as_thin_as_rounding_is_not_empty() -> None:
    # on the threshold but for rounding: 0.1 + 0.2 > 0.3
    costs, limits = np.array([[0.1 + 0.2, 0.9]]), np.array([0.3])
    assert costs[0, 0] > limits[0]
    assert Hindsight(costs, limits).best(np.array([1.0, 0.0]), np.zeros((2, 2))).strategy.tolist() == [1.0, 0.0]
