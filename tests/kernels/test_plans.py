"""The two plans of SOLB: how they are blended, and that the program is dismissed where it does harm."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

import surefoot as sf
from surefoot.kernels.layout import layout_of
from surefoot.kernels.plans import (
    FOLLOWER,
    LEAST_SHARE,
    PROGRAM,
    Plans,
    blend,
    compare,
    forget_comparison,
    set_share,
    start_plans,
)


def two_plans() -> Plans:
    draft = layout_of(Plans).new(K=3, m=1)
    start_plans(draft, np.array([0.5]), np.array([1.0, 0.0, 0.0]), np.array([0.2]), 0.05, True)
    draft.strategies = [[0.5, 0.5, 0.0], [0.2, 0.0, 0.8]]
    draft.safe_weights = [0.4, 0.1]
    return cast(Plans, draft.opened())


def test_what_is_played_is_the_mean_of_the_plans() -> None:
    plans, strategy = two_plans(), np.zeros(3)
    plans.share[0] = 0.3
    assert blend(plans, strategy) == pytest.approx(0.3 * 0.4 + 0.7 * 0.1)
    assert strategy == pytest.approx([0.29, 0.15, 0.56])


def test_both_plans_start_as_the_safe_strategy() -> None:
    for has_program, share in ((True, LEAST_SHARE), (False, 1.0)):
        draft = layout_of(Plans).new(K=3, m=1)
        start_plans(draft, np.array([0.5]), np.array([0.5, 0.5, 0.0]), np.array([0.2]), 0.05, has_program)
        for plan in (FOLLOWER, PROGRAM):
            assert draft.strategies[plan].tolist() == [0.5, 0.5, 0.0]
        assert draft.safe_weights.tolist() == [1.0, 1.0]
        assert draft.share.tolist() == [share]
        assert draft.program.costs.tolist() == [[0.0, 0.0, 0.0, 0.2]]


def test_the_program_leads_until_it_loses_more() -> None:
    plans = two_plans()
    set_share(plans)
    assert plans.share[0] == pytest.approx(LEAST_SHARE)
    for _ in range(30):
        compare(plans, 1, 1.0)  # a loss of an arm that the follower alone plays
    set_share(plans)
    assert plans.share[0] == LEAST_SHARE
    for _ in range(60):
        compare(plans, 2, 1.0)  # losses of one that the program plays
    set_share(plans)
    score = (30 * 0.5 - 60 * 0.8) / np.sqrt(1 + 30 * 0.25 + 60 * 0.64)
    assert plans.share[0] == pytest.approx(1 / (1 + 9 * np.exp(2 * score)))
    assert plans.share[0] > 0.9
    forget_comparison(plans)
    set_share(plans)
    assert plans.share[0] == pytest.approx(LEAST_SHARE)


def test_absurd_estimates_do_not_overflow() -> None:
    plans = two_plans()
    for estimate in (1e300, -1e300, 1e300):
        compare(plans, 2, estimate)
    set_share(plans)
    assert np.isfinite([*plans.lost_more, *plans.lost_less, *plans.squares]).all()
    assert LEAST_SHARE <= plans.share[0] <= 1.0


def test_an_adversary_that_punishes_the_program_is_left_to_the_follower() -> None:
    """Whatever the program would play most loses 1, all else 0.3: it has to hand over."""
    problem = sf.Problem(3, [0.5], 4000, 0.05, sf.SafeStrategy([1, 0, 0], [0.2]))
    policy = sf.SOLB(problem, 3, preset="practical")
    rng, costs = np.random.default_rng(5), [0.2, 0.4, 0.45]
    shares = []
    for _ in range(4000):
        punished = int(policy._state.plans.strategies[PROGRAM].argmax())
        decision = policy.ask()
        loss = 1.0 if decision.arm == punished else 0.3
        policy.tell(decision, loss, [float(rng.random() < costs[decision.arm])])
        shares.append(float(policy._state.plans.share[0]))
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
