"""What COLB and SOLB share: options, cost estimates, mirror descent, and the names under which they show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import surefoot.policies.practical as practical
from surefoot.confidence import Betting, Confidence, Paper, resolve
from surefoot.kernels.costs import Costs
from surefoot.kernels.dual import Floats
from surefoot.kernels.learner import Learner, new_learner, scatter
from surefoot.policies.base import optional, plain, snapshot
from surefoot.policies.estimates import EstimatesCosts, derived_fields, restore
from surefoot.policies.rates import FASTEST, doubling_allowance, resolve_rate
from surefoot.problem import SUM_TOLERANCE, Problem, choice, shown

PRESETS = ("paper", "practical", "guaranteed")


def chosen_preset(preset: str | None, *of_the_paper: object) -> str:
    """The preset that is meant: the one named, else "paper" if one of its own options is given, else "practical"."""
    if preset is not None:
        return preset
    return "practical" if all(option is None for option in of_the_paper) else "paper"


class MirrorDescent(EstimatesCosts):
    """A policy whose proposal is found by mirror descent in the truncated safe set.

    The state of a subclass has the fields ``learner, known, empty_rounds``.
    """

    @property
    def _derived(self) -> frozenset[str]:
        derived = derived_fields(self._state.known)
        return derived if self._paper else (derived | practical.DERIVED) - practical.SAVED

    def __init__(
        self,
        problem: Problem,
        seed: int | np.random.SeedSequence | None = None,
        *,
        preset: str | None = None,
        learning_rate: float | str | None = None,
        confidence: str | Mapping[str, Any] | Confidence | None = None,
        benchmark_loss: float | None = None,
        **options: Any,
    ) -> None:
        preset = choice("preset", chosen_preset(preset, learning_rate, benchmark_loss), PRESETS)
        bounds = resolve(self._usual_bounds(preset) if confidence is None else confidence)
        self._endless = preset != "paper" and not bounds.needs_horizon
        if getattr(problem, "horizon", 0) is None and not self._endless:
            what = "preset 'paper'" if preset == "paper" else f"confidence {bounds.name!r}"
            raise ValueError(f"problem must have a horizon for {what}, got horizon=None")
        if preset != "paper" and benchmark_loss is not None:
            raise ValueError(f"benchmark_loss must be left out for preset {preset!r}, got {shown(benchmark_loss)}")
        if learning_rate is None and preset == "paper":
            learning_rate = "theory"
        if learning_rate is not None and not isinstance(learning_rate, str):
            learning_rate = plain("learning_rate", learning_rate)
        super().__init__(
            problem,
            seed,
            preset=preset,
            learning_rate=learning_rate,
            confidence=bounds.option(),
            benchmark_loss=optional("benchmark_loss", benchmark_loss),
            **options,
        )

    def _usual_bounds(self, preset: str) -> Confidence:
        """The confidence bounds of a preset."""
        return Paper() if preset == "paper" else Betting()

    @property
    def _paper(self) -> bool:
        return bool(self._options["preset"] == "paper")

    def _fixed_rate(self) -> float:
        """The rate of a preset that tunes its own, 0, or the number that takes its place."""
        rate = self._options["learning_rate"]
        if rate is not None and not isinstance(rate, float):
            raise ValueError(
                f"learning_rate must be a number, or left out, for preset {self._options['preset']!r}, which tunes its "
                f"own, got {shown(rate)}"
            )
        return rate or 0.0

    def _new_learner(self, margin: float = 1.0) -> Learner:
        problem, options = self.problem, self._options
        chosen = options["learning_rate"]
        rate = resolve_rate(chosen, problem, options["benchmark_loss"], margin, self._weighs)
        allowance = doubling_allowance(chosen, problem)
        return new_learner(problem.n_arms, self._limits, rate, problem.floor, problem.growth, allowance)

    @property
    def _limits(self) -> Floats:
        """The thresholds of the truncated safe set."""
        return self.problem.limits

    def _new_costs(self) -> Costs:
        return resolve(self._options["confidence"]).new_costs(self.problem)

    def _restored(self) -> None:
        learner, known = self._state.learner, self._state.known
        restore(self._round, known)
        if learner.proposal.min() < learner.floor * (1 - 1e-9):
            raise ValueError(f"state.proposal must be at least {learner.floor:g}, got {learner.proposal.min():g}")
        if abs(learner.proposal.sum() - 1.0) > SUM_TOLERANCE:
            raise ValueError(f"state.proposal must sum to 1, got a sum of {learner.proposal.sum():.12g}")
        if self._options["learning_rate"] == "doubling" and learner.base_rate[0] > FASTEST:
            raise ValueError(f"state.base_rate must be at most {FASTEST:g}, got {learner.base_rate[0]:g}")
        if not self._paper:
            practical.believe_again(self._state, self._round)

    def _recover(self) -> None:
        """The branch for an empty safe set: a proposal drawn uniformly from the truncated simplex."""
        scatter(self._state.learner, self._rng.standard_exponential(self.problem.n_arms))
        self._state.empty_rounds[0] += 1

    @property
    def proposal(self) -> Floats:
        """What mirror descent proposes (x~_t)."""
        return snapshot(self._state.learner.proposal)

    @property
    def learning_rates(self) -> Floats:
        """The learning rate of each arm (eta_t)."""
        return snapshot(self._state.learner.learning_rates)

    @property
    def inverse_caps(self) -> Floats:
        """The value of 1 / proposal beyond which each arm's learning rate grows (h_t)."""
        return snapshot(self._state.learner.inverse_caps)

    @property
    def restarts(self) -> int:
        """How often the doubling trick has begun again at half the rate."""
        doubling = self._options["learning_rate"] == "doubling"
        return round(math.log2(FASTEST / self._state.learner.base_rate[0])) if doubling else 0

    @property
    def empty_rounds(self) -> int:
        """After how many rounds nothing was found: the truncated safe set empty, or a linear program not solved.

        It is 0 whenever the confidence bounds hold.
        """
        return int(self._state.empty_rounds[0])
