"""Three plans under a log-barrier: shares against their twin, exact cases, and what hostile feedback may do."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from surefoot.kernels.layout import layout_of
from surefoot.kernels.plans import lead
from surefoot.kernels.record import Record
from surefoot.kernels.trio import (
    PRIOR,
    Trio,
    because_of_guardrails,
    blend_trio,
    foresee,
    hope,
    mix_twice,
    set_shares,
    start_trio,
    stepped,
    weigh,
)
from surefoot.kernels.types import Floats, Integers
from tests.reference.led import FIRST, foreseen, hoped, shares


def trio(n_arms: int = 3, share: float = 0.1) -> Any:
    draft = layout_of(Trio).new(K=n_arms, m=1)
    start_trio(draft, np.array([0.5]), np.eye(n_arms)[0], np.array([0.2]), 0.05, share)
    return draft.opened()


def shares_after(lost: Floats, squares: float, share: float = 0.1) -> tuple[Floats, float]:
    found = trio(share=share)
    found.lost[:], found.squares[0] = lost, squares
    set_shares(found, math.log(1000))
    return found.shares.copy(), float(found.rate[0])


@pytest.mark.parametrize("share", [0.1, 0.02, 0.001])
def test_shares_are_those_of_the_twin(share: float) -> None:
    rng, capped = np.random.default_rng(1), 0
    for _ in range(3000):
        lost = rng.normal(size=3) * 10.0 ** rng.uniform(-3, 5)
        squares = 10.0 ** rng.uniform(-2, 6)
        found, rate = shares_after(lost, squares, share)
        assert rate == pytest.approx(min(0.25, math.sqrt(0.64 * (11 + 2 * math.log(1000)) / (1 + squares))))
        assert found == pytest.approx(shares(lost, rate, 1 - share), rel=1e-9, abs=1e-12)
        assert abs(found.sum() - 1) < 1e-15
        capped += found[1] == 1 - share
    assert (500 if share == 0.1 else 50) < capped < 2500


def test_shares_meet_the_optimality_conditions() -> None:
    """1/q_i - 1/q_j = 1/s_i - 1/s_j + rate (lost_i - lost_j); the program's may be short of it where it is at 0.9."""
    rng = np.random.default_rng(2)
    for _ in range(2000):
        lost = rng.normal(size=3) * 10.0 ** rng.uniform(-2, 4)
        q, rate = shares_after(lost, 10.0 ** rng.uniform(-2, 5))
        gap = 1 / q - 1 / FIRST - rate * lost
        size = 1e-9 * (1 / q).max() * (1 / q).max()
        assert abs(gap[0] - gap[2]) <= size
        assert gap[1] >= gap[0] - size if q[1] == 0.9 else abs(gap[1] - gap[0]) <= size


def test_a_known_case_two_plans_alike_are_one() -> None:
    """With two plans alike, half of h - 1 / f and 1 / (1 - f) is a quadratic, whose root is known."""
    for lost in (0.0, 1.0, 30.0, 1e4, 1e8):
        q, rate = shares_after(np.array([0.0, lost, 0.0]), 0.0)
        # 1 / f - 2 / (1 - f) = 10/9 - 20 + rate lost = g, so g f^2 - (g + 3) f + 1 = 0 for the program's share f
        g = 10 / 9 - 20 + rate * lost
        f = 2 / (g + 3 + math.sqrt((g + 3) ** 2 - 4 * g)) if g else 1 / 3
        assert q[1] == pytest.approx(min(0.9, f), rel=1e-9)
        assert q[0] == pytest.approx(q[2], rel=1e-9)
    assert shares_after(np.zeros(3), 0.0)[0] == pytest.approx(PRIOR, abs=1e-12)


def test_no_estimate_times_its_share_exceeds_one() -> None:
    """However small the share; with the share left out the bound fails."""
    rng, largest, without = np.random.default_rng(3), 0.0, 0.0
    for _ in range(2000):
        found = trio(4)
        found.strategies[:] = rng.dirichlet(np.full(4, 0.2), size=3)
        found.shares[:] = rng.dirichlet(np.full(3, 0.1))
        strategy = np.zeros(4)
        blend_trio(found, strategy)
        arm = int(rng.choice(4, p=strategy / strategy.sum()))
        loss = float(rng.uniform(-1, 1))
        weigh(found, arm, strategy[arm], loss)
        largest = max(largest, float(abs(found.steps).max()))
        without = max(without, float(abs(found.lost).max()))
        assert abs(found.steps.sum()) < 1e-9  # what is played loses no more than itself
        assert stepped(found) <= 2 * loss**2 + 1e-9
    assert 0.5 < largest <= 1 + 1e-9
    assert without > 10


