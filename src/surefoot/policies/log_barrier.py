"""Mirror descent with the log-barrier and no constraints at all: COLB without its guardrails."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from surefoot.kernels.costs import Costs, unknown_costs
from surefoot.kernels.dual import Floats
from surefoot.policies.base import NO_COSTS, Policy, optional, plain
from surefoot.policies.colb import COLB
from surefoot.problem import Problem, choice


class LogBarrier(COLB):
    """OMD with Log-Barrier: small-loss regret against adversarial losses, blind to costs.

    What a user would take who has no guardrails, and the measure of what guardrails cost. `tell` takes costs, as any
    policy does, and pays no heed to them.

    Parameters
    ----------
    problem
        What is to be solved; its thresholds are not looked at.
    seed
        Of the policy's own generator.
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
    array([0.343, 0.314, 0.343])
    """

    kind: ClassVar[str] = "none"

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        preset: str = "paper",
        learning_rate: float | str = "theory",
        benchmark_loss: float | None = None,
    ) -> None:
        Policy.__init__(
            self,
            problem,
            seed,
            preset=choice("preset", preset, ("paper",)),
            learning_rate=learning_rate if isinstance(learning_rate, str) else plain("learning_rate", learning_rate),
            benchmark_loss=optional("benchmark_loss", benchmark_loss),
        )

    @property
    def _n_heeded(self) -> int:
        return 0

    @property
    def _limits(self) -> Floats:
        return NO_COSTS

    def _new_costs(self) -> Costs:
        return unknown_costs(self.problem.n_arms, 0, 0.0)

    def _learn(self, arm: int, propensity: float, loss: float, costs: Floats) -> None:
        super()._learn(arm, propensity, loss, NO_COSTS)
