"""What an experiment will cost before it pays: the forecast of `surefoot forecast` for an experiment."""

from __future__ import annotations

from typing import Any

from surefoot.experiments.experiment import Experiment
from surefoot.policies.presets import PRESETS
from surefoot.policies.solb import SOLB
from surefoot.rules import RuleError
from surefoot.simulation.entries import policy_options
from surefoot.theory.plan import FORECAST_PRESETS, Forecast


def forecast(experiment: Experiment) -> dict[str, Any] | None:
    """The forecast for an experiment; None without a formula (other policies and presets), a guardrail or a margin."""
    if experiment.policy != "solb" or not experiment.guardrails:
        return None
    preset = str(experiment.options.get("preset", policy_options(SOLB)["preset"]))
    if preset not in FORECAST_PRESETS:
        return None
    thresholds = [guardrail.threshold for guardrail in experiment.guardrails]
    if experiment.baseline_costs is None:
        margins = [threshold * experiment.margin for threshold in thresholds]
    else:
        costs = experiment.baseline_costs
        margins = [one.threshold - one.cost(costs[one.name]) for one in experiment.guardrails]
    try:
        found = Forecast(
            n_arms=len(experiment.arms),
            n_constraints=len(experiment.guardrails),
            margin=min(margins),
            delta=experiment.delta,
            threshold=min(thresholds),
            optimism=PRESETS[preset].optimism,
        )
    except RuleError:  # a margin that is as good as none
        return None
    names = ("margin", "threshold", "deviation", "gap", "loose_after", "safe_rounds", "regret", "break_even")
    return {name: getattr(found, name) for name in names}
