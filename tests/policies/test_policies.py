"""What is particular to COLB and SOLB: options, learning rates, and what the theorems promise."""

import json
import math
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.policies import REGISTRY
from surefoot.policies.rates import Sized, learning_rate_cap, theory_rate

PROBLEM = sf.Problem(5, [0.5], 10_000, 0.05, sf.SafeStrategy([0, 0, 0, 0, 1], [0.2]))


def test_theory_rates_are_those_of_the_theorems() -> None:
    # figures computed by hand from the formula: 8.9e-5, 6.1e-5, 3.7e-5, 2.6e-5 at delta = 0.05
    for horizon, cap in ((1e3, 8.9e-5), (1e4, 6.1e-5), (1e6, 3.7e-5), (1e8, 2.6e-5)):
        assert learning_rate_cap(int(horizon), 0.05) == pytest.approx(cap, rel=0.02)
    cap = learning_rate_cap(10_000, 0.05)
    assert sf.COLB(PROBLEM, preset="paper").learning_rates == pytest.approx(np.full(5, cap), rel=1e-15)
    assert sf.SOLB(PROBLEM, preset="paper").learning_rates == pytest.approx(np.full(5, 0.3 * cap), rel=1e-15)
    large = sf.Problem(2, [], 10**14, 0.05)  # here the second argument of the minimum is the smaller one
    assert theory_rate(Sized(2, 0, 1e14, 0.05), 1e14) == pytest.approx(math.sqrt(2 / (1e14 * math.log(20))))
    assert theory_rate(Sized(2, 0, 1e14, 0.05), 0.0) == learning_rate_cap(10**14, 0.05)
    assert sf.COLB(large, preset="paper", benchmark_loss=1e13).learning_rates[0] == pytest.approx(
        theory_rate(Sized(2, 0, 1e14, 0.05), 1e13)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 0.0}, r"learning_rate must be in \[1e-12, 1e\+06\], got 0.0"),
        ({"learning_rate": -1}, "learning_rate must be"),
        ({"learning_rate": np.nan}, "learning_rate must be"),
        (
            {"preset": "paper", "learning_rate": "fast"},
            "learning_rate must be a number, 'theory', 'practical' or 'doubling', got 'fast'",
        ),
        ({"learning_rate": True}, "learning_rate must be"),
        ({"preset": "fast", "confidence": "betting"}, "preset must be 'practical' or .*, got 'fast'"),
        ({"confidence": "student"}, "confidence must be 'paper' or 'hoeffding' or .*, got 'student'"),
        ({"confidence": 3}, "confidence must be 'paper' or .*, got 3"),
        ({"confidence": {"name": "student"}}, "confidence.name must be 'paper' or .*, got 'student'"),
        ({"confidence": {"bets": 10}}, "confidence.name must be 'paper' or .*, got None"),
        ({"confidence": {"name": "hoeffding", "bets": 3}}, "confidence must have no keys but name, sides, got .*bets"),
        ({"confidence": {"name": "betting", "sides": "lower"}}, "sides must be 'both' or 'upper' or 'needed', got"),
        ({"confidence": {"name": "betting", "nodes": 1}}, r"nodes must be a whole number in \[2, 10001\], got 1"),
        ({"confidence": {"name": "eb-mixture", "bets": 2.5}}, r"bets must be a whole number in \[2, 1000\], got 2.5"),
        ({"preset": "paper", "benchmark_loss": -1.0}, "benchmark_loss must be a finite number >= 0, got -1.0"),
        ({"preset": "paper", "benchmark_loss": 10_001}, "benchmark_loss must be at most horizon = 10000, got 10001"),
        ({"preset": "paper", "benchmark_loss": np.inf}, "benchmark_loss must be a finite number >= 0, got inf"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    for cls in (sf.COLB, sf.SOLB):
        with pytest.raises(ValueError, match=message):
            cls(PROBLEM, 1, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", REGISTRY)
def test_options_that_a_policy_does_not_have_are_refused(name: str) -> None:
    cls: Any = REGISTRY[name]
    truth = {"mean_costs": np.full((1, 5), 0.4)} if name == "oracle" else {}
    with pytest.raises(TypeError, match="nonsense"):
        cls(PROBLEM, 1, **truth, nonsense=3)
    assert cls(PROBLEM, 1, **truth).round == 0  # the control


def test_options_of_any_numeric_type_survive_json() -> None:
    policy = sf.COLB(PROBLEM, 1, preset="paper", learning_rate=np.float32(0.125), benchmark_loss=np.int64(5))  # type: ignore[arg-type]
    assert sf.COLB.from_dict(json.loads(json.dumps(policy.to_dict()))).learning_rates[0] == 0.125


def test_a_tiny_benchmark_loss_leaves_the_cap() -> None:
    problem = sf.Problem(3, [0.5], 1000, delta=0.999)
    assert sf.COLB(problem, preset="paper", benchmark_loss=1e-323).learning_rates[0] == learning_rate_cap(1000, 0.999)


def test_an_unsafe_saved_weight_is_refused() -> None:
    policy = sf.SOLB(PROBLEM, 1, preset="paper")
    policy.tell(policy.ask(), 0.5, [0.5])
    data = policy.to_dict()
    assert "strategy" not in data["state"]  # it follows from the rest
    data["state"]["safe_weight"] = [0.1]
    with pytest.raises(ValueError, match=r"state.safe_weight must be at least 0.625 to be safe, got 0.1"):
        sf.SOLB.from_dict(data)


@pytest.mark.parametrize("preset", ["paper", "practical"])
@pytest.mark.parametrize("counts", [[1.5, 0, 0, 0, 0], [1e300, 0, 0, 0, 0], [2, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
def test_saved_counts_must_add_up(counts: list[float], preset: str) -> None:
    policy = sf.SOLB(PROBLEM, 1, preset=preset)
    policy.tell(policy.ask(), 0.5, [0.5])
    data = policy.to_dict()
    data["state"]["known"]["counts"] = counts
    with pytest.raises(ValueError, match=r"state.known.counts.* must .*, got"):
        sf.SOLB.from_dict(data)


@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1 - 1e-12])
def test_extreme_deltas_give_sensible_rates(delta: float) -> None:
    policy = sf.COLB(sf.Problem(2, [0.5], 100, delta), 1, preset="paper")
    assert 1e-12 < policy.learning_rates[0] < 1
    for _ in range(3):
        policy.tell(sf.Decision(0, 0.5), 1.0, [0.0])
    assert policy.strategy[0] < 0.5


def test_a_floor_arm_at_its_cap_does_not_count_as_below() -> None:
    """With K = 49 and T = 98 the first cap, 2 K, is just the inverse of the floor; rounding must not decide."""
    policy = sf.COLB(sf.Problem(49, [], 98), preset="paper", learning_rate=10.0)
    for _ in range(10):
        policy.tell(sf.Decision(0, 1 / 98), 1.0)
    assert policy.proposal[0] == 1 / 98
    assert (policy.learning_rates == 10.0).all()
    assert (policy.inverse_caps == 98.0).all()


@pytest.mark.parametrize("preset", ["paper", "practical", "led", "guaranteed"])
def test_solb_needs_a_safe_strategy(preset: str) -> None:
    with pytest.raises(ValueError, match="problem must have a safe strategy for SOLB, got safe=None"):
        sf.SOLB(sf.Problem(3, [0.5], 100), preset=preset)


def test_the_first_mixture() -> None:
    policy = sf.SOLB(PROBLEM, preset="paper")
    assert policy.safe_weight == 0.5 / 0.8
    assert policy.strategy == pytest.approx(0.625 * np.eye(5)[4] + 0.375 / 5)
    no_constraint = sf.Problem(5, [], 1000, safe=sf.SafeStrategy(np.eye(5)[0], []))
    assert sf.SOLB(no_constraint, preset="paper").safe_weight == 0.0


def test_without_constraints_solb_is_colb() -> None:
    problem = sf.Problem(4, [], 500, safe=sf.SafeStrategy([1, 0, 0, 0], []))
    one, two = (cls(problem, 3, preset="paper", learning_rate=0.2) for cls in (sf.COLB, sf.SOLB))
    rng = np.random.default_rng(0)
    for _ in range(500):
        loss = float(rng.random())
        one.tell(one.ask(), loss)
        two.tell(two.ask(), loss)
    assert (one.strategy == two.strategy).all()


@pytest.mark.parametrize(("preset", "most"), [("paper", 5000), ("practical", 20_000)])
def test_memory_does_not_depend_on_the_horizon(preset: str, most: int) -> None:
    sizes = []
    for horizon in (1000, 10**9):
        problem = sf.Problem(5, [0.5], horizon, 0.05, sf.SafeStrategy([0, 0, 0, 0, 1], [0.1]))
        policy = sf.SOLB(problem, preset=preset)
        sizes.append(policy._draft.floats.nbytes + policy._draft.integers.nbytes)
    assert sizes[0] == sizes[1] < most


def learn(
    policy: sf.Policy[Any], means: list[float], costs: list[float], n_rounds: int, seed: int
) -> tuple[float, float]:
    """Average expected loss of the last quarter, and worst expected cost of any strategy played."""
    rng = np.random.default_rng(seed)
    tail, worst = [], 0.0
    for t in range(n_rounds):
        strategy = policy.strategy
        worst = max(worst, float(strategy @ costs))
        if t >= 3 * n_rounds // 4:
            tail.append(strategy @ means)
        decision = policy.ask()
        policy.tell(decision, float(rng.random() < means[decision.arm]), [float(rng.random() < costs[decision.arm])])
    return float(np.mean(tail)), worst


def test_colb_learns_and_solb_is_safe_while_it_learns() -> None:
    """A good arm that is too costly, a fair one, a poor safe one. Thirty runs; the theorem allows 5 % unsafe ones, and
    more than 6 of 30 would have probability below 1e-3. The control plays the proposal without mixing.
    """
    means, costs, horizon = [0.1, 0.5, 0.9], [0.9, 0.4, 0.1], 4000
    problem = sf.Problem(3, [0.5], horizon, 0.05, sf.SafeStrategy([0, 0, 1], [0.1]))
    unsafe = control = 0
    for seed in range(30):
        loss, worst = learn(sf.SOLB(problem, seed, preset="paper", learning_rate=0.05), means, costs, horizon, seed)
        assert loss < 0.75  # uniform-with-mixing, where it starts, is at 0.72 and playing safe at 0.9
        unsafe += worst > 0.5 + 1e-12
        bold, worst = learn(sf.COLB(problem, seed, preset="paper", learning_rate=0.05), means, costs, horizon, seed)
        assert bold < 0.4  # 0.5 is where it starts: a policy that does not learn fails here
        control += worst > 0.5 + 1e-12
    assert unsafe <= 6
    assert control == 30
