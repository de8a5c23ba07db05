"""Slacks of paths: against loops written from the paper, and negative where something is wrong.

What is tested here holds of every path, so there is no false alarm; where chance enters, the rate is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from surefoot.analysis.clean import truncated
from surefoot.policies.colb import COLB
from surefoot.policies.rates import Sized, halving_log, log_vertices
from surefoot.policies.solb import SOLB
from surefoot.problem import Problem
from surefoot.rules import Floats
from surefoot.theory import paths
from surefoot.theory.families import boundary, inside, lopsided
from surefoot.theory.mutations import (
    Altered,
    DividedByProposal,
    FedTwice,
    LiteralMaximum,
    MixedByLower,
    NarrowRadius,
    Stuck,
    Unmixed,
    Unprojected,
)
from surefoot.theory.trace import Trace, record
from tests.reference.paths import Slowly
from tests.theory.made import cut, made, scrambled

RECORDED = {
    "COLB": (boundary(300, n_constraints=2), made(COLB, learning_rate=0.3)),
    "COLB, narrow": (boundary(300, n_constraints=2), made(COLB, NarrowRadius, learning_rate=0.3)),
    "SOLB": (lopsided(300), made(SOLB, learning_rate=0.3)),
    "SOLB, narrow": (lopsided(300), made(SOLB, NarrowRadius, learning_rate=0.3)),
    "SOLB, weighted": (inside(300), made(SOLB, learning_rate=0.3, estimator="weighted")),
    "COLB, restarts": (inside(300, 0.5), made(COLB, allowance=0.3, learning_rate="doubling")),
    "SOLB, restarts": (inside(300, 0.5), made(SOLB, allowance=0.3, learning_rate="doubling")),
    "COLB, sets empty": (boundary(300, 0.13, 2), made(COLB, radius=1e-3, learning_rate=0.3)),
    "SOLB, sets empty": (boundary(300, 0.13, 2), made(SOLB, radius=1e-3, learning_rate=0.3)),
}


@cache
def path(name: str) -> Trace:
    if name == "made up":
        return scrambled(boundary(200, n_constraints=2), restarts=[60, 61, 140])
    if name == "made up, restart at the end":
        return scrambled(boundary(200), restarts=[60, 199])
    if name == "cut at a restart":
        whole = path("COLB, restarts")
        return cut(whole, int(np.flatnonzero(np.diff(whole.base_rates))[-1]) + 1)
    return record(*RECORDED[name], 0)


CASES = [*RECORDED, "cut at a restart", "made up", "made up, restart at the end"]


def comparators(trace: Trace) -> list[Floats]:
    corners = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.3, 0.3, 0.4]]
    return [truncated(np.array(x, float), trace.problem) for x in [trace.benchmark, *corners]]


@pytest.mark.parametrize("name", CASES)
def test_slacks_are_those_of_the_loops(name: str) -> None:
    trace = path(name)
    slow, feed = Slowly(trace), trace.loss_estimates
    close: Callable[[Any], Any] = lambda value: pytest.approx(value, rel=1e-9, abs=1e-9)  # noqa: E731
    assert feed == close(slow.feed)
    for u in comparators(trace):
        assert paths.in_safe_sets(trace, u).tolist() == [slow.inside(t, u) for t in slow.rounds]
        assert paths.step_slack(trace, feed, u) == close(slow.step(u))
        for weights in (np.ones(trace.rounds), trace.weights):
            left, right = slow.descent(u, weights.tolist())
            assert paths.descent_terms(trace, feed, u, weights) == (close(left), close(right))
            slack = right - left if all(slow.inside(t, u) for t in slow.rounds) else math.inf
            assert paths.descent_slack(trace, feed, u, weights) == close(slack)
        assert paths.epochs_slack(trace, feed, u) == close(slow.epochs(u))
        assert tuple(paths.martingales(trace, u)) == tuple(map(close, slow.martingales(u)))
        cost = sum(slow.dot(loss, u) - slow.dot(loss, trace.benchmark) for loss in trace.losses)
        assert paths.truncation_cost(trace, u) == close(cost)
    for found, expected in (
        (paths.caps_slack, slow.caps), (paths.mixing_slack, slow.mixing), (paths.violation_slack, slow.violation),
        (paths.safety_slack, slow.safety), (paths.weight_slack, slow.weight), (paths.feed_slack, slow.fed),
    ):  # fmt: skip
        assert found(trace) - paths.TOLERANCE == close(expected())
    shares = [(1 - slow.K / slow.T) * share + 1 / slow.T for share in trace.benchmark]
    assert paths.truncated_benchmark(trace) == close(shares)


def test_paths_are_of_all_kinds() -> None:
    restarts = {name: len(paths.epochs(path(name))) - 1 for name in CASES}
    assert restarts["COLB, restarts"] >= 2
    assert restarts["SOLB, restarts"] >= 2
    assert restarts["cut at a restart"] == restarts["COLB, restarts"]
    assert path("cut at a restart").base_rates[-1] < path("cut at a restart").base_rates[-2]
    assert path("COLB, sets empty").empty_rounds > 0
    assert path("SOLB, sets empty").safe_weights.max() == 1.0
    for name in ("made up", "made up, restart at the end"):
        trace = path(name)
        assert any(math.isfinite(paths.epochs_slack(trace, trace.loss_estimates, u)) for u in comparators(trace))
    narrow = path("COLB, narrow")
    assert any(0.0 < paths.in_safe_sets(narrow, u).mean() < 1.0 for u in comparators(narrow))


# What holds, and what does not


def steps(trace: Trace, feed: Floats) -> float:
    return min(paths.step_slack(trace, feed, u) for u in comparators(trace)) + paths.TOLERANCE


def at_benchmark(slack: Callable[..., float]) -> Callable[[Trace], float]:
    return lambda trace: slack(trace, trace.loss_estimates, paths.truncated_benchmark(trace))


class Uncapped(Altered):
    """Caps that are never raised, so that rates grow again and again."""

    def _alter(self) -> None:
        self._state.learner.inverse_caps[:] = 2.0 * self.problem.n_arms


DOUBLING = {"learning_rate": "doubling", "allowance": 0.3}
BROKEN: dict[str, tuple[Callable[[Trace], float], Any, Any, list[Any], dict[str, Any]]] = {
    "step, fed twice": (lambda t: steps(t, t.loss_estimates), boundary(400), COLB, [FedTwice], {}),
    "step, stuck": (lambda t: steps(t, t.loss_estimates), inside(400), COLB, [Stuck], {}),
    "step, restarts": (lambda t: steps(t, t.loss_estimates), inside(400, 0.5), COLB, [FedTwice], DOUBLING),
    "step, divided by the proposal": (
        lambda t: steps(t, t.loss_estimates), inside(400), SOLB, [DividedByProposal], {},
    ),
    "descent": (at_benchmark(paths.descent_slack), inside(800), COLB, [Stuck], {}),
    "epochs": (at_benchmark(paths.epochs_slack), inside(1_500), COLB, [Stuck], {"learning_rate": "doubling"}),
    "caps": (paths.caps_slack, inside(400), COLB, [Uncapped], {}),
    "mixing, unmixed": (paths.mixing_slack, lopsided(400), SOLB, [Unmixed], {}),
    "mixing, lower bounds": (paths.mixing_slack, lopsided(400), SOLB, [MixedByLower], {}),
    "violation": (paths.violation_slack, boundary(3_000), COLB, [Unprojected], {}),
    "safety": (paths.safety_slack, boundary(400), SOLB, [Unmixed], {}),
}  # fmt: skip
# where the paper's radius is too wide for anything to be felt; the statement is true of any radius
NARROW: dict[str, tuple[Callable[[Trace], float], Any, Any, list[Any]]] = {
    "mixing, literal maximum": (paths.mixing_slack, lopsided(400), SOLB, [LiteralMaximum]),
    "weight": (paths.weight_slack, boundary(400), SOLB, [Unprojected]),
}


@pytest.mark.parametrize("name", [*BROKEN, *NARROW])
def test_slacks_are_negative_where_something_is_wrong_and_only_there(name: str) -> None:
    slack, scenario, cls, wrongs, options = BROKEN[name] if name in BROKEN else (*NARROW[name], {})
    also, options = [NarrowRadius] * (name in NARROW), {"learning_rate": 0.3, **options}
    right = record(scenario, made(cls, *also, **options), 0)
    assert right.clean or also
    assert right.empty_rounds == 0
    assert 0.0 <= slack(right) < math.inf
    assert slack(record(scenario, made(cls, *wrongs, *also, **options), 0)) < -1e-3


def test_epochs_are_held_one_by_one() -> None:
    # stuck in the first epoch alone, or in the last alone: the smallest slack is that of the worst epoch
    trace = record(inside(1_500), made(COLB, Stuck, learning_rate="doubling"), 0)
    u, feed = paths.truncated_benchmark(trace), trace.loss_estimates
    assert len(paths.epochs(trace)) >= 3
    for first in paths.epochs(trace):
        quiet = np.zeros(trace.rounds)
        quiet[first] = feed[first]
        assert paths.epochs_slack(trace, quiet, u) >= paths.epochs_slack(trace, feed, u) - 1e-9
    assert min(paths.epochs_slack(trace, np.where(epoch_of(trace) == n, feed, 0.0), u) for n in range(3)) < 0.0


def epoch_of(trace: Trace) -> Any:
    numbers = np.full(trace.rounds, -1)
    for n, rounds in enumerate(paths.epochs(trace)):
        numbers[rounds] = n
    return numbers


def test_the_round_that_ends_an_epoch_is_in_none() -> None:
    trace = path("COLB, restarts")
    ended = np.flatnonzero(np.diff(trace.base_rates))
    assert np.flatnonzero(epoch_of(trace) == -1).tolist() == ended.tolist()
    # ... because its loss moves nothing: the next proposal is the analytic centre, wherever it was
    for t in ended:
        assert (trace.rates[t + 1] == trace.base_rates[t + 1]).all()


def test_weighted_steps_hold_for_weighted_estimates_and_for_no_others() -> None:
    for estimator, other in (("weighted", "paper"), ("paper", "weighted")):
        trace = record(inside(400), made(SOLB, learning_rate=0.3, estimator=estimator), 0)
        feeds = {"paper": trace.loss_estimates, "weighted": trace.weights * trace.loss_estimates}
        assert steps(trace, feeds[estimator]) >= 0.0
        assert steps(trace, feeds[other]) < -1e-3


def test_weights_and_caps_make_weighted_estimates_small() -> None:
    trace = path("SOLB, weighted")
    assert paths.feed_slack(trace) >= 0.0
    unweighted = trace._replace(safe_weights=np.zeros_like(trace.safe_weights))
    assert paths.feed_slack(unweighted) < -0.1
    assert paths.feed_slack(trace._replace(caps=trace.caps / 10)) < -0.1


def test_rates_caps_and_the_floor_are_looked_at() -> None:
    trace = path("COLB")
    horizon, eta = trace.problem.rounds, trace.base_rates[0]
    assert paths.caps_slack(trace) >= 0.0
    for changed in (
        trace._replace(rates=np.full_like(trace.rates, 4.3 * eta)),
        trace._replace(caps=np.full_like(trace.caps, 2.01 * horizon)),
        trace._replace(caps=np.full_like(trace.caps, 2.0)),
        trace._replace(proposals=np.maximum(trace.proposals * [1, 1, 0], 0.9 / horizon), caps=trace.caps + horizon),
    ):
        assert paths.caps_slack(changed) - paths.TOLERANCE == pytest.approx(Slowly(changed).caps(), rel=1e-9)
        assert paths.caps_slack(changed) < 0.0


@pytest.mark.parametrize("row", [0, 1, 150, -1])
def test_every_row_is_looked_at(row: int) -> None:
    trace = path("SOLB")
    sure = trace._replace(lower=trace.upper)  # with radii of 0
    whole = trace._replace(strategies=trace.proposals)  # at least (1 - gamma) x~ whatever gamma is
    for slack, before, name, value in (
        (paths.mixing_slack, trace, "safe_weights", 0.0),
        (paths.mixing_slack, whole, "safe_weights", 0.0),
        (paths.violation_slack, sure, "strategies", [1, 0, 0]),
        (paths.safety_slack, trace, "strategies", [1, 0, 0]),
        (paths.weight_slack, trace, "safe_weights", 9.0),
        (paths.caps_slack, trace, "caps", 1.0),
    ):
        rows = getattr(before, name).copy()
        rows[row] = value
        says_nothing = slack is paths.weight_slack and row == 0
        assert slack(before) >= 0.0
        assert (slack(before._replace(**{name: rows})) >= 0.0) == says_nothing


def test_caps_are_held_in_every_epoch() -> None:
    trace = path("COLB, restarts")
    first = paths.epochs(trace)[0]
    lowered = trace.caps.copy()
    lowered[first] = 1.0
    assert paths.caps_slack(trace) >= 0.0
    assert paths.caps_slack(trace._replace(caps=lowered)) < 0.0


def test_a_mixture_needs_a_safe_strategy() -> None:
    trace = path("COLB")
    problem = Problem(3, trace.problem.thresholds, trace.problem.horizon)
    with pytest.raises(ValueError, match="trace must be of a problem with a safe strategy, got safe=None"):
        paths.mixing_slack(trace._replace(problem=problem))


def test_out_of_reach_means_nothing_is_said() -> None:
    trace = path("COLB, narrow")
    unsafe = truncated(np.array([1.0, 0.0, 0.0]), trace.problem)
    assert not paths.in_safe_sets(trace, unsafe).all()
    assert paths.descent_slack(trace, trace.loss_estimates, unsafe) == math.inf
    assert paths.epochs_slack(trace, trace.loss_estimates, unsafe) == math.inf


# Martingales


@pytest.mark.parametrize("name", ["COLB", "SOLB", "SOLB, narrow", "SOLB, weighted"])
def test_variances_and_ranges_are_what_freedman_may_be_given(name: str) -> None:
    trace = path(name)
    for u in comparators(trace):
        given, own, other, largest = paths.martingales(trace, u), 0.0, 0.0, 0.0
        for loss, x, y, w in zip(trace.losses, trace.strategies, trace.proposals, trace.weights):
            of_own, of_other = w * loss * y / x, w * loss * u / x  # if this arm is drawn, with probability x
            own += float(x @ of_own**2 - (x @ of_own) ** 2)
            other += float(x @ of_other**2 - (x @ of_other) ** 2)
            largest = max(largest, float((of_other - x @ of_other).max()))
            assert (of_own <= 1 + 1e-12).all()
        assert own <= given.own_variance
        assert other <= given.other_variance
        assert largest <= given.other_range


def test_martingales_have_no_mean_and_estimates_that_are_too_large_do() -> None:
    """False alarms: 1 % over all seeds, two means at three standard errors each; these seeds are fixed."""
    sums = []
    for seed in range(60):
        trace = record(inside(150), made(SOLB, learning_rate=0.3), seed)
        u = truncated(np.array([0.0, 1.0, 0.0]), trace.problem)
        halved = trace._replace(strategies=trace.strategies / 2)
        right, wrong = paths.martingales(trace, u), paths.martingales(halved, u)
        sums.append((right.own, right.other, wrong.own, wrong.other))
    far = np.abs(np.mean(sums, axis=0)) / (np.std(sums, axis=0, ddof=1) / math.sqrt(60))
    assert (far[:2] <= 3).all()
    assert (far[2:] > 3).all()


def test_freedman_catches_estimates_that_are_too_large() -> None:
    """False alarms: with probability 2e-6; seeded."""
    trace = record(inside(3_000, 0.3), made(SOLB, learning_rate=0.3), 0)
    u, problem = paths.truncated_benchmark(trace), trace.problem
    sure = Sized(3, problem.n_constraints, problem.rounds, 1e-6)

    def slacks(path: Trace) -> tuple[float, float]:
        found = paths.martingales(path, u)
        own = paths.freedman(found.own_variance, 1.0, halving_log(sure)) - found.own
        union = halving_log(sure, log_vertices(sure))
        return own, paths.freedman(found.other_variance, found.other_range, union) - found.other

    assert min(slacks(trace)) >= 0.0
    assert slacks(trace._replace(strategies=trace.strategies * 20))[0] < 0.0
    assert slacks(trace._replace(strategies=trace.strategies / 20))[1] < 0.0
    assert paths.freedman(4.0, 5.0, 9.0) == 3 * math.sqrt(36) + 2 * 5 * 9
