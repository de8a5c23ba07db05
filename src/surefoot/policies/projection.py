"""One projection, for callers from outside: input checked, errors raised."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefoot.kernels.dual import BASE, EMPTY, workspace
from surefoot.kernels.projection import project as kernel
from surefoot.problem import EmptySafeSet, Floats, number, numbers


class Projection(NamedTuple):
    """A strategy and the multipliers (one per constraint, 0 where it is not tight) that prove it optimal."""

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
        One per arm, (K,), positive.
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
        The strategy, and the multipliers of the constraints.

    Raises
    ------
    EmptySafeSet
        If no strategy meets the constraints.

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
    centers = numbers("center", center, None)
    n_arms = centers.size
    if n_arms < 2:
        raise ValueError(f"center must have at least 2 entries, got {n_arms}")
    rates = numbers("learning_rates", learning_rates, n_arms)
    losses = numbers("loss_estimate", loss_estimate, n_arms)
    limit = numbers("limits", limits, None)
    lower = numbers("lower_costs", lower_costs, limit.size, n_arms)
    number("floor", floor)
    strategy, multipliers, work = np.empty(n_arms), np.empty(limit.size), workspace(n_arms, limit.size)
    work.arms[BASE] = 1.0 / (rates * centers) + losses
    crowded = n_arms * floor > 1.0 + 1e-9
    if crowded or kernel(rates, lower, limit, float(floor), strategy, multipliers, work) == EMPTY:
        raise EmptySafeSet(f"no strategy with every share >= {floor:g} meets the limits")
    return Projection(strategy, multipliers)
