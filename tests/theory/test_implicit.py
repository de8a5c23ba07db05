"""Theorem H of docs/theory/led.md, section 9: each inequality by enumeration or on forced paths, with controls."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from surefoot.theory import implicit
from surefoot.theory.bounds import Instance, nontrivial_horizon, theorem_h
from surefoot.theory.implicit import Setting, arms_slack, plans_slack, short_slack
from tests.reference.led import Shares

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "theory" / "led.md").read_text(encoding="utf-8").split())


def settings(seed: int, number: int) -> list[Setting]:
    rng = np.random.default_rng(seed)
    return [Setting.drawn(rng) for _ in range(number)]


def test_estimates_are_not_far_above_the_losses() -> None:
    """Means of exponentials, for arms and for plans; without v, or with a baseline, they are too large."""
    failed = {"without v": np.zeros(2), "with a baseline": np.zeros(2)}
    for at in settings(1, 1000):
        assert min(arms_slack(at), plans_slack(at)) >= -1e-12
        for wrong, count in failed.items():
            count += arms_slack(at, wrong) < 0, plans_slack(at, wrong) < 0
    assert (failed["without v"] > 900).all()
    assert (failed["with a baseline"] > 150).all()


def test_slacks_are_what_enumeration_finds() -> None:
    """The functions of the trial once more, draw by draw."""
    for at in settings(4, 30):
        K, x = at.losses.size, at.shares @ at.plans
        exponents = np.zeros((K, K + 3))  # by the arm drawn: 2 v z of each arm, 2 v c of each plan
        for drawn in range(K):
            exponents[drawn, drawn] = at.losses[drawn] / (x[drawn] + at.added)
            for i, y in enumerate(at.plans):
                exponents[drawn, K + i] = y[drawn] * at.losses[drawn] / (x[drawn] + at.added * y[drawn])
        means = np.log(x @ np.exp(2 * at.added * exponents))
        most = 2 * at.added * np.concatenate([at.losses, at.plans @ at.losses])
        some = most > 0
        slack = (most - means)[some] / most[some]
        of_arms = slack[: some[:K].sum()].min(initial=np.inf)
        assert arms_slack(at) == pytest.approx(of_arms, abs=1e-9)
        assert plans_slack(at) == pytest.approx(slack[some[:K].sum() :].min(initial=np.inf), abs=1e-9)


def test_estimates_are_not_far_below_what_is_played() -> None:
    """By at most 3 v for the plans and v K / pi for the proposal, in the mean; and what is played loses at most 1."""
    close = 1.0
    for at in settings(2, 1000):
        slack = short_slack(at)
        assert slack >= -1e-12
        close = min(close, slack)
        assert (
            short_slack(at._replace(shares=np.array([0.6, 0.4, 0.0])), "with a baseline") < 0 or at.losses.min() > 0.5
        )
        x, proposal = at.played, at.plans[0]
        of_proposal = proposal * at.losses / (x + at.added)
        assert (of_proposal <= 1 / at.shares[0] + 1e-9).all()
    assert close < 0.3


def test_exponentials_of_bounded_numbers() -> None:
    x = np.linspace(0, 1, 1001)
    assert (np.exp(x) <= 1 + 1.72 * x + 1e-12).all()
    assert (np.exp(x) > 1 + 1.71 * x).any()
    assert (np.exp(-x) <= 1 - x / 1.59 + 1e-12).all()
    assert (np.exp(-x) > 1 - x / 1.58).any()
    far = np.linspace(0, 50, 5001)
    assert (np.exp(-far) <= 1 - far + far**2 / 2 + 1e-12).all()
    assert (np.exp(-far) > 1 - far + 0.45 * far**2).any()
    assert (far / (1 + far / 2) <= np.log1p(far) + 1e-12).all()
    assert (far / (1 + far / 2.1) > np.log1p(far) + 1e-12).any()
    assert 2.25 * 1.59 <= 3.6


def test_squares_of_the_proposal() -> None:
    """Means of exp((x~ z)^2 / R), by enumeration; R is the square of the largest entry, which is at most 1 / pi."""
    tight, too_little = 0.0, 0
    for at in settings(5, 1000):
        pi = at.shares[0]
        squares = (at.plans[0] * at.losses / (at.played + at.added)) ** 2  # by the arm drawn
        assert squares.max() <= 1 / pi**2 + 1e-9
        mean = float(at.played @ squares)
        assert mean <= 1 / pi + 1e-9
        for R in (1 / pi**2, max(1e-9, squares.max())):
            of_exponential = math.log(at.played @ np.exp(squares / R))
            assert of_exponential <= 1.72 * mean / R + 1e-12
            tight = max(tight, of_exponential / (1.72 * mean / R) if mean > 0 else 0.0)
            too_little += of_exponential > mean / R + 1e-12  # e - 2 more than the mean is needed
    assert tight > 0.9
    assert too_little > 500


@pytest.mark.parametrize(("kept", "holds"), [(16, True), (32, False)])
def test_from_squares_to_batches(kept: int, holds: bool) -> None:
    """Cauchy's inequality over the rounds of a batch, on forced draws; control: batches of 32 rounds."""
    rng, largest = np.random.default_rng(6), 0.0
    for at in settings(7, 200):
        steps = at.plans[0] * at.losses / (at.played + at.added)
        for arms in (np.full(kept, rng.integers(steps.size)), rng.integers(steps.size, size=kept)):
            batch = float((np.bincount(arms, steps[arms], steps.size) ** 2).sum())
            singly = float((steps[arms] ** 2).sum())
            assert batch <= kept * singly + 1e-9
            largest = max(largest, batch / singly if singly > 0 else 0.0)
    assert (largest <= 16 + 1e-9) == holds
    assert largest > 15


