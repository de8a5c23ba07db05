"""What an experiment looks like from outside: its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surefoot.experiments.events import Alarm
from surefoot.experiments.fold import COST_ALARMS, Fold
from surefoot.rules import Floats


class _ByKey:
    """Fields by key as well, as in JSON."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


@dataclass(frozen=True)
class Estimate(_ByKey):
    """What is known of the mean of a guardrail for one arm, in natural units."""

    count: int
    mean: float | None  # None before the first observation
    lower: float
    upper: float


@dataclass(frozen=True)
class GuardrailStatus(_ByKey):
    """A guardrail: its limit, and what is known of each arm."""

    limit: float
    arms: Mapping[str, Estimate]
    baseline: Estimate | None  # what is known of the baseline while it is measured
    bound: float | None = None  # the worst that the strategy can cost at the bounds; None if there are none


@dataclass(frozen=True)
class Status:
    """The status of an experiment.

    Attributes
    ----------
    state
        "measuring" the baseline, "running", "held" or "stopped".
    reason
        Why it is held or stopped.
    epoch
        How often the experiment was changed, or begun again after an alarm.
    rounds
        Settled decisions that were learnt.
    decisions
        Decisions made.
    pending
        Decisions that wait for feedback.
    strategy
        The probability of each arm in the next decision.
    safe_weight
        How much of it is the baseline because of the guardrails.
    lost
        Share of settled decisions in this epoch that timed out, for each arm.
    alarms
        All alarms, each with `kind`, `guardrail`, `arm`, `round`, `message` and `holds`.
    guardrails
        By name: the limit, and for each arm count, mean, lower and upper bound in natural units.
    delta_spent
        Probability with which the guarantee may have failed, in all epochs together.
    settled
        Settled decisions in this epoch, for each arm.
    waiting
        Decisions that wait for feedback, for each arm.
    behind
        Decisions whose feedback came and is not learnt yet, because an older one of the arm waits, for each arm.
    watch
        How near each guardrail is to an alarm: `what` ("served" or "baseline"), `guardrail` and `level`, from 0 to 1.
    """

    name: str
    state: str
    reason: str | None
    shadow: bool
    epoch: int
    rounds: int
    decisions: int
    pending: int
    strategy: Mapping[str, float]
    safe_weight: float
    lost: Mapping[str, float]
    alarms: list[Alarm]
    guardrails: Mapping[str, GuardrailStatus]
    delta_spent: float
    settled: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    behind: Mapping[str, int] = field(default_factory=dict)
    watch: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The status as JSON-able data."""
        plain = dict(vars(self))
        plain["alarms"] = [alarm._asdict() for alarm in self.alarms]
        plain["guardrails"] = [
            {
                "name": name,
                "limit": one.limit,
                "arms": {arm: dict(vars(known)) for arm, known in one.arms.items()},
                "baseline": None if one.baseline is None else dict(vars(one.baseline)),
                "bound": one.bound,
            }
            for name, one in self.guardrails.items()
        ]
        return plain


def status_of(fold: Fold, strategy: Floats, safe_weight: float) -> Status:
    """The status of an experiment in a state, with what the next decision is drawn from."""
    lost = {arm: fold.lost[arm] / max(1, fold.settled[arm]) for arm in fold.experiment.arms}
    return Status(
        name=fold.experiment.name,
        state=fold.state,
        reason=fold.stopped if fold.stopped is not None else fold.held,
        shadow=fold.shadow,
        epoch=fold.epoch,
        rounds=fold.rounds,
        decisions=fold.order.made,
        pending=len(fold.order.open),
        strategy=dict(zip(fold.experiment.arms, strategy.tolist(), strict=True)),
        safe_weight=safe_weight,
        lost=lost,
        alarms=list(fold.alarms),
        guardrails=guardrails_of(fold, strategy),
        delta_spent=fold.delta_spent,
        settled=dict(fold.settled),
        waiting={arm: fold.order.waiting[arm] for arm in fold.experiment.arms},
        behind={arm: fold.order.behind(arm) for arm in fold.experiment.arms},
        watch=fold.watch.levels(),
    )


def guardrails_of(fold: Fold, strategy: Floats) -> dict[str, GuardrailStatus]:
    """What is known of each guardrail, in natural units."""
    experiment, known = fold.experiment, fold.known_costs()
    measured = fold.baseline_costs()
    refuted = fold.alarmed & COST_ALARMS  # then the bounds, or the baseline's costs, are not to be believed
    costs = None if known is None or refuted else fold.worst_costs(strategy)
    found = {}
    for i, guardrail in enumerate(experiment.guardrails):
        if known is None:
            nothing = Estimate(0, None, guardrail.low, guardrail.high)
            arms = dict.fromkeys(experiment.arms, nothing)
        else:
            estimates = estimates_of(guardrail, *(part[i] for part in known))
            arms = dict(zip(experiment.arms, estimates, strict=True))
        baseline = None if measured is None else estimates_of(guardrail, *(part[i] for part in measured))[0]
        bound = None if costs is None else guardrail.value(costs[i])
        found[guardrail.name] = GuardrailStatus(guardrail.limit, arms, baseline, bound)
    return found


def estimates_of(guardrail: Any, counts: Any, means: Floats, lower: Floats, upper: Floats) -> list[Estimate]:
    """Estimates of costs in [0, 1], in natural units."""
    ends = guardrail.value(np.maximum(0.0, lower)), guardrail.value(np.minimum(1.0, upper))
    parts = counts, guardrail.value(means), np.minimum(*ends), np.maximum(*ends)
    return [
        Estimate(int(count), value if count else None, low, high)
        for count, value, low, high in zip(*(part.tolist() for part in parts), strict=True)
    ]
