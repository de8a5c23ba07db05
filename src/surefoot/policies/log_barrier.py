"""Mirror descent with the log-barrier and no guardrails at all: COLB without its guardrails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from surefoot.kernels.costs import CostBound
from surefoot.policies.base import Seed
from surefoot.policies.colb import SoftMirror
from surefoot.policies.guarded import Guarded, Method
from surefoot.problem import Problem
from surefoot.rules import Floats

NO_LIMITS = np.zeros(0)


class Unguarded(SoftMirror):
    """COLB as in the paper, without guardrails."""

    def new_bound(self) -> CostBound:
        """No cost is bounded."""
        return CostBound()

    def sizes(self) -> dict[str, int]:
        """The state has no guardrails."""
        return {**super().sizes(), "m": 0}

    def limits(self) -> Floats:
        """There are no limits."""
        return NO_LIMITS


class LogBarrier(Guarded):
    """OMD with Log-Barrier: small-loss regret against adversarial losses, blind to costs.

    Use it if you have no guardrails, or to measure what guardrails cost. `tell` accepts costs, as for any policy, and
    ignores them.

    Parameters
    ----------
    problem
        The problem; its thresholds are ignored.
    seed
        Seed of the policy's random generator.
    preset
        "paper": the increasing learning rates of the paper.
    learning_rate
        A number, "theory", "practical" or "doubling", as for `COLB`.
    benchmark_loss
        The total loss L* of the best arm, if known, for the "theory" rate; else its worst case, the horizon.

    References
    ----------
    Lee, Luo, Wei, Zhang, "Bias no more: high-probability data-dependent regret bounds for adversarial bandits and
    MDPs", NeurIPS 2020.

    Examples
    --------
    >>> import surefoot as sf
    >>> policy = sf.LogBarrier(sf.Problem(n_arms=3, thresholds=[0.4], horizon=1000), learning_rate=0.1, seed=7)
    >>> policy.tell(policy.ask(), loss=0.9, costs=[1.0])
    >>> policy.strategy.round(3)
    array([0.343, 0.343, 0.314])
    """

    name: ClassVar[str] = "log-barrier"
    kind: ClassVar[str] = "none"
    methods: ClassVar[Mapping[str, type[Method]]] = {"paper": Unguarded}

    def __init__(
        self, problem: Problem, seed: Seed = None, *, preset: str = "paper", learning_rate: float | str = "theory",
        benchmark_loss: float | None = None,
    ) -> None:  # fmt: skip
        self._begin(problem, seed, preset, learning_rate, benchmark_loss)
