"""Projections to try: the whole range of sizes, rates, losses and degeneracies that the kernel promises to master."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog

from surefoot.rules import Floats
from tests.strategies import chance, columns, distributions, numbers, power, row, signed


class Instance(NamedTuple):
    """The arguments of `surefoot.project`."""

    center: Floats
    learning_rates: Floats
    loss_estimate: Floats
    lower_costs: Floats
    limits: Floats
    floor: float


RELATIONS = ("zero", "equal", "opposite", "parallel", "nearly equal", "nearly opposite", "flat")


@st.composite
def projections(draw: st.DrawFn, larger: Sequence[int] = (20, 50, 100, 300, 1000)) -> Instance:
    """An instance of 2 to 12 arms, or one of the larger numbers, with a taste for trouble."""
    n_arms, n_constraints = draw(st.integers(2, 12) | st.sampled_from(larger)), draw(st.integers(0, 12))
    horizon = max(n_arms, int(draw(power(1, 7))))
    floor = 1.0 / horizon
    rates = np.full(n_arms, draw(power(math.log10(2), -6)))
    if draw(chance(70)):
        rates *= 1 + 4 * draw(row(n_arms))

    center = draw(points(n_arms, floor, chance(25)))
    loss, arm = np.zeros(n_arms), draw(st.integers(0, n_arms - 1))
    match draw(st.sampled_from(["none", "played", "one", "all"])):
        case "played":
            loss[arm] = draw(numbers(1))[0] / center[arm]
        case "one":
            loss[arm] = draw(power(math.log10(horizon), -3))
        case "all":
            loss = draw(row(n_arms)) * draw(power(math.log10(horizon), -3))

    lower = draw(columns(n_constraints, n_arms))
    if draw(chance(50)):
        lower = signed(lower)
    digits = draw(st.sampled_from([0, 1, None, None, None]))
    lower = lower if digits is None else lower.round(digits)
    for _ in range(draw(st.integers(0, 3)) if n_constraints >= 2 else 0):
        one, step = draw(st.integers(0, n_constraints - 1)), draw(st.integers(1, n_constraints - 1))
        other = (one + step) % n_constraints
        match draw(st.sampled_from(RELATIONS)):
            case "zero":
                lower[other] = 0.0
            case "equal":
                lower[other] = lower[one]
            case "opposite":
                lower[other] = -lower[one]
            case "parallel":
                lower[other] = lower[one] * draw(st.floats(0.1, 1))
            case "nearly equal":
                lower[other] = lower[one] + draw(nudges(n_arms))
            case "nearly opposite":
                lower[other] = draw(nudges(n_arms)) - lower[one]
            case "flat":
                lower[other] = draw(st.floats(-1, 1)) + draw(nudges(n_arms))

    inside = draw(points(n_arms, floor, chance(20)))
    slack = np.full(n_constraints, draw(power(-1, -12)))
    match draw(st.sampled_from(["same"] * 5 + ["own"] * 4 + ["none"])):
        case "own":
            slack = 10.0 ** (-12 * draw(numbers(n_constraints)))
        case "none":
            slack[:] = 0.0
    limits = lower @ inside + slack
    if draw(chance(15)):
        limits -= draw(power(0, -10))
    return Instance(center, rates, loss, lower, limits, floor)


@st.composite
def points(draw: st.DrawFn, n_arms: int, floor: float, at_a_corner: st.SearchStrategy[bool]) -> Floats:
    """A strategy with every share at the floor or above."""
    if draw(at_a_corner):
        shares = np.eye(n_arms)[draw(st.integers(0, n_arms - 1))]
    else:
        shares = draw(distributions(n_arms))
    return np.asarray(np.maximum(floor, floor + (1.0 - n_arms * floor) * shares))


@st.composite
def nudges(draw: st.DrawFn, n_arms: int) -> Floats:
    """A row of small numbers."""
    return np.asarray(draw(power(-3, -14)) * signed(draw(row(n_arms))))


def emptiness(lower: Floats, limits: Floats, floor: float) -> float:
    """How far the set is from holding a strategy: the least largest violation; negative if it has an interior."""
    n_constraints, n_arms = lower.shape
    if n_constraints == 0:
        return -np.inf
    answer = linprog(
        np.append(np.zeros(n_arms), 1.0),
        np.hstack([lower, -np.ones((n_constraints, 1))]),
        limits,
        np.append(np.ones(n_arms), 0.0)[None, :],
        [1.0],
        bounds=[(floor, None)] * n_arms + [(None, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.status == 0
    return float(answer.x[-1])


def nearly_tied(seed: int) -> tuple[Floats, Floats, Floats]:
    """Losses, costs and limits of a linear program in which much is equal, or differs by 1e-16 to 1e-9."""
    rng = np.random.default_rng(seed)
    n_arms, n_constraints = int(rng.integers(2, 21)), int(rng.integers(1, 6))
    digits, n_kinds = int(rng.integers(3)), int(rng.integers(1, n_arms + 1))
    kind = rng.integers(n_kinds, size=n_arms)  # arms of a kind have the same costs
    losses = np.round(rng.random(n_arms), digits)
    costs = np.round(rng.random((n_constraints, n_kinds)), digits)[:, kind]
    tied = rng.random(n_constraints) < 0.5
    limits = costs[np.arange(n_constraints), rng.integers(n_arms, size=n_constraints)]
    limits = np.where(tied, limits, np.round(rng.random(n_constraints), digits))
    for part in (losses, costs, limits):
        apart = 10.0 ** rng.uniform(-16, -9, part.shape if rng.random() < 0.5 else 1)
        part += apart * rng.integers(-2, 3, part.shape) * (rng.random(part.shape) < rng.random())
    return losses, costs, limits
