"""A single projection for outside callers, with checked input and errors raised."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefoot.kernels.compile import compiled, compiled_door
from surefoot.kernels.dual import BASE, Workspace
from surefoot.kernels.layout import layout_of
from surefoot.kernels.projection import project as project_kernel
from surefoot.kernels.types import EMPTY, SOLVED
from surefoot.problem import EmptySafeSet
from surefoot.rules import POSITIVE, REAL, Floats, Range, RuleError, number, numbers


class Projection(NamedTuple):
    """A strategy and the multipliers (one per guardrail, 0 where it is not tight) that prove it optimal."""

    strategy: Floats
    multipliers: Floats


def project(
    center: ArrayLike,
    learning_rates: ArrayLike,
    loss_estimate: ArrayLike,
    lower_costs: ArrayLike,
    limits: ArrayLike,
    floor: float,
) -> Projection:
    """One step of mirror descent with the log-barrier, exact to rounding.

    Minimises ``loss_estimate @ x + sum((x / center - 1 - ln(x / center)) / learning_rates)`` over the strategies x with
    ``x >= floor`` and ``lower_costs @ x <= limits``.

    Parameters
    ----------
    center
        The point to step from, (K,), positive.
    learning_rates
        One per arm, (K,), positive, at most a factor of 10,000 apart.
    loss_estimate
        (K,), not negative.
    lower_costs
        (m, K); m may be 0.
    limits
        (m,).
    floor
        The smallest share of an arm, in (0, 1].

    Returns
    -------
    Projection
        The strategy, and the multipliers of the guardrails.

    Raises
    ------
    EmptySafeSet
        If no strategy meets the guardrails.

    Examples
    --------
    >>> import surefoot as sf
    >>> step = sf.project([0.5, 0.3, 0.2], [0.1] * 3, [4.0, 0, 0], [[0.9, 0.6, 0.1]], [0.6], floor=0.001)
    >>> step.strategy.round(4), step.multipliers.round(4)
    (array([0.4147, 0.3364, 0.2488]), array([12.4065]))
    >>> sf.project([0.5, 0.5], [0.1] * 2, [0, 0], [[0.9, 0.8]], [0.7], floor=0.01)
    Traceback (most recent call last):
    surefoot.problem.EmptySafeSet: no strategy with every share >= 0.01 meets the limits
    """
    given: list[Any] = [center, learning_rates, loss_estimate, lower_costs, limits]
    if type(floor) is not float or not all(map(is_plain, given, DIMENSIONS)):
        given, floor = _converted(*given), float(number("floor", floor, FLOOR))
    status, strategy, multipliers = attempt(given[0], given[1], given[2], given[3], given[4], floor)
    if status == REFUSED:  # this finds out why and says it, or makes the arrays fit
        given, floor = _converted(*given), float(number("floor", floor, FLOOR))
        status, strategy, multipliers = attempt(given[0], given[1], given[2], given[3], given[4], floor)
    if status != SOLVED:
        raise EmptySafeSet(f"no strategy with every share >= {floor:g} meets the limits")
    return Projection(strategy, multipliers)


DIMENSIONS = (1, 1, 1, 2, 1)


def is_plain(value: Any, n_dimensions: int) -> bool:
    """True if a value is an array as compiled code needs it: doubles, contiguous and writable."""
    return type(value) is np.ndarray and value.dtype.char == "d" and value.ndim == n_dimensions and value.flags.carray


def _converted(
    center: ArrayLike, learning_rates: ArrayLike, loss_estimate: ArrayLike, lower_costs: ArrayLike, limits: ArrayLike
) -> list[Any]:
    """The arrays, checked and copied."""
    centers, limit = numbers("center", center, POSITIVE, None), numbers("limits", limits, REAL, None)
    n_arms = centers.size
    if n_arms < 2:
        raise RuleError("center", "have at least 2 entries", center, str(n_arms))
    rates = numbers("learning_rates", learning_rates, POSITIVE, n_arms)
    if rates.max() > MOST_APART * rates.min():
        spread = rates.max() / rates.min()
        rule = f"be at most a factor of {MOST_APART:g} apart"
        raise RuleError("learning_rates", rule, learning_rates, f"a factor of {spread:g}")
    return [
        centers,
        rates,
        numbers("loss_estimate", loss_estimate, LOSS_ESTIMATE, n_arms),
        numbers("lower_costs", lower_costs, REAL, limit.size, n_arms),
        limit,
    ]


REFUSED = -1
MOST_APART = 1e4
LOSS_ESTIMATE = Range(0, 1e100)
FLOOR = Range(0, 1, open_low=True)
POSITIVE_LOW, POSITIVE_HIGH = POSITIVE.low, POSITIVE.high
LOSS_LOW, LOSS_HIGH = LOSS_ESTIMATE.low, LOSS_ESTIMATE.high
REAL_LOW, REAL_HIGH = REAL.low, REAL.high
FLOOR_LOW, FLOOR_HIGH = FLOOR.low, FLOOR.high
workspace = layout_of(Workspace).allocated


@compiled
def all_within(values: Floats, low: float, high: float) -> bool:
    """True if all values are in [low, high]; NaN is not."""
    for value in values.flat:
        if not low <= value <= high:
            return False
    return True


@compiled_door
def attempt(
    center: Floats, rates: Floats, loss: Floats, lower: Floats, limits: Floats, floor: float
) -> tuple[int, Floats, Floats]:
    """Check, allocate and project in one compiled call; REFUSED if a rule is broken."""
    n_arms, n_constraints = center.size, limits.size
    strategy, multipliers = np.empty(n_arms), np.empty(n_constraints)
    shapes_fit = n_arms >= 2 and rates.size == n_arms and loss.size == n_arms and lower.shape == (n_constraints, n_arms)
    values_fit = (
        all_within(center, POSITIVE_LOW, POSITIVE_HIGH)
        and all_within(rates, POSITIVE_LOW, POSITIVE_HIGH)
        and all_within(loss, LOSS_LOW, LOSS_HIGH)
        and all_within(lower, REAL_LOW, REAL_HIGH)
        and all_within(limits, REAL_LOW, REAL_HIGH)
    )
    close = shapes_fit and rates.max() <= MOST_APART * rates.min()
    if not (shapes_fit and values_fit and close and FLOOR_LOW < floor <= FLOOR_HIGH):
        return REFUSED, strategy, multipliers
    if n_arms * floor > 1.0 + 1e-12:
        return EMPTY, strategy, multipliers
    work = workspace(n_arms, n_constraints)
    for a in range(n_arms):
        work.arms[BASE, a] = 1.0 / (rates[a] * center[a]) + loss[a]
    return project_kernel(rates, lower, limits, floor, strategy, multipliers, work), strategy, multipliers
