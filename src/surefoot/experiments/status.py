"""What an experiment looks like from outside: its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from surefoot.experiments.events import Alarm
from surefoot.experiments.fold import Fold


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
        The weight of the baseline in it.
    lost
        Share of settled decisions in this epoch that timed out, for each arm.
    alarms
        All alarms, each with `kind`, `guardrail`, `arm`, `round`, `message` and `holds`.
    guardrails
        By name: the limit, and for each arm count, mean, lower and upper bound in natural units.
    delta_spent
        Probability with which the guarantee may have failed, in all epochs together.
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

    def to_dict(self) -> dict[str, Any]:
        """The status as JSON-able data."""
        plain = asdict(self)
        plain["alarms"] = [alarm._asdict() for alarm in self.alarms]
        plain["guardrails"] = [{"name": name, **guardrail} for name, guardrail in plain["guardrails"].items()]
        return plain


def status_of(fold: Fold, strategy: Mapping[str, float], safe_weight: float) -> Status:
    """The status of an experiment in a state."""
    shares = {arm: fold.lost[arm] / max(1, fold.settled[arm]) for arm in fold.experiment.arms}
    return Status(
        name=fold.experiment.name,
        state=fold.state,
        reason=fold.stopped if fold.stopped is not None else fold.held,
        shadow=fold.shadow,
        epoch=fold.epoch,
        rounds=fold.rounds,
        decisions=fold.order.made,
        pending=len(fold.order.open),
        strategy=strategy,
        safe_weight=safe_weight,
        lost=shares,
        alarms=list(fold.alarms),
        guardrails=guardrails_of(fold),
        delta_spent=fold.delta_spent,
    )


def guardrails_of(fold: Fold) -> dict[str, GuardrailStatus]:
    """What is known of each guardrail, in natural units."""
    experiment, known = fold.experiment, fold.known_costs()
    measured = fold.baseline_costs()
    found = {}
    for i, guardrail in enumerate(experiment.guardrails):
        arms = {}
        for place, arm in enumerate(experiment.arms):
            count, mean, lower, upper = (part[i, place] for part in known) if known else (0, 0.0, 0.0, 1.0)
            arms[arm] = estimate(guardrail, int(count), float(mean), float(lower), float(upper))
        baseline = None
        if measured is not None:
            baseline = estimate(guardrail, *(float(part[i, 0]) for part in measured))
        found[guardrail.name] = GuardrailStatus(guardrail.limit, arms, baseline)
    return found


def estimate(guardrail: Any, count: float, mean: float, lower: float, upper: float) -> Estimate:
    """An estimate of a cost in [0, 1], in natural units."""
    ends = guardrail.value(max(0.0, lower)), guardrail.value(min(1.0, upper))
    value = guardrail.value(mean) if count else None
    return Estimate(int(count), value, min(ends), max(ends))
