"""Bounds: their constants against formulas written anew, their algebra, their shape, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

import surefoot as sf
from surefoot.policies.rates import Sized, halving_log, learning_rate_cap, log_vertices, peeled_log, theory_rate
from surefoot.theory import bounds
from surefoot.theory.bounds import BOUNDS, Bound, Instance, nontrivial_horizon
from surefoot.theory.descent import Descent, most_played_loss

BASE = Instance(5, 1, 100_000, 0.05, margin=0.3, benchmark_loss=10_000, gap=0.2, threshold=0.5)
POINTS = [
    BASE,
    Instance(3, 1, 10_000, 0.05, margin=0.2, benchmark_loss=1_000, gap=0.2, threshold=0.5),
    Instance(20, 4, 10**9, 0.01, margin=0.05, benchmark_loss=3e7, gap=0.7, threshold=0.1),
    Instance(2, 2, 10**14, 1e-6, margin=1.0, benchmark_loss=0.0, gap=0.0, threshold=1.0),
    Instance(7, 3, 1_000, 0.3, margin=0.4, benchmark_loss=250, gap=1.0, threshold=0.6, learning_rate=1e-3),
    BASE.at(1e25),
]
UPPER = [bound for bound in BOUNDS if not bound(BASE).lower]
REGRET = [bounds.theorem_2, bounds.theorem_4, bounds.weighted, bounds.corollary]


class Slowly:
    """The formulas once more, letter by letter, at 50 digits."""

    def __init__(self, instance: Instance, delta: float | None = None) -> None:
        mp.mp.dps = 50
        self.K, self.m, self.T = mp.mpf(instance.n_arms), mp.mpf(instance.n_constraints), mp.mpf(instance.horizon)
        self.delta = mp.mpf(instance.delta) if delta is None else delta
        self.rho, self.L, self.gap = mp.mpf(instance.margin), mp.mpf(instance.benchmark_loss), mp.mpf(instance.gap)
        self.given = instance.learning_rate
        self.lnT = mp.log(self.T)
        self.H = mp.log(mp.ceil(self.lnT) * mp.ceil(3 * self.lnT) / self.delta)
        self.HH = mp.log(self.H / self.delta)
        self.cost = mp.log(self.T * self.K * self.m / self.delta)
        self.iota = mp.log(2 * mp.ceil(mp.log(self.T, 2)) / self.delta)
        self.S = self.gap * mp.sqrt(self.T)
        self.C1 = self.K * (mp.log(self.T / self.K) + (self.lnT + 1) / (5 * self.lnT) + 1 / (5 * self.lnT))

    def rate(self, rho: mp.mpf) -> mp.mpf:
        if self.given is not None:
            return mp.mpf(self.given)
        cap = rho / (40 * self.H * self.lnT * self.HH)
        return min(cap, mp.sqrt(self.K / (self.L * mp.log(1 / self.delta)))) if self.L else cap

    def theorem_1(self) -> mp.mpf:
        return self.K + 12 * mp.sqrt(self.K * self.T * self.cost) + 2 * mp.sqrt(2 * self.T * mp.log(1 / self.delta))

    def right_hand_side(self, V: mp.mpf, rho: mp.mpf) -> mp.mpf:
        """Of Theorem 2 (rho = 1) and Lemma 4, the sum over losses met in, the terms with h cancelled."""
        eta = self.rate(rho)
        met = 2 * V + 2 * self.iota
        return (
            self.C1 / eta
            + 5 * eta / rho * met
            + 2 * mp.sqrt(V * self.iota)
            + self.iota
            + 40 * self.H**2 * eta * self.lnT * self.HH * (self.L + self.K) / rho
            + self.K
        )

    def lemma_3(self) -> mp.mpf:
        squares = (self.K / self.rho) ** 2 * (768 * self.cost + 1024 * self.cost**2 + 2)
        T3 = self.K * (1 + 256 * self.cost / self.rho**4)
        T2 = 24 / self.rho**2 * mp.e / (mp.e - 1) * (T3 + mp.log(1 / self.delta))
        return mp.sqrt(squares) * self.S + T2

    def lemma_3_sharp(self) -> mp.mpf:
        M = mp.e / (mp.e - 1) * (self.K * (2 + self.lnT) + mp.log(1 / self.delta))
        squares = 32 * self.cost / self.rho**2 * M + 2 * self.K**2 / (self.T * self.rho**2)
        return mp.sqrt(squares) * self.S

    def weighted_side(self, W: mp.mpf) -> mp.mpf:
        """Of Theorem A: what bounds the learning regret, W being what the proposals lose by their weight."""
        counted = mp.ceil(mp.log(2 * self.T, 2)) + 2
        iota = mp.log(counted / self.delta)
        union = mp.log(counted * mp.binomial(self.K + self.m, self.m + 1) / self.delta)
        cap = 1 / (40 * union * self.lnT)
        per_rate = (mp.mpf("6.25") + 45 * union * self.lnT) * self.L
        balanced = mp.sqrt(self.K * self.lnT / per_rate) if self.L else mp.inf
        eta = min(cap, balanced) if self.given is None else mp.mpf(self.given)
        met = mp.mpf("2.5") * W + mp.mpf("3.5") * iota
        return (
            self.C1 / eta
            + mp.mpf("2.5") * eta * met
            + 45 * eta * union * self.lnT * (self.L + self.K)
            + 3 * mp.sqrt(W * iota)
            + 2 * iota
            + self.K
        )

    def theorem_r(self) -> mp.mpf:
        return self.alone(self.scale(1 / self.T), 2)

    def theorem_r_two_levels(self) -> mp.mpf:
        upper, lower = mp.log(self.K * self.m / self.delta) + 4, mp.log(self.K * self.m * self.T) + 4
        return self.alone(mp.mpf(2) / 3 * (mp.sqrt(upper) + mp.sqrt(lower)) ** 2, 1)

    def scale(self, level: mp.mpf) -> mp.mpf:
        return mp.mpf(8) / 3 * (mp.log(self.K * self.m / level) + 4)

    def alone(self, C: mp.mpf, failure: int) -> mp.mpf:
        Gamma = (2 * C * self.K * (2 + self.lnT) + 2 * self.K**2 / self.T) / self.rho**2
        fixed = mp.sqrt(Gamma) * (self.S + mp.sqrt(self.L)) + self.K * self.lnT
        fixed += mp.mpf("0.78") / self.rho**2 + self.K + failure

        def side(Q: mp.mpf) -> mp.mpf:
            return fixed + mp.mpf("2.56") * mp.sqrt(self.K * self.lnT * (1 + Q))

        small = self.solved(lambda V: side((2 + self.lnT) * V / self.rho**2))
        return min(side(self.T + mp.sqrt(self.T * Gamma) / self.rho), small)

    def led(self) -> mp.mpf:
        slack = 2 * self.K**2 / self.T
        return self.in_company(self.scale(1 / self.T), self.lnT, slack, mp.mpf("2.61"), mp.mpf("2.51"), 4)

    def led_without_horizon(self) -> mp.mpf:
        """Section 1 of led.md: what stands in the place of what."""
        log, first = mp.log(self.K + self.T), mp.log(self.K + 1)
        follower = mp.mpf("1.565") + mp.mpf("1.045") * mp.sqrt(log / first)
        shares = mp.mpf("1.248") + mp.mpf("1.262") * mp.sqrt((11 + 2 * log) / (11 + 2 * first))
        failure = self.T * min(1, 4 * self.delta)
        return self.in_company(self.scale(self.delta), log, 2 * (self.K + 16), follower, shares, failure)

    def in_company(
        self, C: mp.mpf, log: mp.mpf, slack: mp.mpf, of_follower: mp.mpf, of_shares: mp.mpf, failure: mp.mpf
    ) -> mp.mpf:  # fmt: skip
        """With the numbers of docs/theory/led.md, section 2, for a share of 1/20, or of 1/100 if K m > 8."""
        few = self.K * self.m <= 8
        safe, once, squares, root, slope = (90, 2496, 112, 80, 4592) if few else (450, 62_400, 432, 400, 86_832)
        N, L = 1 + log, 11 + 2 * log
        Gamma = (safe * C * self.K * (2 + self.lnT) + slack) / self.rho**2
        fixed = mp.sqrt(Gamma) * (self.S + mp.sqrt(self.L))
        fixed += N * (mp.mpf("1.05") * self.K * log + once / self.rho**2) + self.K
        fixed += N * (mp.mpf("4.04") * L + mp.mpf("0.78")) + 2 + failure
        fixed += of_shares * mp.sqrt(N * L * (N + mp.mpf("5.6") * self.T))

        def side(Q: mp.mpf) -> mp.mpf:
            return fixed + of_follower * mp.sqrt(N * self.K * log * (N + Q))

        small = self.solved(lambda V: side((slope + squares * self.lnT) * V / self.rho**2))
        return min(side(squares * self.T + root * mp.sqrt(self.T * Gamma) / self.rho), small)

    def theorem_h(self) -> mp.mpf:
        """Line by line as in section 9 of led.md."""
        c = 40 if self.K * self.m <= 8 else 200
        N, L, iota = 1 + self.lnT, 11 + 2 * self.lnT, mp.log((self.K + 7) / self.delta)
        means = self.K * (2 + self.lnT) + iota
        G = (mp.mpf("3.6") * c * self.scale(self.delta) * means + 2 * self.K**2 / self.T) / self.rho**2
        A = c * self.T + c / self.rho * mp.sqrt(self.T * G)
        Q = 16 * (mp.mpf("1.72") * A + (c / self.rho) ** 2 * iota)
        v = mp.sqrt(iota / (self.K * A + 3 * self.T))
        mixing = mp.sqrt(G) * (self.S + mp.sqrt(self.L))
        follower = N * (mp.mpf("1.05") * self.K * self.lnT + mp.mpf("1.56") * c**2 / self.rho**2) + self.K
        follower += mp.mpf("2.61") * mp.sqrt(N * self.K * self.lnT * (N + Q))
        shares = N * (mp.mpf("4.04") * L + mp.mpf("0.78")) + 2 + iota / (v * self.T)
        shares += mp.mpf("2.51") * mp.sqrt(N * L * (N + 16 * self.T))
        chance = 2 * mp.sqrt(iota * (self.K * A + 3 * self.T))
        return mixing + follower + shares + chance + mp.sqrt(2 * iota * A) + mp.sqrt(2 * iota * self.T)

    def solved(self, side: Callable[[mp.mpf], mp.mpf]) -> mp.mpf:
        """The regret R with R = side(R + L*): plain iteration, the side growing slower than R."""
        R = mp.mpf(0)
        for _ in range(2_000):
            R, before = side(R + self.L), R
            if abs(R - before) <= mp.mpf(10) ** -30 * R:
                return R
        raise AssertionError("no fixed point")


def expected(name: str, instance: Instance) -> mp.mpf:
    slow = Slowly(instance, 1 / mp.mpf(instance.horizon) if name == "corollary" else None)
    if name == "theorem_2":
        return slow.solved(lambda V: slow.right_hand_side(V, mp.mpf(1)))
    if name == "lemma_4":
        return slow.right_hand_side(slow.T, slow.rho)
    if name in ("theorem_4", "corollary"):
        R = slow.solved(lambda V: slow.right_hand_side(V, slow.rho) + slow.lemma_3())
        return R + 6 if name == "corollary" else R
    if name == "weighted":
        return slow.solved(slow.weighted_side) + slow.lemma_3_sharp()
    if name == "radius":
        return min(mp.mpf(1), mp.sqrt(4 * slow.cost / max(mp.mpf(1), slow.T / slow.K)))
    if name == "theorem_5":
        omega = slow.L / slow.T
        return (mp.sqrt(omega * (1 - omega) * slow.T) / 16 + slow.gap * mp.sqrt(slow.T) / (96 * slow.rho)) / 2
    if name == "safe_arm_rounds":
        epsilon = 1 / (6 * mp.sqrt(slow.T))
        return (mp.mpf("0.646") - slow.delta) * slow.T * epsilon / (epsilon + slow.rho)
    return getattr(slow, name)()


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.__name__)
def test_constants_are_those_of_the_formulas(bound: Callable[[Instance], Bound]) -> None:
    for instance in POINTS:
        assert bound(instance).total == pytest.approx(float(expected(bound.__name__, instance)), rel=1e-9)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.__name__)
def test_terms_are_what_the_total_is_the_sum_of(bound: Callable[[Instance], Bound]) -> None:
    for instance in POINTS:
        told = bound(instance)
        assert told.total == math.fsum(told.terms.values())
        assert all(value >= 0 for value in told.terms.values())
        assert told.statement.endswith(".")


def test_events_are_counted() -> None:
    counted = {"radius": 1, "theorem_1": 2, "theorem_2": 4, "lemma_3": 3, "lemma_3_sharp": 2, "lemma_4": 4,
               "theorem_4": 6, "weighted": 5, "theorem_h": 5}  # fmt: skip
    for bound in BOUNDS:
        events = counted.get(bound.__name__)
        assert bound(BASE).probability == (None if events is None else pytest.approx(1 - events * BASE.delta))
    assert not bounds.theorem_4(replace(BASE, delta=0.2)).applies  # it would hold with probability -0.2


def test_gaps_are_marked() -> None:
    assert {bound.__name__ for bound in BOUNDS if bound(BASE).gap} == {"lemma_4", "theorem_4", "corollary"}


def test_measured_restarts_take_the_place_of_their_most() -> None:
    told = [bounds.led(BASE, restarts=n).total for n in (0, 3, math.log(BASE.horizon))]
    assert told[0] < told[1] < told[2] == pytest.approx(bounds.led(BASE).total)
    once = bounds.led_without_horizon(BASE, restarts=1, follower_share=0.1).total
    assert once < bounds.led_without_horizon(BASE, restarts=1).total < bounds.led_without_horizon(BASE).total


def test_theorem_h_is_larger_than_the_bound_on_the_mean_by_a_factor_that_falls() -> None:
    def ratio(horizon: float) -> float:
        at = BASE.at(horizon).changed(delta=1 / horizon)
        return bounds.theorem_h(at).total / bounds.led(at).total

    assert 3.5 > ratio(1e5) > ratio(1e7) > ratio(1e9) > 1


# the steps behind the constants


def test_a_step_of_the_log_barrier_gains_half_of_what_the_paper_says() -> None:
    for rate, share, loss in ((0.1, 0.5, 1.0), (1e-3, 0.01, 60.0), (2.0, 0.9, 3.0)):
        s = rate * loss * share
        gain = -minimize_scalar(
            lambda r: -(loss * share * (1 - r) - (r - 1 - math.log(r)) / rate), bounds=(1e-9, 1), method="bounded",
            options={"xatol": 1e-14},
        ).fun  # fmt: skip
        assert gain == pytest.approx((s - math.log1p(s)) / rate, rel=1e-6)
        assert gain <= s * s / (2 * rate)
    assert math.exp(1 / math.log(2)) < 4.24


def test_inequalities_of_the_means_are_tight_and_caps_cancel() -> None:
    for horizon, delta, rho in ((10**4, 0.05, 1.0), (10**9, 0.01, 0.2)):
        slow = Slowly(replace(BASE, horizon=horizon, delta=delta, margin=rho, threshold=1.0))
        H, c, lnT, L = slow.H, slow.HH, slow.lnT, mp.mpf(1234)
        eta = slow.rho / (40 * H * lnT * c)
        # H sqrt(8 L h c) <= 40 H^2 eta ln T c L / rho + rho h / (20 eta ln T), with equality at one h
        h = 40 * H**2 * eta * lnT * c * L / slow.rho / (slow.rho / (20 * eta * lnT))
        right = 40 * H**2 * eta * lnT * c * L / slow.rho + slow.rho * h / (20 * eta * lnT)
        assert mp.almosteq(H * mp.sqrt(8 * L * h * c), right, 1e-40)
        # at the cap what is gained by increasing rates just pays for both
        assert mp.almosteq(slow.rho / (10 * eta * lnT), slow.rho / (20 * eta * lnT) + 2 * H * c, 1e-40)
        iota = mp.mpf(9)
        eta = 1 / (40 * iota * lnT)
        h = 45 * eta * lnT * iota * L * (20 * eta * lnT)
        assert mp.almosteq(3 * mp.sqrt(h * L * iota), 45 * eta * iota * lnT * L + h / (20 * eta * lnT), 1e-40)
        assert mp.almosteq(1 / (10 * eta * lnT), 1 / (20 * eta * lnT) + 2 * iota, 1e-40)


def test_the_quadratic_is_solved_to_the_last_digit() -> None:
    for slope, root, fixed, loss in ((0.0, 0.0, 1.0, 0.0), (0.3, 5.0, 1e3, 1e7), (0.999, 1e3, 2.0, 1e20)):
        most = most_played_loss(Descent({"all": fixed}, slope, root), loss)
        assert (1 - slope) * most == pytest.approx(root * math.sqrt(most) + fixed + loss, rel=1e-12)
        over = 1.001 * most
        assert over - loss > fixed + slope * over + root * math.sqrt(over)
    assert most_played_loss(Descent({"all": 1.0}, 1.0, 0.0), 0.0) == math.inf


def test_bounds_on_regret_are_their_own_fixed_points() -> None:
    # with the total loss that a bound allows passed in as if measured, the bound comes out again; with less, less
    for bound in (bounds.theorem_2, bounds.theorem_4, bounds.weighted):
        for instance in POINTS:
            told = bound(instance)
            if instance.learning_rate is None:
                again = bound(instance, total_loss=told.total + instance.benchmark_loss)
                assert again.total == pytest.approx(told.total, rel=1e-6)
                assert bound(instance, total_loss=instance.benchmark_loss).total <= told.total
    # the fixed point of weighted estimates is that of the learning regret alone: what is played may lose more
    for instance in POINTS:
        told = bounds.weighted(instance)
        most = told.total - told.terms["mixing"] + instance.benchmark_loss
        assert bounds.weighted(instance, total_loss=most).total == pytest.approx(told.total, rel=1e-6)
        assert bounds.weighted(instance, total_loss=0.9 * most).total < told.total
        assert bounds.weighted(instance, total_loss=1e3 * most).total == told.total


def test_freedmans_grid_is_fine_enough() -> None:
    # min over the grid of s V + log / s is at most 3 sqrt(V log) + 2 B log, for every range B and variance V
    rng = np.random.default_rng(0)
    for horizon in (3, 100, 10**6):
        log = halving_log(replace(BASE, n_arms=2, horizon=horizon, benchmark_loss=0))
        grid = 0.5 ** np.arange(math.ceil(math.log2(2 * horizon)) + 2)
        for _ in range(2_000):
            B = (2 * horizon) ** rng.random()
            V = (2.0 * horizon**2) ** rng.random() * rng.choice([1e-9, 1.0])
            allowed = grid[grid <= 1 / B]
            best = min(allowed * V + log / allowed)
            assert best <= 3 * math.sqrt(V * log) + 2 * B * log
    y = np.linspace(-50, 1, 10_001)
    assert (np.exp(y) <= 1 + y + y**2 + 1e-15).all()


def test_the_papers_freedman_follows_from_ours_from_eight_rounds_on() -> None:
    for horizon in [*range(8, 300), *(int(1.5**k) for k in range(15, 85))]:
        for delta in (0.999, 0.5, 0.05, 1e-9):
            instance = replace(BASE, horizon=horizon, delta=delta, benchmark_loss=0)
            H, iota = peeled_log(instance), halving_log(instance)
            c = math.log(H / delta)
            assert 8 * H**2 * c >= 9 * iota
            assert H * c >= iota


def test_outcomes_bound_their_conditional_means() -> None:
    # exp(-y) lies below its chord, and the tails of losses met follow: 2 V + 2 iota and 2.5 V + 3.5 iota are enough
    y = np.linspace(0, 1, 1_001)
    assert (np.exp(-y) <= 1 - (1 - 1 / math.e) * y + 1e-15).all()
    for V, iota in ((1.0, 3.0), (1e3, 3.0), (7.0, 40.0)):
        assert (math.e - 1) * V + iota <= 2 * V + 2 * iota
        assert V + 3 * math.sqrt(V * iota) + 2 * iota <= 2.5 * V + 3.5 * iota
        assert V + 2 * math.sqrt(V * iota) + iota <= 2 * V + 2 * iota


def test_a_heavy_weight_needs_wide_radii() -> None:
    # c = min((g^ + beta)^T x~, 1) with (g^ - beta)^T x~ <= alpha + K / T; c - alpha > alpha - theta in heavy rounds
    rng = np.random.default_rng(1)
    for _ in range(5_000):
        theta, alpha = np.sort(rng.random(2))
        rho, spare = alpha - theta, rng.random() * (alpha - theta) / 12
        beta = rng.random()
        cost = min(alpha + spare + 2 * beta, 1.0)
        weight = (cost - alpha) / (cost - theta)
        assert 1 - weight >= rho - 1e-12
        assert weight <= (2 * beta + spare) / rho + 1e-12
        if weight > 0.5:
            assert beta >= rho / 2 - spare / 2 - 1e-12
            assert beta >= 11 * rho / 24 - 1e-12


def test_a_light_proposal_pays_for_itself() -> None:
    # gamma = d / (d + r) and d <= 2 b + K / T, so (gamma rho)^2 <= 8 b^2 (1 - gamma) + 2 (K / T)^2 for all rho <= r
    def slack(b: float, spare: float, r: float, rho: float, factor: float = 8.0, power: int = 1) -> float:
        d = 2 * b + spare
        return factor * b * b * (r / (d + r)) ** power + 2 * spare**2 - (d * rho / (d + r)) ** 2

    rng = np.random.default_rng(2)
    for b, spare, r, share in np.exp(rng.uniform(-12, 0, (20_000, 4))):
        assert slack(b, spare, r, rho=share * r) >= 0
    assert slack(1e-3, 2e-3, 1, rho=1, factor=7.9) < 0
    assert slack(0.4, 0.0, 0.01, rho=0.01, power=3) < 0  # with the proposal's weight cubed it is false


def test_the_lower_bound_survives_a_careful_proof() -> None:
    # nu_2 and nu_3 differ from nu_4 in one arm each, so the total variations are sqrt(p / 32) and sqrt((1 - p) / 32)
    p = np.linspace(0, 1, 1_001)
    assert (np.sqrt(p / 32) + np.sqrt((1 - p) / 32)).max() <= 0.25 + 1e-15
    assert (1 - 1.5 * 0.25) / 8 >= 1 / 16
    for horizon in (1, 100):
        assert horizon * (2 / (16 * horizon) + 1 / (36 * horizon) / (0.25 - 1 / (36 * horizon))) <= 0.25
    assert 1 - math.sqrt(1 / 8) > 0.646


# shape


@pytest.mark.parametrize("bound", UPPER, ids=lambda bound: bound.__name__)
def test_bounds_grow_with_what_makes_a_problem_harder(bound: Callable[[Instance], Bound]) -> None:
    def totals(instances: list[Instance]) -> list[float]:
        found = [bound(instance).total for instance in instances]
        assert found == sorted(found)
        return found

    if bound is not bounds.radius:
        totals([replace(BASE, horizon=horizon) for horizon in (20_000, 100_000, 10**7, 10**11, 10**15)])
    totals([replace(BASE, n_arms=n_arms) for n_arms in (2, 3, 10, 100)])
    totals([replace(BASE, benchmark_loss=loss) for loss in (0, 1, 1e3, 1e5)])
    totals([replace(BASE, horizon=10**15, benchmark_loss=loss) for loss in (0, 1e6, 1e9, 1e12, 1e15)])
    totals([replace(BASE, gap=gap) for gap in (0, 0.1, 0.9)])
    found = totals([replace(BASE, margin=margin) for margin in (0.5, 0.3, 0.1, 0.01)])
    hard = bound not in (bounds.radius, bounds.theorem_1, bounds.theorem_2)
    assert (found[0] < found[-1]) == hard


def slope(bound: Callable[[Instance], float], low: Instance, high: Instance, by: float) -> float:
    return math.log(bound(high) / bound(low)) / math.log(by)


def test_regret_goes_with_the_root_of_the_benchmarks_loss() -> None:
    huge = BASE.changed(horizon=1e28)
    for bound in (bounds.theorem_2, bounds.weighted):
        found = slope(
            lambda i: bound(i).total, huge.changed(benchmark_loss=1e25, gap=0.0),
            huge.changed(benchmark_loss=1e27, gap=0.0), 100,
        )  # fmt: skip
        assert found == pytest.approx(0.5, abs=0.005)


def test_bandit_complexity_is_divided_by_the_margin_as_printed_but_not_when_weighted() -> None:
    def bandit(bound: Callable[[Instance], Bound], instance: Instance) -> float:
        safety = ("light rounds", "heavy rounds", "mixing")
        return math.fsum(value for term, value in bound(instance).terms.items() if term not in safety)

    huge = BASE.changed(horizon=1e25, benchmark_loss=1e24)
    narrow = huge.changed(margin=0.03)
    assert slope(lambda i: bandit(bounds.theorem_4, i), huge, narrow, 10) == pytest.approx(1, abs=0.01)
    assert slope(lambda i: bandit(bounds.weighted, i), huge, narrow, 10) == pytest.approx(0, abs=1e-6)
    # and without a gap nothing is left of the margin
    assert bounds.weighted(huge.changed(gap=0.0)).total == bounds.weighted(narrow.changed(gap=0.0)).total


def test_the_sharp_lemma_is_sharper() -> None:
    for instance in POINTS:
        assert bounds.lemma_3_sharp(instance).total <= bounds.lemma_3(instance).terms["light rounds"] / 4
    wide, narrow = BASE.changed(horizon=1e20), BASE.changed(horizon=1e20, margin=0.03)
    for bound, term, power in (
        (bounds.lemma_3, "heavy rounds", 6), (bounds.lemma_3, "light rounds", 1), (bounds.lemma_3_sharp, "mixing", 1),
    ):  # fmt: skip
        found = slope(lambda i: bound(i).terms[term], wide, narrow, 10)
        assert found == pytest.approx(power, abs=0.01)
    few, many = BASE.changed(horizon=1e25, n_arms=100), BASE.changed(horizon=1e25, n_arms=10_000)
    assert slope(lambda i: bounds.lemma_3(i).terms["light rounds"], few, many, 100) == pytest.approx(1, abs=0.05)
    assert slope(lambda i: bounds.lemma_3_sharp(i).total, few, many, 100) == pytest.approx(0.5, abs=0.05)


def test_the_lower_bound_is_below_the_upper_ones() -> None:
    for instance in POINTS:
        assert bounds.theorem_5(instance).total < bounds.corollary(instance).total
        assert bounds.theorem_5(instance).total < bounds.weighted(instance).total


# horizons


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.__name__)
def test_bounds_say_something_from_that_horizon_on_and_nothing_before(bound: Callable[[Instance], Bound]) -> None:
    for instance in (BASE, POINTS[1], POINTS[2], replace(BASE, gap=0.01, benchmark_loss=0)):
        since = nontrivial_horizon(bound, instance)
        assert since == nontrivial_horizon(bound, instance.at(12_345.0))  # no matter where one asks
        longest = bound(instance).longest
        if math.isinf(since):
            assert not any(bound(instance.at(2.0**k)).says_something for k in range(5, 100))
            assert not bound(instance.at(min(longest, 1e30))).says_something
            continue
        assert bound(instance.at(since)).says_something
        if since > max(3, instance.n_arms):
            before = since - 1 if since < 2**53 else math.nextafter(since, 0)
            assert not bound(instance.at(before)).says_something
        assert since == int(since) or since > 2**53
        later = [since * 1.1**k for k in range(50)]
        assert all(bound(instance.at(T)).says_something == (longest >= T) for T in later)


def test_horizons_do_not_end_where_policies_do() -> None:
    assert nontrivial_horizon(bounds.corollary, BASE) > 1e15
    assert nontrivial_horizon(bounds.theorem_5, replace(BASE, benchmark_loss=60_000)) == math.inf  # omega >= 1/2
    assert (
        nontrivial_horizon(bounds.theorem_2, replace(BASE, benchmark_loss=BASE.horizon)) == math.inf
    )  # nothing to lose


def test_a_horizon_can_be_found_by_other_means() -> None:
    def excess(log: float) -> float:
        told = bounds.theorem_1(BASE.at(math.exp(log)))
        return told.total - told.trivial

    found = math.exp(brentq(excess, 5, 20, xtol=1e-12))
    assert nontrivial_horizon(bounds.theorem_1, BASE) == math.ceil(found)


# conditions


PROVED_SO_FAR = {
    "theorem_r": 1e9,
    "theorem_r_two_levels": 1e9,
    "led": 1e9,
    "led_without_horizon": 1e9 - 5,
    "theorem_h": 1e9,
}


def test_what_needs_the_width_of_the_bets_is_silent_beyond_what_is_proved_of_it() -> None:
    assert {bound.__name__: bound(BASE).longest for bound in BOUNDS if bound(BASE).longest < math.inf} == PROVED_SO_FAR
    for name, longest in PROVED_SO_FAR.items():
        bound = getattr(bounds, name)
        assert bound(BASE.at(longest)).says_something
        beyond = bound(BASE.at(longest + 1))
        assert beyond.total < beyond.trivial
        assert not beyond.says_something
        assert unmet(beyond) == ["horizon <= 1e9 - n_arms" if longest < 1e9 else "horizon <= 1e9"]
    narrow = replace(BASE, margin=0.02)  # the figure would be 1.5e9
    assert bounds.led(narrow.at(1.6e9)).total < bounds.led(narrow.at(1.6e9)).trivial
    assert nontrivial_horizon(bounds.led, narrow) == math.inf > nontrivial_horizon(bounds.theorem_r, narrow)


def unmet(bound: Bound) -> list[str]:
    return [words for words, holds in bound.conditions if not holds]


def test_conditions_fail_where_they_should() -> None:
    for bound in BOUNDS:
        assert unmet(bound(BASE)) == []
    cap = learning_rate_cap(BASE.horizon, BASE.delta)
    assert unmet(bounds.theorem_2(replace(BASE, learning_rate=cap))) == []
    assert unmet(bounds.theorem_2(replace(BASE, learning_rate=1.01 * cap))) == [
        "learning_rate <= 1 / (40 H ln T ln(H / delta))"
    ]
    for bound in (bounds.lemma_4, bounds.theorem_4):
        told = bound(replace(BASE, learning_rate=cap))
        assert unmet(told) == ["learning_rate <= margin / (40 H ln T ln(H / delta))"]
    assert unmet(bounds.weighted(replace(BASE, learning_rate=cap))) == []
    assert unmet(bounds.weighted(replace(BASE, learning_rate=0.1))) == ["learning_rate <= 1 / (40 iota' ln T)"]
    assert bounds.theorem_2(replace(BASE, learning_rate=0.1)).total == math.inf
    narrow = replace(BASE, margin=11 * BASE.n_arms / BASE.horizon)
    for bound in (bounds.lemma_3, bounds.theorem_4, bounds.corollary):
        assert "margin >= 12 n_arms / horizon" in unmet(bound(narrow))
        assert not bound(narrow).says_something
    for bound in (bounds.lemma_3_sharp, bounds.weighted):
        assert unmet(bound(narrow)) == []
    assert unmet(bounds.theorem_2(replace(BASE, n_arms=100, horizon=100, benchmark_loss=1))) == ["horizon > n_arms"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_arms": 2}, "n_arms >= 3"),
        ({"delta": 0.4}, "delta <= 0.39"),
        ({"gap": 1e-5}, "gap >= sqrt(omega (1 - omega) / T) / 4"),
        ({"margin": 5e-4}, "margin >= 1 / (6 sqrt(T))"),
        ({"margin": 0.5}, "margin < 1/2"),
        ({"benchmark_loss": 100}, "omega > (64/9) (11/2 + ln T) / T"),
        ({"benchmark_loss": 50_000}, "omega < 1/2"),
        ({"horizon": 140, "benchmark_loss": 69}, "T >= (64/9) (11 + 2 ln T)"),
    ],
)
def test_each_condition_of_the_lower_bound(changes: dict[str, Any], words: str) -> None:
    told = bounds.theorem_5(replace(BASE, **changes))
    assert words in unmet(told)
    assert not told.says_something


# what goes in


def test_rates_are_those_of_the_policies() -> None:
    problem = sf.Problem(5, [0.5], 100_000, 0.05, sf.SafeStrategy([0, 0, 0, 0, 1], [0.2]))
    sizes = Sized(problem.n_arms, problem.n_constraints, problem.rounds, problem.delta)
    rate = theory_rate(sizes, 10_000.0)
    assert bounds.theorem_2(BASE).total == bounds.theorem_2(replace(BASE, learning_rate=rate)).total
    rate = theory_rate(sizes, 10_000.0, problem.margin)
    assert bounds.theorem_4(BASE).total == pytest.approx(bounds.theorem_4(replace(BASE, learning_rate=rate)).total)


def test_vertices_are_counted() -> None:
    for n_arms, n_constraints in ((2, 0), (5, 1), (30, 7), (1_000, 3)):
        counted = math.comb(n_arms + n_constraints, n_constraints + 1)
        instance = replace(BASE, n_arms=n_arms, n_constraints=n_constraints)
        assert log_vertices(instance) == pytest.approx(math.log(counted), rel=1e-11)


def test_without_constraints_there_is_nothing_to_estimate() -> None:
    free = Instance(3, 0, 1_000, 0.05, margin=1.0, benchmark_loss=10, gap=0.0, threshold=1.0)
    assert bounds.radius(free).total == 0
    assert bounds.theorem_1(free).trivial == 0
    assert math.isfinite(bounds.weighted(free).total)


def test_measured_values_take_the_place_of_worst_cases() -> None:
    assert bounds.radius(BASE, 0).total == 1
    assert bounds.radius(BASE, 10_000).total == pytest.approx(math.sqrt(4 * math.log(1e7) / 1e4))
    told = bounds.theorem_1(BASE, sum_of_radii=1_000.0)
    assert (told.total, told.probability) == (2_005.0, 0.95)
    assert bounds.lemma_3(BASE, heavy_rounds=7).terms["heavy rounds"] == 7
    assert bounds.lemma_3(BASE, heavy_rounds=7).probability == pytest.approx(0.9)
    assert bounds.weighted(BASE, total_loss=12_000).total < bounds.weighted(BASE).total
    assert bounds.theorem_4(BASE, heavy_rounds=7).probability == pytest.approx(0.75)
    assert bounds.lemma_4(BASE, total_loss=12_000).total < bounds.lemma_4(BASE).total


def test_a_run_can_be_held_against_the_bounds() -> None:
    scenario = sf.scenarios.make("three-arms-v1", horizon=2_000)
    run = sf.simulate(scenario, {"solb": lambda p, s: sf.SOLB(p, s, preset="paper")}, 2, [1_000, 2_000])
    first, row = run.table.to_pylist()[:2]
    instance = Instance.measured(scenario.problem, row)
    assert instance.benchmark_loss == row["bandit_complexity"]
    assert instance.safety_complexity == pytest.approx(row["safety_complexity"])
    assert instance.margin == scenario.problem.margin
    told = bounds.theorem_4(instance, total_loss=row["loss"])
    assert row["regret"] <= told.total <= bounds.theorem_4(instance).total
    assert row["safety_regret"] <= bounds.lemma_3_sharp(instance).total
    with pytest.raises(ValueError, match=r"^row must be of the last round, 2000, got one of round 1000$"):
        Instance.measured(scenario.problem, first)


def test_soft_bounds_need_no_safe_strategy() -> None:
    row = {"round": 100_000, "bandit_complexity": 10_000.0, "safety_complexity": None}
    soft = Instance.measured(sf.Problem(5, [0.5], 100_000), row)
    assert bounds.theorem_2(soft).total == bounds.theorem_2(BASE).total
    for bound in (bounds.lemma_3, bounds.lemma_4, bounds.weighted, bounds.theorem_5):
        with pytest.raises(ValueError, match=r"^(margin|gap) must be a number for bounds on SOLB, got None$"):
            bound(soft)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n_arms": 1}, "n_arms must be a whole number >= 2, got 1"),
        ({"n_constraints": -1}, "n_constraints must be a whole number >= 0, got -1"),
        ({"horizon": 1e5 + 0.5}, "horizon must be a whole number in [3, 1e+15], got 100000.5"),
        ({"horizon": 4}, "horizon must be at least n_arms = 5, got 4"),
        ({"delta": 0}, "delta must be in (0, 1), got 0"),
        ({"margin": 0}, "margin must be in [1e-12, 1], got 0"),
        ({"margin": 0.6}, "margin must be at most threshold = 0.5, got 0.6"),
        ({"benchmark_loss": -1}, "benchmark_loss must be a finite number >= 0, got -1"),
        ({"benchmark_loss": math.nan}, "benchmark_loss must be a finite number >= 0, got nan"),
        ({"benchmark_loss": 2e5}, "benchmark_loss must be at most horizon = 100000, got 200000.0"),
        ({"gap": 1.1}, "gap must be in [0, 1], got 1.1"),
        ({"threshold": "low"}, "threshold must be a number in [0, 1], got 'low'"),
        ({"learning_rate": 0}, "learning_rate must be in [1e-12, 1e+06], got 0"),
    ],
)
def test_what_breaks_a_rule_is_refused_in_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(sf.RuleError) as error:
        replace(BASE, **changes)  # type: ignore[arg-type]
    assert str(error.value) == sentence
    assert error.value.argument in changes


def test_whole_numbers_may_be_written_as_floats() -> None:
    floats: dict[str, Any] = {"horizon": 1e5, "n_arms": np.float64(5)}
    assert replace(BASE, **floats) == replace(BASE, horizon=100_000, n_arms=5)


def test_measured_values_are_checked_too() -> None:
    calls: list[tuple[Callable[[], Bound], str]] = [
        (lambda: bounds.radius(BASE, -1), "observations"),
        (lambda: bounds.theorem_1(BASE, sum_of_radii=math.inf), "sum_of_radii"),
        (lambda: bounds.theorem_2(BASE, total_loss=-0.1), "total_loss"),
        (lambda: bounds.lemma_3(BASE, heavy_rounds=True), "heavy_rounds"),
        (lambda: bounds.weighted(BASE, total_loss=-1), "total_loss"),
    ]
    for call, name in calls:
        with pytest.raises(ValueError, match=f"^{name} must be a finite number >= 0, got "):
            call()


def test_the_lower_bound_is_of_its_own_family() -> None:
    for change, words in (({"n_constraints": 0}, "n_constraints >= 1"), ({"threshold": 0.8}, "threshold = 1/2")):
        for bound in (bounds.theorem_5, bounds.safe_arm_rounds):
            told = bound(replace(BASE, **change))
            assert unmet(told) == [words]
            assert not told.says_something


def test_from_that_horizon_on_means_on() -> None:
    # at a large delta Theorem 2 speaks, falls silent and speaks again
    speaks_twice = replace(BASE, delta=0.18, benchmark_loss=0.1 * BASE.horizon)
    first = bounds.nontrivial_horizon(bounds.theorem_2, speaks_twice)
    for factor in (1, 3, 10, 30, 100, 300, 1e4):
        assert bounds.theorem_2(speaks_twice.at(first * factor)).says_something
    assert not bounds.theorem_2(speaks_twice.at(first - 1)).says_something
    silent_between = [T for T in np.geomspace(1e6, first, 300) if bounds.theorem_2(speaks_twice.at(T)).says_something]
    assert silent_between  # else this would not test it


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"bandit_complexity": math.nan}, "benchmark_loss must be"),
        ({"bandit_complexity": -500.0}, "benchmark_loss must be"),
        ({"bandit_complexity": 1e9}, "benchmark_loss must be at most"),
        ({"safety_complexity": 1e9}, "gap must be"),
    ],
)
def test_measured_values_are_not_bent_into_shape(change: dict[str, float], sentence: str) -> None:
    problem = sf.Problem(5, [0.5], 10_000, safe=sf.SafeStrategy([0, 0, 0, 0, 1], [0.2]))
    row = {"round": 10_000, "bandit_complexity": 1_000.0, "safety_complexity": 20.0}
    assert Instance.measured(problem, {**row, "bandit_complexity": -1e-9}).benchmark_loss == 0.0  # rounding
    with pytest.raises(ValueError, match=sentence):
        Instance.measured(problem, {**row, **change})
    with pytest.raises(ValueError, match="row must have a bandit_complexity, got"):
        Instance.measured(problem, {"round": 10_000, "safety_complexity": 1.0})
