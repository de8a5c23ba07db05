"""What peers share: confidence bounds by Hoeffding, the margin they are told, and estimates that survive a restart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.confidence import Confidence, resolve
from surefoot.kernels.costs import BETTING, PAPER, Costs, bound, unknown_costs
from surefoot.kernels.dual import Floats, Integers
from surefoot.policies.base import DERIVED, Policy, snapshot
from surefoot.problem import Problem

LEAST_MARGIN = 1e-12
"""A smaller margin counts as this one, so that 1 / margin and what is multiplied by it stay finite."""


class EstimatesCosts(Policy):
    """A policy whose state has the field ``known``, and shows the bounds in it."""

    @property
    def _derived(self) -> frozenset[str]:
        return derived_fields(self._state.known)

    @property
    def lower_costs(self) -> Floats:
        """Lower confidence bounds of the costs, one row per constraint."""
        return snapshot(self._state.known.lower)

    @property
    def upper_costs(self) -> Floats:
        """Upper confidence bounds of the costs, one row per constraint."""
        return snapshot(self._state.known.upper)


def hoeffding_scale(problem: Problem, n_rows: int) -> float:
    """ln(2 T K n / delta) / 2, the squared radius after one observation: n rows of K means hold at once, at any time.

    By Hoeffding and a union over arms, rows and numbers of observations; 0 when there is nothing to bound.
    """
    if n_rows == 0:
        return 0.0
    return 0.5 * (math.log(2 * problem.rounds * problem.n_arms * n_rows) - math.log(problem.delta))


def hoeffding_costs(problem: Problem) -> Costs:
    """Nothing known of the costs yet; with probability 1 - delta all of them stay within the bounds, in all rounds."""
    return unknown_costs(problem.n_arms, problem.n_constraints, hoeffding_scale(problem, problem.n_constraints))


def bounds_option(confidence: str | Mapping[str, Any] | Confidence | None) -> str | dict[str, Any] | None:
    """The option `confidence` of a peer as JSON-able data; None for the bounds it was published with."""
    return None if confidence is None else resolve(confidence).option()


def bounded_costs(problem: Problem, option: str | Mapping[str, Any] | None) -> Costs:
    """Nothing known of the costs yet, under the bounds of an option `confidence`: by Hoeffding if it is None."""
    return hoeffding_costs(problem) if option is None else resolve(option).new_costs(problem)


def hoeffding_losses(problem: Problem, widening: float | None = None) -> Costs:
    """The same for stochastic losses, as one row; or with the radius of the costs, widened by a factor."""
    if widening is None:
        return unknown_costs(problem.n_arms, 1, hoeffding_scale(problem, 1))
    return unknown_costs(problem.n_arms, 1, widening**2 * hoeffding_scale(problem, max(1, problem.n_constraints)))


def known_margin(problem: Problem, option: float | None, policy: str) -> float:
    """The margin rho: as the caller gives it, or that of the safe strategy; 1 with no threshold."""
    if problem.n_constraints == 0:
        return 1.0
    if option is None and problem.safe is None:
        raise ValueError(
            f"problem must have a safe strategy for {policy} to know the margin, if margin is not given, got safe=None"
        )
    return max(LEAST_MARGIN, problem.margin if option is None else option)


def check_counts(counts: Integers, rounds: int) -> None:
    """Refuse saved counts that are not those of the rounds."""
    if counts.sum() != rounds:
        raise ValueError(f"state.counts must sum to round = {rounds}, got a sum of {counts.sum()}")


def derived_fields(known: Costs) -> frozenset[str]:
    """What need not be saved: the paper's bounds, which follow from counts and means. Others only ever narrow."""
    return DERIVED if known.kind == PAPER else DERIVED - {"lower", "upper", "memory"}


def restore(rounds: int, *estimates: Costs) -> None:
    """Set, or check, the bounds of estimates that were loaded, if their counts fit the number of rounds."""
    for loaded in estimates:
        check_counts(loaded.counts, rounds)
        if loaded.kind == PAPER:
            for arm in np.flatnonzero(loaded.counts):
                bound(loaded, int(arm))
        else:
            check_memory(loaded)


def check_memory(loaded: Costs) -> None:
    """Refuse saved bounds of arms that have not been observed, but for 0 and 1, and costs that were not counted."""
    unseen = loaded.counts == 0
    for name, start in (("lower", 0.0), ("upper", 1.0), ("memory", 0.0)):
        if (getattr(loaded, name)[:, unseen] != start).any():
            raise ValueError(f"state.{name} must be {start:g} for an arm that was never observed, got another number")
    remembered = loaded.memory[:, :, 2 * loaded.settings.shape[1] :].sum(axis=2)
    if loaded.kind == BETTING and (np.abs(remembered - loaded.counts) > 1e-6 * loaded.counts).any():
        raise ValueError("state.memory must hold as many costs as state.counts counts, got more or fewer")
