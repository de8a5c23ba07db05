"""What policies share: estimates of the costs, and access to the safe strategy and its margin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from surefoot.confidence import Confidence, resolve
from surefoot.kernels.compile import compiled
from surefoot.kernels.costs import BETTING, PAPER, CostBound, KnownCosts
from surefoot.kernels.types import Integers
from surefoot.policies.base import Policy, S, ShownLeaf
from surefoot.problem import Problem, SafeStrategy
from surefoot.rules import Floats, Range, RuleError

STARTS = {"lower": 0.0, "upper": 1.0, "squares": 0.0, "reach": 0.0, "upper_wealth": 0.0, "lower_wealth": 0.0,
          "nodes": 0.0}  # fmt: skip
"""What bounds other than the paper's say of an arm that was never observed."""

MARGIN = Range(1e-12, 1)
"""Range of the option `margin`: by how much some strategy is safe."""

Bounds = str | Mapping[str, Any] | Confidence | None
"""What the option `confidence` may be; None for the usual bounds of a policy."""


class EstimatesCosts(Policy[S]):
    """A policy whose state has the part ``known``, and shows the bounds in it."""

    lower_costs = ShownLeaf("known.lower", "Lower confidence bounds of the costs, one row per guardrail.")
    upper_costs = ShownLeaf("known.upper", "Upper confidence bounds of the costs, one row per guardrail.")

    @property
    def known_costs(self) -> KnownCosts:
        """Counts, means and bounds of the costs: views that change as the policy learns."""
        return cast(KnownCosts, self._known)

    @property
    def _known(self) -> Any:
        """The cost estimates; the type of the state does not declare them."""
        return self._played.known


class WithConfidence(EstimatesCosts[S]):
    """A peer with the option `confidence`. Its state may also have the part ``lost``: losses as if they were a cost."""

    def _bound(self) -> CostBound:
        """The bound behind the option: Hoeffding's if it is None, which holds in all rounds at once."""
        option = self._options["confidence"]
        if option is None:
            return CostBound(PAPER, hoeffding_scale(self.problem, self.problem.n_constraints))
        return resolve(option).bound(self.problem)

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | self._bound().sizes

    def _check(self) -> None:
        check_costs(self._round, self._known)
        if hasattr(self._played, "lost"):
            check_costs(self._round, self._played.lost, "lost")


def known_safe(problem: Problem, policy: str) -> SafeStrategy:
    """The safe strategy of a problem, for a policy that needs one."""
    if problem.safe is None:
        raise RuleError("problem", f"have a safe strategy for {policy}", problem, "safe=None")
    return problem.safe


def least_safe_share(problem: Problem) -> float:
    """The smallest probability with which the safe strategy, which is sometimes played alone, draws an arm."""
    return 1.0 if problem.safe is None else float(problem.safe.strategy[problem.safe.strategy > 0.0].min()) * (1 - 1e-9)


def known_margin(problem: Problem, option: float | None, policy: str) -> float:
    """The margin rho: the one the caller gives, or that of the safe strategy; 1 if there are no thresholds."""
    if problem.n_constraints == 0:
        return 1.0
    if option is None and problem.safe is None:
        rule = f"have a safe strategy for {policy} to know the margin, if margin is not given"
        raise RuleError("problem", rule, problem, "safe=None")
    return max(MARGIN.low, problem.margin if option is None else option)


def hoeffding_scale(problem: Problem, n_rows: int) -> float:
    """ln(2 T K n / delta) / 2, the squared radius after one observation: n rows of K means hold at once, at any time.

    By Hoeffding and a union over arms, rows and numbers of observations; 0 when there is nothing to bound.
    """
    if n_rows == 0:
        return 0.0
    return 0.5 * (math.log(2 * problem.rounds * problem.n_arms * n_rows) - math.log(problem.delta))


def bounds_option(confidence: Bounds) -> str | dict[str, Any] | None:
    """The option `confidence` of a peer as JSON-able data; None for the bounds it was published with."""
    return None if confidence is None else resolve(confidence).option()


def bound_on_losses(problem: Problem, widening: float | None = None) -> CostBound:
    """Hoeffding's bound on stochastic losses; or with the radius of the costs, widened by a factor."""
    if widening is None:
        return CostBound(PAPER, hoeffding_scale(problem, 1))
    return CostBound(PAPER, widening**2 * hoeffding_scale(problem, max(1, problem.n_constraints)))


@compiled
def set_strategy(strategy: Floats, shares: Floats) -> None:
    """Play these shares."""
    for a in range(strategy.size):
        strategy[a] = shares[a]


def check_counts(counts: Integers, rounds: int, name: str = "counts") -> None:
    """Reject saved counts that do not match the rounds."""
    if counts.sum() != rounds:
        raise RuleError(f"state.{name}", f"sum to round = {rounds}", counts, f"a sum of {counts.sum()}")


def check_costs(rounds: int, known: KnownCosts, name: str = "known") -> None:
    """Reject loaded estimates that do not match the number of rounds, or each other."""
    check_counts(known.counts, rounds, f"{name}.counts")
    if known.kind == PAPER:
        return
    if known.begun[0] > min(known.contradicted[0], 1) or (known.kind != BETTING and known.begun[0] > 0):
        rule = "be 1 after a contradiction of bounds that bet, else 0"
        raise RuleError(f"state.{name}.begun", rule, int(known.begun[0]))
    if (known.since > known.counts * (known.begun[0] > 0)).any():
        rule = f"be at most state.{name}.counts, and 0 if bounds have not begun again"
        raise RuleError(f"state.{name}.since", rule, known.since)
    counts = known.counts - known.since
    unseen, bounded = counts == 0, np.arange(counts.size) != known.exempt
    if not bounded.all() and (known.upper[:, known.exempt] != known.stated).any():
        raise RuleError(
            f"state.{name}.upper", f"be as stated for arm {known.exempt}, which is safe", known.upper[:, known.exempt]
        )  # fmt: skip
    for leaf, start in STARTS.items():
        numbers = getattr(known, leaf)[:, unseen & bounded if leaf == "upper" else unseen]
        if (numbers != start).any():
            raise RuleError(f"state.{name}.{leaf}", f"be {start:g} for an arm that was never observed", numbers)
    remembered = known.nodes.sum(axis=2)
    if known.kind == BETTING and (abs(remembered - counts) > 1e-6 * counts).any():
        less = f" less state.{name}.since" * bool(known.begun[0])
        raise RuleError(f"state.{name}.nodes", f"hold as many costs as state.{name}.counts{less}", remembered)
