"""Policies of the tests' own: not of the package's class, so the simulation asks and tells them round by round."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import surefoot as sf
from surefoot.rules import Floats


class Always:
    """Plays one strategy for ever, and keeps what it is told."""

    def __init__(self, strategy: Any, seed: int = 0, **shown: Any) -> None:
        self.strategy = np.array(strategy, float)
        self.options = {"strategy": self.strategy.tolist()}
        self.told: list[tuple[int, float, tuple[float, ...]]] = []
        self._rng = np.random.default_rng(seed)
        vars(self).update(shown)  # safe_weight, proposal, ...

    def ask(self) -> sf.Decision:
        arm = int(self._rng.choice(self.strategy.size, p=self.strategy))
        return sf.Decision(arm, float(self.strategy[arm]))

    def tell(self, decision: sf.Decision, loss: float, costs: list[float]) -> None:
        self.told.append((decision.arm, loss, tuple(costs)))


def always(strategy: Any, **shown: Any) -> Callable[[sf.Problem, int], Always]:
    return lambda problem, seed: Always(strategy, seed, **shown)


class Disguised:
    """A policy of the package that the simulation cannot know as one."""

    def __init__(self, policy: sf.Policy[Any]) -> None:
        self.policy = policy
        self.options = policy.to_dict()["options"]

    @property
    def strategy(self) -> Floats:
        return self.policy.strategy

    @property
    def proposal(self) -> Floats:
        return self.policy.proposal  # type: ignore[attr-defined,no-any-return]

    @property
    def safe_weight(self) -> float:
        return self.policy.safe_weight

    @property
    def lower_costs(self) -> Floats:
        return self.policy.lower_costs  # type: ignore[attr-defined,no-any-return]

    @property
    def upper_costs(self) -> Floats:
        return self.policy.upper_costs  # type: ignore[attr-defined,no-any-return]

    @property
    def empty_rounds(self) -> int:
        return self.policy.empty_rounds  # type: ignore[attr-defined,no-any-return]

    def ask(self) -> sf.Decision:
        return self.policy.ask()

    def tell(self, decision: sf.Decision, loss: float, costs: list[float]) -> None:
        self.policy.tell(decision, loss, costs)


def quick(cls: type[sf.Policy[Any]], **options: Any) -> Callable[[sf.Problem, int], sf.Policy[Any]]:
    """The paper's way at a rate at which something happens in a short run."""
    return lambda problem, seed: cls(problem, seed, **{"preset": "paper", "learning_rate": 0.3, **options})


class Slow(sf.EpsilonGreedy):
    """Takes a while, so that there is time to kill."""

    def live(self, *block: Any) -> None:
        super().live(*block)
        time.sleep(0.01)
