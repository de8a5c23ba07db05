"""What a decision is drawn from: the usual strategy, one for the arms that are available, a snapshot, the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from surefoot.experiments.errors import Unavailable
from surefoot.experiments.fold import RUNNING, Fold
from surefoot.experiments.snapshot import Snapshot
from surefoot.kernels.safety import weight_needed
from surefoot.rules import SHARE, Floats, Range, RuleError, number, shown, simplex

LEASE_END = Range(-1e16, 1e16)


class Plan(NamedTuple):
    """A strategy to draw from."""

    strategy: Floats
    weight: float  # of what the policy proposed, 1 - safe_weight
    mode: str


def usual(fold: Fold) -> Plan:
    """The plan if all arms are available."""
    if fold.state == RUNNING and not fold.shadow:
        return Plan(fold.policy.strategy, 1.0 - fold.policy.safe_weight, "live")
    return Plan(fold.safe, 0.0, "shadow" if fold.state == RUNNING else "safe")


def narrowed(fold: Fold, plan: Plan, arms: Sequence[str]) -> Plan:
    """A plan for the arms that are available: never the usual one scaled up."""
    available = places_of(fold, arms)
    if not plan.strategy[~available].any():
        return plan
    reachable = not fold.safe[~available].any()
    if plan.mode == "live" and fold.experiment.hard and hasattr(fold.policy, "upper_costs"):
        rest = np.where(available, plan.strategy, 0.0)
        if rest.sum() > 1e-6:
            rest /= rest.sum()
            problem = fold.policy.problem
            weight = weight_needed(rest, fold.policy.upper_costs, problem.thresholds, problem.safe.costs)
            if weight == 0.0 or (reachable and weight < 1.0):
                return Plan(weight * fold.safe + (1.0 - weight) * rest, 1.0 - weight, "live")
    if reachable:
        return Plan(fold.safe, 0.0, "safe" if plan.mode == "live" else plan.mode)
    missing = [arm for arm, share, there in zip(fold.experiment.arms, fold.safe, available, strict=True)
               if share > 0.0 and not there]  # fmt: skip
    raise Unavailable(
        f"arms must include {' and '.join(map(repr, missing))}, which the baseline needs, "
        f"as no strategy of the other arms is known to be safe, got {shown(list(arms))}"
    )


def places_of(fold: Fold, arms: Any) -> Any:
    """For each arm of the experiment whether it is among these."""
    if isinstance(arms, str) or not isinstance(arms, Sequence) or not arms:
        raise RuleError("arms", "be a list of at least one arm", arms)
    names = fold.experiment.arms
    for arm in arms:
        if arm not in names:
            raise RuleError("arms", f"be among {', '.join(names)}", arms, shown(arm))
    return np.array([name in arms for name in names])


def held_elsewhere(fold: Fold, snapshot: Snapshot, arms: Sequence[str] | None, now: float) -> Plan:
    """The plan of a snapshot, if it may still be used; else the baseline."""
    if not isinstance(snapshot, Snapshot):
        raise RuleError("snapshot", "be a Snapshot", snapshot)
    if arms is not None:
        raise RuleError("arms", "be left out if a snapshot is given", arms)
    weight = float(number("snapshot.weight", snapshot.weight, SHARE))
    number("snapshot.lease", snapshot.lease, LEASE_END)
    usable = fold.state == RUNNING and not fold.shadow and snapshot.mode == "live" and snapshot.valid(now, fold.epoch)
    if usable:
        strategy = simplex("snapshot.strategy", snapshot.strategy, len(fold.experiment.arms))
        if fold.certifies(strategy):
            return Plan(strategy, weight, "live")
    return Plan(fold.safe, 0.0, "safe")
