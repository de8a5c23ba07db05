import json
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot import rules
from surefoot.problem import DELTA, HORIZON, N_ARMS, SAFE_COST

GOOD: dict[str, Any] = {"n_arms": 4, "thresholds": [0.5, 0.7], "horizon": 5000, "delta": 0.05}
SAFE = sf.SafeStrategy([0, 0, 0, 1], costs=[0.2, 0.3])

BAD: list[tuple[dict[str, Any], str]] = [
    ({"n_arms": 1}, "n_arms must be a whole number >= 2, got 1"),
    ({"n_arms": 4.5}, "n_arms must be a whole number >= 2, got 4.5"),
    ({"n_arms": True}, "n_arms must be a whole number >= 2, got True"),
    ({"n_arms": "4"}, "n_arms must be a whole number >= 2, got '4'"),
    ({"n_arms": None}, "n_arms must be a whole number >= 2, got None"),
    ({"horizon": 2}, "horizon must be a whole number in \\[3, 1e\\+15\\], got 2"),
    ({"horizon": 3}, "horizon must be at least n_arms = 4, got 3"),
    ({"horizon": np.inf}, "horizon must be a whole number in \\[3, 1e\\+15\\], got inf"),
    ({"horizon": 1e5 + 0.5}, "horizon must be a whole number in \\[3, 1e\\+15\\], got 100000.5"),
    ({"horizon": True}, "horizon must be a whole number in \\[3, 1e\\+15\\], got True"),
    ({"horizon": np.True_}, "horizon must be a whole number in \\[3, 1e\\+15\\], got True"),
    ({"horizon": np.float64("nan")}, "horizon must be a whole number in \\[3, 1e\\+15\\], got nan"),
    ({"thresholds": [0.5, 1.3]}, r"thresholds\[1\] must be in \[0, 1\], got 1.3"),
    ({"thresholds": [-0.1, 0.5]}, r"thresholds\[0\] must be in \[0, 1\], got -0.1"),
    ({"thresholds": [np.nan, 0.5]}, r"thresholds\[0\] must be in \[0, 1\], got nan"),
    ({"thresholds": 1.5}, r"thresholds must be in \[0, 1\], got 1.5"),
    ({"thresholds": True}, r"thresholds must be an array of numbers, got True"),
    ({"thresholds": [[0.5]]}, r"thresholds must be an array of shape any number, got one of shape \(1, 1\)"),
    ({"thresholds": ["0.5"]}, r"thresholds must be an array of numbers, got \['0.5'\]"),
    ({"thresholds": [None]}, r"thresholds must be an array of numbers, got \[None\]"),
    ({"thresholds": [True]}, r"thresholds must be an array of numbers, got \[True\]"),
    ({"thresholds": [[0.5], [0.5, 0.6]]}, "thresholds must be an array of numbers, got"),
    ({"thresholds": [0.5j]}, "thresholds must be an array of numbers, got"),
    ({"thresholds": [True, 0.5]}, r"thresholds must be an array of numbers, got \[True, 0.5\]"),
    ({"thresholds": [np.True_, 0.5]}, r"thresholds must be an array of numbers, got \[np.True_, 0.5\]"),
    ({"thresholds": np.array([True, False])}, r"thresholds must be an array of numbers, got array\(\[ True, False\]\)"),
    ({"thresholds": np.ma.masked_array([0.5], [True])}, "thresholds must be an array of numbers, got"),
    ({"n_arms": 10**400}, "horizon must be|n_arms must be"),
    ({"horizon": 10**400}, "horizon must be a whole number in"),
    ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0.0"),
    ({"delta": 1}, r"delta must be in \(0, 1\), got 1"),
    ({"delta": np.nan}, r"delta must be in \(0, 1\), got nan"),
    ({"safe": [0, 0, 0, 1]}, r"safe must be a SafeStrategy, got \[0, 0, 0, 1\]"),
    ({"safe": sf.SafeStrategy([0, 1], [0.2, 0.3])}, "safe.strategy must have n_arms = 4 entries, got 2"),
    ({"safe": sf.SafeStrategy([0, 0, 0, 1], [0.2])}, "safe.costs must have 2 entries, one per threshold, got 1"),
    (
        {"safe": sf.SafeStrategy([0, 0, 0, 1], [0.2, 0.8])},
        r"safe.costs\[1\] must be below its threshold 0.7 .*, got 0.8",
    ),
    ({"safe": sf.SafeStrategy([0, 0, 0, 1], [0.5, 0.3])}, r"safe.costs\[0\] must .*only the safe strategy.*, got 0.5"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_problems_are_refused_in_one_sentence(change: dict[str, Any], message: str) -> None:
    with pytest.raises(sf.RuleError, match=f"^{message}") as caught:
        sf.Problem(**{**GOOD, **change})
    assert "\n" not in str(caught.value)
    assert caught.value.argument.startswith(tuple(change))


@pytest.mark.parametrize(
    ("strategy", "costs", "message"),
    [
        ([0.5, 0.6], [0.2], "safe.strategy must sum to 1, got a sum of 1.1"),
        ([1.5, -0.5], [0.2], r"safe.strategy\[0\] must be in \[0, 1\], got 1.5"),
        ([0.5, np.nan], [0.2], r"safe.strategy\[1\] must be in \[0, 1\], got nan"),
        ([], [0.2], "safe.strategy must sum to 1, got a sum of 0"),
        ([0, 1], [1.0], r"safe.costs\[0\] must be in \[0, 1\), got 1.0"),
        ([0, 1], [-0.1], r"safe.costs\[0\] must be in \[0, 1\), got -0.1"),
        ([0, 1], [[0.2]], "safe.costs must be an array of shape any number, got one of shape"),
    ],
)
def test_bad_safe_strategies_are_refused(strategy: Any, costs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        sf.SafeStrategy(strategy, costs)


def test_a_nearly_normal_strategy_is_normalised_and_stays_so() -> None:
    third = sf.SafeStrategy([0.3333333334, 0.3333333333, 0.3333333334], [0.2])
    assert abs(third.strategy.sum() - 1) < 1e-15
    assert sf.SafeStrategy(**third.to_dict()) == third
    tiny = sf.SafeStrategy([1e-17, 0.5, 0.5], [0.2])
    assert tiny.strategy.tolist() == [0.0, 0.5, 0.5]
    assert sf.SafeStrategy([1e-14, 0.0, 1.0], [0.2]).strategy[0] > 0.0


def test_edges_are_included() -> None:
    edge = sf.Problem(n_arms=3, thresholds=[0, 1], horizon=3, delta=1e-12)
    assert edge.n_constraints == 2
    assert sf.Problem(n_arms=2, thresholds=[], horizon=10).n_constraints == 0
    assert sf.Problem(2, np.array([0.5], np.float32), np.int64(10), np.float64(0.1)).thresholds.dtype == np.float64  # type: ignore[arg-type]


def test_margin_and_derived_numbers() -> None:
    problem = sf.Problem(**GOOD, safe=SAFE)
    assert problem.margin == 0.3
    assert problem.floor == 1 / 5000
    assert problem.limits == pytest.approx([0.5 + 4 / 5000, 0.7 + 4 / 5000])
    assert problem.growth == pytest.approx(np.exp(1 / np.log(5000)))
    assert sf.Problem(2, [], 100, safe=sf.SafeStrategy([0, 1], [])).margin == 1.0
    with pytest.raises(sf.RuleError, match=r"^problem must have a safe strategy for its margin, got safe=None$"):
        _ = sf.Problem(**GOOD).margin


def test_a_small_margin_is_warned_of_where_the_problem_is_made() -> None:
    with pytest.warns(UserWarning, match=r"the margin 0.1 is below 12 \* n_arms / horizon = 0.24") as caught:
        sf.Problem(2, [0.5], 100, safe=sf.SafeStrategy([0, 1], [0.4]))
    assert caught[0].filename == __file__


def test_problems_are_values() -> None:
    problem = sf.Problem(**GOOD, safe=SAFE)
    assert sf.Problem.from_dict(json.loads(json.dumps(problem.to_dict()))) == problem
    assert sf.Problem(**GOOD) != problem
    with pytest.raises(AttributeError):
        problem.n_arms = 5  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        problem.thresholds[0] = 0.9


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "problem must have the keys n_arms, thresholds, horizon, delta, safe, got None"),
        ({}, r"problem must have the keys .*, got \[\]"),
        ({**GOOD, "safe": None, "more": 1}, "problem must have the keys"),
        ({**GOOD, "safe": [1]}, r"safe must have the keys strategy, costs, got \[1\]"),
        ({**GOOD, "safe": {"strategy": [1]}}, "safe must have the keys strategy, costs, got"),
    ],
)
def test_bad_saved_problems_are_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sf.Problem.from_dict(data)


