"""PessimisticOptimistic and DoublyOptimistic: contract, twins, the KL index, and what they are for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surefoot as sf
from surefoot.policies.doubly_optimistic import DoublyOptimistic, excess, lower_index
from surefoot.policies.pessimistic_optimistic import PessimisticOptimistic
from tests.policies.signed import signed_violations
from tests.reference import primal_dual as twins


@pytest.mark.parametrize(("alpha", "least_cost"), [([], 0.0), ([0.5], 0.0), ([0.5, 0.6], 0.0), ([0.3, 0.2], 0.3)])
@pytest.mark.parametrize("cls", [PessimisticOptimistic, DoublyOptimistic])
def test_kernels_follow_their_twins(cls: Any, alpha: list[float], least_cost: float) -> None:
    """Half of the arms are forced, half are those the policy would play; costs of at least 0.3 leave no arm safe."""
    rng, safe = np.random.default_rng(len(alpha)), sf.SafeStrategy(np.eye(4)[3], [0.5 * a for a in alpha])
    problem, best = sf.Problem(4, alpha, 1000, 0.1, safe), np.linspace(0.1, 0.7, 4)
    policy, twin = cls(problem, 1), getattr(twins, cls.__name__)(4, 1000, alpha, 0.1, problem.margin)
    played, none_safe = set(), 0
    for t in range(1000):
        assert (policy.strategy == twin.x).all()
        if cls is PessimisticOptimistic:
            assert policy.queues == pytest.approx(twin.Q, abs=1e-9)
        elif t > 0:
            none_safe += min(pair[0] for pair in twin.index) > 0
        arm = int(rng.integers(4)) if t % 2 else policy.ask().arm
        played.add(int(policy.strategy.argmax()))
        # not coins: equal means of different arms would leave the choice to rounding
        loss, costs = (
            best[arm] + 0.3 * rng.random(),
            least_cost + (1 - least_cost) * rng.random(len(alpha)) * best[-arm - 1],
        )
        policy.tell(sf.Decision(arm, 1.0), float(loss), costs.tolist())
        twin.round(arm, 1.0, float(loss), costs.tolist())
    assert len(played) >= 2  # the branches were taken
    assert (none_safe > 100) == (least_cost > 0 and cls is DoublyOptimistic)


@given(st.floats(0, 1), st.integers(0, 10**7), st.floats(0, 60))
def test_the_index_is_what_it_is_defined_to_be(mean: float, count: int, level: float) -> None:
    found = lower_index(mean, count, level)
    assert 0 <= found <= mean
    assert is_index(found, mean, count, level)
    # controls: the radius of Pinsker's inequality, and an index on the wrong side of the precision
    pinsker = max(0.0, mean - math.sqrt(level / (2 * count))) if count else 0.0
    if found - pinsker > 1e-6:
        assert not is_index(pinsker, mean, count, level)
    if mean - found > 1e-6:
        assert not is_index(found + 1e-6, mean, count, level)
    for threshold in (0.0, 0.3, mean, found):
        assert excess(mean, count, level, threshold) == pytest.approx(max(0.0, found - threshold), abs=2e-10)


def is_index(q: float, mean: float, count: int, level: float) -> bool:
    """Whether the least value with count kl <= level lies in [q, q + 1.1e-10]."""
    if count == 0:
        return q == 0.0
    slack = 1e-9 * (1 + level) + count * 1e-15  # rounding of the divergence, times the count
    above = min(mean, q + 1.1e-10)
    return (count * twins.kl(mean, above) <= level + slack) and (q == 0 or count * twins.kl(mean, q) >= level - slack)


def test_the_margin_must_come_from_somewhere() -> None:
    problem = sf.Problem(3, [0.5], 100)
    with pytest.raises(
        ValueError, match=r"problem must have a safe strategy for PessimisticOptimistic .*, got safe=None"
    ):
        PessimisticOptimistic(problem)
    for margin in (0.0, 1.1, np.nan, "0.1"):
        with pytest.raises(ValueError, match="margin must be"):
            PessimisticOptimistic(problem, margin=margin)  # type: ignore[arg-type]
    assert PessimisticOptimistic(problem, margin=0.5)._state.tightest == 0.25
    PessimisticOptimistic(sf.Problem(3, [], 100))


@pytest.mark.parametrize("cls", [PessimisticOptimistic, DoublyOptimistic])
def test_saved_counts_must_add_up(cls: Any) -> None:
    policy = cls(sf.Problem(3, [0.5], 100, safe=sf.SafeStrategy([0, 0, 1], [0.1])))
    data = policy.to_dict()
    data["round"] = 1
    with pytest.raises(ValueError, match=r"^state\.(known\.)?counts must sum to round = 1, got a sum of 0"):
        cls.from_dict(data)


def loosened(problem: sf.Problem, seed: int) -> sf.Policy[Any]:
    """PessimisticOptimistic without its pessimism: queues that do not run ahead."""
    policy = PessimisticOptimistic(problem, seed)
    policy._draft.tightness = policy._draft.tightest = 0.0
    policy._attach()
    return policy


def uniform(problem: sf.Problem, seed: int) -> sf.Policy[Any]:
    return sf.Exp3(problem, seed, learning_rate=1e-12)


def test_signed_violation_does_not_last() -> None:
    """PessimisticOptimistic pays back; without its pessimism it stays in debt, and Exp3IX's debt grows for ever.

    With these numbers of seeds, 7 standard errors or more lie between each mean and its limit: the false-alarm rate is
    below 1e-9.
    """
    scenario = sf.scenarios.make("three-arms-v1", horizon=16_000)
    policies = {"po": PessimisticOptimistic, "loosened": loosened, "ix": sf.Exp3IX}
    run = sf.simulate(scenario, policies, seeds=200, checkpoints=[8_000, 16_000], progress=False)
    sums = {name: rows.mean(axis=0) for name, rows in signed_violations(run, scenario).items()}
    half, whole = sums["po"]
    assert whole < half < 0
    assert sums["loosened"][1] > 0
    half, whole = sums["ix"]
    assert whole > 2 * half > 4_000


@pytest.mark.parametrize("id", ["three-arms-v1", "stochastic-v1"])
def test_mistakes_grow_slowly(id: str) -> None:
    """From T to 4 T, DoublyOptimistic's mistakes grow by less than 2.5; those of the uniform strategy by 4.

    A mistake costs what the paper counts: the larger of the loss beyond the best single safe arm's and the cost beyond
    the threshold. Over 10 times 20 other seeds the factors were 1.1 to 1.5, with standard deviations of at most
    0.06: the false-alarm rate is below 1e-9.
    """
    scenario, rounds = sf.scenarios.make(id, horizon=16_000), np.array([4_000, 16_000])
    losses, costs = scenario.losses.means, scenario.mean_costs[0]  # type: ignore[union-attr]
    over = costs - scenario.problem.thresholds[0]
    price = np.maximum(0, np.maximum(losses - losses[over <= 0].min(), over))
    run = sf.simulate(scenario, {"do": DoublyOptimistic, "uniform": uniform}, 20, rounds.tolist(), progress=False)
    totals = {name: np.zeros((3, 2)) for name in ("do", "uniform")}
    for (name, _), rows in run.episodes(id).items():
        shares = np.array(rows.column("allocation").to_pylist())
        plays = np.cumsum(shares * np.diff(rounds, prepend=0)[:, None], axis=0)
        unsafe = plays @ (over > 0)
        if name == "do":  # which plays single arms
            assert unsafe == pytest.approx(rows.column("rounds_in_violation").to_numpy())
        totals[name] += [plays @ price, unsafe, plays @ np.maximum(0, losses - losses[over <= 0].min())]
    growth = {name: total[:, 1] / total[:, 0] for name, total in totals.items()}
    assert (growth["do"] < 2.5).all()
    assert (totals["do"][:, 1] > 0).all()
    assert growth["uniform"] == pytest.approx(4.0, abs=1e-6)