@pytest.mark.parametrize("kept", [1, 16, 32])
def test_step_6_holds_of_these_estimates_on_every_path(kept: int) -> None:
    """And squares add up to 16 a round at most in batches of 16 rounds at most; to more in batches of 32.

    Batches are as long as they may be, however far the steps go. On the last path the plans are the same.
    """
    rng, largest = np.random.default_rng(3), 0.0
    for case in range(41):
        n, K = int(rng.integers(50, 800)), int(rng.integers(2, 5))
        plans = 0.999 * rng.dirichlet(np.full(K, 0.3), size=(4, 3)) + 0.001 / K
        arms, v = rng.integers(K, size=n), 10.0 ** rng.uniform(-4, -1)
        losses = np.ones(n) if case % 2 else rng.random(n)
        if case == 40:
            plans[:], arms, losses, v = np.eye(K)[0], np.zeros(n, np.int64), np.ones(n), 1e-4
        shares = Shares(math.log(n), 0.9)
        u = np.array([1 / n, 1 / n, 1 - 2 / n])
        lost = 0.0
        for t in range(n):
            now = plans[t // 48 % 4]
            x = shares.q @ now
            arm = arms[t]
            c = now[:, arm] * losses[t] / (x[arm] + v * now[:, arm])
            assert (shares.q * c).sum() <= 1 + 1e-12
            lost += float(c @ (shares.q - u))
            shares.lost, shares.steps = shares.lost + c, shares.steps + shares.q * c
            if t % kept == kept - 1:
                shares.set()
        squares = shares.squares + float((shares.steps**2).sum())
        largest = max(largest, squares / n)
        L = shares.bound
        if kept == 1:
            assert squares <= n
            assert lost <= 4.04 * L + 2.51 * math.sqrt(L * (1 + squares)) + 0.78
    assert (largest <= 16) == (kept <= 16)
    assert largest > {1: 0.8, 16: 12, 32: 24}[kept]


def test_step_6_holds_of_these_estimates_in_batches_that_end_when_steps_are_far() -> None:
    rng, longest = np.random.default_rng(8), 0
    for case in range(40):
        n, K = int(rng.integers(200, 1600)), int(rng.integers(2, 5))
        plans = 0.999 * rng.dirichlet(np.full(K, 0.3), size=(4, 3)) + 0.001 / K
        arms, v = rng.integers(K, size=n), 10.0 ** rng.uniform(-4, -1)
        losses = np.ones(n) if case % 2 else rng.random(n)
        shares, lost, kept = Shares(math.log(n), 0.9), 0.0, 0
        u = np.array([1 / n, 1 / n, 1 - 2 / n])
        for t in range(n):
            now = plans[t // 48 % 4]
            x = shares.q @ now
            c = now[:, arms[t]] * losses[t] / (x[arms[t]] + v * now[:, arms[t]])
            lost += float(c @ (shares.q - u))
            shares.lost, shares.steps, kept = shares.lost + c, shares.steps + shares.q * c, kept + 1
            if kept == 16 or shares.far:
                shares.set()
                longest, kept = max(longest, kept), 0
        squares = shares.squares + float((shares.steps**2).sum())
        assert squares <= 16 * n
        assert lost <= 4.04 * shares.bound + 2.51 * math.sqrt(shares.bound * (1 + squares)) + 0.78
    assert longest >= 4


@pytest.mark.parametrize("wrong", ["without v", "with a baseline"])
def test_the_trial_holds_and_mutations_are_refuted(wrong: str) -> None:
    assert implicit.try_chance(None, 3).verdict == "held"
    assert implicit.try_chance(wrong, 3).verdict == "refuted"


def test_from_when_on_the_theorem_says_something() -> None:
    """The figures of the page."""
    base = Instance(5, 1, 100_000, 0.05, margin=0.3, benchmark_loss=10_000, gap=0.2, threshold=0.5)
    low, high = 1e5, 1e10
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        at = base.at(middle).changed(delta=1 / middle)
        bound = theorem_h(at)
        low, high = (low, middle) if bound.total < bound.trivial else (middle, high)
    assert f"from {high:.1e} rounds on".replace("e+0", "e") in PAGE
    assert f"from {nontrivial_horizon(theorem_h, base):.1e}".replace("e+0", "e") in PAGE
