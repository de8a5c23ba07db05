"""Policies that are wrong in one way each: a check that does not catch them checks nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from surefoot.kernels.safety import mix, weight_needed
from surefoot.policies.colb import COLB
from surefoot.policies.guarded import Guarded
from surefoot.policies.solb import SOLB
from surefoot.rules import Floats


class NarrowRadius(Guarded):
    """The confidence radius times 0.1."""

    def _start(self, state: Any) -> None:
        super()._start(state)
        state.known.scale *= 0.01


class NeverRestarts(Guarded):
    """The doubling trick waits for ever."""

    def _start(self, state: Any) -> None:
        super()._start(state)
        state.learner.allowance = math.inf


class RestartsEarly(Guarded):
    """The doubling trick has a twentieth of its patience."""

    def _start(self, state: Any) -> None:
        super()._start(state)
        state.learner.allowance /= 20.0


class Unprojected(Guarded):
    """The safe set is the whole truncated simplex."""

    def _start(self, state: Any) -> None:
        super()._start(state)
        state.learner.limits = 2.0


class Altered(Guarded):
    """Something goes wrong between the feedback and the next strategy."""

    _in_turn = True

    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        super()._learn(arm, propensity, weight, loss, costs)
        self._alter()

    def _alter(self) -> None:
        """Apply the mutation."""


class Stuck(Altered):
    """The proposal never moves, though the learning rates say it could."""

    def _alter(self) -> None:
        learner = self._state.learner
        learner.proposal[:] = 1.0 / learner.proposal.size
        if isinstance(self, SOLB):
            remix(self, self.safe_weight)
        else:
            self._state.strategy[:] = learner.proposal


class FedTwice(Altered):
    """Every loss estimate counts double."""

    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        super()._learn(arm, propensity / 2.0, weight, loss, costs)


class DividedByProposal(Altered):
    """Losses are divided by the probability in the proposal, not in the mixture that was played."""

    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        super()._learn(arm, float(self._state.learner.proposal[arm]), weight, loss, costs)


class Unmixed(Altered):
    """The weight of the safe strategy is 0."""

    def _alter(self) -> None:
        remix(self, 0.0)


class AlwaysSafe(Altered):
    """The weight of the safe strategy is 1."""

    def _alter(self) -> None:
        remix(self, 1.0)


class MixedByLower(Altered):
    """The weight is what the lower bounds ask for."""

    def _alter(self) -> None:
        state = self._state
        remix(self, weight_needed(state.learner.proposal, state.known.lower, state.thresholds, state.safe_costs))


class GivesUp(Altered):
    """The worse the arms of the safe strategy have done, the less of it is mixed in."""

    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        super()._learn(arm, propensity, weight, loss, costs)
        if not hasattr(self, "_met"):
            self._met = np.zeros((2, 2))  # losses and rounds of the other arms, and of the safe ones
        self._met[int(self._state.safe_strategy[arm] > 0.0)] += loss, 1.0
        others, safe = self._met[:, 0] / np.maximum(1.0, self._met[:, 1])
        remix(self, self.safe_weight * math.exp(-10.0 * max(0.0, safe - others)))


class LiteralMaximum(Altered):
    """The weight as printed: the maximum over all constraints, including those that are met; cut at 1."""

    def _alter(self) -> None:
        state = self._state
        costs = np.minimum(1.0, state.known.upper @ state.learner.proposal)
        over = costs > state.thresholds
        apart = costs - state.safe_costs
        ratios = (costs - state.thresholds) / np.where(apart == 0.0, np.nan, apart)
        remix(self, min(1.0, float(np.nanmax(ratios))) if over.any() else 0.0)


def remix(policy: Any, weight: float) -> None:
    """Play another mixture."""
    state = policy._state
    state.safe_weight[0] = weight
    mix(state.strategy, weight, state.safe_strategy, state.learner.proposal)


def mutant(policy: type[COLB] | type[SOLB], *wrongs: type[Guarded]) -> Any:
    """The class of a policy that is wrong in these ways.

    Examples
    --------
    >>> mutant(SOLB, Unmixed).__name__
    'UnmixedSOLB'
    """
    return type("".join(wrong.__name__ for wrong in wrongs) + policy.__name__, (*wrongs, policy), {})
