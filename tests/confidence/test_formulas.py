"""The bounds against their slow twins: never narrower than exact arithmetic allows, and wider by rounding only."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, lists

from surefoot.confidence import FAMILY, Betting, EBMixture, Hoeffding, KLMixture, Paper
from surefoot.confidence.bets import Mixture
from surefoot.kernels import betting, eb_mixture
from surefoot.kernels.betting import RESERVE
from surefoot.kernels.compile import compiled
from surefoot.kernels.costs import observe
from surefoot.kernels.hoeffding import rounding
from surefoot.kernels.logarithm import logarithm
from surefoot.policies.estimates import hoeffding_scale
from surefoot.rules import Floats
from tests.confidence.streams import LAWS, history, level_of, problem_of
from tests.reference import confidence as twin

MARKS = (1, 2, 3, 6, 14, 40, 90, 91)
PROBLEM = problem_of(horizon=1000)
WORTHWHILE = mp.mpf("1.08")  # times as much wealth as is enough makes a bet's bound move
MOST = mp.mpf("1.0002")  # times the wealth that is enough: Newton's method stops at 1e-4 of its logarithm


@compiled
def one_logarithm(x: float) -> float:
    return logarithm(x)


def both_sides(name: str, costs: Floats) -> list[tuple[twin.Numbers, twin.Numbers]]:
    """Both sides as upper bounds: the costs, and the bounds before and after each of them."""
    lower, upper, _ = history(FAMILY[name](), PROBLEM, costs)
    return [
        (twin.exact(list(costs)), twin.exact([1.0, *upper])),
        (twin.exact(list(costs), mirrored=True), twin.exact([0.0, *lower], mirrored=True)),
    ]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ["hoeffding", "bernstein"])
def test_radii_are_those_of_the_theorems(name: str, law: str) -> None:
    theorem, moved = getattr(twin, name), 0
    for costs, bounds in both_sides(name, LAWS[law][1](np.random.default_rng(3), 300)):
        for k in [*range(1, 10), *range(10, 301, 10)]:
            exact = theorem(costs[:k], level_of(PROBLEM), PROBLEM.horizon)
            assert abs(bounds[k] - min(bounds[k - 1], exact)) < mp.mpf("1e-12")
            if bounds[k] < bounds[k - 1]:
                moved += 1
                assert bounds[k] >= exact
    assert moved >= 3


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ["kl-mixture", "eb-mixture", "betting"])
def test_mixtures_exclude_just_what_they_may(name: str, law: str) -> None:
    """Wealth at 60 digits, from the whole list of costs, is enough to exclude the bound, and not much less."""
    enough, moved = 1 / mp.mpf(level_of(PROBLEM)), 0
    nodes = 2 if name == "kl-mixture" else Betting().nodes

    def wealth(past: twin.Numbers, candidate: mp.mpf) -> mp.mpf:
        if name == "eb-mixture":
            return twin.eb_wealth(past, candidate, EBMixture().bets)
        return twin.nodal_wealth(past, candidate, Betting().bets, nodes)

    for costs, bounds in both_sides(name, LAWS[law][1](np.random.default_rng(3), MARKS[-1])):
        for k in MARKS:
            if bounds[k] < 1:
                assert wealth(costs[:k], bounds[k]) < enough * MOST * (1 if name == "eb-mixture" else WORTHWHILE)
            if bounds[k] < bounds[k - 1]:
                moved += 1
                assert wealth(costs[:k], bounds[k]) < enough * MOST
                assert wealth(costs[:k], bounds[k]) >= enough
                if name == "betting":  # nodes or not, the wealth is there
                    assert twin.betting_wealth(costs[:k], bounds[k], Betting().bets) >= enough
    assert moved >= 2


@pytest.mark.parametrize("law", ["coin", "rare", "even", "low variance"])
@pytest.mark.parametrize("bound", [KLMixture(), Betting(), Betting(nodes=9)], ids=str)
def test_carrying_wealth_on_misses_no_worthwhile_narrowing(bound: Mixture, law: str) -> None:
    """By the nodes, which are asked after every cost, a bound could always be moved, but not by much."""
    costs = LAWS[law][1](np.random.default_rng(5), 400)
    lower, upper, _ = history(bound, PROBLEM, costs)
    asked, most = bound.new_costs(PROBLEM), 0.0
    for k, cost in enumerate(costs):
        nodes = asked.nodes[0, 0]
        betting.split(nodes, cost)
        for side, edge, wealth in ((False, upper[k], asked.upper_wealth), (True, 1.0 - lower[k], asked.lower_wealth)):
            if edge < 1.0:
                odds = edge / (1.0 - edge)
                more, _ = betting.excess(asked.mixture, wealth[0, 0], nodes, side, k + 1, odds, 0.0)
                most = max(most, more)
                assert more < math.log(WORTHWHILE) + 1e-9
            else:
                assert betting.excluded(asked.mixture, wealth[0, 0], nodes, side, k + 1, np.inf, 0.0) > 1e12
    assert most > 0.5 * math.log(WORTHWHILE)  # it is the rule, and no accident


def test_logarithms_are_right_to_the_last_place() -> None:
    rng = np.random.default_rng(0)
    near = 1 + rng.normal(size=20_000) * 10 ** rng.uniform(-16, -1, 20_000)
    for x in (1.0, 2.0, 0.5, *near, *(10 ** rng.uniform(-300, 300, 20_000))):
        exact = math.log(x)
        assert abs(one_logarithm(x) - exact) <= 2 * math.ulp(exact)


@settings(max_examples=60)
@given(costs=lists(floats(0, 1), min_size=1, max_size=12), nodes=integers(2, 9))
def test_whatever_the_costs_bounds_are_earned(costs: list[float], nodes: int) -> None:
    """At 60 digits, the wealth has at some time been enough to exclude what the bounds exclude."""
    lower, upper, _ = history(Betting(nodes=nodes), PROBLEM, np.array(costs))
    for bound, past in ((mp.mpf(upper[-1]), twin.exact(costs)), (1 - mp.mpf(lower[-1]), twin.exact(costs, True))):
        if bound < 1:
            wealths = [twin.betting_wealth(past[:k], bound, Betting().bets) for k in range(1, len(costs) + 1)]
            assert max(wealths) >= 1 / mp.mpf(level_of(PROBLEM))


COUNTS = [1, 7, 1000, 10**6, 10**9]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.0137, 0.5, 0.93, 1.0])
def test_sums_up_to_a_thousand_million(count: int, share: float) -> None:
    """With sums alone the mixture has a closed form, of which 60 digits are known for any number of costs."""
    known, bound = KLMixture().new_costs(PROBLEM), KLMixture()
    ones = count * share + (0.3 if 0.0 < share < 1.0 and count > 1 else 0.0)  # not a whole number
    known.nodes[0, 0] = count - ones, ones
    odds = betting.excluded(known.mixture, known.upper_wealth[0, 0], known.nodes[0, 0], False, count, np.inf, 0.0)
    enough, sums = 1 / mp.mpf(level_of(PROBLEM)), (mp.mpf(ones), mp.mpf(count - ones))
    if odds == np.inf:  # floating point can tell no excluded candidate from 1
        assert twin.kl_wealth(*sums, 1 - mp.mpf("1e-14"), bound.bets) < enough
        return
    candidate = mp.mpf(odds) / (1 + mp.mpf(odds))
    assert twin.kl_wealth(*sums, candidate, bound.bets) >= enough
    width = candidate - sums[0] / count  # rounding takes a little of it when there are very many costs
    assert twin.kl_wealth(*sums, candidate - width / (300 if count > 1e6 else 10_000), bound.bets) < enough


@pytest.mark.parametrize("squares", [0.0, 1e-12, 0.25, 3.0, 1e3, 1e6, 2.5e8, 1e9])
def test_empirical_bernstein_up_to_a_thousand_million(squares: float) -> None:
    bound = EBMixture()
    mixture = bound.new_costs(PROBLEM).mixture
    for guess in (0.0, 1e3, 1e7):
        reach = mp.mpf(eb_mixture.reach(mixture, squares, guess))
        for factor, excludes in ((mp.mpf(1), True), (1 - mp.mpf("1e-6"), False)):
            terms = (
                share * mp.exp(bet * reach * factor + (mp.log(1 - bet) + bet) * mp.mpf(squares))
                for bet, share in twin.bets(bound.bets)
            )
            assert (mp.fsum(terms) >= 1 / mp.mpf(level_of(PROBLEM))) == excludes


@pytest.mark.parametrize("name", ["hoeffding", "bernstein", "eb-mixture"])
@pytest.mark.parametrize("count", [2, 1000, 10**9])
def test_radii_are_rounded_outward_by_little(name: str, count: int) -> None:
    known = FAMILY[name]().new_costs(PROBLEM)
    known.counts[0], known.means[0, 0] = count - 1, 0.25
    known.squares[0, 0] = 0.1 * count
    observe(known, 0, np.array([0.5]))
    mean, n = mp.mpf(known.means[0, 0]), mp.mpf(count)
    log = mp.log(PROBLEM.horizon / mp.mpf(level_of(PROBLEM)))
    if name == "hoeffding":
        radius = mp.sqrt(log / (2 * n))
    elif name == "bernstein":
        log += mp.log(2)
        radius = mp.sqrt(2 * mp.mpf(known.squares[0, 0]) / (n - 1) * log / n) + 7 * log / (3 * (n - 1))
    else:
        radius = mp.mpf(eb_mixture.reach(known.mixture, known.squares[0, 0], 0.0)) / n
    for found, exact in ((mp.mpf(known.upper[0, 0]) - mean, radius), (mean - mp.mpf(known.lower[0, 0]), radius)):
        if radius < 0.2:
            assert exact <= found <= exact * (1 + mp.mpf("1e-6")) + 2 * rounding(count)


def test_running_means_drift_less_than_is_allowed_for() -> None:
    rng, known = np.random.default_rng(0), Hoeffding().new_costs(PROBLEM)
    costs, worst = rng.random(200_000), 0.0
    row = np.zeros(1)
    for k, cost in enumerate(costs):
        row[0] = cost
        observe(known, 0, row)
        if (k + 1) % 20_000 == 0:
            worst = max(worst, abs(known.means[0, 0] - math.fsum(costs[: k + 1]) / (k + 1)) / rounding(k + 1))
    assert 0.0 < worst < 0.1  # worst cases are rare


def test_hoeffding_is_that_of_the_peers() -> None:
    """The same scale, from the same delta; the bounds differ by clipping and by what is never forgotten."""
    for n_constraints in (1, 3):
        problem = problem_of(n_constraints=n_constraints)
        assert Hoeffding().new_costs(problem).scale == pytest.approx(hoeffding_scale(problem, n_constraints), rel=1e-14)


@pytest.mark.parametrize("name", FAMILY)
def test_nothing_known_is_nothing_claimed(name: str) -> None:
    known = FAMILY[name]().new_costs(PROBLEM)
    assert (known.lower == (-1.0 if name == "paper" else 0.0)).all()
    assert (known.upper == 1.0).all()


@pytest.mark.parametrize("name", FAMILY)
def test_only_those_that_say_so_need_the_horizon(name: str) -> None:
    bound, costs = FAMILY[name](), LAWS["even"][1](np.random.default_rng(0), 200)
    short, long = (history(bound, problem_of(horizon=horizon), costs)[1] for horizon in (10**3, 10**9))
    assert (short == long).all() != bound.needs_horizon


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-12, 1 - 1e-12])
def test_extremes_stay_finite(name: str, delta: float) -> None:
    problem = problem_of(delta=delta)
    for costs in (np.zeros(300), np.ones(300), np.full(300, 1 - 1e-13), np.full(300, 1e-13), np.tile([0.0, 1.0], 150)):
        lower, upper, known = history(FAMILY[name](), problem, costs)
        for remembered in (known.squares, known.reach, known.upper_wealth, known.lower_wealth, known.nodes):
            assert np.isfinite(remembered).all()
        assert np.isfinite(lower).all()
        assert np.isfinite(upper).all()
        assert (lower <= costs.mean() + 1e-9).all()
        assert (upper >= costs.mean() - 1e-9).all()
        if name != "paper":
            assert (lower >= 0).all()
            assert (upper <= 1).all()


def test_after_a_thousand_ones_a_zero_bounds_from_above() -> None:
    for bound in (KLMixture(), Betting()):
        lower, upper, _ = history(bound, PROBLEM, np.append(np.ones(1000), 0.0))
        assert upper[-2] == 1.0
        assert 0.9999 < upper[-1] < 1.0
        assert lower[-1] > 0.98


def test_bets_are_those_of_the_twin() -> None:
    for family in (KLMixture(), EBMixture(), Betting(bets=7)):
        bound = family.bound(PROBLEM)
        for j, (bet, share) in enumerate(twin.bets(family.bets)):
            assert bound.fractions[j] == pytest.approx(float(bet), rel=1e-14)
            kept = 1 if family.name == "eb-mixture" else 1 - RESERVE  # for bounds that begin again
            assert math.exp(bound.shares[j]) == pytest.approx(kept * float(share) * level_of(PROBLEM), rel=1e-12)


def test_all_of_delta_on_the_upper_bounds_is_one_factor_of_two() -> None:
    for name, bound in FAMILY.items():
        if bound is Paper:
            continue
        both, upper = bound(), bound(sides="upper")  # type: ignore[call-arg]
        halved = problem_of(delta=0.05)
        costs = LAWS["coin"][1](np.random.default_rng(1), 200)
        for k in (0, 1):
            one = history(upper, halved, costs)[k]
            assert one == pytest.approx(history(both, problem_of(delta=0.1), costs)[k], abs=1e-12), name