def test_callers_arrays_are_copied() -> None:
    thresholds = np.array([0.5])
    problem = sf.Problem(2, thresholds, 10)
    thresholds[0] = 0.9
    assert problem.thresholds[0] == 0.5


@pytest.mark.parametrize("rule", [N_ARMS, HORIZON, DELTA, SAFE_COST])
def test_no_rule_takes_what_is_not_finite(rule: rules.Range) -> None:
    assert str(rule)
    for bad in (np.nan, np.inf, -np.inf, None, True, "3"):
        assert bad not in rule


@pytest.mark.parametrize("horizon", [1e5, np.float64(1e5), np.float32(1e5), np.int32(100_000), np.uint64(100_000)])
def test_whole_numbers_may_be_written_as_floats(horizon: Any) -> None:
    problem = sf.Problem(4, [0.5, 0.7], horizon)
    assert problem == sf.Problem(4, [0.5, 0.7], 100_000)
    assert type(problem.horizon) is int
    assert type(sf.Problem(4.0, [], 10).n_arms) is int  # type: ignore[arg-type]


@pytest.mark.parametrize("single", [lambda x: x, np.float64, np.array], ids=["float", "float64", "array"])
def test_one_number_stands_for_an_array_of_length_one(single: Any) -> None:
    short = sf.Problem(2, single(0.5), 100, safe=sf.SafeStrategy([0, 1], costs=single(0.2)))
    assert short == sf.Problem(2, [0.5], 100, safe=sf.SafeStrategy([0, 1], costs=[0.2]))
    with pytest.raises(sf.RuleError, match=r"^safe.costs must have 2 entries, one per threshold, got 1$"):
        sf.Problem(2, [0.5, 0.5], 100, safe=sf.SafeStrategy([0, 1], costs=single(0.2)))
    with pytest.raises(sf.RuleError, match=r"^safe.costs must be in \[0, 1\), got 1.0$"):
        sf.SafeStrategy([0, 1], costs=single(1.0))


def test_a_problem_may_have_no_horizon() -> None:
    problem = sf.Problem(3, [0.5], None, safe=sf.SafeStrategy([0, 0, 1], [0.4999]))  # no word about the margin, either
    assert problem.horizon is None
    assert sf.Problem.from_dict(problem.to_dict()) == problem
    with pytest.raises(ValueError, match="horizon must be a number of rounds for what depends on it, got None"):
        _ = problem.floor
    with pytest.raises(ValueError, match="problem must have a horizon for preset 'paper', got horizon=None"):
        sf.SOLB(problem, preset="paper")
    assert sf.SOLB(problem).problem == sf.COLB(problem).problem == problem
    with pytest.raises(ValueError, match="horizon must be a number of rounds for what depends on it, got None"):
        sf.Scenario("mine-v1", problem, sf.losses.Bernoulli([0.1, 0.2, 0.3]), sf.costs.Bernoulli([[0.1, 0.2, 0.3]]))
