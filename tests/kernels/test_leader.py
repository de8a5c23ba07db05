"""The program that leads: by how much, and that it is dismissed where it does harm."""

from __future__ import annotations

import numpy as np
import pytest

import surefoot as sf
from surefoot.kernels.leader import LEAST_SHARE, Leader, blend, compare, new_leader, weigh


def two_plans() -> Leader:
    safe = np.array([1.0, 0.0, 0.0])
    leader = new_leader(np.array([0.5]), safe, np.array([0.2]), 0.05, True)
    leader.plans[:] = [[0.5, 0.5, 0.0], [0.2, 0.0, 0.8]]
    leader.plan_weights[:] = [0.4, 0.1]
    return leader


def test_what_is_played_is_the_mean_of_the_plans() -> None:
    leader, strategy = two_plans(), np.zeros(3)
    leader.share[0] = 0.3
    assert blend(leader, strategy) == pytest.approx(0.3 * 0.4 + 0.7 * 0.1)
    assert strategy == pytest.approx([0.29, 0.15, 0.56])


def test_the_program_leads_until_it_loses_more() -> None:
    leader = two_plans()
    weigh(leader)
    assert leader.share[0] == pytest.approx(LEAST_SHARE)
    for _ in range(30):
        compare(leader, 1, 1.0)  # a loss of an arm that the follower alone plays
    weigh(leader)
    assert leader.share[0] == LEAST_SHARE
    for _ in range(60):
        compare(leader, 2, 1.0)  # losses of one that the program plays
    weigh(leader)
    score = (30 * 0.5 - 60 * 0.8) / np.sqrt(1 + 30 * 0.25 + 60 * 0.64)
    assert leader.share[0] == pytest.approx(1 / (1 + 9 * np.exp(2 * score)))
    assert leader.share[0] > 0.9


def test_absurd_estimates_do_not_overflow() -> None:
    leader = two_plans()
    for estimate in (1e300, -1e300, 1e300):
        compare(leader, 2, estimate)
    weigh(leader)
    assert np.isfinite(leader.lead).all()
    assert LEAST_SHARE <= leader.share[0] <= 1.0


def test_an_adversary_that_punishes_the_program_is_left_to_the_follower() -> None:
    """Whatever the program would play most loses 1, all else 0.3: it has to hand over."""
    problem = sf.Problem(3, [0.5], 4000, 0.05, sf.SafeStrategy([1, 0, 0], [0.2]))
    policy = sf.SOLB(problem, 3)
    rng, costs = np.random.default_rng(5), [0.2, 0.4, 0.45]
    shares = []
    for _ in range(4000):
        punished = int(policy._state.leader.plans[1].argmax())
        decision = policy.ask()
        loss = 1.0 if decision.arm == punished else 0.3
        policy.tell(decision, loss, [float(rng.random() < costs[decision.arm])])
        shares.append(float(policy._state.leader.share[0]))
    assert min(shares[:10]) == pytest.approx(LEAST_SHARE)
    assert np.mean(shares[2000:]) > 0.8


@pytest.mark.parametrize("preset", ["practical", "guaranteed"])
def test_an_empty_safe_set_leaves_the_uniform_proposal_made_safe(preset: str) -> None:
    problem = sf.Problem(3, [0.5], 4000, 0.05, sf.SafeStrategy([1, 0, 0], [0.2]))
    for cls in (sf.SOLB, sf.COLB):
        policy = cls(problem, 3, preset=preset)
        policy._state.learner.limits[:] = -1.0  # what no strategy can keep
        policy.tell(policy.ask(), 0.5, [0.5])
        assert policy.empty_rounds == 1
        assert policy.proposal == pytest.approx([1 / 3] * 3)
        safe_part = policy.strategy[0]  # of a known cost
        safe = 0.2 * safe_part + policy.upper_costs[0, 1:] @ policy.strategy[1:] <= 0.5 + 1e-12
        assert safe == (cls is sf.SOLB)  # COLB plays the proposal itself, which is not safe
