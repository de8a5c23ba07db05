"""Policies and live experiments that are wrong in one way each: a check that does not catch them checks nothing."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from surefoot.experiments.events import Alarm, Decided, Event, Log
from surefoot.experiments.fold import Fold
from surefoot.experiments.live import Live
from surefoot.experiments.order import Pending
from surefoot.experiments.plans import Plan, places_of
from surefoot.kernels.safety import mix, weight_needed
from surefoot.kernels.trio import blend_trio
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
    """The weight as printed: the maximum over all guardrails, including those that are met; cut at 1."""

    def _alter(self) -> None:
        state = self._state
        costs = np.minimum(1.0, state.known.upper @ state.learner.proposal)
        over = costs > state.thresholds
        apart = costs - state.safe_costs
        ratios = (costs - state.thresholds) / np.where(apart == 0.0, np.nan, apart)
        remix(self, min(1.0, float(np.nanmax(ratios))) if over.any() else 0.0)


class BaselineNotCut(Altered):
    """Presets "guaranteed" and "led": losses count from their plain mean, however long that makes a step."""

    def _start(self, state: Any) -> None:
        super()._start(state)
        state.learner.caps_baseline = 0

    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        trio = getattr(self._state, "trio", None)
        if trio is None:
            super()._learn(arm, propensity, weight, loss, costs)
            return
        weights = trio.proposal_weights.copy()
        trio.proposal_weights[:] = 1e9
        super()._learn(arm, propensity, weight, loss, costs)
        kept = trio.proposal_weights == 1e9
        trio.proposal_weights[kept] = weights[kept]


class ProgramTakesAll(Altered):
    """Preset "led": the program has all but a thousandth of what is played."""

    def _alter(self) -> None:
        trio = self._state.trio
        trio.shares[:] = 0.0005, 0.999, 0.0005
        self._state.safe_weight[0] = blend_trio(trio, self._state.strategy)


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


# Live experiments


class ArrivalOrder(Live):
    """Feedback is learnt in the order in which it comes."""

    def _start(self, log: Log, fold: Fold) -> None:
        super()._start(log, fold)
        order: Any = fold.order

        def settled(arm: str) -> Iterator[Pending]:
            for pending in [one for one in order._queues[arm] if one.settled]:
                order._queues[arm].remove(pending)
                yield pending

        order.released = settled


class DropsTimeouts(Live):
    """Decisions without feedback are forgotten."""

    def _start(self, log: Log, fold: Fold) -> None:
        super()._start(log, fold)
        order: Any = fold.order
        order.expire = order.cancel


class LearnsAgain(Live):
    """Feedback that is delivered again is learnt again."""

    def _start(self, log: Log, fold: Fold) -> None:
        super()._start(log, fold)
        self._made: list[Decided] = []

    def _draw(self, *arguments: Any) -> Decided:
        self._made.append(super()._draw(*arguments))
        return self._made[-1]

    def _report_again(self, i: int, values: Mapping[str, float], now: float, events: list[Event]) -> str:
        one = self._made[i]
        self._fold._feed(one.arm, one.propensity, one.weight, values)
        return super()._report_again(i, values, now, events)


class ScalesUp(Live):
    """If arms are missing, the strategy of the others is scaled up."""

    def _narrowed(self, arms: Sequence[str] | None) -> Plan:
        plan = self._current()
        if arms is None:
            return plan
        rest = np.where(places_of(self._fold, arms), plan.strategy, 0.0)
        return plan._replace(strategy=rest / rest.sum()) if rest.any() else super()._narrowed(arms)


class NeverAlarms(Live):
    """Nobody watches what is served."""

    def _start(self, log: Log, fold: Fold) -> None:
        super()._start(log, fold)
        fold.watch.served = fold.watch.baseline = None


class NeverHolds(Live):
    """Alarms are raised, and the experiment goes on."""

    def _apply(self, event: Event, events: list[Event]) -> None:
        super()._apply(event._replace(holds=False) if isinstance(event, Alarm) else event, events)


class WatchesReleased(Live):
    """What is served is watched in the order in which it is learnt."""

    def _start(self, log: Log, fold: Fold) -> None:
        super()._start(log, fold)
        order: Any = fold.order
        released, seen = order.released, deque[Pending]()

        def kept(arm: str) -> Iterator[Pending]:
            for pending in released(arm):
                seen.append(pending)
                yield pending

        def passed() -> Iterator[Pending]:
            while seen:
                yield seen.popleft()

        order.released, order.passed = kept, passed