def test_absurd_propensities_leave_shares() -> None:
    found = trio()
    for t in range(200):
        weigh(found, t % 3, 1e-300, (-1.0) ** t)
        set_shares(found, 7.0)
        assert np.isfinite(found.shares).all()
        assert abs(found.shares.sum() - 1) < 1e-12
        assert (found.shares >= 0).all()


class Known(NamedTuple):
    """What is known of the costs, as far as the program needs it."""

    upper: Floats
    means: Floats
    lower: Floats
    counts: Integers = np.zeros(0, np.int64)


def test_gains_are_raised_as_by_the_twin() -> None:
    rng, raised = np.random.default_rng(6), 0
    for case in range(400):
        K, m = int(rng.integers(2, 7)), int(rng.integers(0, 4))
        safe = np.eye(K)[0] if case % 2 else rng.dirichlet(np.ones(K)) * (np.arange(K) < 2)
        safe /= safe.sum()
        theta = rng.uniform(0.1, 0.6, m)
        alpha = theta + 10.0 ** rng.uniform(-5, -0.4, m)
        lower, means, upper = np.sort(rng.random((3, m, K)), axis=0)
        losses = rng.uniform(-1, 1, K)
        draft = layout_of(Trio).new(K=K, m=m)
        start_trio(draft, alpha, safe, theta, 0.05)
        found = draft.opened()
        found.program.losses[:K] = losses
        foresee(found, Known(upper, means, lower), safe, theta)
        wanted = foreseen(losses, upper, means, lower, alpha, safe, theta)
        assert found.program.losses[:K] == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        raised += bool((wanted != losses).any())
    assert raised > 100


def test_a_narrow_margin_keeps_no_cheap_arm_from_being_tried() -> None:
    """A state met at a margin of 0.02: arm 1 costs 0.3, but after 24 rounds that is bounded by 0.69 only.

    By its upper bound it can have a tenth of the play, which gains less than arm 2 does. So the program would play that
    to the end.
    """
    known = Known(
        upper=np.array([[0.48, 0.688, 0.501, 0.866, 0.987]]), means=np.array([[0.475, 0.333, 0.498, 0.696, 0.914]]),
        lower=np.array([[0.459, 0.085, 0.491, 0.497, 0.756]]),
    )  # fmt: skip
    limits, safe, theta = np.array([0.5]), np.eye(5)[0], np.array([0.48])
    draft = layout_of(Trio).new(K=5, m=1)
    start_trio(draft, limits, safe, theta, 0.05)
    found, losses = draft.opened(), np.array([0.782, 0.029, 0.594, 0.042, -0.067])
    tried = []
    for looks_ahead in (False, True):
        found.program.losses[:5] = losses
        if looks_ahead:
            foresee(found, known, safe, theta)
        lead(found, cast(Any, known), safe, theta)
        plan = found.strategies[1]
        assert known.upper[0] @ plan <= 0.5 + 1e-12
        tried.append(float(plan[1]))
    assert tried == [0.0, pytest.approx(0.02 / 0.208)]


