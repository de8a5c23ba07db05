"""An experiment: arms and guardrails by name, natural units, a baseline, a time-out. Checked once, at the door."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, cast

from surefoot.experiments.quantities import (
    Guardrail,
    Objective,
    checked_name,
    guardrail_from,
    known_keys,
    objective_from,
)
from surefoot.problem import DELTA, HORIZON, Problem, SafeStrategy
from surefoot.rules import SHARE, SUM_TOLERANCE, Range, RuleError, choice, hint, number, shown

TIMEOUT = Range(0, 1e9, open_low=True)
MARGIN = Range(0, 1, open_high=True)
ALARM_EVERY = Range(100, 1e12)
MEASURING_SHARE = 0.2
"""The part of delta that is spent on measuring the baseline, if its costs are not known."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
KEYS = (
    "name", "arms", "objective", "guardrails", "baseline", "baseline_costs", "timeout", "policy", "options", "delta",
    "horizon", "margin", "alarm_every",
)  # fmt: skip


@dataclass(frozen=True, init=False)
class Experiment:
    """What is to be decided, what must hold, and what is known to be safe.

    Parameters
    ----------
    name
        Letters, digits, ".", "_" and "-", at most 100.
    arms
        Names of the options, at least two.
    objective
        `Maximise` or `Minimise`.
    guardrails
        `AtMost` and `AtLeast`: limits on the mean of each quantity.
    baseline
        The strategy that is known to be safe: the name of an arm, or shares of several arms that sum to 1. It is served
        while the experiment is held.
    baseline_costs
        The baseline's mean of each guardrail, in natural units, or a value at least as bad. Add
        nothing for lost feedback: that is never held against the baseline. None: the costs are measured first, by
        serving the baseline alone.
    timeout
        How long to wait for feedback, in the unit of time that `Live` is given. Feedback that is not complete by then
        counts as the worst case.
    policy
        Name of a policy for hard or soft guardrails. "solb" is for hard ones.
    options
        Options of the policy.
    delta
        Probability with which the guarantee may fail, in each epoch.
    horizon
        Number of decisions to learn from, if the policy needs one. After these the experiment is held.
    margin
        For a baseline that is measured: the share of the allowed room that its bounds must leave unused, for each
        guardrail, before learning begins.
    alarm_every
        There is at most one false alarm in this many decisions on average, for all guardrails together. A smaller
        number finds a drift a little earlier: the time to find it grows with the logarithm.

    Examples
    --------
    >>> import surefoot as sf
    >>> experiment = sf.Experiment(
    ...     "llm-routing",
    ...     arms=["flagship", "balanced", "in-house"],
    ...     objective=sf.Maximise("quality"),
    ...     guardrails=[sf.AtMost("spend", 0.40, high=2.0, unit="cents"), sf.AtLeast("answered", 0.95)],
    ...     baseline="in-house",
    ...     baseline_costs={"spend": 0.08, "answered": 0.99},
    ...     timeout=600.0,
    ... )
    >>> experiment == sf.Experiment.from_dict(experiment.to_dict())
    True
    >>> sf.Experiment("x", arms=["a", "b"], objective=sf.Maximise("y"), guardrails=[], baseline="c", timeout=60)
    Traceback (most recent call last):
    surefoot.rules.RuleError: baseline must be one of the arms, got 'c'
    """

    name: str
    arms: tuple[str, ...]
    objective: Objective
    guardrails: tuple[Guardrail, ...]
    baseline: str | Mapping[str, float]
    baseline_costs: Mapping[str, float] | None
    timeout: float
    policy: str = "solb"
    options: Mapping[str, Any] = field(default_factory=dict)
    delta: float = 0.05
    horizon: int | None = None
    margin: float = 0.1
    alarm_every: float = 1e6

    def __init__(
        self,
        name: str,
        *,
        arms: Sequence[str],
        objective: Objective,
        guardrails: Sequence[Guardrail],
        baseline: str | Mapping[str, float],
        baseline_costs: Mapping[str, float] | None = None,
        timeout: float,
        policy: str = "solb",
        options: Mapping[str, Any] | None = None,
        delta: float = 0.05,
        horizon: int | None = None,
        margin: float = 0.1,
        alarm_every: float = 1e6,
    ) -> None:
        arms, guardrails = checked_arms(arms), checked_guardrails(guardrails, objective)
        checked = {
            "name": checked_id(name),
            "arms": arms,
            "objective": objective,
            "guardrails": guardrails,
            "baseline": checked_baseline(baseline, arms),
            "baseline_costs": checked_costs(baseline_costs, guardrails),
            "timeout": float(number("timeout", timeout, TIMEOUT)),
            "policy": checked_policy(policy),
            "options": checked_options(options, checked_policy(policy)),
            "delta": float(number("delta", delta, DELTA)),
            "horizon": None if horizon is None else number("horizon", horizon, HORIZON),
            "margin": float(number("margin", margin, MARGIN)),
            "alarm_every": float(number("alarm_every", alarm_every, ALARM_EVERY)),
        }
        for key, value in checked.items():
            object.__setattr__(self, key, value)

    @property
    def hard(self) -> bool:
        """Whether the policy promises that all rounds are safe."""
        return bool(policy_class(self.policy).kind == "hard")

    @property
    def measures_baseline(self) -> bool:
        """Whether the baseline's costs must be measured before learning begins."""
        return self.hard and self.baseline_costs is None and len(self.guardrails) > 0

    @property
    def safe_strategy(self) -> tuple[float, ...]:
        """The baseline as shares of the arms."""
        if isinstance(self.baseline, str):
            return tuple(float(arm == self.baseline) for arm in self.arms)
        return tuple(self.baseline.get(arm, 0.0) for arm in self.arms)

    @property
    def quantities(self) -> tuple[Objective | Guardrail, ...]:
        """What every outcome has: the objective, then the guardrails."""
        return (self.objective, *self.guardrails)

    def problem(self, measured: Sequence[float] | None = None) -> Problem:
        """The problem that a policy solves: losses and costs in [0, 1].

        Parameters
        ----------
        measured
            Upper bounds on the baseline's costs, as costs in [0, 1], if these had to be measured.
        """
        costs = measured
        if costs is None and self.baseline_costs is not None:
            costs = [guardrail.cost(self.baseline_costs[guardrail.name]) for guardrail in self.guardrails]
        if costs is None and not self.guardrails:
            costs = []
        share = 1.0 - MEASURING_SHARE if self.measures_baseline else 1.0
        return Problem(
            n_arms=len(self.arms),
            thresholds=[guardrail.threshold for guardrail in self.guardrails],
            horizon=self.horizon,
            delta=self.delta * share,
            safe=None if costs is None else SafeStrategy(self.safe_strategy, costs),
        )

    def to_dict(self) -> dict[str, Any]:
        """The experiment as JSON-able data."""
        return {
            "name": self.name,
            "arms": list(self.arms),
            "objective": self.objective.to_dict(),
            "guardrails": [guardrail.to_dict() for guardrail in self.guardrails],
            "baseline": self.baseline if isinstance(self.baseline, str) else dict(self.baseline),
            "baseline_costs": None if self.baseline_costs is None else dict(self.baseline_costs),
            "timeout": self.timeout,
            "policy": self.policy,
            "options": dict(self.options),
            "delta": self.delta,
            "horizon": self.horizon,
            "margin": self.margin,
            "alarm_every": self.alarm_every,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Experiment:
        """Make the experiment that `to_dict` returned, or one written by hand; what has a default may be absent."""
        if not isinstance(data, Mapping):
            raise RuleError("experiment", "be a table of keys and values", data)
        known = known_keys("experiment", data, *KEYS)
        for key in ("name", "arms", "objective", "guardrails", "baseline", "timeout"):
            if key not in known:
                raise RuleError("experiment", f"have the key {key!r}", data, shown(sorted(map(str, data))))
        if isinstance(known["guardrails"], str | Mapping) or not isinstance(known["guardrails"], Sequence):
            raise RuleError("guardrails", "be a list", known["guardrails"])
        known["objective"] = objective_from(known["objective"])
        known["guardrails"] = [guardrail_from(one, f"guardrails[{i}]") for i, one in enumerate(known["guardrails"])]
        return cls(known.pop("name"), **known)

    @classmethod
    def load(cls, path: str | Path) -> Experiment:
        """Read an experiment from a file: TOML, or JSON if its name ends in ".json"."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".json":
                data = json.loads(text)
            else:
                import tomllib

                data = tomllib.loads(text)
        except ValueError as error:  # the errors of both are of this kind, and those of the encoding
            raise RuleError(path.name, "be a file in TOML or JSON", path, str(error)) from None
        return cls.from_dict(data)


def checked_id(name: Any) -> str:
    """Return the name of an experiment, which is part of addresses."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        rule = 'be 1 to 100 letters, digits, ".", "_" or "-", starting with a letter or digit'
        raise RuleError("name", rule, name)
    return name


def checked_arms(arms: Any) -> tuple[str, ...]:
    """Return the names of the arms."""
    if isinstance(arms, str | Mapping) or not isinstance(arms, Sequence) or len(arms) < 2:
        raise RuleError("arms", "be a list of at least two names", arms)
    seen: set[str] = set()
    for i, arm in enumerate(arms):
        checked_name(f"arms[{i}]", arm)
        if arm in seen:
            raise RuleError(f"arms[{i}]", "differ from all other arms", arm)
        seen.add(arm)
    return tuple(arms)


def checked_guardrails(guardrails: Any, objective: Any) -> tuple[Guardrail, ...]:
    """Return the guardrails, whose names differ from each other and from the objective's."""
    if not isinstance(objective, Objective):
        raise RuleError("objective", "be Maximise(...) or Minimise(...)", objective)
    if isinstance(guardrails, str | Mapping) or not isinstance(guardrails, Sequence):
        raise RuleError("guardrails", "be a list of AtMost(...) and AtLeast(...)", guardrails)
    names = [objective.name]
    for i, guardrail in enumerate(guardrails):
        if not isinstance(guardrail, Guardrail):
            raise RuleError(f"guardrails[{i}]", "be AtMost(...) or AtLeast(...)", guardrail)
        if guardrail.name in names:
            raise RuleError(f"guardrails[{i}].name", "differ from the other names", guardrail.name)
        names.append(guardrail.name)
    return tuple(guardrails)


def checked_baseline(baseline: Any, arms: tuple[str, ...]) -> str | dict[str, float]:
    """Return the baseline: an arm, or shares of arms that sum to 1."""
    if isinstance(baseline, str):
        if baseline not in arms:
            raise RuleError("baseline", "be one of the arms", baseline, f"{shown(baseline)}{hint(baseline, arms)}")
        return baseline
    if not isinstance(baseline, Mapping):
        raise RuleError("baseline", "be an arm or a table of shares by arm", baseline)
    for arm, share in baseline.items():
        if arm not in arms:
            raise RuleError("baseline", "have shares of the arms only", baseline, shown(arm))
        number(f"baseline[{arm!r}]", share, SHARE)
    total = sum(float(share) for share in baseline.values())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise RuleError("baseline", "sum to 1", baseline, f"a sum of {total:.12g}")
    return {arm: float(share) / total for arm, share in baseline.items() if share > 0}


def checked_costs(costs: Any, guardrails: tuple[Guardrail, ...]) -> dict[str, float] | None:
    """Return the baseline's mean of each guardrail, all of them on the right side of their limits."""
    if costs is None:
        return None
    names = [guardrail.name for guardrail in guardrails]
    if not isinstance(costs, Mapping) or set(costs) != set(names):
        received = shown(sorted(map(str, costs))) if isinstance(costs, Mapping) else None
        raise RuleError("baseline_costs", f"have a value for each of {', '.join(names)}", costs, received)
    checked = {}
    for guardrail in guardrails:
        where = f"baseline_costs[{guardrail.name!r}]"
        value = float(number(where, costs[guardrail.name], Range(guardrail.low, guardrail.high)))
        if not guardrail.cost(value) < guardrail.threshold:
            side = "below" if guardrail.less_is_better else "above"
            raise RuleError(where, f"be {side} the limit {guardrail.limit:g} (learning needs a margin)", value)
        checked[guardrail.name] = value
    return checked


def checked_options(options: Any, policy: str) -> dict[str, Any]:
    """Return the options, which must be the policy's and JSON-able; the policy itself checks their values."""
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise RuleError("options", "be a table of options by name", options)
    try:
        written: dict[str, Any] = json.loads(json.dumps(dict(options), allow_nan=False))
    except (TypeError, ValueError):
        raise RuleError("options", "be values that JSON can hold", options) from None
    if not set(options) <= set(list(signature(policy_class(policy)).parameters)[2:]):  # after the problem and the seed
        raise RuleError("options", f"be those of the policy {policy!r}", options)
    return written


def checked_policy(policy: Any) -> str:
    """Return the name of a policy that an experiment may have."""
    return choice("policy", policy, live_policies())


def live_policies() -> tuple[str, ...]:
    """The policies that keep guardrails and need no option (such as the true costs)."""
    from surefoot.policies import REGISTRY

    return tuple(name for name, cls in REGISTRY.items() if cls.kind != "none" and not needs_options(cast(Any, cls)))


@cache
def needs_options(cls: Any) -> bool:
    """True if a policy cannot be made from a problem and a seed alone."""
    parameters = list(signature(cls).parameters.values())[1:]
    return any(one.default is one.empty and one.kind is not one.VAR_KEYWORD for one in parameters)


def policy_class(name: str) -> Any:
    """The class of a policy by its name."""
    from surefoot.policies import REGISTRY

    return REGISTRY[name]
