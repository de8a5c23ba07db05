"""The base of COLB and SOLB: presets, options, and the properties that show their state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from surefoot.confidence import Confidence, resolve
from surefoot.kernels.compile import compiled
from surefoot.kernels.costs import CostBound, start_costs
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.learner import scatter, start_learner
from surefoot.kernels.types import CONTRADICTED
from surefoot.policies.base import Seed, ShownLeaf, optional, plain
from surefoot.policies.estimates import Bounds, EstimatesCosts, check_costs, set_strategy
from surefoot.policies.presets import PRESETS, Preset
from surefoot.policies.rates import BENCHMARK_LOSS, FASTEST, RATE, doubling_allowance, resolve_rate
from surefoot.problem import Problem
from surefoot.rules import SUM_TOLERANCE, Floats, RuleError, choice


@compiled
def show_proposal(state: Any) -> None:
    """Play the proposal."""
    set_strategy(state.strategy, state.learner.proposal)


class Method(ABC):
    """How a preset finds its strategies: a state, the kernels that act on it, and how it starts."""

    algorithm: ClassVar[Algorithm[Any]]

    def __init__(self, problem: Problem, preset: Preset, options: Mapping[str, Any]) -> None:
        self.problem, self.preset, self.options = problem, preset, options
        self.bound = self.new_bound()

    def new_bound(self) -> CostBound:
        """The confidence bound on the costs."""
        return resolve(self.options["confidence"]).bound(self.problem)

    def sizes(self) -> dict[str, int]:
        """The sizes of the state."""
        return {"K": self.problem.n_arms, "m": self.problem.n_constraints, **self.bound.sizes}

    @abstractmethod
    def start(self, state: Any) -> None:
        """Fill in the state before the first round."""

    def check(self, state: Any, rounds: int) -> None:
        """Reject a loaded state whose leaves are inconsistent."""
        proposal, floor = state.learner.proposal, state.learner.floor
        if proposal.min() < floor * (1 - 1e-9):
            raise RuleError("state.learner.proposal", f"be at least {floor:g}", float(proposal.min()))
        if abs(proposal.sum() - 1.0) > SUM_TOLERANCE:
            raise RuleError("state.learner.proposal", "sum to 1", proposal, f"a sum of {proposal.sum():.12g}")

    def recover(self, state: Any, rng: np.random.Generator) -> None:
        """Find a strategy after an update has found the safe set empty."""
        raise NotImplementedError(f"{type(self).__name__} never finds an empty safe set")

    @abstractmethod
    def least_propensity(self) -> float:
        """The smallest probability with which an arm can have been drawn."""


class MirrorDescent(Method):
    """The paper's way: mirror descent with increasing learning rates in the truncated safe set.

    The state has the parts ``learner, known`` and the leaf ``empty_rounds``.
    """

    def start(self, state: Any) -> None:
        """Fill in the learner and what is known of the costs."""
        problem, options = self.problem, self.options
        chosen, weighted = options["learning_rate"], options.get("estimator") == "weighted"
        rate = resolve_rate(chosen, problem, options["benchmark_loss"], self.rate_margin(), weighted)
        allowance = doubling_allowance(chosen, problem)
        start_learner(
            state.learner, problem.n_arms, self.limits(), rate, problem.floor, problem.growth, allowance
        )  # fmt: skip
        start_costs(state.known, self.bound)

    def rate_margin(self) -> float:
        """The margin by which the theorem's rate is multiplied."""
        return 1.0

    def limits(self) -> Floats:
        """The thresholds of the truncated safe set."""
        return self.problem.limits

    def check(self, state: Any, rounds: int) -> None:
        """Reject a loaded state whose leaves are inconsistent."""
        super().check(state, rounds)
        rate = float(state.learner.base_rate[0])
        if self.options["learning_rate"] == "doubling" and rate > FASTEST:
            raise RuleError("state.learner.base_rate", f"be at most {FASTEST:g}", rate)

    def recover(self, state: Any, rng: np.random.Generator) -> None:
        """The branch for an empty safe set: a proposal drawn uniformly from the truncated simplex."""
        scatter(state.learner, rng.standard_exponential(self.problem.n_arms))
        state.empty_rounds[0] += 1

    def least_propensity(self) -> float:
        """The floor of the proposal."""
        return self.problem.floor * (1 - 1e-9)


