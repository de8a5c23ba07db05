"""Many rounds told at once: the same as one by one, to the bit."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.policies import REGISTRY
from surefoot.rules import Floats

PROBLEM = sf.Problem(n_arms=3, thresholds=[0.3, 0.5], horizon=500, safe=sf.SafeStrategy([0, 0, 1], [0.1, 0.2]))


def rounds(n: int, seed: int, costs: float = 0.25) -> Floats:
    """Rows of `tell_many`: uniform draws, costs that are 0 or 1."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 3, n)
    return np.column_stack([arms, np.full(n, 1 / 3), np.full(n, 0.5), rng.random(n), rng.random((n, 2)) < costs])


def told(policy: Any, rows: Floats) -> Any:
    for arm, propensity, weight, loss, *costs in rows.tolist():
        policy.tell((int(arm), propensity, weight), loss, costs)
    return policy


@pytest.mark.parametrize("cls", [sf.SOLB, sf.COLB, sf.UCB1, sf.ThompsonSampling])
def test_blocks_equal_rounds(cls: Any) -> None:
    rows = rounds(300, 1)
    one, many = told(cls(PROBLEM, 3), rows), cls(PROBLEM, 3)
    for cut in (slice(0, 1), slice(1, 1), slice(1, 120), slice(120, 300)):
        many.tell_many(rows[cut])
    assert many.to_bytes() == one.to_bytes()
    assert many.round == 300


def test_blocks_of_a_policy_whose_safe_set_is_empty() -> None:
    """All costs are 1, so no strategy keeps the limits: the block stops there, and goes on with a way out."""
    rows = rounds(400, 2, costs=1.0)
    one, many = told(sf.COLB(PROBLEM, 3), rows), sf.COLB(PROBLEM, 3)
    many.tell_many(rows)
    assert one.empty_rounds > 0
    assert many.to_bytes() == one.to_bytes()


def test_refused() -> None:
    policy = sf.SOLB(PROBLEM, 3)
    before = policy.to_bytes()
    with pytest.raises(ValueError, match=r"rows must be an array of shape \(2, 6\), got one of shape \(2, 5\)"):
        policy.tell_many(np.ones((2, 5)))
    with pytest.raises(ValueError, match="tell_many must not be called after horizon = 500 rounds"):
        policy.tell_many(rounds(501, 1))
    assert policy.to_bytes() == before


@pytest.mark.parametrize("name", sorted(REGISTRY.keys() - {"oracle"}))
def test_compiled_rounds_keep_no_reference_to_the_generator(name: str) -> None:
    """Numba takes one in every call; where references are not counted, memory would grow with each block."""
    policy: Any = REGISTRY[name](PROBLEM, 3)
    block = np.zeros((2, 3)), np.zeros((2, 2, 3)), np.empty((2, 3)), np.empty(2)
    policy.live(*block)
    before = sys.getrefcount(policy._rng)
    for _ in range(3):
        policy.live(*block)
        policy.tell(policy.ask(), 0.5, [0.1, 0.2])
    after = sys.getrefcount(policy._rng)
    assert after == before
