"""A scenario: a problem and the world in which to solve it."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from surefoot.environments.costs import Bernoulli, Costs
from surefoot.environments.feedback import Feedback
from surefoot.environments.losses import Adversary, Losses, OfSuccess
from surefoot.problem import Problem
from surefoot.rules import SHARE, Floats, RuleError, choice, numbers

WANTED = {"problem": "a Problem", "losses": "a model of losses", "costs": "a model of costs"}
RANDOM = ("numpy", "counter")
"""How the random numbers of a world are made: one after the other, or each by its place."""


@dataclass(frozen=True, eq=False)
class Scenario:
    """A problem, its losses and its costs, under a name.

    Parameters
    ----------
    id
        Its name; by custom it ends with a version, as in ``"mine-v1"``, which changes when the scenario does.
    problem
        The problem: arms, limits, horizon, delta and safe strategy.
    losses
        A model from `surefoot.losses`, or one of your own.
    costs
        A model from `surefoot.costs`, or one of your own; None when there are no guardrails.
    about
        A sentence or two for readers of the report.
    arms
        Names of the arms; by default, numbers.
    guardrails
        Names of the guardrails.
    feedback
        A `Feedback`: when feedback arrives, and whether it does. By default all of it arrives at once.
    random
        How the random numbers of the world are made: "numpy" or "counter", as `simulate` explains.

    Examples
    --------
    >>> import surefoot as sf
    >>> problem = sf.Problem(n_arms=2, thresholds=[0.5], horizon=100)
    >>> scenario = sf.Scenario("mine-v1", problem, sf.losses.Bernoulli([0.2, 0.6]), sf.costs.Beta([[0.9, 0.1]], 20))
    >>> scenario.mean_costs
    array([[0.9, 0.1]])
    """

    id: str
    problem: Problem
    losses: Losses | Adversary
    costs: Costs = None  # type: ignore[assignment]  # None is replaced
    about: str = ""
    arms: tuple[str, ...] = ()
    guardrails: tuple[str, ...] = ()
    feedback: Feedback | None = None
    random: str = "numpy"

    def __post_init__(self) -> None:
        if not is_name(self.id):
            raise RuleError("id", "be a name", self.id)
        if self.costs is None and isinstance(self.problem, Problem):
            object.__setattr__(self, "costs", Bernoulli(np.zeros((0, self.problem.n_arms))))
        parts = ((self.problem, Problem), (self.losses, Losses | Adversary), (self.costs, Costs))
        for name, (part, kind) in zip(("problem", "losses", "costs"), parts, strict=True):
            if not isinstance(part, kind):
                raise RuleError(name, f"be {WANTED[name]}", part)
        if not isinstance(self.feedback, Feedback | None):
            raise RuleError("feedback", "be a Feedback", self.feedback)
        choice("random", self.random, RANDOM)
        object.__setattr__(self, "costs", self.costs.over(self.problem.rounds))
        self._check_sizes()
        self._check_promise()

    def _check_sizes(self) -> None:
        if not isinstance(getattr(self.costs, "means", None), np.ndarray):
            raise RuleError("costs.means", "be an array", getattr(self.costs, "means", None))
        numbers("costs.means", self.mean_costs, SHARE, None, None)
        n_arms, n_constraints, horizon = self.problem.n_arms, self.problem.n_constraints, self.problem.rounds
        if self.losses.n_arms != n_arms:
            raise RuleError("losses", f"be for n_arms = {n_arms} arms", self.losses.n_arms)
        if self.mean_costs.shape != (n_constraints, n_arms):
            rule = f"have means of shape ({n_constraints}, {n_arms}), a row per threshold and a column per arm"
            raise RuleError("costs", rule, self.mean_costs.shape)
        for name, model in (("losses", self.losses), ("costs", self.costs)):
            if model.n_rounds is not None and model.n_rounds < horizon:
                raise RuleError(name, f"have at least horizon = {horizon} rounds", model.n_rounds)
        if isinstance(self.losses, OfSuccess) and self.losses.constraint >= n_constraints:
            raise RuleError("constraint", f"be below {n_constraints}", self.losses.constraint)
        for name, names, length in (("arms", self.arms, n_arms), ("guardrails", self.guardrails, n_constraints)):
            word = "arm" if name == "arms" else "cost"
            if not isinstance(names, list | tuple):
                raise RuleError(name, f"be {length} names", names)
            given = tuple(map(str, names)) or ((word,) if length == 1 else tuple(f"{word} {i}" for i in range(length)))
            object.__setattr__(self, name, given)
            if len(getattr(self, name)) != length:
                raise RuleError(name, f"be {length} names", len(names))

    def _check_promise(self) -> None:
        safe = self.problem.safe
        if safe is None:
            return
        for i, (told, true) in enumerate(zip(safe.costs, self.mean_costs @ safe.strategy, strict=True)):
            if told < true - 1e-9:
                warnings.warn(
                    f"safe.costs[{i}] = {told:g} is below the true cost {true:g} of the safe strategy in scenario "
                    f"{self.id}: no policy can keep its promise on what is not true",
                    stacklevel=4,
                )

    @property
    def mean_costs(self) -> Floats:
        """The expected cost of each arm under each guardrail, (m, K); where it changes, the largest."""
        return self.costs.means

    @property
    def adaptive(self) -> bool:
        """True if the losses react to what is played."""
        return isinstance(self.losses, Adversary)

    def drawn_by(self, random: str) -> Self:
        """The same scenario, whose random numbers are made in another way."""
        other = copy.copy(self)
        object.__setattr__(other, "random", choice("random", random, RANDOM))
        return other

    def to_dict(self) -> dict[str, Any]:
        """The scenario as JSON-able data, for provenance."""
        return {
            "id": self.id,
            "problem": self.problem.to_dict(),
            "losses": self.losses.to_dict(),
            "costs": self.costs.to_dict(),
            "mean_costs": self.mean_costs.tolist(),
            "about": self.about,
            "arms": list(self.arms),
            "guardrails": list(self.guardrails),
            "feedback": None if self.feedback is None else self.feedback.to_dict(),
            "random": self.random,
        }


def is_name(value: object) -> bool:
    """True if the value is a text that fits on one line."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()