class Guarded(EstimatesCosts[Any]):
    """A policy that keeps a proposal in an estimate of the safe set, by the method of its preset."""

    methods: ClassVar[Mapping[str, type[Method]]]
    """The method of each preset, by its name."""

    def _begin_bounded(
        self, problem: Problem, seed: Seed, preset: str, learning_rate: float | str | None, confidence: Bounds,
        benchmark_loss: float | None, **options: Any,
    ) -> None:  # fmt: skip
        """Check the options of a policy that learns the costs, and start."""
        chosen = PRESETS[choice("preset", preset, tuple(self.methods))]
        bounds = resolve(self._usual_bounds(chosen) if confidence is None else confidence)
        self._endless = chosen.follows and not bounds.needs_horizon
        if getattr(problem, "horizon", 0) is None and not self._endless:
            what = f"confidence {bounds.name!r}" if chosen.follows else "preset 'paper'"
            raise RuleError("problem", f"have a horizon for {what}", problem, "horizon=None")
        if chosen.follows:
            refuse_of_paper("benchmark_loss", benchmark_loss, preset)
            if isinstance(learning_rate, str):
                raise RuleError(
                    "learning_rate", f"be a number for preset {preset!r} (names of rates belong to preset 'paper')",
                    learning_rate,
                )  # fmt: skip
        elif learning_rate is None:
            learning_rate = "theory"
        self._begin(problem, seed, preset, learning_rate, benchmark_loss, confidence=bounds.option(), **options)

    def _begin(
        self, problem: Problem, seed: Seed, preset: str, learning_rate: float | str | None,
        benchmark_loss: float | None, **options: Any,
    ) -> None:  # fmt: skip
        """Check the options that all policies of this family have, and start."""
        self._preset = PRESETS[choice("preset", preset, tuple(self.methods))]
        if learning_rate is not None and not isinstance(learning_rate, str):
            learning_rate = plain("learning_rate", learning_rate, RATE)
        super().__init__(
            problem,
            seed,
            preset=preset,
            learning_rate=learning_rate,
            benchmark_loss=optional("benchmark_loss", benchmark_loss, BENCHMARK_LOSS),
            **options,
        )

    def _usual_bounds(self, preset: Preset) -> Confidence:
        """The confidence bounds of a preset."""
        raise NotImplementedError

    @property
    def algorithm(self) -> Algorithm[Any]:  # type: ignore[override]
        """The state of the preset's method, and the kernels that act on it."""
        return self.methods[self._preset.name].algorithm

    @cached_property
    def _method(self) -> Method:
        return self.methods[self._preset.name](self.problem, self._preset, self._options)

    def _sizes(self) -> dict[str, int]:
        return self._method.sizes()

    def _start(self, state: Any) -> None:
        self._method.start(state)

    def _check(self) -> None:
        check_costs(self._round + self._observed, self._state.known)
        self._method.check(self._state, self._round)

    def _recover(self) -> None:
        self._method.recover(self._state, self._rng)

    def _least_propensity(self) -> float:
        return self._method.least_propensity()

    def observe(self, arm: int, costs: ArrayLike) -> None:
        """Learn the costs of an arm that was chosen elsewhere: not a round, and nothing is learnt about losses.

        The costs must have the same means as those of this policy's own decisions, and must not have been selected by
        what they are.

        Examples
        --------
        >>> import surefoot as sf
        >>> problem = sf.Problem(2, 0.5, horizon=1000, safe=sf.SafeStrategy([0, 1], 0.1))
        >>> policy = sf.SOLB(problem, seed=7)
        >>> for _ in range(100):
        ...     policy.observe(0, [0.2])
        >>> policy.round, policy.upper_costs.round(2)
        (0, array([[0.23, 0.1 ]]))
        """
        arm = self._checked_arm(arm)
        with self._lock:
            self._set_costs(costs)
            status = self.algorithm.observe(*self._buffers, arm, self._heeded)
            self._observed += 1
            self._alarmed |= status == CONTRADICTED
        if self._alarmed:
            self._warn()

    @property
    def preset(self) -> Preset:
        """The preset, and what it does."""
        return self._preset

    proposal = ShownLeaf("learner.proposal", "The strategy that is proposed before a safe strategy is mixed in (x~_t).")

    @property
    def learning_rates(self) -> Floats:
        """The learning rate of each arm (eta_t)."""
        return self._shown(self._state.learner.learning_rates)

    @property
    def inverse_caps(self) -> Floats:
        """The value of 1 / proposal beyond which each arm's learning rate grows (h_t); infinite if it never does."""
        learner = self._state.learner
        return self._shown(getattr(learner, "inverse_caps", np.full(learner.proposal.size, np.inf)))

    @property
    def restarts(self) -> int:
        """How often the doubling trick has restarted at half the rate."""
        doubling = self._options["learning_rate"] == "doubling"
        return round(math.log2(FASTEST / self._state.learner.base_rate[0])) if doubling else 0

    empty_rounds = ShownLeaf(
        "empty_rounds",
        "Number of rounds without a solution: the truncated safe set was empty, or a linear program was not solved.\n\n"
        "It is 0 whenever the confidence bounds hold.",
        count=True,
    )


def refuse_of_paper(name: str, value: object, preset: str) -> None:
    """Reject an option that belongs to the preset "paper"."""
    if value is not None:
        raise RuleError(name, f"be left out for preset {preset!r} (it belongs to preset 'paper')", value)