def test_a_dear_arm_that_is_known_well_keeps_no_cheap_one_from_being_tried() -> None:
    """A state met where three arms lose 1 % and the safe one 80 %: arm 2 costs 0.35, but had bad luck in 36 rounds.

    Losses are known to 0.05, costs are not. At its upper bound arm 2 can have less of the play than arm 1, which costs
    0.54. So the program would play arm 1 beside the safe strategy for very long, and lose 0.12 more a round.
    """
    known = Known(
        upper=np.array([[0.2, 0.56, 0.66]]), means=np.array([[0.2, 0.54, 0.42]]), lower=np.array([[0.17, 0.52, 0.2]]),
        counts=np.array([900, 4000, 36]),
    )  # fmt: skip
    limits, safe, theta = np.array([0.5]), np.eye(3)[0], np.array([0.2])
    record = layout_of(Record).new(K=3).opened()
    record.seen[:] = known.counts
    record.total[:] = known.counts * [0.8, 0.01, 0.01]
    draft = layout_of(Trio).new(K=3, m=1)
    start_trio(draft, limits, safe, theta, 0.05)
    found = draft.opened()
    for hopes in (False, True):
        found.program.losses[:3] = 0.77, 0.005, -0.05
        if hopes:
            hope(found, known, record, safe)
        foresee(found, known, safe, theta)
        lead(found, cast(Any, known), safe, theta)
        plan = found.strategies[1]
        assert known.upper[0] @ plan <= 0.5 + 1e-12
        assert plan[2] == (pytest.approx(0.3 / 0.46) if hopes else 0.0)


def test_hope_is_that_of_the_twin_and_none_without_guardrails() -> None:
    rng, raised = np.random.default_rng(8), 0
    for case in range(300):
        K, m = int(rng.integers(2, 7)), int(rng.integers(0, 3))
        safe = np.eye(K)[0] if case % 2 else rng.dirichlet(np.ones(K))
        means, losses = rng.random(K), rng.uniform(-1, 1, K)
        record, counts = layout_of(Record).new(K=K).opened(), rng.integers(0, 200, K)
        record.seen[:] = rng.integers(0, 300, K)
        record.total[:] = record.seen * means
        draft = layout_of(Trio).new(K=K, m=m)
        start_trio(draft, np.full(m, 0.5), safe, np.full(m, 0.1), 0.05)
        found = draft.opened()
        found.program.losses[:K] = losses
        costs = np.full((m, K), 0.5)
        hope(found, Known(costs, costs, costs, counts), record, safe)
        met = np.where(record.seen > 0, means, 0)
        wanted = hoped(losses, met, counts.astype(np.float64), safe) if m else losses
        assert found.program.losses[:K] == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        raised += bool((wanted != losses).any())
    assert raised > 50


def test_all_of_a_safe_arm_counts_unless_it_loses_least() -> None:
    """Which of its two columns the program plays does not matter; with an arm that is unknown it counts."""
    found, record = trio(), layout_of(Record).new(K=3).opened()
    known = found.program.losses
    record.seen[:], record.total[:] = 100.0, 50.0
    found.strategies[1] = [0.7, 0.3, 0.0]
    for column in (0.0, 0.2, 0.7):
        found.vertex[3] = column
        known[:3] = -0.1, -0.2, 0.0
        assert because_of_guardrails(found, record, np.eye(3)[0]) == 0.7
        known[1] = -0.1
        assert because_of_guardrails(found, record, np.eye(3)[0]) == 0.0
        record.seen[2] = 2.0  # a radius of 0.5 ln(3 / 0.05) / 2 = 1.02
        assert because_of_guardrails(found, record, np.eye(3)[0]) == 0.7
        record.seen[2] = 3.0
        assert because_of_guardrails(found, record, np.eye(3)[0]) == 0.0
        record.seen[2] = 0.0
        assert because_of_guardrails(found, record, np.eye(3)[0]) == 0.7
        record.seen[2] = 100.0
        assert because_of_guardrails(found, record, np.array([0.5, 0.5, 0.0])) == column


def test_the_safe_arm_as_an_anchor_is_the_safe_strategy() -> None:
    """To rounding it costs the same, so either may be taken: its weight counts."""
    rng, alike, taken = np.random.default_rng(4), 0, 0
    safe = np.eye(3)[0]
    for _ in range(20_000):
        limit = rng.uniform(0.41, 0.6, 1)
        found, proposal = trio(), rng.dirichlet(np.ones(3))
        upper = np.array([[rng.uniform(0.1, 0.4), rng.uniform(0.6, 1), rng.uniform(0.6, 1)]])
        mix_twice(found, proposal, np.zeros(3), 10.0, upper, limit, safe, upper[:, 0].copy(), np.zeros(1))
        assert found.safe_weights[0] == pytest.approx(found.safe_weights[2], abs=1e-12)
        alike += found.safe_weights[0] > 0
        taken += found.safe_weights[0] != found.safe_weights[2]
    assert alike > 1000
    assert taken > 10
